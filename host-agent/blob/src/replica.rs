//! A host that stores tracts: it says that it is there, and repairs what it holds when it is asked to.
//!
//! A repair looks at every tract that the host should hold or is believed to, copies what is missing or
//! damaged from other servers, and then deletes what nobody needs. It never deletes a damaged tract
//! before there is a good copy in its place.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use ebb_units::{Duration, Instant};

use crate::asking::{Ask, Asking};
use crate::client::Fetch;
use crate::disk::{Disk, keep};
use crate::limits::MAX_TRACT_BYTES;
use crate::locator::MAX_NAMED;
use crate::message::{Cursor, Duty, Identity, Progress, ReplicaRequest, Reply, Request};
use crate::name::{Digest, Stamp, TractName};

/// How often a replica says that it is there.
const BEAT: Duration = Duration::from_secs(1);
/// So many results of a repair are told at once.
const TOLD_AT_ONCE: usize = 64;

/// Something that is to be done for a replica.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReplicaAction {
    /// Put this to the locator.
    Ask(Ask),
    /// Get a tract into a file of the folder with another name than that of the tract.
    Fetch(Fetch),
    /// Something was done that took time; there may be more.
    Worked,
}

/// The state of a host that stores tracts.
pub struct Replica<D> {
    /// Its folder.
    pub disk: D,
    server: Ipv4Addr,
    store: u64,
    turn: Stamp,
    free_bytes: u64,
    /// Says that the host is there.
    beat: Asking,
    next_beat: Instant,
    /// Questions of the repair.
    work: Asking,
    repair: Option<Repair>,
    /// Progress of the last repair, running or not.
    progress: Option<Progress>,
    last_transfer: u64,
    complaint: Option<String>,
}

/// A repair that is running.
#[derive(Default)]
struct Repair {
    duties: VecDeque<Duty>,
    stage: Stage,
    copying: Option<Copying>,
    held: Vec<TractName>,
    lost: Vec<TractName>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Beginning,
    /// Looks at tracts; where the next page of them begins.
    Duties(Option<Cursor>),
    /// Asks which of these may go.
    Garbage(Vec<TractName>),
}

/// A tract that is being copied.
struct Copying {
    duty: Duty,
    /// `None`: the next source is to be asked.
    transfer: Option<u64>,
    /// Servers that were not asked.
    sources: VecDeque<Ipv4Addr>,
}

impl<D: Disk> Replica<D> {
    /// `store` is the number of the folder, `start` grows with every start at this address.
    pub fn new(now: Instant, server: Ipv4Addr, store: u64, start: u64, disk: D) -> Self {
        Replica {
            disk,
            server,
            store,
            turn: Stamp { start, number: 0 },
            free_bytes: 0,
            beat: Asking::default(),
            next_beat: now,
            work: Asking::default(),
            repair: None,
            progress: None,
            last_transfer: 0,
            complaint: None,
        }
    }

    /// Whether an object may be stored as the tract that its name says.
    pub fn check(&self, name: &str, bytes: u64, sha256: Digest) -> Result<TractName, String> {
        let tract: TractName = name.parse()?;
        if tract.sha256 != sha256 {
            return Err("its content is not what its name says".to_owned());
        }
        if bytes > MAX_TRACT_BYTES {
            return Err(format!(
                "a tract of {bytes} bytes; at most {MAX_TRACT_BYTES} are taken"
            ));
        }
        Ok(tract)
    }

    /// Notes how many bytes the disk has free.
    pub fn set_free_bytes(&mut self, free_bytes: u64) {
        self.free_bytes = free_bytes;
    }

