//! A host that a program outside plays: it is given what arrives, and says what leaves.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use ebb_engine::simulation::Host;
use ebb_transport::nic::{NicParams, Serialiser};
use ebb_units::Instant;
use ebb_wire::EthernetHeader;

/// Bytes of a frame without FCS that fit into a link: jumbo frames, and what switches put in front of them.
const MAX_FRAME_BYTES: usize = 10_000;

/// A host of which only the NIC is simulated.
pub struct ExternalHost {
    name: String,
    /// Sends one frame after the other.
    serialiser: Serialiser,
    /// Frames that have not left, by the time from which they may and the order in which they came.
    waiting: BTreeMap<(Instant, u64), Vec<u8>>,
    /// Frames that it has been given to send.
    given: u64,
    /// Frames that have arrived and nobody has taken, with the time of their last bit.
    arrived: Vec<(Instant, Vec<u8>)>,
}

impl ExternalHost {
    /// A host behind this interface, which obeys no PFC.
    pub fn new(name: String, nic: NicParams) -> Self {
        ExternalHost {
            name,
            serialiser: Serialiser::new(nic),
            waiting: BTreeMap::new(),
            given: 0,
            arrived: Vec::new(),
        }
    }

    /// Has a frame without FCS sent at a time, or after those that are due before. Refused where it has no Ethernet
    /// header, is too long, or should have left before `now`.
    pub fn send(&mut self, now: Instant, at: Instant, frame: Vec<u8>) -> Result<()> {
        let (name, bytes) = (&self.name, frame.len());
        ensure!(
            (EthernetHeader::BYTES..=MAX_FRAME_BYTES).contains(&bytes),
            "a frame of {name} has {bytes} bytes; {} to {MAX_FRAME_BYTES}",
            EthernetHeader::BYTES
        );
        ensure!(
            at >= now,
            "a frame of {name} is due at {} ns, and it is {} ns by now",
            at.as_nanos(),
            now.as_nanos()
        );
        self.given += 1;
        self.waiting.insert((at, self.given), frame);
        Ok(())
    }

    /// Whether frames have arrived that nobody has taken.
    pub fn has_arrivals(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// The frames that have arrived since the last call, in order, with the time of their last bit.
    pub fn take_arrivals(&mut self) -> Vec<(Instant, Vec<u8>)> {
        std::mem::take(&mut self.arrived)
    }
}

impl Host for ExternalHost {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        self.arrived.push((now, frame));
    }

    fn wake(&mut self, _now: Instant) {}

    fn next_wake(&self) -> Option<Instant> {
        let ((at, _), _) = self.waiting.first_key_value()?;
        Some(self.serialiser.free_at().max(*at))
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        self.next_wake().filter(|at| *at <= now)?;
        let (_, frame) = self.waiting.pop_first()?;
        let last_bit = self
            .serialiser
            .send(now, frame.len() - EthernetHeader::BYTES);
        Some((last_bit, frame))
    }
}
