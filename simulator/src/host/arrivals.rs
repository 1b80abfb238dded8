//! Bytes of every object that have arrived over time, sampled at exact instants, before the events
//! at them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddrV4;

use ebb_transport::{FlowId, TransportKind};
use ebb_units::{Duration, Instant};
use ebb_workload::Open;

use super::transports::Transports;

/// Bytes of an object that had arrived, by instant.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Arrivals {
    /// The instants, in nanoseconds.
    pub at_ns: Vec<u64>,
    /// Bytes that had arrived by then.
    pub bytes: Vec<u64>,
}

/// The arrivals of an object without samples.
static NONE: Arrivals = Arrivals {
    at_ns: Vec::new(),
    bytes: Vec::new(),
};

/// Schedule of the samples.
pub struct Clock {
    /// Time between two samples.
    every: Duration,
    /// Time of the next one.
    next: Instant,
}

/// An object that has arrived in part.
pub struct Unfinished<'a> {
    /// Its transfer.
    pub open: Cow<'a, Open>,
    /// Its sender; of several the one that got the first request.
    pub peer: SocketAddrV4,
    /// Bytes that have arrived.
    pub arrived_bytes: u64,
    /// The samples of its arrivals.
    pub arrivals: &'a Arrivals,
}

impl Clock {
    /// A clock with this period; `None` if it is zero.
    pub fn new(every: Duration) -> Option<Self> {
        let next = Instant::ZERO + every;
        (!every.is_zero()).then_some(Clock { every, next })
    }

    /// The next instant for samples, if `now` has reached it.
    fn poll(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next;
        (due <= now).then(|| {
            self.next = due + self.every;
            due
        })
    }

    /// Leaves out the instants up to `now`, at which no object was under way.
    fn skip(&mut self, now: Instant) {
        while self.poll(now).is_some() {}
    }
}

/// A flow of one of the host's transports.
type Flow = (TransportKind, FlowId);

/// The arrivals of all objects that are under way, by their flows at the receiver.
#[derive(Default)]
pub struct Samples(BTreeMap<Flow, Arrivals>);

impl Samples {
    /// Takes the samples of the `open` flows that are due. To be called before the events at `now`.
    pub fn take(
        &mut self,
        open: impl Iterator<Item = Flow>,
        now: Instant,
        clock: &mut Clock,
        transports: &Transports,
    ) {
        if clock.next > now {
            return;
        }
        let open: Vec<Flow> = open.collect();
        if open.is_empty() {
            clock.skip(now);
            return;
        }
        while let Some(at) = clock.poll(now) {
            for &(transport, flow) in &open {
                let progress = transports.progress(transport, flow);
                let bytes = progress.map_or(0, |progress| progress.arrived_bytes);
                let arrivals = self.0.entry((transport, flow)).or_default();
                arrivals.at_ns.push(at.as_nanos());
                arrivals.bytes.push(bytes);
            }
        }
    }

    /// The samples of a flow; empty if none was taken.
    pub fn of(&self, flow: Flow) -> &Arrivals {
        self.0.get(&flow).unwrap_or(&NONE)
    }

    /// Removes the samples of a flow that has ended. None: none was taken.
    pub fn remove(&mut self, flow: Flow) -> Option<Arrivals> {
        self.0.remove(&flow)
    }
}
