//! Return-to-sender: a hint that a symbol is lost.

use ebb_wire::PacketType;

use super::{ScdpHost, ScdpParams};
use crate::testing::{Fate, Network, PortParams};

const SYMBOL: u64 = 1432;
const WINDOW: u64 = 12;

fn network(hosts: usize, control_packets: usize) -> Network {
    let port = PortParams {
        control_packets,
        return_to_sender: true,
        ..PortParams::default()
    };
    Network::new(hosts, port, |config| {
        ScdpHost::new(config, ScdpParams::default())
    })
}

/// The symbols of `lost` come back, once each.
fn returning(lost: &'static [u32]) -> Network {
    let mut net = network(2, 1000);
    let mut seen = std::collections::BTreeSet::new();
    net.fate = Box::new(move |_, header| {
        let symbol = header.packet_type == PacketType::Symbol;
        Fate::Return.when(
            symbol && lost.contains(&header.symbol) && seen.insert((header.block, header.symbol)),
        )
    });
    net
}

#[test]
fn what_came_back_is_sent_again_and_nothing_is_decoded() {
    for (packets, lost) in [(8, &[0, 3][..]), (12, &[11]), (80, &[2, 5, 6]), (80, &[79])] {
        let mut net = returning(lost);
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        let returned = lost.len() as u64;
        assert_eq!(sent.counters.returned, returned);
        assert_eq!(sent.counters.packets_sent, packets + returned);
        assert_eq!(
            (sent.counters.repair_symbols, received.counters.decodes),
            (0, 0)
        );
        assert_eq!(received.counters.pulls_sent, packets.saturating_sub(WINDOW));
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
    }
}

#[test]
fn a_network_that_returns_everything_is_not_flooded() {
    for packets in [1, 12, 500] {
        let mut net = network(2, 1000);
        net.fate = Box::new(|_, header| match header.packet_type {
            PacketType::Symbol => Fate::Return,
            _ => Fate::Pass,
        });
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let [(0, _, record)] = &net.records[..] else {
            panic!("{:#?}", net.records)
        };
        let probes: u64 = (1..=8).sum();
        let sent = record.counters.packets_sent;
        assert!(sent <= 2 * packets.min(WINDOW) + probes, "{sent}");
    }
}

#[test]
fn an_incast_that_overflows_the_control_queue_ends_well() {
    let senders = 40;
    let mut net = network(senders + 1, 40);
    for sender in 0..senders {
        net.send(sender, senders, 100_000);
    }
    net.run();
    assert!(net.ports[senders].returns > 50);
    assert_eq!(net.ports.iter().map(|p| p.drops).sum::<u64>(), 0);
    for sender in 0..senders {
        net.pair(sender, senders);
    }
}
