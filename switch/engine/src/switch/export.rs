//! State of the queues as the program sees it: the traffic manager's counters in registers of the
//! program, as a target with such a path keeps them (Tofino 2 does it in its ghost pipeline).
//!
//! A ghost thread of the program itself (Tofino 2) is notified of every queue whose depth in cells has changed.
//!
//! The cell of a queue is `port * 8 + queue`, of the first eight of a port. An export without a period is always exact.
//! One with a period shows the counters as they were at the last multiple of it, after what arrived and departed at
//! that time.

use ebb_pipeline::{Packet, Pipeline, RegisterId};
use ebb_traffic_manager::{
    CLASSES, ConfigError, Depth, Profile, QueueConfig, QueueState, TrafficManager,
    TrafficManagerConfig,
};
use ebb_units::{Duration, Instant};

use super::agenda::{Agenda, Task};
use super::{PortId, Switch};

/// The exports of a switch, as its program has their registers.
#[derive(Debug, Default)]
pub(super) struct Exports {
    exports: Vec<Export>,
    /// Cells in each queue, by `port * 8 + queue`, as the ghost thread knows them. `None`: the program has none.
    ghost: Option<Vec<u64>>,
}

/// Counters of all queues in one register array.
#[derive(Debug)]
struct Export {
    register: RegisterId,
    what: QueueState,
    /// Zero: always exact.
    period: Duration,
    /// Ports with changes that the program does not see yet.
    stale: Vec<PortId>,
    /// When it is to see them; of no meaning if there are none.
    due: Instant,
}

impl Exports {
    /// Finds the registers in a program. `ports` are those that have a link. The error says which
    /// register does not do and why.
    pub(super) fn new(
        config: &TrafficManagerConfig,
        pipeline: &Pipeline,
        ports: impl Iterator<Item = PortId> + Clone,
    ) -> Result<Self, ConfigError> {
        let exports = config.export.iter().map(|export| {
            let place = format!("[[export]] register \"{}\"", export.register);
            let fail = |problem: String| ConfigError::new(place.clone(), problem);
            let register = pipeline.register(&export.register).map_err(|_| {
                let names: Vec<_> = pipeline.register_names().collect();
                let names = match &names[..] {
                    [] => "none".into(),
                    names => names.join(", "),
                };
                fail(format!("the program has no such register; it has: {names}"))
            })?;
            let (cells, bits) = (pipeline.register_size(register), pipeline.register_bits(register));
            let needed = ports.clone().max().map_or(0, |port| (u64::from(port) + 1) * QUEUES);
            if cells < needed {
                return Err(fail(format!(
                    "it has {cells} cells, and port {} needs {needed} (port * 8 + queue); declare it larger",
                    needed / QUEUES - 1
                )));
            }
            let profiles = ports.clone().filter_map(|port| config.profile_of(port));
            let largest = profiles.map(|profile| largest(export.what, profile)).max();
            let bits_needed = u64::BITS - largest.unwrap_or(0).leading_zeros();
            if bits < bits_needed {
                return Err(fail(format!(
                    "its cells have {bits} bits, and values of up to {} need {bits_needed}; declare it wider",
                    largest.unwrap_or(0)
                )));
            }
            Ok(Export {
                register,
                what: export.what,
                period: Duration::from_nanos(export.period_ns),
                stale: Vec::new(),
                due: Instant::ZERO,
            })
        });
        let exports = exports.collect::<Result<_, _>>()?;
        let ghost = pipeline.has_ghost().then(Vec::new);
        Ok(Self { exports, ghost })
    }

    /// Whether nothing is exported.
    pub(super) fn is_empty(&self) -> bool {
        self.exports.is_empty() && self.ghost.is_none()
    }

    /// The counters of a port have changed.
    fn changed(
        &mut self,
        now: Instant,
        port: PortId,
        manager: &TrafficManager<Box<Packet>>,
        pipeline: &mut Pipeline,
        agenda: &mut Agenda,
    ) {
        if let (Some(known), Some(bytes)) = (&mut self.ghost, pipeline.cell_bytes()) {
            tell_ghost(known, bytes, now, port, manager, pipeline);
        }
        for (index, export) in self.exports.iter_mut().enumerate() {
            if export.period.is_zero() {
                export.show(port, manager, pipeline);
                continue;
            }
            if export.stale.is_empty() {
                export.due = next_multiple(now, export.period);
                agenda.add(export.due, Task::Export { export: index });
            }
            if !export.stale.contains(&port) {
                export.stale.push(port);
            }
        }
    }
}

impl Export {
    /// Shows the counters of a port to the program.
    fn show(&self, port: PortId, manager: &TrafficManager<Box<Packet>>, pipeline: &mut Pipeline) {
        let depths = || -> [Depth; CLASSES] {
            std::array::from_fn(|queue| manager.depth(port, queue as u8))
        };
        let values = match self.what {
            QueueState::DrainBytes => manager.drain_bytes(port),
            QueueState::DepthBytes => depths().map(|depth| depth.bytes),
            QueueState::DepthPackets => depths().map(|depth| depth.packets),
        };
        let cells = u64::from(port) * QUEUES..;
        for (cell, value) in cells.zip(values) {
            pipeline.show_in_register(self.register, cell, value);
        }
    }
}

