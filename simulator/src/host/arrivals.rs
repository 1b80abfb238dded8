//! How much of every object has arrived, over time: samples at exact instants, before what happens
//! at them.

use std::net::SocketAddrV4;

use ebb_transport::{FlowId, Transport};
use ebb_units::{Duration, Instant};
use ebb_workload::Open;

use super::application::{Application, Flow, Incoming, Stage, Told};

/// Bytes of an object that have arrived by the instants.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Arrivals {
    pub at_ns: Vec<u64>,
    pub bytes: Vec<u64>,
}

/// When samples are taken.
pub struct Clock {
    every: Duration,
    next: Instant,
}

/// An object of which not all has arrived.
pub struct Unfinished<'a> {
    pub open: &'a Open,
    /// Of several senders the one that was asked first.
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
        let incoming = |(flow, what): (&FlowId, &Flow)| match what {
            Flow::Incoming(incoming) if incoming.is_object() => Some(*flow),
            _ => None,
        };
        let open: Vec<FlowId> = self.flows.iter().filter_map(incoming).collect();
        if open.is_empty() {
            clock.skip(now);
            return;
        }
        while let Some(at) = clock.poll(now) {
            for flow in &open {
                if let Some(Flow::Incoming(incoming)) = self.flows.get_mut(flow) {
                    let progress = transport.progress(*flow);
                    incoming.arrivals.at_ns.push(at.as_nanos());
                    let bytes = progress.map_or(0, |progress| progress.arrived_bytes);
                    incoming.arrivals.bytes.push(bytes);
                }
            }
        }
    }

    /// Of an object that has ended.
    pub(super) fn tell_arrivals(&mut self, transfer: Option<u64>, arrivals: Arrivals) {
        if let Some(transfer) = transfer
            && !arrivals.at_ns.is_empty()
        {
            self.told.push(Told::Arrivals { transfer, arrivals });
        }
    }

    /// Objects that have begun to come and are not complete.
    pub fn incomplete<'a>(
        &'a self,
        transport: &'a dyn Transport,
    ) -> impl Iterator<Item = Unfinished<'a>> {
        self.flows.iter().filter_map(move |(flow, what)| {
            let Flow::Incoming(incoming) = what else {
                return None;
            };
            let Stage::Object(object) = &incoming.stage else {
                return None;
            };
            Some(Unfinished {
                open: self.share.open(object.transfer?)?,
                peer: incoming.peer,
                arrived_bytes: transport.progress(*flow)?.arrived_bytes,
                arrivals: &incoming.arrivals,
            })
        })
    }
}

impl Incoming {
    /// It is one, or may become one.
    fn is_object(&self) -> bool {
        matches!(self.stage, Stage::Head(_) | Stage::Object(_))
    }
}
