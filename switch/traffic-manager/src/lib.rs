//! The per-port traffic manager: queues, scheduler, serialiser and deflect-on-drop.
//!
//! It sits between ingress and egress. Like every core it has no clock and does no I/O: time is an
//! argument and never goes back. A caller drives one port like this:
//!
//! 1. [`TrafficManager::enqueue`] offers a packet. It is queued, handed back for deflection, or
//!    handed back as dropped with a reason.
//! 2. [`TrafficManager::next_deadline`] says when the port's next transmission starts.
//! 3. At that time [`TrafficManager::dequeue`] gives the packet the scheduler chose. The caller
//!    runs egress on it.
//! 4. [`TrafficManager::transmit`] occupies the serialiser for the length that egress left and says
//!    when the last bit arrives at the other end. If egress dropped the packet,
//!    [`TrafficManager::egress_dropped`] counts it and the serialiser stays free.
//!
//! A transmission starts when the link became free or the packet was there, whichever is later,
//! whenever `dequeue` happens to be called: a process that wakes up late keeps the configured rate
//! and the scheduler's decisions.
//!
//! After each of these calls, [`TrafficManager::take_pause`] says what neighbours are to be asked,
//! [`TrafficManager::take_woken`] which other ports got something to send, and
//! [`TrafficManager::take_pushed_out`] which packets gave way. With flow control or ingress buffers a
//! caller that is late dequeues what is due before it offers a packet: both go by the state that the
//! last call left.
//!
//! The packet being serialised is no longer in its queue: depths and capacities count waiting
//! packets only.

mod account;
mod admission;
mod arbiter;
mod buffer;
mod config;
mod delay_histogram;
mod depth;
mod eligible_times;
mod ingress;
mod limits;
mod manager;
mod per_queue;
mod port;
mod port_id;
mod ports;
mod pushed_out;
mod queue;
mod scheduler;
mod serialiser;
mod shares;
mod statistics;

pub use admission::{Admission, Arrival, Departure};
pub use config::{
    Accounting, ConfigError, DepthUnit, Export, Group, OnFull, Order, Pfc, Profile, QueueConfig,
    QueueState, RankFields, TrafficManagerConfig, Watchdog,
};
pub use delay_histogram::{DelayBucket, DelaySummary, DelayTally};
pub use depth::Depth;
pub use limits::{CLASSES, MAX_DEFLECTIONS, MAX_QUEUES};
pub use manager::TrafficManager;
pub use port::PrefetchSpan;
pub use port_id::{PauseChange, PortId};
pub use pushed_out::PushedOut;
pub use serialiser::Transmission;
pub use statistics::{Count, DropReason, PortStatistics, QueueStatistics};
