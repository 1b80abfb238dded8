//! Counters of one stream at its receiver.

use serde_json::{Value, json};

use super::packet::Arrival;
use crate::engine::histogram::Histogram;

/// Last numbers that are remembered, which distinguish late packets from repeated ones.
const WINDOW: u64 = 1 << 16;
const WORD_BITS: u64 = 64;

/// Counts of one stream of one sender.
#[derive(Clone, Debug)]
pub struct StreamCounts {
    /// How many were sent. `None`: the sender has not said so.
    pub sent: Option<u64>,
    pub received: u64,
    pub duplicates: u64,
    /// Arrived after one with a higher number (RFC 4737).
    pub reordered: u64,
    /// Packets shorter than they were sent: a switch has trimmed them.
    pub trimmed: u64,
    /// Bytes of the frames, without preamble, FCS and gap.
    pub bytes: u64,
    /// When the first packet came, in ns of CLOCK_REALTIME; the maximum while there is none.
    first_ns: u64,
    /// When the last packet came, in ns of CLOCK_REALTIME.
    last_ns: u64,
    numbers: Numbers,
    /// From the sender's time stamp to the kernel's time of arrival, in ns.
    delays: Histogram,
}

impl StreamCounts {
    pub fn new() -> Self {
        StreamCounts {
            sent: None,
            received: 0,
            duplicates: 0,
            reordered: 0,
            trimmed: 0,
            bytes: 0,
            first_ns: u64::MAX,
            last_ns: 0,
            numbers: Numbers::new(),
            delays: Histogram::new(),
        }
    }

    /// A data packet arrived at `at_ns` of CLOCK_REALTIME in a frame that now has `frame_bytes`,
    /// of which its Ethernet header has `ethernet_bytes`.
    pub fn count(
        &mut self,
        packet: &Arrival,
        at_ns: u64,
        frame_bytes: usize,
        ethernet_bytes: usize,
    ) {
        match self.numbers.insert(packet.number) {
            Order::Next => {}
            Order::Late => self.reordered += 1,
            Order::Again => {
                self.duplicates += 1;
                return;
            }
        }
        self.received += 1;
        self.bytes += frame_bytes as u64;
        if frame_bytes < usize::from(packet.packet_bytes) + ethernet_bytes {
            self.trimmed += 1;
        }
        self.first_ns = self.first_ns.min(at_ns);
        self.last_ns = self.last_ns.max(at_ns);
        self.delays.add(at_ns.saturating_sub(packet.sent_at_ns));
    }

    /// Sent, as far as is known, and not received.
    pub fn lost(&self) -> u64 {
        let sent = self.sent.unwrap_or(self.numbers.end);
        sent.saturating_sub(self.received)
    }

    /// Time from the first to the last packet.
    pub fn elapsed_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns)
    }

    pub fn to_json(&self) -> Value {
        json!({
            "sent": self.sent,
            "received": self.received,
            "lost": self.lost(),
            "duplicates": self.duplicates,
            "reordered": self.reordered,
            "trimmed": self.trimmed,
            "bytes": self.bytes,
            "elapsed_ns": self.elapsed_ns(),
            "delay": (self.received > 0).then(|| delay_json(&self.delays)),
        })
    }

    pub fn mean_delay_ns(&self) -> f64 {
        self.delays.mean_ns()
    }

    pub fn max_delay_ns(&self) -> u64 {
        self.delays.max_ns()
    }
}

fn delay_json(delays: &Histogram) -> Value {
    json!({
        "mean_ns": delays.mean_ns(),
        "p50_ns": delays.per_mille_ns(500),
        "p99_ns": delays.per_mille_ns(990),
        "max_ns": delays.max_ns(),
    })
}

/// A packet's number against those that have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// It is the highest.
    Next,
    /// A higher one has arrived before.
    Late,
    /// It has arrived before.
    Again,
}

/// The last numbers, each arrived or not.
#[derive(Clone, Debug)]
struct Numbers {
    /// One more than the highest that has arrived.
    end: u64,
    /// A bit for each of the last numbers, at the number modulo the window: set if it has arrived.
    seen: Box<[u64]>,
}

