//! In-band telemetry: switches write the length of their queue into packets with payload, the receiver
//! echoes it, and a congestion control that exists only here keeps the queue short by it.

use ebb_units::Instant;

use super::congestion::{Acknowledgment, CongestionControl, Window};
use super::feedback::Feedback;
use super::testing::Network;
use super::*;

const MSS: u64 = 1460;
/// Length of a queue that no flow makes longer, in packets.
const TARGET_PACKETS: u16 = 8;

/// An ACK says the longest queue of the packets that it is for.
#[derive(Debug)]
struct LongestQueue;

impl Feedback for LongestQueue {
    fn echo(&self, earlier: u16, arrived: u16) -> u16 {
        earlier.max(arrived)
    }
}

/// Reduces the window by a packet for an ACK that says more than the target, and grows otherwise.
#[derive(Debug)]
struct Telling {
    window: Window,
}

impl CongestionControl for Telling {
    fn on_ack(&mut self, ack: &Acknowledgment) -> bool {
        match ack.telemetry > TARGET_PACKETS {
            true => {
                let less = self.window.bytes().saturating_sub(MSS);
                self.window.reduce_to(less);
            }
            false => self.window.grow(ack),
        }
        false
    }

    fn window(&self) -> &Window {
        &self.window
    }

    fn window_mut(&mut self) -> &mut Window {
        &mut self.window
    }
}

fn network(feedback: FeedbackSet, ack_every_packets: u32) -> Network {
    let algorithm = Algorithm {
        start: |_, window| Box::new(Telling { window }),
        feedback,
        ..Algorithm::BASE
    };
    let params = TcpParams {
        ack_every_packets,
        initial_threshold_packets: 20,
        ..TcpParams::default()
    };
    let mut net = Network::new(algorithm, params);
    net.forward.writes_depth = true;
    net
}

fn telling(ack_every_packets: u32) -> Network {
    network(FeedbackSet::NONE.with(LongestQueue), ack_every_packets)
}

/// Longest queue, in packets, that a segment found after the first ten milliseconds.
fn longest(net: &Network) -> u64 {
    let settled = Instant::from_micros(10_000);
    let depths = net.forward.depths.iter().filter(|(at, _)| *at >= settled);
    depths.map(|(_, bytes)| bytes / 1_514).max().unwrap()
}

#[test]
fn senders_that_are_told_of_the_queue_keep_it_short_and_the_link_busy() {
    let mut net = telling(2);
    for _ in 0..4 {
        net.transfer(4_000_000);
    }
    net.run_until(Instant::from_micros(80_000));
    let target = u64::from(TARGET_PACKETS);
    assert!(
        (target..3 * target).contains(&longest(&net)),
        "{}",
        longest(&net)
    );
    let received: usize = net.pairs.iter().map(|pair| pair.received.len()).sum();
    assert!(
        received as f64 > 0.95 * 10e6 * 1460.0 / 1514.0,
        "{received} bytes in 80 ms"
    );
    // Without the echo nobody hears of it: the test can fail.
    let mut deaf = network(FeedbackSet::NONE, 2);
    for _ in 0..4 {
        deaf.transfer(4_000_000);
    }
    deaf.run_until(Instant::from_micros(80_000));
    assert!(longest(&deaf) > 10 * target, "{}", longest(&deaf));
}

/// Telemetry of the ACKs of a transfer, in order, and the queues that its segments with payload found.
fn said_and_arrived(ack_every_packets: u32) -> (Vec<u16>, Vec<u16>) {
    let mut net = telling(ack_every_packets);
    net.transfer(40 * MSS);
    net.run_and_check();
    let said = net.telemetry.clone();
    let arrived = net.forward.depths.iter().zip(&net.sent);
    let arrived = arrived.filter(|(_, (_, segment))| !segment.payload.is_empty());
    let packets = arrived
        .map(|((_, bytes), _)| (bytes / 1_514) as u16)
        .collect();
    (said, packets)
}

#[test]
fn each_acknowledgment_says_what_its_packets_met_and_no_other() {
    let (said, packets) = said_and_arrived(1);
    assert_eq!(said[..40], packets[..], "one per packet");
    assert!(packets.iter().any(|queue| *queue > 5), "{packets:?}");
    let (said, packets) = said_and_arrived(2);
    let pairs = packets.chunks(2).map(|two| *two.iter().max().unwrap());
    assert_eq!(
        said[..20],
        pairs.collect::<Vec<_>>()[..],
        "the longer of two"
    );
}
