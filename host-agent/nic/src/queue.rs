//! Packets that wait for the link, by class.

use std::collections::VecDeque;

use crate::PerClass;
use crate::params::{NicParams, QueueKind};

/// Packets that wait for the link.
#[derive(Clone, Debug)]
pub struct Queue {
    classes: PerClass<Class>,
    /// Bit of each class that has packets.
    waiting: u8,
    /// Most packets of a class.
    most_packets: usize,
    /// Bytes of a class at which it is full.
    most_bytes: usize,
    /// Numbers packets in the order in which they came.
    next: u64,
    /// Memory of packets that have left.
    spare: Vec<Vec<u8>>,
}

/// The packets of a class, oldest first.
#[derive(Clone, Debug, Default)]
struct Class {
    packets: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Queue {
    pub fn new(params: &NicParams) -> Self {
        let limit = |most: u32| match most {
            0 => usize::MAX,
            most => most as usize,
        };
        let (packets, bytes) = match params.queue {
            QueueKind::RoundRobin => (1, usize::MAX),
            QueueKind::Fifo => (limit(params.queue_packets), limit(params.queue_bytes)),
        };
        Queue {
            classes: Default::default(),
            waiting: 0,
            most_packets: packets,
            // The length of the next packet is not known: a full one must have room.
            most_bytes: bytes.saturating_sub(usize::from(params.mtu_bytes)),
            next: 0,
            spare: Vec::new(),
        }
    }

    /// The classes with packets, bit 0 for class 0.
    pub fn waiting(&self) -> u8 {
        self.waiting
    }

    /// The classes with room for a packet of any length, bit 0 for class 0.
    pub fn with_room(&self) -> u8 {
        let classes = self.classes.iter().enumerate();
        classes.fold(0, |room, (number, class)| {
            let has = class.packets.len() < self.most_packets && class.bytes <= self.most_bytes;
            room | u8::from(has) << number
        })
    }

    /// Appends a packet; `packet` gets memory for another one.
    pub fn push(&mut self, class: usize, packet: &mut Vec<u8>) {
        let taken = std::mem::replace(packet, self.spare.pop().unwrap_or_default());
        let number = self.next;
        self.next += 1;
        let queue = &mut self.classes[class];
        queue.bytes += taken.len();
        queue.packets.push_back((number, taken));
        self.waiting |= 1 << class;
    }

    /// Takes the oldest packet of the classes of a mask; false if there is none.
    pub fn pop(&mut self, open: u8, packet: &mut Vec<u8>) -> bool {
        let candidates = self.waiting & open;
        let number = match candidates.count_ones() {
            0 => return false,
            1 => candidates.trailing_zeros() as usize,
            _ => self.oldest(candidates),
        };
        let class = &mut self.classes[number];
        let Some((_, taken)) = class.packets.pop_front() else {
            return false;
        };
        class.bytes -= taken.len();
        if class.packets.is_empty() {
            self.waiting &= !(1 << number);
        }
        self.spare.push(std::mem::replace(packet, taken));
        true
    }

    /// The class with the oldest packet of those of a mask, each of which has one.
    fn oldest(&self, candidates: u8) -> usize {
        let age = |class: &usize| self.classes[*class].packets.front().map(|(age, _)| *age);
        let classes = (0..self.classes.len()).filter(|class| candidates >> class & 1 == 1);
        classes.min_by_key(age).unwrap_or_default()
    }
}