impl Numbers {
    fn new() -> Self {
        Numbers {
            end: 0,
            seen: vec![0; (WINDOW / WORD_BITS) as usize].into(),
        }
    }

    fn insert(&mut self, number: u64) -> Order {
        let order = if number == u64::MAX {
            // `end` could not be above this number, up to which no sender counts.
            return Order::Again;
        } else if number >= self.end {
            let new = number - self.end;
            match new < WINDOW {
                true => (self.end..number).for_each(|missing| *self.word(missing) &= !bit(missing)),
                false => self.seen.fill(0),
            }
            self.end = number + 1;
            Order::Next
        } else if self.end - number > WINDOW || *self.word(number) & bit(number) != 0 {
            // A packet later than the window counts as a copy, though it most likely is none: otherwise a
            // copy could hide a loss.
            return Order::Again;
        } else {
            Order::Late
        };
        *self.word(number) |= bit(number);
        order
    }

    fn word(&mut self, number: u64) -> &mut u64 {
        &mut self.seen[(number % WINDOW / WORD_BITS) as usize]
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::packet::Kind;
    use super::*;

    fn tally(numbers: &[u64]) -> StreamCounts {
        let mut tally = StreamCounts::new();
        for (at, &number) in numbers.iter().enumerate() {
            let packet = Arrival {
                source: Ipv4Addr::LOCALHOST,
                kind: Kind::Data,
                stream: 1,
                number,
                sent_at_ns: 1000,
                packet_bytes: 100,
            };
            tally.count(&packet, 1000 + at as u64, 114, 14);
        }
        tally
    }

    fn counts(tally: &StreamCounts) -> (u64, u64, u64, u64) {
        (
            tally.received,
            tally.lost(),
            tally.duplicates,
            tally.reordered,
        )
    }

    #[test]
    fn gaps_are_losses_until_they_are_filled() {
        assert_eq!(counts(&tally(&[0, 1, 4])), (3, 2, 0, 0));
        assert_eq!(counts(&tally(&[0, 1, 4, 2])), (4, 1, 0, 1));
        assert_eq!(counts(&tally(&[0, 1, 4, 2, 3])), (5, 0, 0, 2));
    }

    #[test]
    fn a_copy_hides_no_loss() {
        assert_eq!(counts(&tally(&[0, 0, 2, 2, 1, 1])), (3, 0, 3, 1));
        assert_eq!(counts(&tally(&[0, 2, 2])), (2, 1, 1, 0));
    }

    #[test]
    fn the_end_tells_of_losses_that_nothing_came_after() {
        let mut tally = tally(&[0, 1]);
        tally.sent = Some(10);
        assert_eq!(tally.lost(), 8);
    }

    #[test]
    fn numbers_are_remembered_for_a_window_and_places_are_used_again() {
        let mut numbers: Vec<u64> = (0..3 * WINDOW).filter(|n| n % 7 != 0).collect();
        let all = counts(&tally(&numbers));
        assert_eq!((all.2, all.3), (0, 0));
        let last = *numbers.last().unwrap();
        numbers.push(last - 70_000 / 7 * 7);
        numbers.push(3 * WINDOW - 1 - (3 * WINDOW - 1) % 7);
        let after = counts(&tally(&numbers));
        assert_eq!((after.0, after.2, after.3), (all.0 + 1, 1, 1));
        let jump = tally(&[0, 1 << 50, 1 << 50, 1 << 60, 1 << 60, u64::MAX]);
        assert_eq!((jump.received, jump.duplicates), (3, 3));
    }

    #[test]
    fn trimmed_packets_are_told() {
        let mut tally = tally(&[0]);
        let packet = Arrival {
            source: Ipv4Addr::LOCALHOST,
            kind: Kind::Data,
            stream: 1,
            number: 1,
            sent_at_ns: 0,
            packet_bytes: 1500,
        };
        tally.count(&packet, 0, 128, 14);
        tally.count(
            &Arrival {
                number: 2,
                ..packet
            },
            0,
            1514,
            14,
        );
        assert_eq!((tally.received, tally.trimmed), (3, 1));
    }
}
