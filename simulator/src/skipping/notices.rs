//! Notices of a run that skips rounds: transfers that were simulated get the numbers and times of later rounds, and
//! those that were skipped get notices of their own.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebb_host::ObjectNames;
use ebb_transport::{Role, Status};
use ebb_units::{Duration, Instant};
use ebb_workload::{Open, Transfer};

use super::rounds::{self, Place, Rounds};
use super::steadiness::Observed;
use crate::host::{Ended, Notice};

/// A notice with the name of its host.
pub type HostNotice = (String, Notice);

/// Skips rounds of a run.
pub struct Skipping {
    /// The parts of the workload.
    pub(super) parts: BTreeMap<Arc<str>, Part>,
    /// Names of the objects of transfers.
    pub(super) names: ObjectNames,
    /// Time that has been skipped.
    pub(super) skipped: Duration,
}

/// Rounds of a part of the workload that have been skipped.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Skips {
    /// How often.
    pub jumps: u64,
    /// How many rounds.
    pub rounds: u64,
    /// How many transfers these have.
    pub transfers: u64,
    /// Bytes of their content.
    pub bytes: u64,
    /// Time that they would have taken.
    pub time: Duration,
    /// Why no more has been skipped when it was last looked at. None: all that could be has been.
    pub refused: Option<String>,
}

/// A part of the workload.
pub(super) struct Part {
    pub(super) skips: Skips,
    /// None: it does not come in rounds.
    pub(super) course: Option<Course>,
}

/// How far the rounds of a part of the workload are.
pub(super) struct Course {
    pub(super) rounds: Rounds,
    pub(super) lanes: Vec<Lane>,
    /// Rounds that had ended in all lanes when they were last compared.
    pub(super) compared: usize,
    /// Rounds that have to have ended in all lanes before they are compared again.
    pub(super) due: usize,
    /// A transfer has failed.
    pub(super) failed: bool,
}

/// The transfers of a pair of hosts.
#[derive(Default)]
pub(super) struct Lane {
    /// Those that have ended and been reported, by round.
    pub(super) ended: Vec<Observed>,
    /// Notices of transfers of which others are to come, by round.
    pub(super) held: BTreeMap<usize, Vec<HostNotice>>,
    /// Notices of the last one that has ended.
    pub(super) last: Vec<(String, Ended)>,
}

impl Skipping {
    /// Nothing has been skipped of these transfers.
    pub fn new(transfers: impl Iterator<Item = Transfer>, names: ObjectNames) -> Self {
        let parts = rounds::by_part(transfers).into_iter().map(|(name, found)| {
            let refused = found.as_ref().err().map(|why| (*why).to_owned());
            let skips = Skips {
                refused,
                ..Skips::default()
            };
            let course = found.ok().map(Course::new);
            (name, Part { skips, course })
        });
        Skipping {
            parts: parts.collect(),
            names,
            skipped: Duration::ZERO,
        }
    }

    /// Time that has been skipped.
    pub fn skipped(&self) -> Duration {
        self.skipped
    }

    /// Rounds that have been skipped, by part of the workload.
    pub fn skips(&self) -> impl Iterator<Item = (&str, &Skips)> {
        let parts = self.parts.iter();
        parts.map(|(name, part)| (&**name, &part.skips))
    }

    /// Takes a notice of a host, and adds to `out` the notices that can be reported now.
    pub fn take(&mut self, (host, mut notice): HostNotice, out: &mut Vec<HostNotice>) {
        let transfer = notice.open().map(|open| open.transfer.clone());
        if let Some(transfer) = transfer
            && let Some(part) = self.parts.get_mut(&transfer.traffic)
            && let Part { skips, course } = part
            && let Some(course) = course
            && let Some(place) = course.rounds.place(transfer.id)
        {
            let shift = Shift {
                names: &self.names,
                rounds: skips.rounds as usize,
                time: self.skipped,
            };
            course.take(place, (host, notice), &shift, out);
            return;
        }
        notice.shift_times(self.skipped);
        out.push((host, notice));
    }

    /// Notices that are held back, of transfers that have not ended at both ends.
    pub fn take_held(&mut self) -> Vec<HostNotice> {
        let mut out = Vec::new();
        for part in self.parts.values_mut() {
            let Some(course) = &mut part.course else {
                continue;
            };
            let shift = Shift {
                names: &self.names,
                rounds: part.skips.rounds as usize,
                time: self.skipped,
            };
            for lane in &mut course.lanes {
                let held = std::mem::take(&mut lane.held).into_values().flatten();
                out.extend(held.map(|(host, notice)| (host, shift.notice(&course.rounds, notice))));
            }
        }
        out
    }

    /// A transfer that has not ended, as it is reported.
    pub fn shown(&self, open: &Open) -> Open {
        let mut open = open.clone();
        let part = self.parts.get(&open.transfer.traffic);
        if let Some(part) = part
            && let Some(course) = &part.course
        {
            open.transfer = later(&course.rounds, &open.transfer, part.skips.rounds as usize);
        }
        add(&mut open.offered_at_ns, self.skipped);
        open
    }
}

