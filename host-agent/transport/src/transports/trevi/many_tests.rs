//! Many-to-one: host 0 receives from all others at once, each with symbols of its own.

use std::collections::BTreeSet;

use ebb_units::{Duration, Instant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::testing::*;
use super::*;
use crate::record::{FlowRecord, Role, Status};
use crate::testing::{Fate, Network, PORT, SESSION, address, ebb_packet};

fn network(hosts: usize, mode: Mode) -> Network {
    network_of(hosts, params_of(mode, 300_000_000))
}

/// The one record at the receiver, with the right bytes.
fn received(net: &Network) -> FlowRecord {
    let mut own = net.records.iter().filter(|(host, ..)| *host == 0);
    let (_, _, record) = own.next().expect("no record at the receiver");
    assert!(own.next().is_none(), "{:#?}", net.records);
    assert_eq!(record.status, Status::Finished, "{record:#?}");
    let first = (1..=15).find(|&i| address(i) == *record.peer.ip()).unwrap();
    net.finished(Role::Receiver, first, 0)
}

fn sent(net: &Network) -> u64 {
    let senders = net.records.iter().filter(|(host, ..)| *host != 0);
    senders.map(|(_, _, r)| r.counters.packets_sent).sum()
}

#[test]
fn any_symbol_of_any_sender_is_of_use_and_none_comes_twice() {
    for mode in MODES {
        for senders in [1, 3, 15] {
            let mut net = network(senders + 1, mode);
            let all: Vec<usize> = (1..=senders).collect();
            net.fetch(0, &all, 1200 * SYMBOL - 5);
            net.run();
            let record = received(&net);
            let mut names = BTreeSet::new();
            for (_, _, header) in net.log.iter().filter(|(_, _, h)| carries_payload(h)) {
                assert!(names.insert((header.block, header.sender, header.symbol)));
            }
            let of_use = record.counters.packets_received - record.counters.unneeded;
            assert!(
                (1200..1360).contains(&of_use),
                "{mode:?} {senders}: {of_use}"
            );
            if mode == Mode::Pull {
                // Each sender also asks once, without payload. Fifteen windows overflow the queue.
                let most = 1360 + 2 * senders as u64 + net.ports[0].drops;
                assert!(sent(&net) < most, "{} {most}", sent(&net));
            }
            for index in 1..=senders {
                let of_it = &net
                    .records
                    .iter()
                    .find(|(host, ..)| *host == index)
                    .unwrap()
                    .2;
                assert_eq!(of_it.status, Status::Finished, "{mode:?}");
            }
            assert!((0..=senders).all(|host| !net.transport(host).is_active()));
        }
    }
}

/// The rates of three senders add up, as far as the receiver's link goes (thesis: up to R times).
#[test]
fn three_senders_are_three_times_as_fast_as_one() {
    let time = |senders: usize| {
        let mut net = network(senders + 1, Mode::ConstantRate);
        let all: Vec<usize> = (1..=senders).collect();
        net.fetch(0, &all, 1500 * SYMBOL);
        net.run();
        received(&net).duration_ns as f64
    };
    let ratio = time(1) / time(3);
    assert!((2.7..3.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_slow_sender_slows_nobody() {
    let mut net = network(4, Mode::Pull);
    let mut rng = SmallRng::seed_from_u64(5);
    net.fate = Box::new(move |_, header| {
        let lost = carries_payload(header) && header.sender == 1 && rng.random_range(0..100) < 90;
        Fate::Drop.when(lost)
    });
    net.fetch(0, &[1, 2, 3], 2000 * SYMBOL);
    net.run();
    let record = received(&net);
    let packets: Vec<u64> = record.senders.iter().map(|s| s.packets_received).collect();
    assert!(packets[1] * 5 < packets[0].min(packets[2]), "{packets:?}");
    // 2200 symbols of 12 us are 27 ms.
    assert!(record.duration_ns < 40_000_000, "{}", record.duration_ns);
}

#[test]
fn dead_senders_are_done_without() {
    for mode in MODES {
        // One never begins, one goes while it sends.
        let mut net = network(4, mode);
        net.unplug(1);
        net.fetch(0, &[1, 2, 3], 1500 * SYMBOL);
        net.run_until(Instant::from_micros(3_000));
        net.unplug(2);
        net.run();
        let record = received(&net);
        assert!(
            record.duration_ns < 200_000_000,
            "{mode:?} {}",
            record.duration_ns
        );
        assert!(!net.transport(0).is_active() && !net.transport(3).is_active());
    }
}

#[test]
fn when_the_last_sender_is_lost_the_flow_fails_and_says_so() {
    for mode in MODES {
        let mut net = network(3, mode);
        net.fetch(0, &[1, 2], 3000 * SYMBOL);
        net.run_until(Instant::from_micros(3_000));
        net.unplug(1);
        net.unplug(2);
        net.run();
        let own = net.records.iter().find(|(host, ..)| *host == 0);
        let why = format!("{:?}", own.unwrap().2.status);
        assert!(
            why.contains("none of 2 senders is left") && why.contains("silent"),
            "{why}"
        );
        assert!(!net.transport(0).is_active());
    }
}

#[test]
fn a_lost_stop_is_repeated_to_each_sender_until_it_knows() {
    for mode in MODES {
        let mut net = network(4, mode);
        let mut left = 5;
        net.fate = Box::new(move |_, header| {
            if is_last_stop(header) && left > 0 {
                left -= 1;
                return Fate::Drop;
            }
            Fate::Pass
        });
        net.fetch(0, &[1, 2, 3], 300 * SYMBOL);
        net.run();
        received(&net);
        for host in 1..4 {
            let of_it = &net.records.iter().find(|(at, ..)| *at == host).unwrap().2;
            assert_eq!(of_it.status, Status::Finished, "{mode:?}");
        }
        assert!(
            (0..4).all(|host| !net.transport(host).is_active()),
            "{mode:?}"
        );
    }
}

/// A sender that comes when everything is there, or long after, hears that.
#[test]
fn a_late_sender_is_told_to_stop() {
    for late_us in [20_000, 60_000, 300_000] {
        let mut net = network(3, Mode::Pull);
        net.expect(0, &[1, 2]);
        net.send_part(0, &[1, 2], 0, 500 * SYMBOL);
        net.run_until(Instant::from_micros(late_us));
        net.send_part(0, &[1, 2], 1, 500 * SYMBOL);
        net.run();
        received(&net);
        let second = &net.records.iter().find(|(host, ..)| *host == 2).unwrap().2;
        assert_eq!(second.status, Status::Finished, "{late_us}");
        assert!((0..3).all(|host| !net.transport(host).is_active()));
    }
}

#[test]
fn symbols_that_come_after_their_requests_expired_are_used() {
    let mut net = network(3, Mode::Pull);
    net.fate = Box::new(|n, header| match carries_payload(header) && n % 3 == 0 {
        true => Fate::Late(Duration::from_millis(3)),
        false => Fate::Pass,
    });
    net.fetch(0, &[1, 2], 400 * SYMBOL);
    net.run();
    let record = received(&net);
    let useless = record.counters.unneeded;
    // Late ones were asked for again: what is too much then is no more than was late at the end.
    assert!(useless < 150, "{useless}");
}

#[test]
fn any_mixture_of_loss_duplicates_and_reordering_ends_well() {
    for mode in MODES {
        for seed in 0..u64::from(ebb_testkit::cases(3)) {
            let mut net = network(4, mode);
            disturb(&mut net, seed);
            net.fetch(0, &[1, 2, 3], 1100 * SYMBOL + seed);
            net.run();
            received(&net);
            assert!(
                (0..4).all(|host| !net.transport(host).is_active()),
                "{mode:?} {seed}"
            );
        }
    }
}

#[test]
fn a_paused_reader_is_sent_nothing_until_it_goes_on() {
    for mode in MODES {
        let mut net = network(4, mode);
        let flow = net.fetch(0, &[1, 2, 3], 450 * SYMBOL);
        net.run_until(Instant::from_micros(1_500));
        net.tell(0, |transport, now| transport.set_paused(now, flow, true));
        net.run_until(Instant::from_micros(3_000));
        let count = |net: &Network| {
            net.log
                .iter()
                .filter(|(_, _, h)| carries_payload(h))
                .count()
        };
        let before = count(&net);
        net.run_until(Instant::from_micros(10_000_000));
        assert_eq!((count(&net), net.records.len()), (before, 0), "{mode:?}");
        net.tell(0, |transport, now| transport.set_paused(now, flow, false));
        net.run();
        received(&net);
    }
}

/// A packet that names another sender than it comes from, or another number of them, is no part of it.
#[test]
fn packets_of_other_places_are_refused() {
    let mut net = network(4, Mode::Pull);
    net.fetch(0, &[1, 2, 3], 400 * SYMBOL);
    net.run_until(Instant::from_micros(500));
    let find = net
        .log
        .iter()
        .find(|(_, _, h)| carries_payload(h) && h.sender == 0);
    let good = find.unwrap().2;
    for (sender, senders) in [(1, 3), (3, 3), (15, 3), (0, 2), (0, 15)] {
        let header = EbbHeader {
            sender,
            senders,
            symbol: 0xabcdef,
            ..good
        };
        let packet = ebb_packet(
            address(1),
            address(0),
            8,
            &header,
            &vec![7; SYMBOL as usize],
        );
        net.inject(0, &packet);
    }
    net.run();
    let record = received(&net);
    assert_eq!((record.session, record.senders.len()), (SESSION, 3));
    assert_eq!(good.destination_port, PORT);
}
