//! A client that plays the share of its host in a workload: the transfers that it has started, and the
//! outcomes of those and of transfers that other hosts start with this one.

use std::collections::{BTreeMap, BTreeSet};

use ebb_workload::{Open, Part, Share};

use crate::transfers::TransferId;

/// Names of the objects of a workload. All hosts that run it agree on them; those of another
/// workload, or of the same with another seed, have other names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectNames {
    prefix: String,
}

impl ObjectNames {
    /// Names for the workload with this fingerprint.
    pub fn new(fingerprint: u64) -> Self {
        ObjectNames {
            prefix: format!("w{fingerprint:016x}-"),
        }
    }

    /// Name of the object of a transfer.
    pub fn of(&self, transfer: u64) -> String {
        format!("{}{transfer}", self.prefix)
    }

    /// The transfer that an object belongs to.
    pub fn transfer(&self, name: &str) -> Option<u64> {
        name.strip_prefix(&self.prefix)?.parse().ok()
    }
}

/// Plays a [`Share`]. Numbers of transfers are those of the workload; those of the host are
/// [`TransferId`]s.
pub struct Player {
    /// Transfers of the workload that concern this host.
    pub share: Share,
    /// Names of their objects.
    pub names: ObjectNames,
    /// Transfers that this host has started and that have not ended, with their numbers in the workload.
    started: BTreeMap<TransferId, u64>,
    /// Those of the started transfers of which a flow has ended, whose record shows the outcome.
    reported: BTreeSet<u64>,
}

/// Transfer of the workload that a flow belonged to, after the flow has ended.
#[derive(Debug)]
pub struct PlayedFlow {
    /// Its transfer, as it was before that. `None`: it is of no transfer that is open here.
    pub open: Option<Open>,
    /// The transfer has ended with it.
    pub ended: bool,
}

/// A transfer that has ended and that this host started, or was to start.
#[derive(Debug)]
pub struct PlayedTransfer {
    /// The transfer as it was.
    pub open: Open,
    /// Whether it ended with success.
    pub good: bool,
    /// Reason of its failure. `None`: it has not failed, or the record of a flow has the reason.
    pub unreported: Option<String>,
}

impl Player {
    /// A client that has started nothing.
    pub fn new(share: Share, names: ObjectNames) -> Self {
        Player {
            share,
            names,
            started: BTreeMap::new(),
            reported: BTreeSet::new(),
        }
    }

    /// The host has started a transfer.
    pub fn handle_started(&mut self, transfer: TransferId, id: u64) {
        self.started.insert(transfer, id);
    }

    /// An object of this name has begun to arrive.
    pub fn handle_incoming(&mut self, now_ns: u64, name: &str) {
        if let Some(id) = self.names.transfer(name) {
            self.share.handle_begun(now_ns, id);
        }
    }

    /// A flow has ended; `name` is that of its object. Transfers that this host started end later.
    pub fn handle_flow(
        &mut self,
        now_ns: u64,
        transfer: TransferId,
        name: Option<&str>,
        good: bool,
    ) -> PlayedFlow {
        let ours = self.started.get(&transfer).copied();
        self.reported.extend(ours);
        let id = ours.or_else(|| self.names.transfer(name?));
        let open = id.and_then(|id| self.share.open(id)).cloned();
        let of_others = open.as_ref().filter(|open| open.part != Part::Start);
        let ended = of_others.is_some_and(|open| {
            let id = open.transfer.id;
            self.share.handle_end(now_ns, id, good).is_some()
        });
        PlayedFlow { open, ended }
    }

    /// A transfer of the host has ended; `failure` is the reason of its first failure. `None`: this
    /// client has not started it.
    pub fn handle_end(
        &mut self,
        now_ns: u64,
        transfer: TransferId,
        failure: Option<String>,
    ) -> Option<PlayedTransfer> {
        let id = self.started.remove(&transfer)?;
        self.end(now_ns, id, failure)
    }

    /// A transfer of the workload cannot start.
    pub fn handle_failed(
        &mut self,
        now_ns: u64,
        id: u64,
        reason: String,
    ) -> Option<PlayedTransfer> {
        self.end(now_ns, id, Some(reason))
    }

    fn end(&mut self, now_ns: u64, id: u64, failure: Option<String>) -> Option<PlayedTransfer> {
        let reported = self.reported.remove(&id);
        let good = failure.is_none();
        let open = self.share.handle_end(now_ns, id, good)?;
        Some(PlayedTransfer {
            open,
            good,
            unreported: failure.filter(|_| !reported),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ebb_workload::{HostId, Kind, Transfer};

    use super::*;

    /// Host 0 sends transfer 1 to host 1, and gets transfer 2 from it.
    fn player() -> Player {
        let mut share = Share::new(HostId(0), 0);
        for (id, from, to) in [(1, 0, 1), (2, 1, 0)] {
            share.add(Arc::new(Transfer {
                id,
                job: id,
                job_transfers: 1,
                traffic: "".into(),
                start_ns: 0,
                kind: Kind::SendOneToOne,
                sources: vec![HostId(from)],
                destinations: vec![HostId(to)],
                bytes: 1,
                priority: 0,
                connection: None,
                after: None,
            }));
        }
        Player::new(share, ObjectNames::new(7))
    }

    #[test]
    fn objects_have_the_names_of_their_transfers() {
        let names = ObjectNames::new(7);
        assert_eq!(names.transfer(&names.of(17)), Some(17));
        assert_eq!(names.transfer(&ObjectNames::new(8).of(17)), None);
        assert_eq!(names.transfer("w0000000000000007-x"), None);
    }

    #[test]
    fn what_this_host_started_ends_with_its_transfer_and_other_things_with_their_flow() {
        let mut player = player();
        player.handle_started(100, 1);
        let (sent, received) = (player.names.of(1), player.names.of(2));
        let flow = player.handle_flow(5, 100, Some(&sent), true);
        assert_eq!((flow.open.unwrap().transfer.id, flow.ended), (1, false));
        let flow = player.handle_flow(6, 101, Some(&received), true);
        assert_eq!((flow.open.unwrap().transfer.id, flow.ended), (2, true));
        let flow = player.handle_flow(6, 102, None, false);
        assert!(flow.open.is_none() && !flow.ended);
        assert!(player.handle_end(7, 101, None).is_none());
        let ended = player.handle_end(7, 100, None).unwrap();
        assert_eq!(
            (ended.open.transfer.id, ended.good, ended.unreported),
            (1, true, None)
        );
        assert!(player.share.iter().next().is_none());
    }

    #[test]
    fn a_failure_is_told_once() {
        let mut first = player();
        first.handle_started(100, 1);
        let name = first.names.of(1);
        first.handle_flow(5, 100, Some(&name), false);
        let ended = first.handle_end(7, 100, Some("why".into())).unwrap();
        assert_eq!((ended.good, ended.unreported), (false, None));
        let ended = player().handle_failed(7, 1, "why".into()).unwrap();
        assert_eq!(ended.unreported.as_deref(), Some("why"));
    }
}
