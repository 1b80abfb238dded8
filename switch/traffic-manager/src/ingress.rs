//! The side of the switch where packets come in: what is left of the bytes of each port, which flow
//! control counts, and the ingress buffers of a switch with combined input and output queueing.
//!
//! Without ingress buffers a packet goes to the queues of its output port at once, and counts for
//! the port that it came in on until it leaves the switch. With them it waits at that port, first in
//! first out with the packets of its priority, until there is room at the output port, and counts
//! until it goes there. The way across takes no time, as if the crossbar were fast enough.
//!
//! When there is room at an output port, the packet of the highest priority goes there, among those
//! that are first of their priority at their port; equals take turns by port. If it does not fit,
//! nothing else does: what is behind it, and what matters less, waits. With room per queue, what
//! matters less proceeds in its own.

mod input;
mod output;

use std::collections::{BTreeSet, VecDeque};

use ebb_units::Instant;

use crate::admission::{Admission, Arrival, Departure};
use crate::config::{OnFull, Thresholds, TrafficManagerConfig};
use crate::limits::MAX_QUEUES;
use crate::port::Port;
use crate::port_id::{PauseChange, PortId};
use crate::ports::Ports;
use crate::pushed_out::PushedOut;
use crate::queue::Item;
use crate::scheduler::{QueueSet, ids};
use crate::statistics::DropReason;
use input::Input;
use output::Output;

/// All ports on the side where packets come in.
#[derive(Debug)]
pub(crate) struct Ingress<P> {
    /// Thresholds of flow control; `None` if there is none.
    thresholds: Option<Thresholds>,
    /// Packets by the port that they came in on.
    inputs: Vec<Input<P>>,
    /// Packets that wait at the inputs, by the port that they go to.
    outputs: Vec<Output>,
    /// Inputs whose accounts changed since neighbours were last asked for something.
    touched: Vec<PortId>,
    /// Requests to neighbours that nobody has taken.
    pub(crate) pauses: VecDeque<PauseChange>,
    /// Ports to which packets were moved.
    pub(crate) woken: Vec<PortId>,
}

