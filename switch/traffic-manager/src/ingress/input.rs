//! The receiving side of a port, with its ingress buffer if it has one.

use std::collections::VecDeque;

use crate::account::Account;
use crate::config::{Need, TrafficManagerConfig};
use crate::limits::MAX_QUEUES;
use crate::port_id::PortId;
use crate::queue::Item;
use crate::scheduler::{QueueSet, ids};

/// The receiving side of a port.
#[derive(Debug)]
pub(super) struct Input<P> {
    /// Bytes that count for flow control.
    pub(super) account: Account,
    /// The lossless queues of the port, a bit each.
    pub(super) lossless: u8,
    /// Size of the ingress buffer; `None` if the port has none, such as the CPU port.
    limit: Option<u64>,
    /// Part of it that is kept for lossless queues.
    reserved: u64,
    /// The queues with packets in the ingress buffer.
    filled: QueueSet,
    /// Bytes in the ingress buffer, by queue.
    bytes: [u64; MAX_QUEUES],
    /// The packets in the ingress buffer by queue, oldest first, each with the port that it goes to.
    fifos: [VecDeque<(PortId, Item<P>)>; MAX_QUEUES],
}

impl<P> Input<P> {
    /// An empty one with the settings of its port.
    pub(super) fn new(config: &TrafficManagerConfig, port: PortId) -> Self {
        let mut input = Self {
            account: Account::default(),
            lossless: 0,
            limit: None,
            reserved: 0,
            filled: 0,
            bytes: [0; MAX_QUEUES],
            fifos: std::array::from_fn(|_| VecDeque::new()),
        };
        if let Some(profile) = config.profile_of(port) {
            input.limit = profile.ingress_bytes;
            if let Some((pfc, thresholds)) = config.pfc.as_ref().zip(config.thresholds()) {
                input.lossless = profile.lossless();
                input.reserved = Need::new(profile, pfc, thresholds).bytes();
            }
        }
        input
    }

    /// Adds a packet to the end of a queue, with the port that it goes to. True if it is the first.
    pub(super) fn push(&mut self, to: PortId, id: usize, item: Item<P>) -> bool {
        self.bytes[id] += item.len();
        self.account.add(id, item.len());
        self.filled |= 1 << id;
        self.fifos[id].push_back((to, item));
        self.fifos[id].len() == 1
    }

    /// The first packet of a queue and the port that it goes to.
    pub(super) fn first(&self, id: usize) -> Option<&(PortId, Item<P>)> {
        self.fifos[id].front()
    }

    /// Takes the first packet of a queue.
    pub(super) fn pop(&mut self, id: usize) -> Option<Item<P>> {
        let (_, item) = self.fifos[id].pop_front()?;
        self.removed(id, item.len());
        Some(item)
    }

    /// Takes the last packet of a queue, with the port that it would have gone to. True if it was
    /// the first one too.
    pub(super) fn pop_last(&mut self, id: usize) -> Option<(PortId, Item<P>, bool)> {
        let (to, item) = self.fifos[id].pop_back()?;
        self.removed(id, item.len());
        Some((to, item, self.fifos[id].is_empty()))
    }

    /// Takes all packets, with their ports and queues. The account keeps them.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (PortId, usize, Item<P>)> {
        self.bytes = [0; MAX_QUEUES];
        self.filled = 0;
        let fifos = self.fifos.iter_mut().enumerate();
        fifos.flat_map(|(id, fifo)| fifo.drain(..).map(move |(to, item)| (to, id, item)))
    }

    /// A packet of `len` bytes left the ingress buffer.
    fn removed(&mut self, id: usize, len: u64) {
        self.bytes[id] -= len;
        self.account.remove(id, len);
        if self.fifos[id].is_empty() {
            self.filled &= !(1 << id);
        }
    }

    /// Bytes in these queues of the ingress buffer.
    pub(super) fn held(&self, queues: QueueSet) -> u64 {
        ids(queues & self.filled).map(|id| self.bytes[id]).sum()
    }

    /// Bytes that have to leave the buffer before another packet of `len` bytes fits into a queue; 0: it
    /// fits. `limit` is the size of the buffer if the port has none of its own.
    pub(super) fn excess(&self, id: usize, len: u64, limit: u64) -> u64 {
        let limit = self.limit.unwrap_or(limit);
        let all = (self.held(QueueSet::MAX) + len).saturating_sub(limit);
        let lossless = QueueSet::from(self.lossless);
        if lossless & 1 << id != 0 {
            return all;
        }
        let rest = limit.saturating_sub(self.reserved);
        all.max((self.held(!lossless) + len).saturating_sub(rest))
    }
}