impl Course {
    fn new(rounds: Rounds) -> Self {
        Course {
            lanes: (0..rounds.lanes()).map(|_| Lane::default()).collect(),
            rounds,
            compared: 0,
            due: 1,
            failed: false,
        }
    }

    fn take(
        &mut self,
        place: Place,
        notice: HostNotice,
        shift: &Shift<'_>,
        out: &mut Vec<HostNotice>,
    ) {
        let lane = &mut self.lanes[place.lane];
        self.failed |= !notice.1.is_good();
        lane.held.entry(place.round).or_default().push(notice);
        // Rounds are reported in their order, both ends of a transfer together.
        while let Some(held) = lane.held.get(&lane.ended.len())
            && let Some(observed) = observed(held)
        {
            let held = lane.held.remove(&lane.ended.len()).unwrap_or_default();
            lane.ended.push(observed);
            lane.last.clear();
            for (host, notice) in held {
                if let Notice::Flow(ended) = &notice {
                    lane.last.push((host.clone(), (**ended).clone()));
                }
                out.push((host, shift.notice(&self.rounds, notice)));
            }
        }
    }

    /// How many rounds have ended in all lanes.
    pub(super) fn complete(&self) -> usize {
        let ended = self.lanes.iter().map(|lane| lane.ended.len());
        ended.min().unwrap_or(0)
    }
}

/// The transfer that these notices are of. None: they are not all there.
fn observed(notices: &[HostNotice]) -> Option<Observed> {
    let of = |role: Role| {
        notices.iter().find_map(|(_, notice)| match notice {
            Notice::Flow(ended) if ended.record.role == role => Some(ended),
            _ => None,
        })
    };
    let (sent, received) = (of(Role::Sender)?, of(Role::Receiver)?);
    let offered_ns = sent.open.as_ref().and_then(|open| open.offered_at_ns)?;
    let (sent, received) = (&sent.record, &received.record);
    let (of_sender, of_receiver) = (&sent.counters, &received.counters);
    Some(Observed {
        started_ns: offered_ns,
        finished_ns: received.finished_at_ns,
        confirmed_ns: sent.finished_at_ns,
        packets: of_sender.packets_sent,
        events: [
            of_sender.retransmitted,
            of_receiver.trimmed,
            of_sender.returned,
            of_receiver.ce_marks,
        ],
        timeouts: of_sender.timeouts + of_receiver.timeouts,
    })
}

/// By how much a report of a transfer differs from what happened in the simulation.
pub(super) struct Shift<'a> {
    pub(super) names: &'a ObjectNames,
    pub(super) rounds: usize,
    pub(super) time: Duration,
}

impl Shift<'_> {
    pub(super) fn notice(&self, rounds: &Rounds, mut notice: Notice) -> Notice {
        if let Notice::Flow(ended) = &mut notice {
            self.rename(rounds, ended);
        }
        if let Some(open) = notice.open_mut() {
            open.transfer = later(rounds, &open.transfer, self.rounds);
        }
        notice.shift_times(self.time);
        notice
    }

    /// Gives an object the name, and its stream the length, that it has in a later round.
    fn rename(&self, rounds: &Rounds, ended: &mut Ended) {
        let Some(open) = &ended.open else {
            return;
        };
        let name = self.names.of(later(rounds, &open.transfer, self.rounds).id);
        let before = self.names.of(open.transfer.id).len() as u64;
        ended.record.stream_bytes = ended.record.stream_bytes + name.len() as u64 - before;
        if let Some(header) = &mut ended.header {
            header.name = name;
        }
    }
}

/// The transfer of the same lane this many rounds later.
fn later(rounds: &Rounds, transfer: &Arc<Transfer>, by: usize) -> Arc<Transfer> {
    let place = rounds.place(transfer.id).map(|place| Place {
        round: place.round + by,
        ..place
    });
    place.map_or_else(|| transfer.clone(), |place| rounds.at(place).clone())
}

fn add(at_ns: &mut Option<u64>, time: Duration) {
    if let Some(at_ns) = at_ns {
        *at_ns += time.as_nanos();
    }
}

impl Notice {
    fn open(&self) -> Option<&Open> {
        match self {
            Notice::Flow(ended) => ended.open.as_ref(),
            Notice::Failed { open, .. } | Notice::NotStarted(open) => Some(open),
            Notice::Arrivals { .. } => None,
        }
    }

    fn open_mut(&mut self) -> Option<&mut Open> {
        match self {
            Notice::Flow(ended) => ended.open.as_mut(),
            Notice::Failed { open, .. } | Notice::NotStarted(open) => Some(open),
            Notice::Arrivals { .. } => None,
        }
    }

    fn is_good(&self) -> bool {
        matches!(self, Notice::Flow(ended) if ended.record.status == Status::Finished)
    }

    /// Makes all times later.
    fn shift_times(&mut self, by: Duration) {
        if let Some(open) = self.open_mut() {
            add(&mut open.offered_at_ns, by);
        }
        if let Notice::Flow(ended) = self {
            add(&mut ended.started_at_ns, by);
            ended.record.set_times(
                Instant::from_nanos(ended.record.started_at_ns) + by,
                Instant::from_nanos(ended.record.finished_at_ns) + by,
            );
        }
    }
}
