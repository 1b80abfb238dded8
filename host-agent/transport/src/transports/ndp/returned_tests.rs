//! Return-to-sender: headers that do not fit into the control queue either (section 3.2).

use ebb_units::Instant;
use ebb_wire::{EbbFlags, EbbHeader, PacketType};

use super::*;
use crate::record::{Role, Status};
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
        NdpHost::new(config, NdpParams::default())
    })
}

/// Two hosts; `fate` decides about DATA, with the flags of the header.
fn two(mut fate: impl FnMut(u32, EbbFlags) -> Fate + 'static) -> Network {
    let mut net = network(2, 1000);
    net.fate = Box::new(move |_, header| match header.packet_type {
        PacketType::Data => fate(header.symbol, header.flags),
        _ => Fate::Pass,
    });
    net
}

fn is_first(flags: EbbFlags) -> bool {
    !flags.contains(EbbFlags::RETRANSMIT)
}

fn sent_data(net: &Network) -> Vec<(Instant, EbbHeader)> {
    let data = |(at, _, header): &(Instant, _, EbbHeader)| (*at, *header);
    let log = net.log.iter().map(data);
    log.filter(|(_, h)| h.packet_type == PacketType::Data)
        .collect()
}

#[test]
fn with_more_pulls_to_come_what_came_back_waits_for_the_next() {
    let mut net = two(|symbol, flags| match symbol {
        3 | 5 if is_first(flags) => Fate::Return,
        _ => Fate::Pass,
    });
    net.send(0, 1, 400 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(sent.counters.returned, 2);
    assert_eq!(sent.counters.packets_sent, 402);
    assert_eq!(received.counters.pulls_sent, 400 - WINDOW);
    assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
    // The window is out first; what the first two pulls bring came back.
    let order: Vec<u32> = sent_data(&net).iter().map(|(_, h)| h.symbol).collect();
    assert_eq!(
        order[..17],
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 3, 5, 12, 13, 14]
    );
    // The window of 12 went down to 10 and has grown back: the last packets are sent in the time
    // of 12 to a round trip.
    let log = sent_data(&net);
    let span = |n: usize| log[n + 12].0.since(log[n].0);
    assert!(span(380) <= span(40));
}

#[test]
fn with_no_more_pulls_to_come_it_goes_again_at_once() {
    // Within the window nothing is ever pulled.
    let mut net = two(|symbol, flags| match symbol {
        0 | 4 | 7 if is_first(flags) => Fate::Return,
        _ => Fate::Pass,
    });
    net.send(0, 1, 8 * SYMBOL);
    net.run();
    let (sent, received) = net.pair(0, 1);
    assert_eq!(
        (sent.counters.returned, sent.counters.packets_sent),
        (3, 11)
    );
    assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
    assert_eq!(received.counters.pulls_sent, 0);
    // 8 packets and a round trip and a half: nobody waited.
    assert!(received.duration_ns < 200_000, "{}", received.duration_ns);
}

#[test]
fn a_window_that_came_back_whole_starts_again_with_one_packet() {
    for packets in [12, 13, 100] {
        let mut net = two(|_, flags| {
            let first = flags.contains(EbbFlags::SYN) && is_first(flags);
            Fate::Return.when(first)
        });
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let (sent, received) = net.pair(0, 1);
        assert_eq!(sent.counters.returned, WINDOW);
        assert_eq!(sent.counters.packets_sent, packets + WINDOW);
        assert_eq!((sent.counters.timeouts, received.counters.timeouts), (0, 0));
        let log = sent_data(&net);
        let (before, after) = (log[12].0.since(log[11].0), log[13].0.since(log[12].0));
        if packets > WINDOW {
            // To the switch and back before the first goes again, a round trip before the second.
            assert!(before.as_nanos() > 20_000 && after.as_nanos() > 40_000);
        }
    }
}

/// The network turns everything round for ever: no echo at the speed of the links.
#[test]
fn what_always_comes_back_is_sent_a_bounded_number_of_times() {
    for packets in [1, 12, 500] {
        let mut net = two(|_, _| Fate::Return);
        net.send(0, 1, packets * SYMBOL);
        net.run();
        let [(0, _, record)] = &net.records[..] else {
            panic!("{:#?}", net.records)
        };
        assert!(matches!(&record.status, Status::Failed(why) if why.contains("silent")));
        // At once as many as the window; then waits that double from 30 us to 10 ms; then timeouts.
        let most = 2 * packets.min(WINDOW) + 10 + u64::from(NdpParams::default().max_retries);
        let sent = record.counters.packets_sent;
        assert!(
            sent <= most,
            "{packets} packets: {sent} sent, at most {most}"
        );
        assert_eq!(record.counters.returned, sent);
        assert!(record.duration_ns < 4_200_000_000);
    }
}

#[test]
fn an_incast_that_overflows_the_control_queue_loses_nothing() {
    for bytes in [10_000, 100_000] {
        let senders = 60;
        let mut net = network(senders + 1, 40);
        for sender in 0..senders {
            net.send(sender, senders, bytes);
        }
        net.run();
        let port = &net.ports[senders];
        assert!(port.returns > 100, "{} returned", port.returns);
        assert_eq!(net.ports.iter().map(|p| p.drops).sum::<u64>(), 0);
        let (mut last, mut returned) = (0, 0);
        for sender in 0..senders {
            let (sent, received) = net.pair(sender, senders);
            let (s, r) = (sent.counters, received.counters);
            assert_eq!(
                s.packets_sent,
                bytes.div_ceil(SYMBOL) + r.trimmed + s.returned
            );
            assert_eq!(r.duplicates, 0);
            assert_eq!((s.timeouts, r.timeouts), (0, 0), "sender {sender}");
            last = last.max(received.finished_at_ns);
            returned += s.returned;
        }
        assert_eq!(returned, net.ports[senders].returns);
        // The link of the receiver is busy most of the time.
        let ideal = senders as u64 * bytes * 8;
        assert!(
            last < ideal * 14 / 10,
            "{bytes} bytes each: {last} of {ideal} ns"
        );
    }
}

#[test]
fn any_mixture_of_returns_trims_and_losses_ends_well() {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    for seed in 0..40 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut net = two(move |_, _| match rng.random_range(0..100) {
            0..20 => Fate::Return,
            20..30 => Fate::Trim,
            30..32 => Fate::Drop,
            32..34 => Fate::Duplicate,
            _ => Fate::Pass,
        });
        net.send(0, 1, 150 * SYMBOL + seed);
        net.run();
        let (sent, received) = net.pair(0, 1);
        assert!(sent.counters.returned > 5);
        let most = 151 + received.counters.trimmed + sent.counters.returned;
        let spare = sent.counters.packets_sent - most.min(sent.counters.packets_sent);
        // Only what was lost, or timed out, was sent besides.
        assert!(spare <= 15, "seed {seed}: {spare}");
        assert_eq!(
            net.records
                .iter()
                .filter(|(_, _, r)| r.role == Role::Receiver)
                .count(),
            1
        );
    }
}
