//! The parts of a receiver-driven transport: its sessions and their parameters.

use std::io;
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbHeader, PacketType};

use super::{Buffers, Section};
use crate::object::ObjectSource;
pub use crate::record::SenderSummary;
use crate::record::{Counters, GroupSummary};
use crate::{FlowId, Job, JobResult, StreamBytes};

/// Sizes of a session that every packet of it announces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StreamShape {
    pub object_bytes: u64,
    /// Payload of a full packet.
    pub symbol_bytes: u16,
    /// Source symbols of a full block; 0 in NDP.
    pub block_symbols: u16,
}

impl StreamShape {
    pub fn of(header: &EbbHeader) -> Self {
        StreamShape {
            object_bytes: header.object_bytes,
            symbol_bytes: header.symbol_bytes,
            block_symbols: header.block_symbols,
        }
    }

    /// Packets of the object without anything sent again. An empty object takes one.
    pub fn packets(&self) -> u64 {
        self.object_bytes
            .div_ceil(u64::from(self.symbol_bytes).max(1))
            .max(1)
    }

    /// Offset and length of the payload of packet `number`, which is below [`packets`](Self::packets).
    pub fn extent(&self, number: u64) -> (u64, usize) {
        let offset = number * u64::from(self.symbol_bytes);
        let left = self.object_bytes.saturating_sub(offset);
        (offset, left.min(u64::from(self.symbol_bytes)) as usize)
    }

    pub fn write(&self, header: &mut EbbHeader) {
        header.object_bytes = self.object_bytes;
        header.symbol_bytes = self.symbol_bytes;
        header.block_symbols = self.block_symbols;
    }
}

/// How a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ending {
    Finished,
    Failed(String),
}

/// Requests of a receiver session. The host adds ports, session id and entropy to headers.
#[derive(Default)]
pub struct Outbox {
    /// To be sent before anything else.
    pub control: Vec<EbbHeader>,
    /// The next bytes of the stream.
    pub delivered: Vec<StreamBytes>,
    pub jobs: Vec<Job>,
    /// Pulls to put into the pull queue.
    pub pulls: u64,
    /// Where the buffers of `delivered` come from. All other fields are empty between two calls.
    pub buffers: Buffers,
}

/// Whom a sending session serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cast {
    /// One receiver.
    Unicast,
    /// Several receivers behind one multicast address.
    Group { receivers: usize },
    /// One receiver, which several senders serve.
    Part(crate::Part),
}

/// The sending side of a session.
pub trait SenderSession: Sized {
    /// The transport's section of the parameters.
    type Params: Section;

    /// `symbol_bytes`: what fits into a packet.
    fn open(
        now: Instant,
        params: &Self::Params,
        symbol_bytes: u16,
        source: Arc<dyn ObjectSource>,
        cast: Cast,
    ) -> Self;
    /// A PULL, ACK or NACK arrived. `from`: which receiver of the group, 0 if there is one only.
    fn handle_control(&mut self, now: Instant, from: usize, header: &EbbHeader);
    /// A switch returned the trimmed header of a packet of ours: its payload is lost.
    fn handle_returned(&mut self, _now: Instant, _header: &EbbHeader) {}
    /// Bytes of the object that are known or supposed to have arrived.
    fn done_bytes(&self) -> u64 {
        0
    }
    /// Work to be done elsewhere for what is to be sent. `flow` is the flow of this session.
    fn poll_job(&mut self, _flow: FlowId) -> Option<Job> {
        None
    }
    /// Takes the result of a job. An error is one of the source, as in
    /// [`next_packet`](Self::next_packet).
    fn handle_job(&mut self, _result: JobResult) -> io::Result<()> {
        Ok(())
    }
    /// Whether a packet can leave now.
    fn can_send(&self) -> bool;
    /// The next packet. Called when [`can_send`](Self::can_send); fills `payload`, which is empty.
    fn next_packet(&mut self, now: Instant, payload: &mut Vec<u8>) -> io::Result<EbbHeader>;
    fn deadline(&self) -> Option<Instant>;
    /// Does what is due when [`deadline`](Self::deadline) has passed.
    fn handle_timeout(&mut self, now: Instant);
    fn ending(&self) -> Option<Ending>;
    fn counters(&mut self) -> &mut Counters;
    /// A receiver of a group has left it; `reason` is for its sender's record.
    fn receiver_left(&mut self, _from: usize, _reason: String) {}
    /// Takes a receiver out of the group: its place in it, and the session that serves it from now
    /// on. None: nobody has to leave.
    fn take_detached(&mut self, _now: Instant) -> Option<(usize, Self)> {
        None
    }
    /// Receivers of a group that are still served, as places in the group.
    fn unfinished(&self) -> Vec<usize> {
        Vec::new()
    }
    /// Outcome of the receivers of a one-to-many session; none of any other.
    fn group(&self) -> Option<GroupSummary> {
        None
    }
}

