//! The switch as this crate sees it. The crate that owns the switch implements these traits.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ebb_pipeline::{Digest, EntryId, Pipeline, TableId};
use ebb_traffic_manager::{ConfigError, Count, DelaySummary, PortStatistics, TrafficManagerConfig};
use ebb_units::Instant;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use crate::proto::trace;

/// A switch, in the hands of the thread that owns it.
pub trait Switch {
    /// The switch's clock.
    fn now(&self) -> Instant;
    /// `None` until a program is installed.
    fn pipeline(&mut self) -> Option<&mut Pipeline>;
    /// Whether the program has what the configuration of the traffic manager wants of it; the error
    /// says what it lacks.
    fn check_program(&self, _pipeline: &Pipeline) -> Result<(), ConfigError> {
        Ok(())
    }
    /// Takes the place of the pipeline there was, if the program passes the check. Packets in flight
    /// may be lost.
    fn install(&mut self, pipeline: Pipeline) -> Result<(), ConfigError>;
    /// A frame from the CPU port.
    fn packet_out(&mut self, frame: Vec<u8>);

    /// Configuration of the traffic manager that is in force.
    fn traffic_config(&self) -> &TrafficManagerConfig;
    /// Replaces the configuration, if it fits the switch and its program; the error says why not.
    fn set_traffic_config(&mut self, config: TrafficManagerConfig) -> Result<(), ConfigError>;
    /// Counters of all ports with their queues since the last reset.
    fn traffic_statistics(&self) -> Vec<PortStatistics>;
    /// Sets these counters to 0.
    fn reset_traffic_statistics(&mut self);
    /// The ports that have an interface or a link, as management sees them.
    fn ports(&self) -> Vec<PortState> {
        Vec::new()
    }
    /// Drops outside of queues since the start: port, reason, count.
    fn other_drops(&self) -> Vec<(u16, String, Count)>;
    /// Delays since the last reset of the statistics; none under a virtual clock.
    fn lateness(&self) -> Lateness {
        Lateness::default()
    }
    /// Starts a trace of packets. False: as many traces as possible are running.
    fn trace(&mut self, request: TraceRequest, sink: TraceSink) -> bool;
}

/// A port of a switch as management sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortState {
    /// Number of the port.
    pub port: u16,
    /// False while its link is set down, or its interface has no carrier.
    pub is_up: bool,
    /// Frames that came in since the switch started.
    pub received: Count,
    /// Packets that left since the last reset of the statistics.
    pub sent: Count,
    /// Packets that its queues refused since then.
    pub refused: Count,
}

/// Delays of a switch at its interfaces; see `ebb_tm.proto`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lateness {
    /// Time that frames waited in the kernel before they were read.
    pub wakeups: DelaySummary,
    /// Time from the due departure of frames to the handover to their interface.
    pub departures: DelaySummary,
}

/// Which packets are to be traced.
pub struct TraceRequest {
    /// Packets that come in at these ports; none: at any port.
    pub ports: BTreeSet<u16>,
    /// How many packets are traced before the trace ends.
    pub packets: u64,
}

/// Gets what happens, as something that makes the message, for there may be no room for it; false ends the trace, and
/// it is dropped after the last packet. None only asks whether there is anybody left.
pub type TraceSink = Box<dyn FnMut(Option<&dyn Fn() -> trace::Visit>) -> bool + Send>;

/// Something to do with a switch, between two packets.
pub type Job = Box<dyn FnOnce(&mut dyn Switch) + Send>;

/// A message from the data plane to the control plane.
#[derive(Debug)]
pub enum Event {
    /// A frame that left through the CPU port.
    PacketIn(Vec<u8>),
    /// Data of a `digest` call.
    Digest(Digest),
    /// An entry was not hit for its idle timeout.
    Idle {
        /// Table of the entry.
        table: TableId,
        /// The entry.
        entry: EntryId,
    },
}

/// A switch, seen from other threads.
pub trait Device: Send + Sync + 'static {
    /// Device id, by which controllers name it (P4Runtime, 6.2).
    fn id(&self) -> u64;
    /// The ports that management knows, and the names of their interfaces.
    fn port_names(&self) -> Vec<(u16, String)> {
        Vec::new()
    }
    /// Has the thread that owns the switch run `job` soon. A job that is dropped instead means that
    /// the switch has stopped.
    fn submit(&self, job: Job);
    /// Where events go from now on. When the channel is full, the event is lost and counted.
    fn subscribe(&self, events: mpsc::Sender<Event>);
}

/// Has the switch run `f`, from now on; the future is what it returns. A panic of `f`, which is a mistake of
/// this crate, must not end the thread that forwards.
pub fn call<R, F>(
    device: &dyn Device,
    f: F,
) -> impl Future<Output = Result<R, Status>> + Send + use<R, F>
where
    R: Send + 'static,
    F: FnOnce(&mut dyn Switch) -> R + Send + 'static,
{
    let (reply, result) = oneshot::channel();
    device.submit(Box::new(move |switch| {
        let done = catch_unwind(AssertUnwindSafe(|| f(switch)));
        // The caller may have given up waiting; the work is done all the same.
        let _ = reply.send(done.map_err(|_| {
            Status::internal(
                "the request met a mistake of the server, which may have done a part of it; its standard \
                 error says where",
            )
        }));
    }));
    async move {
        result
            .await
            .unwrap_or_else(|_| Err(Status::unavailable("the switch has stopped")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::Plain;
    use tonic::Code;

    #[tokio::test]
    async fn a_request_that_panics_is_an_internal_error() {
        let switch = Plain::new(1);
        let done = call(&switch, |switch| switch.now()).await;
        assert_eq!(done.unwrap(), Instant::ZERO);
        let panicked = call(&switch, |_| panic!("as a test")).await;
        let status: Result<(), Status> = panicked;
        assert_eq!(status.unwrap_err().code(), Code::Internal);
    }
}
