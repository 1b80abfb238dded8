//! Jobs of a pattern, as transfers that have no id and no time yet.

use crate::draws::Draws;
use crate::hosts::{HostId, Hosts};
use crate::placement;
use crate::sizes::SizeDistribution;
use crate::transfer::{Kind, Moment};

/// A pattern whose hosts are known, and known to suffice: drawing a job cannot fail.
pub trait JobPattern: Send + Sync {
    /// Number of hosts that start jobs, in turn or at random. 1 if a job concerns all of them.
    fn starters(&self) -> usize;

    /// Whether a job is one transfer, so that the next can wait for its end.
    fn is_single(&self) -> bool {
        false
    }

    /// Most transfers of a job.
    fn transfers_per_job(&self) -> usize;

    /// Basis of a load: bytes that a job brings to the loaded links, in mean sizes, and number of these links.
    fn loaded_links(&self) -> (f64, usize);

    /// One job, started by the host of that number below [`starters`](Self::starters).
    fn job(&mut self, starter: usize, draws: &mut JobDraws) -> Vec<Draft>;
}

/// A transfer before it has an id and a time.
pub struct Draft {
    /// Time from the arrival of the job to its request.
    pub offset_ns: u64,
    /// Direction, and number of ends.
    pub kind: Kind,
    /// Hosts that send.
    pub sources: Vec<HostId>,
    /// Hosts that receive.
    pub destinations: Vec<HostId>,
    /// Size of the object.
    pub bytes: u64,
    /// Number of the persistent connection. None: any.
    pub connection: Option<u32>,
    /// Transfer that it waits for. None: it starts with the job.
    pub after: Option<DraftAfter>,
}

/// Dependency on another transfer of the same job.
pub struct DraftAfter {
    /// Index of that transfer in the job.
    pub index: usize,
    /// Event of that transfer after which this one starts.
    pub moment: Moment,
    /// Time from that event to the request.
    pub delay_ns: u64,
    /// Whether the delay is work, of which a host does one piece at a time, in order.
    pub serial: bool,
}

impl Draft {
    pub fn new(kind: Kind, source: HostId, destination: HostId, bytes: u64) -> Self {
        Self {
            offset_ns: 0,
            kind,
            sources: vec![source],
            destinations: vec![destination],
            bytes,
            connection: None,
            after: None,
        }
    }

    pub fn send(source: HostId, destination: HostId, bytes: u64) -> Self {
        Self::new(Kind::SendOneToOne, source, destination, bytes)
    }
}

impl DraftAfter {
    pub fn end_of(index: usize) -> Self {
        Self {
            index,
            moment: Moment::Finished,
            delay_ns: 0,
            serial: false,
        }
    }
}

/// The random numbers of one part of the workload, by purpose: another size distribution leaves the
/// places as they were.
pub struct PatternDraws {
    places: Draws,
    sizes: Draws,
    pub service: Draws,
}

impl PatternDraws {
    pub fn new(seed: u64, name: &str) -> Self {
        Self {
            places: Draws::new(seed, name, "places"),
            sizes: Draws::new(seed, name, "sizes"),
            service: Draws::new(seed, name, "service"),
        }
    }
}

/// The distributions that a job is drawn from.
pub struct JobDraws<'a> {
    pub hosts: &'a Hosts,
    pub size: &'a SizeDistribution,
    pub draws: &'a mut PatternDraws,
}

impl JobDraws<'_> {
    pub fn bytes(&mut self) -> u64 {
        self.size.draw_bytes(&mut self.draws.sizes)
    }

    pub fn places(&mut self) -> &mut Draws {
        &mut self.draws.places
    }

    /// One of those that fit.
    pub fn one(&mut self, from: &[HostId], fits: impl Fn(HostId) -> bool) -> HostId {
        placement::choose(from, self.places(), fits).expect("checked for every host at the start")
    }

    /// Different ones while there are any, then the same again.
    pub fn several(
        &mut self,
        from: &[HostId],
        count: usize,
        fits: impl Fn(HostId) -> bool,
    ) -> Vec<HostId> {
        let mut candidates: Vec<HostId> = from.iter().copied().filter(|&id| fits(id)).collect();
        self.places().shuffle(&mut candidates);
        candidates.into_iter().cycle().take(count).collect()
    }
}