/// The receiving side of a session.
pub trait ReceiverSession: Sized {
    /// The transport's section of the parameters.
    type Params: Section;

    /// A session that `first` opens. `None`: its sizes are impossible or too large. `seed`: of random
    /// numbers that nobody else can foretell.
    fn open(
        now: Instant,
        params: &Self::Params,
        flow: FlowId,
        seed: u64,
        first: &EbbHeader,
    ) -> Option<Self>;
    /// A DATA or SYMBOL packet arrived; without payload if it was trimmed.
    fn handle_data(
        &mut self,
        now: Instant,
        header: &EbbHeader,
        payload: Option<&[u8]>,
        out: &mut Outbox,
    );
    /// Takes the result of a job that this session put into its [`Outbox`].
    fn handle_job(&mut self, _now: Instant, _result: JobResult, _out: &mut Outbox) {}
    /// Gives back the buffers of a result whose session has ended meanwhile.
    fn discard(_result: JobResult, _buffers: &mut Buffers) {}
    /// Back-pressure. While paused the session asks for nothing more, but lets the sender know that
    /// the receiver lives.
    fn set_paused(&mut self, _now: Instant, _paused: bool, _out: &mut Outbox) {}
    /// Bytes delivered.
    fn done_bytes(&self) -> u64 {
        0
    }
    /// Bytes that have arrived whole and are of use, delivered or not.
    fn arrived_bytes(&self) -> u64 {
        self.done_bytes()
    }
    /// The session has ended: its buffers can serve others.
    fn release(&mut self, _buffers: &mut Buffers) {}
    /// One of the queued pulls leaves now. `None`: the session no longer wants it. In a many-to-one
    /// session the header says which sender it is for.
    fn next_pull(&mut self, now: Instant) -> Option<EbbHeader>;
    /// A sender of a many-to-one session has left it; `reason` is for the record.
    fn sender_left(&mut self, _now: Instant, _from: usize, _reason: String, _out: &mut Outbox) {}
    fn deadline(&self) -> Option<Instant>;
    /// Does what is due when [`deadline`](Self::deadline) has passed.
    fn handle_timeout(&mut self, now: Instant, out: &mut Outbox);
    fn ending(&self) -> Option<Ending>;
    /// Whether the senders of a session that has finished know, or never will. Until then it is kept,
    /// and its timer runs.
    fn is_confirmed(&self) -> bool {
        true
    }
    fn counters(&mut self) -> &mut Counters;
    /// Outcome of each sender of a many-to-one session, without its address; empty of any other.
    fn sources(&self) -> Vec<SenderSummary> {
        Vec::new()
    }
    /// Answer to a packet of a sender that asks while a session has everything, but the
    /// application has not said yet what it makes of it. It confirms nothing, but shows that we live.
    fn answer_held(&self, late: &EbbHeader) -> Option<EbbHeader>;
    /// Answer to a late packet of a finished session. The host remembers it for a while.
    fn closing(&self) -> EbbHeader;
}

/// The types that make a receiver-driven transport of a [`SessionTable`](super::SessionTable).
pub trait ReceiverDriven {
    type Params: Section;
    type Sender: SenderSession<Params = Self::Params>;
    type Receiver: ReceiverSession<Params = Self::Params>;

    /// The name in records.
    const NAME: &'static str;
    /// Whether one flow can have several receivers.
    const GROUPS: bool;
    /// Type of the packets that carry payload.
    const PAYLOAD: PacketType;
    /// Whether those take what all other classes leave, rather than that they may be trimmed.
    const IS_SCAVENGER: bool = false;

    /// How long a many-to-one session waits for its first packet. `None`: there are no such sessions.
    fn many_to_one(_params: &Self::Params) -> Option<Duration> {
        None
    }
    fn max_object_bytes(params: &Self::Params, symbol_bytes: u16) -> u64;
    /// Answer to `late`, a packet for a finished session whose closing header is `closing`. None:
    /// there is none.
    fn answer_late(closing: &EbbHeader, late: &EbbHeader) -> Option<EbbHeader>;
    /// Has `answer`, which has not left yet, say what `next`, of the same session and time, says too. False: it cannot,
    /// and both leave.
    fn join(_answer: &mut EbbHeader, _next: &EbbHeader) -> bool {
        false
    }
}