/// Notifies the ghost thread of the queues of a port whose depth, in cells of this many bytes, it does not know.
fn tell_ghost(
    known: &mut Vec<u64>,
    bytes: u64,
    now: Instant,
    port: PortId,
    manager: &TrafficManager<Box<Packet>>,
    pipeline: &mut Pipeline,
) {
    let first = usize::from(port) * CLASSES;
    if known.len() < first + CLASSES {
        known.resize(first + CLASSES, 0);
    }
    for (queue, known) in (0u8..).zip(&mut known[first..first + CLASSES]) {
        let cells = manager.depth(port, queue).bytes.div_ceil(bytes);
        if *known != cells {
            *known = cells;
            pipeline.report_length(now, port, queue, cells);
        }
    }
}

/// Cells that each port has.
const QUEUES: u64 = CLASSES as u64;
/// Length of the longest packet, by which a capacity in packets is one in bytes.
const LONGEST_PACKET_BYTES: u64 = u16::MAX as u64;
/// Capacity that a queue without one is taken to have, in bytes or in packets. Where it holds more,
/// this is what the program sees.
const UNLIMITED: u64 = u32::MAX as u64;

/// The largest value that an export shows of a port with this profile.
fn largest(what: QueueState, profile: &Profile) -> u64 {
    let bytes = |packets: Option<u64>, bytes: Option<u64>| {
        let packets = packets.map(|packets| packets.saturating_mul(LONGEST_PACKET_BYTES));
        packets.into_iter().chain(bytes).min().unwrap_or(UNLIMITED)
    };
    // A packet that is longer than the egress buffer has it for itself.
    let egress = profile
        .egress_bytes
        .map(|bytes| bytes.max(LONGEST_PACKET_BYTES));
    let most = egress.map_or(UNLIMITED, |bytes| bytes.min(UNLIMITED));
    let together = match profile.egress_per_queue {
        true => (most * profile.queue.len() as u64).min(UNLIMITED),
        false => most,
    };
    let queues = profile.queue.iter();
    let pool = bytes(profile.pool_packets, profile.pool_bytes);
    let of_queue = |queue: &QueueConfig| {
        let own = bytes(queue.capacity_packets, queue.capacity_bytes);
        if queue.pool { own.min(pool) } else { own }
    };
    match what {
        QueueState::DrainBytes => {
            let apart = queues.clone().filter(|queue| !queue.pool).map(of_queue);
            let pooled = queues.filter(|queue| queue.pool).map(of_queue);
            let pooled = pooled.fold(0u64, u64::saturating_add).min(pool);
            apart.fold(pooled, u64::saturating_add).min(together)
        }
        QueueState::DepthBytes => queues.map(of_queue).max().unwrap_or(0).min(most),
        QueueState::DepthPackets => {
            let packets = |queue: &QueueConfig| {
                let pool = profile.pool_packets.filter(|_| queue.pool);
                let bytes = queue.capacity_bytes;
                let least = queue.capacity_packets.into_iter().chain(pool).chain(bytes);
                least.min().unwrap_or(UNLIMITED)
            };
            queues.map(packets).max().unwrap_or(0).min(most)
        }
    }
}

/// The first multiple of a period that is not before `now`.
fn next_multiple(now: Instant, period: Duration) -> Instant {
    Instant::from_picos(now.as_picos().next_multiple_of(period.as_picos()))
}

impl Switch {
    /// Shows the program what has changed in the queues of a port.
    #[inline]
    pub(super) fn export(&mut self, port: PortId) {
        if !self.exports.is_empty() {
            self.export_changed(port);
        }
    }

    #[inline(never)]
    fn export_changed(&mut self, port: PortId) {
        if let Some(pipeline) = &mut self.pipeline {
            let (exports, manager) = (&mut self.exports, &self.manager);
            exports.changed(self.now, port, manager, pipeline, &mut self.agenda);
        }
    }

    /// Shows the program what has changed since the last period of an export.
    pub(super) fn export_stale(&mut self, export: usize) {
        let (Some(pipeline), Some(export)) =
            (&mut self.pipeline, self.exports.exports.get_mut(export))
        else {
            return;
        };
        // A task of an earlier configuration comes at another time.
        if export.due == self.now {
            for port in std::mem::take(&mut export.stale) {
                export.show(port, &self.manager, pipeline);
            }
        }
    }

    /// Shows the program the queues of all ports.
    pub(super) fn export_all(&mut self) {
        if !self.exports.is_empty() {
            let ports: Vec<PortId> = self.ports().collect();
            ports.into_iter().for_each(|port| self.export(port));
        }
    }
}
