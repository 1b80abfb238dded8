//! The far end of a switch port: sends what it is given, keeps what it gets.

use std::collections::VecDeque;

use ebb_engine::Host;
use ebb_units::Instant;

pub struct Port {
    name: String,
    outbox: VecDeque<(Instant, Vec<u8>)>,
    received: Vec<Vec<u8>>,
}

impl Port {
    pub fn new(number: u16) -> Self {
        Port {
            name: format!("port {number}"),
            outbox: VecDeque::new(),
            received: Vec::new(),
        }
    }

    pub fn send(&mut self, now: Instant, frame: Vec<u8>) {
        self.outbox.push_back((now, frame));
    }

    /// What arrived since the last call, in order.
    pub fn take_received(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.received)
    }
}

impl Host for Port {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, _now: Instant, frame: Vec<u8>) {
        self.received.push(frame);
    }

    fn wake(&mut self, _now: Instant) {}

    fn next_wake(&self) -> Option<Instant> {
        self.outbox.front().map(|(at, _)| *at)
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.outbox.pop_front()
    }
}
