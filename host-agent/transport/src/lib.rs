//! NDP, SCDP, Trevi, the TCP family and the pacer as state machines without I/O or clock.
//!
//! A [`Transport`] hosts all flows that one transport has on one host. Whoever drives it (the agent over a
//! raw socket, a test, a simulation) does, whenever something happened or a deadline passed:
//!
//! ```text
//!  transport.handle_packet(now, ipv4_packet)          for every packet that arrived
//!  transport.handle_timeout(now)                      when next_deadline() <= now
//!  while let Some(job) = transport.poll_job()         run it anywhere, then handle_job(now, result)
//!  while let Some(event) = transport.poll_event()     deliver bytes, note finished flows
//!  while !nic.wants(now).is_empty()                   the NIC of the host
//!      transport.poll_transmit_of(now, wanted, ..)    None: nothing to send
//!      nic.push(&mut packet)
//!  nic.poll(now, &mut packet)                         what leaves
//!  sleep until the earlier of
//!      nic.next_start(now)                            while there is more to send
//!      transport.next_deadline()                      unless it has passed: then it waits for the NIC
//! ```
//!
//! Packets are complete IPv4 packets; the caller adds and removes the link layer.

mod addressing;
mod buffers;
mod code;
mod flow_id;
mod group;
mod job;
pub mod object;
mod objection;
pub mod pacer;
mod receiver_driven;
pub mod record;
mod rtt;
mod selector;
mod splitmix;
mod stream_head;
pub mod tenant;
#[cfg(test)]
mod testing;
mod timers;
mod transport;
mod transports;

pub use ebb_nic as nic;
pub use flow_id::FlowId;
pub use group::group_address;
pub use job::{Job, JobResult};
pub use objection::Objection;
pub use receiver_driven::{DscpParams, EPHEMERAL_PORTS, HostConfig, PriorityDscps};
pub use record::{Counters, FlowRecord, GroupSummary, Role, SenderSummary, Status, TcpSummary};

pub use selector::{Condition, Selector};
pub use stream_head::{FetchRequest, MAX_SENDERS, Refusal, RefusalCode, StreamHead};
pub use transport::{
    Event, ExpectRequest, GroupRequest, ListenError, PacketKind, Part, Progress, SendError,
    SendRequest, StreamBytes, Transport, TxInfo, Urgency, Via,
};
pub use transports::{
    Entry, Params, Suite, TransportKind, UnknownTransport, ndp, scdp, tcp, trevi,
};
