//! How much of every object has arrived, over time: samples at exact instants, before what happens
//! at them.

use std::net::SocketAddrV4;

use ebb_transport::{FlowId, Transport};
use ebb_units::{Duration, Instant};
use ebb_workload::Open;

use super::application::Application;

/// Bytes of an object that have arrived by the instants.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Arrivals {
    pub at_ns: Vec<u64>,
    pub bytes: Vec<u64>,
}

/// No samples.
static NONE: Arrivals = Arrivals {
    at_ns: Vec::new(),
    bytes: Vec::new(),
};

/// When samples are taken.
pub struct Clock {
    every: Duration,
    next: Instant,
}

/// An object of which not all has arrived.
pub struct Unfinished<'a> {
    pub open: &'a Open,
    /// The sender; of several the one that was asked first.
    pub peer: SocketAddrV4,
    pub arrived_bytes: u64,
    pub arrivals: &'a Arrivals,
}

impl Clock {
    /// 0: never.
    pub fn new(every: Duration) -> Option<Self> {
        let next = Instant::ZERO + every;
        (!every.is_zero()).then_some(Clock { every, next })
    }

    /// The next instant that `now` has reached.
    fn poll(&mut self, now: Instant) -> Option<Instant> {
        let due = self.next;
        (due <= now).then(|| {
            self.next = due + self.every;
            due
        })
    }

    /// Nothing is open: the instants up to `now` need no samples.
    fn skip(&mut self, now: Instant) {
        while self.poll(now).is_some() {}
    }
}

impl Application {
    /// Takes the samples that are due. Before anything that happens at `now`.
    pub fn sample(&mut self, now: Instant, clock: &mut Clock, transport: &dyn Transport) {
        if clock.next > now {
            return;
        }
        let open = self.host.incoming_objects();
        let open: Vec<FlowId> = open.map(|object| object.flow).collect();
        if open.is_empty() {
            clock.skip(now);
            return;
        }
        while let Some(at) = clock.poll(now) {
            for flow in &open {
                let progress = transport.progress(*flow);
                let bytes = progress.map_or(0, |progress| progress.arrived_bytes);
                let arrivals = self.arrivals.entry(*flow).or_default();
                arrivals.at_ns.push(at.as_nanos());
                arrivals.bytes.push(bytes);
            }
        }
    }

    /// Objects that have begun to come and are not complete.
    pub fn incomplete<'a>(
        &'a self,
        transport: &'a dyn Transport,
    ) -> impl Iterator<Item = Unfinished<'a>> {
        self.host.incoming_objects().filter_map(move |object| {
            let transfer = self.player.names.transfer(&object.header?.name)?;
            Some(Unfinished {
                open: self.player.share.open(transfer)?,
                peer: object.peer,
                arrived_bytes: transport.progress(object.flow)?.arrived_bytes,
                arrivals: self.arrivals.get(&object.flow).unwrap_or(&NONE),
            })
        })
    }
}
