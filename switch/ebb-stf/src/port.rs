//! The far end of a switch port: sends the frames of a script, and collects those that leave the switch.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use ebb_engine::Host;
use ebb_units::Instant;

/// The frames that have left the switch, each with its port, in the order in which they did.
pub type Received = Arc<Mutex<Vec<(u16, Vec<u8>)>>>;

pub struct Port {
    number: u16,
    name: String,
    outbox: VecDeque<(Instant, Vec<u8>)>,
    received: Received,
}

impl Port {
    pub fn new(number: u16, received: Received) -> Self {
        Port {
            number,
            name: format!("port {number}"),
            outbox: VecDeque::new(),
            received,
        }
    }

    pub fn send(&mut self, now: Instant, frame: Vec<u8>) {
        self.outbox.push_back((now, frame));
    }
}

impl Host for Port {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, _now: Instant, frame: Vec<u8>) {
        if let Ok(mut received) = self.received.lock() {
            received.push((self.number, frame));
        }
    }

    fn wake(&mut self, _now: Instant) {}

    fn next_wake(&self) -> Option<Instant> {
        self.outbox.front().map(|(at, _)| *at)
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.outbox.pop_front()
    }
}