impl<P> Ingress<P> {
    /// The side where packets come in as a configuration wants it; `None` if nothing is to be
    /// counted there.
    pub(crate) fn new(config: &TrafficManagerConfig) -> Option<Box<Self>> {
        let staged = config.profile.iter().any(|p| p.ingress_bytes.is_some());
        (staged || config.pfc.is_some()).then(|| {
            Box::new(Self {
                thresholds: config.thresholds(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                touched: Vec::new(),
                pauses: VecDeque::new(),
                woken: Vec::new(),
            })
        })
    }

    /// The same for ports that have been in use without an account.
    pub(crate) fn started(now: Instant, ports: &mut Ports<P>) -> Option<Box<Self>> {
        let mut ingress = Self::new(&ports.config)?;
        ingress.configure(now, ports);
        Some(ingress)
    }

    /// Makes sure that a port is known on this side.
    fn open(&mut self, config: &TrafficManagerConfig, port: PortId) {
        for port in self.inputs.len()..=usize::from(port) {
            self.inputs.push(Input::new(config, port as PortId));
        }
    }

    /// Offers a packet to a queue of a port, or to the ingress buffer before it.
    pub(crate) fn enqueue(
        &mut self,
        now: Instant,
        ports: &mut Ports<P>,
        pushed_out: &mut Vec<PushedOut<P>>,
        to: PortId,
        arrival: Arrival,
        packet: P,
    ) -> Admission<P> {
        self.open(&ports.config, arrival.ingress_port);
        let port = ports.open(now, to);
        let admission = match port.ingress_bytes() {
            Some(limit) => self.stage(now, ports, pushed_out, (to, limit), arrival, packet),
            None => {
                let before = pushed_out.len();
                let admission = port.enqueue(now, to, arrival, packet, pushed_out);
                if matches!(admission, Admission::Enqueued { .. }) {
                    self.joined(arrival.ingress_port, queue_id(arrival), arrival.len);
                }
                for gone in &pushed_out[before..] {
                    self.left(gone.ingress_port, gone.queue.into(), gone.len);
                }
                admission
            }
        };
        self.settle(now, ports);
        admission
    }

    /// A packet has left the queues of a port: its bytes count no more, or others may go there.
    pub(crate) fn departed(
        &mut self,
        ports: &mut Ports<P>,
        port: PortId,
        departure: &Departure<P>,
    ) {
        let Departure {
            start,
            ingress_port,
            queue,
            len,
            ..
        } = departure;
        match ports.get(port).is_some_and(Port::staged) {
            true if !self.waits_for(port) => {}
            true => self.advance(*start, ports, BTreeSet::from([port])),
            false => self.left(*ingress_port, (*queue).into(), *len),
        }
        self.settle(*start, ports);
    }

    /// A packet of `len` bytes joined a queue of a port without an ingress stage.
    fn joined(&mut self, from: PortId, id: usize, len: u64) {
        self.inputs[usize::from(from)].account.add(id, len);
        self.touch(from);
    }

    /// A packet that had joined a queue like this is gone.
    fn left(&mut self, from: PortId, id: usize, len: u64) {
        self.inputs[usize::from(from)].account.remove(id, len);
        self.touch(from);
    }

    /// Remembers that the account of a port changed.
    fn touch(&mut self, port: PortId) {
        if self.touched.last() != Some(&port) {
            self.touched.push(port);
        }
    }

    /// Takes a packet for a port with an ingress stage. What comes in on a port without an ingress
    /// buffer has one of `limit` bytes.
    fn stage(
        &mut self,
        now: Instant,
        ports: &mut Ports<P>,
        pushed_out: &mut Vec<PushedOut<P>>,
        (to, limit): (PortId, u64),
        arrival: Arrival,
        packet: P,
    ) -> Admission<P> {
        let Arrival {
            ingress_port: from,
            len,
            ..
        } = arrival;
        let id = queue_id(arrival);
        let port = ports.open(now, to);
        port.reach(id);
        let depth = port.buffer().queue(id).depth;
        port.recorder(id).offered(depth);
        if !port.buffer().queue(id).exists {
            return port.refuse(DropReason::NoSuchQueue, arrival, packet);
        }
        let input = &self.inputs[usize::from(from)];
        let excess = input.excess(id, len, limit);
        let behind = self.waits_for(to) || input.first(id).is_some();
        if excess == 0 && !behind && port.buffer().has_room(id, len) {
            // It would be in the ingress buffer for no time.
            self.output(to).took_turn(id, from);
            port.accept(now, id, Item::new(now, from, len, packet));
            return Admission::Enqueued { depth };
        }
        let mut open = BTreeSet::from([to]);
        if excess > 0 {
            let lower = !QueueSet::from(input.lossless) & ((1 << id) - 1);
            let pushes_out = port.buffer().queue(id).on_full == OnFull::PushOut;
            if !pushes_out || input.held(lower) < excess {
                return port.refuse(DropReason::IngressFull, arrival, packet);
            }
            // A packet that gives way may have been the one that others waited for.
            for gone in self.push_out(now, ports, from, lower, excess) {
                open.insert(gone.port);
                pushed_out.push(gone);
            }
        }
        self.append(now, ports, to, id, Item::new(now, from, len, packet));
        self.touch(from);
        self.advance(now, ports, open);
        Admission::Enqueued { depth }
    }

    /// Moves packets to outputs for which packets came or from which they left, as long as they fit.
    /// The packet behind a moved one may go elsewhere, and is moved there.
    fn advance(&mut self, at: Instant, ports: &mut Ports<P>, mut open: BTreeSet<PortId>) {
        while let Some(to) = open.first().copied() {
            match self.move_one(at, ports, to) {
                Some(next) => open.extend(next),
                None => {
                    open.remove(&to);
                }
            }
        }
    }

    /// Moves the packet whose turn it is to an output; `None` if there is none or no room for it.
    /// The result is the output that the packet behind it goes to, if there is one.
    fn move_one(
        &mut self,
        at: Instant,
        ports: &mut Ports<P>,
        to: PortId,
    ) -> Option<Option<PortId>> {
        let output = self.outputs.get_mut(usize::from(to))?;
        let port = ports.open(at, to);
        let candidates = if port.buffer().room_per_queue() {
            MAX_QUEUES
        } else {
            1
        };
        let length = |id, from| Some(self.inputs[usize::from(from)].first(id)?.1.len());
        let (id, from, len) = (output.turns().take(candidates))
            .filter_map(|(id, from)| Some((id, from, length(id, from)?)))
            .find(|(id, _, len)| port.buffer().has_room(*id, *len))?;
        let input = &mut self.inputs[usize::from(from)];
        output.took_turn(id, from);
        output.remove(id, from);
        let item = input.pop(id)?;
        port.recorder(id).staged.remove(len);
        port.accept(at, id, item);
        if self.woken.last() != Some(&to) {
            self.woken.push(to);
        }
        let next = input.first(id).map(|(to, _)| *to);
        self.touch(from);
        if let Some(next) = next {
            self.output(next).add(id, from);
        }
        Some(next)
    }

    /// The port on the side where packets go out, which is created if it does not exist.
    fn output(&mut self, port: PortId) -> &mut Output {
        let index = usize::from(port);
        if self.outputs.len() <= index {
            self.outputs.resize_with(index + 1, Output::default);
        }
        &mut self.outputs[index]
    }

    /// Whether a packet in an ingress buffer waits for this port and is first of its queue.
    fn waits_for(&self, port: PortId) -> bool {
        let output = self.outputs.get(usize::from(port));
        output.is_some_and(|output| output.queues != 0)
    }

    /// Adds a packet at the end of its queue in the ingress buffer.
    fn append(&mut self, now: Instant, ports: &mut Ports<P>, to: PortId, id: usize, item: Item<P>) {
        let (from, len) = (item.ingress_port, item.len());
        if self.inputs[usize::from(from)].push(to, id, item) {
            self.output(to).add(id, from);
        }
        ports.open(now, to).recorder(id).staged.add(len);
    }

    /// Takes the youngest packet of a queue out of the ingress buffer, with the port that it would
    /// have gone to.
    fn take_back(&mut self, from: PortId, id: usize) -> Option<(PortId, Item<P>)> {
        let input = &mut self.inputs[usize::from(from)];
        let (to, item, was_first) = input.pop_last(id)?;
        if was_first {
            self.outputs[usize::from(to)].remove(id, from);
        }
        Some((to, item))
    }

    /// Drops packets of these queues until this many bytes are free: those at the tail of the lowest
    /// queue first.
    fn push_out(
        &mut self,
        now: Instant,
        ports: &mut Ports<P>,
        from: PortId,
        lower: QueueSet,
        mut excess: u64,
    ) -> Vec<PushedOut<P>> {
        let mut gone = Vec::new();
        for id in ids(lower) {
            while excess > 0
                && let Some((to, item)) = self.take_back(from, id)
            {
                excess = excess.saturating_sub(item.len());
                let recorder = ports.open(now, to).recorder(id);
                recorder.staged.remove(item.len());
                recorder.dropped(DropReason::PushedOut, item.len());
                gone.push(PushedOut::new(to, id, item, false));
            }
        }
        gone
    }

    /// Asks the neighbours at the ports whose accounts changed for what these want now.
    fn settle(&mut self, at: Instant, ports: &mut Ports<P>) {
        for port in self.touched.drain(..) {
            let input = &mut self.inputs[usize::from(port)];
            let (account, lossless) = (&input.account, input.lossless);
            let wanted = self.thresholds.map_or(0, |at| account.wanted(at, lossless));
            let changed = wanted ^ input.account.asked;
            if changed == 0 {
                continue;
            }
            input.account.asked = wanted;
            let paused = wanted & changed;
            for id in ids(paused.into()) {
                ports.open(at, port).recorder(id).rare().pauses_sent += 1;
            }
            self.pauses.push_back(PauseChange {
                at,
                port,
                changed,
                paused,
            });
        }
    }

    /// Takes all packets out of the ingress buffers, in the order in which they came: from when the
    /// configuration or the program changes until they have a place again.
    fn take_all(&mut self) -> Vec<(PortId, usize, Item<P>)> {
        let inputs = self.inputs.iter_mut();
        let mut all: Vec<_> = inputs.flat_map(Input::take_all).collect();
        self.outputs.clear();
        // The sort is stable: packets of one time keep the order of their ports and queues.
        all.sort_by_key(|(_, _, item)| item.arrived);
        all
    }

    /// Takes over a configuration that the ports have already. Packets stay even above a lower
    /// limit, except those for queues that no longer exist.
    pub(crate) fn configure(&mut self, now: Instant, ports: &mut Ports<P>) {
        let waiting = self.take_all();
        self.thresholds = ports.config.thresholds();
        for (port, input) in (0..).zip(&mut self.inputs) {
            let asked = input.account.asked;
            *input = Input::new(&ports.config, port);
            input.account.asked = asked;
            self.touched.push(port);
        }
        for (_, port) in ports.iter().filter(|(_, port)| !port.staged()) {
            for (id, item) in port.buffer().items() {
                self.open(&ports.config, item.ingress_port);
                self.joined(item.ingress_port, id, item.len());
            }
        }
        for (to, id, item) in waiting {
            let port = ports.open(now, to);
            port.recorder(id).staged.remove(item.len());
            if !port.buffer().queue(id).exists {
                port.recorder(id).dropped(DropReason::Flushed, item.len());
            } else if port.staged() {
                self.append(now, ports, to, id, item);
            } else {
                self.joined(item.ingress_port, id, item.len());
                port.accept(now, id, item);
                self.woken.push(to);
            }
        }
        let outputs = 0..self.outputs.len();
        self.advance(now, ports, outputs.map(|to| to as PortId).collect());
        self.settle(now, ports);
    }

    /// Drops all packets that wait here, after those in the queues of the ports were dropped.
    pub(crate) fn clear(&mut self, now: Instant, ports: &mut Ports<P>) {
        for (to, id, item) in self.take_all() {
            let recorder = ports.open(now, to).recorder(id);
            recorder.staged.remove(item.len());
            recorder.dropped(DropReason::Flushed, item.len());
        }
        for (port, input) in (0..).zip(&mut self.inputs) {
            input.account.clear();
            self.touched.push(port);
        }
        self.settle(now, ports);
    }
}

/// The queue that a packet is for.
fn queue_id(arrival: Arrival) -> usize {
    usize::from(arrival.queue) % MAX_QUEUES
}
