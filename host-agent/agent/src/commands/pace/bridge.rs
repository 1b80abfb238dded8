//! Moves frames between the two interfaces, those from inside through the pacer.

use std::ops::ControlFlow;
use std::os::fd::AsFd;

use anyhow::Context;
use ebb_packet_io::{
    Batch, MAX_OFFLOADED_FRAME_BYTES, OutgoingFrame, PollFd, ReceiveBuffers, wait,
};
use ebb_units::{Duration, Instant};

use super::exit::Exit;
use super::shaper::Shaper;
use super::side::Side;
use crate::machine::clock;
use crate::machine::signals::Signals;
use crate::machine::waker::Waker;

/// The most frames that one system call receives.
const BATCH: usize = 32;
/// Batches read from one side before the other side and the pacer get their turn.
const BATCHES_PER_TURN: usize = 4;
/// How long a bridge that ends lets the FIFO leave at its rate; then the rest leaves at once.
const DRAIN: Duration = Duration::from_millis(500);

/// The bump in the wire, which belongs to one thread.
pub struct Bridge {
    pub inside: Side,
    pub outside: Side,
    waker: Waker,
    signals: Signals,
    buffers: ReceiveBuffers,
    pub exit: Exit,
    /// Slots of received frames that are passed to the inside.
    entering: Vec<usize>,
    /// Buffers for frames that are due, used again and again.
    due: Vec<Vec<u8>>,
    /// Time before a departure from which the bridge polls instead of sleeping.
    spin: Duration,
}

impl Bridge {
    pub fn new(
        (waker, signals): (Waker, Signals),
        (inside, outside): (Side, Side),
        pacer: Box<dyn Shaper>,
        spin: Duration,
    ) -> Self {
        Bridge {
            inside,
            outside,
            waker,
            signals,
            buffers: ReceiveBuffers::new(BATCH, MAX_OFFLOADED_FRAME_BYTES),
            exit: Exit::new(pacer),
            entering: Vec::new(),
            due: Vec::new(),
            spin,
        }
    }

    /// Runs until SIGINT or SIGTERM; `report` for every SIGUSR1.
    pub fn run(&mut self, mut report: impl FnMut(&mut Self)) -> anyhow::Result<()> {
        let mut more = false;
        loop {
            self.sleep(more)?;
            more = self.forward()?;
            if self.signals.take_report() {
                report(self);
            }
            if self.signals.asked_to_end() {
                return self.drain();
            }
        }
    }

    /// Sleeps until a frame arrives or is due.
    fn sleep(&self, more: bool) -> anyhow::Result<()> {
        let patience = if more {
            Some(Duration::ZERO)
        } else {
            let until_due = |at: Instant| at.since(clock::now()).saturating_sub(self.spin);
            self.exit.pacer.next_deadline().map(until_due)
        };
        let mut polled = [
            PollFd::readable(self.inside.fd()),
            PollFd::readable(self.outside.fd()),
            PollFd::readable(self.waker.as_fd()),
        ];
        wait(&mut polled, patience.map(Into::into)).context("cannot sleep")?;
        if polled[2].is_readable() {
            self.waker.drain();
        }
        Ok(())
    }

    /// Does everything that can be done now. True: more waits to be read.
    fn forward(&mut self) -> anyhow::Result<bool> {
        let mut more = false;
        for _ in 0..BATCHES_PER_TURN {
            self.send_due(clock::now());
            // ACKs first: they may associate a flow of the other side.
            let enters = self.enter()?;
            let leaves = self.leave()?;
            more = enters.is_continue() || leaves.is_continue();
            if !more {
                break;
            }
        }
        self.send_due(clock::now());
        Ok(more)
    }

    /// From outside to inside. Break: nothing is left to read.
    fn enter(&mut self) -> anyhow::Result<ControlFlow<()>> {
        let Some(batch) = self.outside.receive(&mut self.buffers)? else {
            return Ok(ControlFlow::Break(()));
        };
        let now = clock::now();
        self.entering.clear();
        for slot in 0..batch.slots() {
            let Some(frame) = batch.get(slot) else {
                continue;
            };
            if !self.exit.pacer.handle_incoming(now, frame.bytes) {
                self.entering.push(slot);
            }
        }
        // Frames that the sender left out are not missed by the host inside.
        let entering = self.entering.iter();
        self.inside
            .send(entering.filter_map(|slot| as_received(&batch, *slot)));
        Ok(continue_unless(batch.drained))
    }

    /// From inside to outside: whole frames no longer than the MTU, with checksums, as on a wire.
    fn leave(&mut self) -> anyhow::Result<ControlFlow<()>> {
        let Some(mut batch) = self.inside.receive(&mut self.buffers)? else {
            return Ok(ControlFlow::Break(()));
        };
        self.inside.counters.dropped_malformed += batch.complete_checksums() as u64;
        let now = clock::now();
        for slot in 0..batch.slots() {
            if let Some(frame) = batch.get(slot)
                && self.exit.handle(now, slot, &frame).is_err()
            {
                self.inside.counters.dropped_malformed += 1;
            }
        }
        let received = |slot| as_received(&batch, slot);
        self.outside.send(self.exit.leaving(&received));
        self.exit.clear();
        Ok(continue_unless(batch.drained))
    }

    /// Sends the frames that the pacer releases by `now`.
    fn send_due(&mut self, now: Instant) {
        let mut count = 0;
        loop {
            if count == self.due.len() {
                self.due.push(Vec::new());
            }
            if !self.exit.pacer.poll(now, &mut self.due[count]) {
                break;
            }
            count += 1;
        }
        let due = self.due[..count].iter();
        self.outside.send(due.map(|frame| frame.as_slice().into()));
    }

    /// Empties the FIFO: at its rate for a while, then at once.
    fn drain(&mut self) -> anyhow::Result<()> {
        let end = clock::now() + DRAIN;
        while let Some(due) = self.exit.pacer.next_deadline() {
            let now = clock::now();
            if now >= end {
                self.send_due(Instant::FAR_FUTURE);
                break;
            }
            let patience = due.min(end).since(now);
            wait(&mut [], Some(patience.into())).context("cannot sleep")?;
            self.send_due(clock::now());
        }
        Ok(())
    }
}

fn as_received<'a>(batch: &'a Batch<'_>, slot: usize) -> Option<OutgoingFrame<'a>> {
    let frame = batch.get(slot)?;
    Some(OutgoingFrame {
        bytes: frame.bytes,
        offload: frame.offload,
    })
}

fn continue_unless(drained: bool) -> ControlFlow<()> {
    if drained {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}