    /// Reason of the last refusal by the locator, once.
    pub fn take_complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }

    /// How far the last repair is; `None`: there was none.
    pub fn progress(&self) -> Option<Progress> {
        self.progress
    }

    /// When [`poll`](Self::poll) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let beat = match self.beat.is_open() {
            true => self.beat.next_deadline(),
            false => Some(self.next_beat),
        };
        Instant::earliest([beat, self.work.next_deadline()])
    }

    /// The next thing that is to be done.
    pub fn poll(&mut self, now: Instant) -> Option<ReplicaAction> {
        if !self.beat.is_open() && self.next_beat <= now {
            let want = ReplicaRequest::Beat {
                free_bytes: self.free_bytes,
                repair: self.progress,
            };
            self.next_beat = now + BEAT;
            self.beat.ask(now, self.request(want));
        }
        if let Some(ask) = self.beat.poll(now) {
            return Some(self.take_turn(ask, 0));
        }
        if let Some(ask) = self.work.poll(now) {
            return Some(self.take_turn(ask, 1));
        }
        if self.work.is_open() {
            return None;
        }
        self.repair(now)
    }

    /// Takes the answer to the question with this number.
    pub fn handle_reply(&mut self, id: u64, reply: Reply) {
        let (asking, id) = match id % 2 {
            0 => (&mut self.beat, id / 2),
            _ => (&mut self.work, id / 2),
        };
        let Some((_, reply)) = asking.answered(id, reply) else {
            return;
        };
        match reply {
            Reply::Beaten { repair } => self.told_to_repair(repair),
            Reply::Duties { duties, next } => {
                if let Some(repair) = &mut self.repair {
                    repair.duties = duties.into();
                    repair.stage = Stage::Duties(next);
                }
            }
            Reply::Garbage { tracts } => self.delete(&tracts),
            Reply::Refused { reason } => self.complaint = Some(reason),
            _ => {}
        }
    }

    /// A transfer of a [`Fetch`] has ended, with its content in the file of this name.
    pub fn handle_fetched(&mut self, transfer: u64, result: Result<String, String>) {
        let temporary = result.ok();
        let copying = self.repair.as_mut().and_then(|repair| {
            let copying = &mut repair.copying;
            copying.take_if(|copying| copying.transfer == Some(transfer))
        });
        let Some(copying) = copying else {
            temporary
                .iter()
                .for_each(|file| drop(self.disk.remove(file)));
            return;
        };
        let duty = &copying.duty;
        if let Some(file) = temporary {
            let good =
                matches!(self.disk.sha256(&file), Ok(Some(found)) if found == duty.tract.sha256);
            if good && keep(&mut self.disk, &file, &duty.tract.to_string()).is_ok() {
                self.has_copied(&copying.duty);
                return;
            }
            let _ = self.disk.remove(&file);
        }
        match copying.sources.is_empty() {
            false => self.keep_copying(copying),
            true => self.has_failed(&copying.duty),
        }
    }

    fn request(&self, want: ReplicaRequest) -> Request {
        let me = Identity {
            server: self.server,
            store: self.store,
            turn: self.turn,
        };
        Request::Replica { me, want }
    }

    /// Every question has a turn of its own, also one that is asked again.
    fn take_turn(&mut self, mut ask: Ask, parity: u64) -> ReplicaAction {
        self.turn.number += 1;
        if let Request::Replica { me, .. } = &mut ask.request {
            me.turn = self.turn;
        }
        ask.id = ask.id * 2 + parity;
        ReplicaAction::Ask(ask)
    }

    fn told_to_repair(&mut self, repair: Option<Stamp>) {
        let known = self.progress.map(|progress| progress.repair);
        if let Some(repair) = repair
            && known != Some(repair)
        {
            self.repair = Some(Repair::default());
            self.work = Asking::default();
            self.progress = Some(Progress {
                repair,
                ..Progress::default()
            });
        }
    }

    /// The next step of the repair, if one is running and waits for nothing.
    fn repair(&mut self, now: Instant) -> Option<ReplicaAction> {
        let repair = self.repair.as_mut()?;
        if let Some(copying) = repair.copying.take_if(|copying| copying.transfer.is_none()) {
            return Some(self.fetch(copying));
        }
        if repair.copying.is_some() {
            return None;
        }
        let told = repair.held.len() + repair.lost.len();
        if told >= TOLD_AT_ONCE || (told > 0 && repair.duties.is_empty()) {
            let held = std::mem::take(&mut repair.held);
            let lost = std::mem::take(&mut repair.lost);
            return self.ask(now, ReplicaRequest::Settle { held, lost });
        }
        if let Some(duty) = repair.duties.pop_front() {
            self.look_at(duty);
            return Some(ReplicaAction::Worked);
        }
        match &mut repair.stage {
            Stage::Beginning => self.ask(now, ReplicaRequest::Duties { after: None }),
            Stage::Duties(next @ Some(_)) => {
                let after = next.take();
                self.ask(now, ReplicaRequest::Duties { after })
            }
            Stage::Duties(None) => {
                let names = self.disk.names().unwrap_or_default();
                let tracts = names.iter().filter_map(|name| name.parse().ok());
                repair.stage = Stage::Garbage(tracts.collect());
                Some(ReplicaAction::Worked)
            }
            Stage::Garbage(tracts) if tracts.is_empty() => {
                self.repair = None;
                if let Some(progress) = &mut self.progress {
                    progress.done = true;
                }
                self.next_beat = now;
                Some(ReplicaAction::Worked)
            }
            Stage::Garbage(tracts) => {
                let rest = tracts.split_off(tracts.len().saturating_sub(MAX_NAMED));
                self.ask(now, ReplicaRequest::Garbage { tracts: rest })
            }
        }
    }

    fn ask(&mut self, now: Instant, want: ReplicaRequest) -> Option<ReplicaAction> {
        let request = self.request(want);
        self.work.ask(now, request);
        let ask = self.work.poll(now)?;
        Some(self.take_turn(ask, 1))
    }

    fn look_at(&mut self, duty: Duty) {
        let found = self.disk.sha256(&duty.tract.to_string());
        let sound = matches!(found, Ok(Some(digest)) if digest == duty.tract.sha256);
        let (Some(repair), Some(progress)) = (&mut self.repair, &mut self.progress) else {
            return;
        };
        progress.checked += 1;
        progress.damaged += u64::from(!sound && !matches!(found, Ok(None)));
        match (sound, duty.wanted) {
            (true, true) if !duty.listed => repair.held.push(duty.tract),
            (true, _) => {}
            (false, true) if !duty.sources.is_empty() => {
                // Replicas begin at different servers.
                let mut sources: VecDeque<_> = duty.sources.iter().copied().collect();
                sources.rotate_left(duty.tract.index as usize % duty.sources.len());
                self.keep_copying(Copying {
                    duty,
                    transfer: None,
                    sources,
                });
            }
            (false, true) => self.has_failed(&duty),
            (false, false) => repair.lost.push(duty.tract),
        }
    }

    /// The next source of a tract is asked when the repair goes on.
    fn keep_copying(&mut self, copying: Copying) {
        if let Some(repair) = &mut self.repair {
            repair.copying = Some(Copying {
                transfer: None,
                ..copying
            });
        }
    }

    fn fetch(&mut self, mut copying: Copying) -> ReplicaAction {
        self.last_transfer += 1;
        copying.transfer = Some(self.last_transfer);
        let from: Vec<_> = copying.sources.pop_front().into_iter().collect();
        let fetch = Fetch {
            transfer: self.last_transfer,
            tract: copying.duty.tract,
            bytes: copying.duty.bytes,
            from,
        };
        if let Some(repair) = &mut self.repair {
            repair.copying = Some(copying);
        }
        ReplicaAction::Fetch(fetch)
    }

    fn has_copied(&mut self, duty: &Duty) {
        if let (Some(repair), Some(progress)) = (&mut self.repair, &mut self.progress) {
            progress.copied += 1;
            progress.copied_bytes += duty.bytes;
            if !duty.listed {
                repair.held.push(duty.tract);
            }
        }
    }

    fn has_failed(&mut self, duty: &Duty) {
        if let (Some(repair), Some(progress)) = (&mut self.repair, &mut self.progress) {
            progress.failed += 1;
            if duty.listed {
                repair.lost.push(duty.tract);
            }
        }
    }

    /// The locator has said that nobody needs these.
    fn delete(&mut self, tracts: &[TractName]) {
        for tract in tracts {
            let deleted = self.disk.remove(&tract.to_string()).is_ok();
            if let Some(progress) = &mut self.progress {
                progress.deleted += u64::from(deleted);
            }
        }
    }
}
