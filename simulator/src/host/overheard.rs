//! Packets that an attacker on their path has seen, and of which it can forge drop notifications.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ebb_units::{Duration, Instant};
use ebb_wire::{Ipv4Header, Protocol, TcpHeader};

/// TCP packets with payload that a host sent recently, for hosts that forge notifications of them.
///
/// The simulation may run hosts on several threads, which are at most the longest delay of a link apart.
/// So that all runs are alike, a packet is visible only `after` it was sent, which is at least that delay.
#[derive(Debug)]
pub struct Overheard {
    after: Duration,
    packets: Mutex<VecDeque<Seen>>,
}

/// Fields of a packet that a notification repeats.
#[derive(Clone, Debug)]
pub struct Seen {
    at: Instant,
    /// Its sender and receiver.
    pub from: Ipv4Addr,
    pub to: Ipv4Addr,
    /// The TCP header, with options.
    pub header: Vec<u8>,
    /// Bytes of header and payload.
    pub bytes: usize,
}

impl Overheard {
    /// `after`: time from the sending of a packet until it is visible.
    pub fn new(after: Duration) -> Self {
        Overheard {
            after,
            packets: Mutex::default(),
        }
    }

    fn packets(&self) -> MutexGuard<'_, VecDeque<Seen>> {
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a packet that the host sends.
    pub fn note(&self, now: Instant, packet: &[u8]) {
        let Ok(ip) = Ipv4Header::parse(packet) else {
            return;
        };
        let words = ip.payload.get(12).map_or(0, |offset| offset >> 4);
        let header_bytes = usize::from(words) * 4;
        let carries = ip.header.protocol == Protocol::TCP && header_bytes >= TcpHeader::BYTES;
        let Some(header) = ip.payload.get(..header_bytes).filter(|_| carries) else {
            return;
        };
        if ip.payload.len() == header_bytes {
            return;
        }
        let mut packets = self.packets();
        // Another thread may be `after` behind, and looks back twice as far.
        let kept = now - self.after * 4;
        while packets.front().is_some_and(|seen| seen.at < kept) {
            packets.pop_front();
        }
        packets.push_back(Seen {
            at: now,
            from: ip.header.src,
            to: ip.header.dst,
            header: header.to_vec(),
            bytes: ip.payload.len(),
        });
    }

    /// The latest visible packet. None: there is none, or it was sent 2 * `after` ago or earlier.
    pub fn latest(&self, now: Instant) -> Option<Seen> {
        let known = |seen: &&Seen| seen.at + self.after <= now;
        let packets = self.packets();
        let latest = packets.iter().rev().find(known);
        latest
            .filter(|seen| seen.at + self.after * 2 > now)
            .cloned()
    }
}
