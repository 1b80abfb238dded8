//! Events of one node, in an order that does not depend on when they were added.

use crate::drops::DropReason;
use crate::switch::PortId;

/// What happens at a node.
#[derive(Debug)]
pub(crate) enum Event {
    /// The last bit of a frame arrives at a port. `sequence` counts the frames of the link.
    Receive {
        port: PortId,
        sequence: u32,
        frame: Vec<u8>,
    },
    /// A link from a host did something to a frame that was to arrive, or arrives, at a port.
    Fault {
        port: PortId,
        sequence: u32,
        reason: DropReason,
        bytes: u64,
    },
    /// A transmission is due at a port. After all arrivals of the same time.
    Serve(PortId),
}

impl Event {
    /// Orders events of the same time: arrivals by port and order on the link, then departures.
    pub(crate) fn rank(&self) -> u64 {
        match self {
            Event::Receive { port, sequence, .. } => arrival(*port, *sequence),
            Event::Fault { port, sequence, .. } => arrival(*port, *sequence) | 1,
            Event::Serve(port) => 1 << 63 | u64::from(*port),
        }
    }
}

fn arrival(port: PortId, sequence: u32) -> u64 {
    u64::from(port) << 33 | u64::from(sequence) << 1
}

/// Takes `value` into a running hash (the finaliser of SplitMix64 over the sum; not cryptographic).
pub(crate) fn mix(hash: u64, value: u64) -> u64 {
    let mut z = hash.rotate_left(25) ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

#[cfg(test)]
mod tests {
    use ebb_units::Instant;

    use super::super::event_queue::EventQueue;
    use super::*;

    #[test]
    fn the_order_does_not_depend_on_the_order_of_insertion() {
        let receive = |port, sequence| Event::Receive {
            port,
            sequence,
            frame: Vec::new(),
        };
        let events = || {
            vec![
                (Instant::from_micros(2), receive(1, 0)),
                (Instant::from_micros(1), Event::Serve(1)),
                (Instant::from_micros(1), receive(2, 0)),
                (Instant::from_micros(1), receive(1, 8)),
                (Instant::from_micros(1), receive(1, 7)),
            ]
        };
        let drain = |events: Vec<(Instant, Event)>| {
            let mut queue = EventQueue::new();
            for (at, event) in events {
                queue.push(at, event.rank(), event);
            }
            let all = std::iter::from_fn(|| queue.pop_due(Instant::FAR_FUTURE));
            all.map(|(at, event)| format!("{} {event:?}", at.as_micros()))
                .collect::<Vec<_>>()
        };
        let forward = drain(events());
        let mut reversed = events();
        reversed.reverse();
        assert_eq!(forward, drain(reversed));
        assert!(forward[0].contains("port: 1, sequence: 7"), "{forward:?}");
        assert!(forward[3].contains("Serve"), "{forward:?}");
    }
}
