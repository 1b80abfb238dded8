//! One-to-many: host 0 sends to all others at once.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ebb_units::{Duration, Instant};
use ebb_wire::EbbFlags;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::testing::{self, MODES, SYMBOL, any_time, carries_payload, params_of};
use super::*;
use crate::record::{GroupSummary, Status};
use crate::testing::{Fate, Network, address};

const POLICIES: [Stragglers; 3] = [Stragglers::Wait, Stragglers::Drop, Stragglers::Unsubscribe];

fn network_of(hosts: usize, mode: Mode, stragglers: Stragglers) -> Network {
    let params = TreviParams {
        stragglers,
        ..params_of(mode, 500_000_000)
    };
    testing::network_of(hosts, params)
}

fn network(hosts: usize, mode: Mode) -> Network {
    network_of(hosts, mode, Stragglers::default())
}

fn assert_all_is_forgotten(net: &mut Network, hosts: usize) {
    assert!((0..hosts).all(|host| !net.transport(host).is_active()));
}

#[test]
fn a_symbol_is_sent_once_for_all_receivers() {
    for mode in MODES {
        for packets in [1, 40, 1200] {
            let mut net = network(4, mode);
            net.send_to_all(packets * SYMBOL - 5);
            net.run();
            let sent = net.group_record();
            assert_eq!(sent.status, Status::Finished, "{mode:?}");
            assert_eq!(sent.group.unwrap().receivers_finished, 3);
            let blocks = packets.div_ceil(500);
            // Symbols that one receiver takes, and in modes that push those under way when a block ends.
            let under_way = match mode {
                Mode::Push => 60,
                Mode::ConstantRate | Mode::Hybrid => 8,
                Mode::Pull => 1,
            };
            let one = packets + packets / 8 + 4 * blocks;
            let most = one + under_way * blocks;
            let count = sent.counters.packets_sent;
            assert!(
                count <= most,
                "{mode:?}, {packets}: {count}, at most {most}"
            );
            net.receivers(1..4);
            assert_all_is_forgotten(&mut net, 4);
            assert_eq!(net.records.len(), 4, "{mode:?}");
        }
    }
}

#[test]
fn packets_of_a_group_say_so_and_labels_of_all_come_back() {
    let mut net = network(4, Mode::Pull);
    net.send_to_all(300 * SYMBOL);
    net.run();
    let mut asked: BTreeMap<u32, Ipv4Addr> = BTreeMap::new();
    let mut echoed: BTreeMap<Ipv4Addr, u32> = BTreeMap::new();
    for (_, src, header) in &net.log {
        if header.packet_type == PacketType::Request && header.pull > 0 {
            asked.insert(header.pull, *src);
        } else if header.packet_type == PacketType::Coded {
            assert!(header.flags.contains(EbbFlags::MULTICAST));
            if let Some(of) = asked.get(&header.pull) {
                *echoed.entry(*of).or_default() += 1;
            }
        }
    }
    let counts: Vec<u32> = echoed.values().copied().collect();
    assert_eq!(counts.len(), 3);
    assert!(counts.iter().all(|count| *count > 90), "{counts:?}");
}

#[test]
fn the_slowest_receiver_sets_the_pace_of_requests() {
    // Host 3 loses a third of what comes, so that its window is small.
    let time = |stragglers| {
        let mut net = network_of(4, Mode::Pull, stragglers);
        let mut rng = SmallRng::seed_from_u64(1);
        net.fate_to = Box::new(move |host, header| {
            let lost = host == 3 && carries_payload(header) && rng.random_range(0..3) == 0;
            Fate::Drop.when(lost)
        });
        net.send_to_all(2_000_000);
        net.run();
        let others = net.receivers(1..3);
        others.iter().map(|r| r.duration_ns).max().unwrap()
    };
    let (held_back, free) = (time(Stragglers::Wait), time(Stragglers::Unsubscribe));
    // Alone they would have it in 20 ms.
    assert!(held_back > 2 * free, "{held_back} {free}");
    assert!(free < 60_000_000, "{free}");
}

#[test]
fn any_mixture_of_loss_duplicates_and_reordering_gives_all_the_same_bytes() {
    for mode in MODES {
        for seed in 0..u64::from(ebb_testkit::cases(3)) {
            let stragglers = POLICIES[seed as usize % 2];
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut net = network_of(4, mode, stragglers);
            net.fate_to = Box::new(move |_, _| match rng.random_range(0..100) {
                0..8 => Fate::Drop,
                8..12 => Fate::Duplicate,
                12..35 => Fate::Late(Duration::from_micros(rng.random_range(1..300))),
                _ => Fate::Pass,
            });
            net.job_takes = any_time(seed);
            net.send_to_all(1100 * SYMBOL + seed);
            net.run();
            net.receivers(1..4);
            let status = net.group_record().status;
            assert_eq!(status, Status::Finished, "{mode:?}, seed {seed}");
            assert_eq!(
                net.delivered.len(),
                3,
                "{mode:?}, seed {seed}: opened twice"
            );
            assert_all_is_forgotten(&mut net, 4);
        }
    }
}

#[test]
fn a_lost_stop_of_one_receiver_is_repeated_and_the_others_answer_no_symbols() {
    for mode in MODES {
        let mut net = network(4, mode);
        let mut left = 4;
        net.fate = Box::new(move |_, header| {
            let last =
                header.packet_type == PacketType::Stop && header.flags.contains(EbbFlags::FIN);
            if last && left > 0 {
                left -= 1;
                return Fate::Drop;
            }
            Fate::Pass
        });
        net.send_to_all(200 * SYMBOL);
        net.run();
        net.receivers(1..4);
        assert_eq!(net.group_record().status, Status::Finished, "{mode:?}");
        assert_all_is_forgotten(&mut net, 4);
        let stops = net
            .log
            .iter()
            .filter(|(_, _, h)| h.packet_type == PacketType::Stop);
        assert!(stops.count() < 25, "{mode:?}");
    }
}

/// Host 3 is dead from the start. The others have everything, whatever the policy; how long they wait
/// for it is the policy.
#[test]
fn a_dead_replica_is_tolerated() {
    for mode in MODES {
        for policy in POLICIES {
            let mut net = network_of(4, mode, policy);
            net.unplug(3);
            net.send_to_all(1200 * SYMBOL);
            net.run();
            let received = net.receivers(1..3);
            let slowest = received.iter().map(|r| r.duration_ns).max().unwrap();
            // In hybrid mode requests are answered at once.
            let waits = policy == Stragglers::Wait && mode != Mode::Hybrid;
            // Four seconds pass until a silent peer is given up.
            if waits {
                assert!(slowest > 3_900_000_000, "{mode:?}, {policy:?}: {slowest}");
            } else {
                assert!(slowest < 120_000_000, "{mode:?}, {policy:?}: {slowest}");
            }
            let sent = net.group_record();
            let summary = sent.group.unwrap();
            assert_eq!(summary.receivers_finished, 2, "{mode:?}, {policy:?}");
            match policy {
                Stragglers::Drop => {
                    assert_eq!(summary.receivers_detached, 1);
                    assert_eq!(sent.status, Status::Finished);
                    let of_it = net.records.iter().find(|(_, f, _)| *f == net.detached[0].0);
                    let status = &of_it.unwrap().2.status;
                    assert!(matches!(status, Status::Failed(_)), "{status:?}");
                }
                _ => {
                    let named = address(3).to_string();
                    assert!(
                        matches!(&sent.status, Status::Failed(why) if why.contains(&named)),
                        "{mode:?}, {policy:?}: {:?}",
                        sent.status
                    );
                }
            }
            assert_all_is_forgotten(&mut net, 3);
        }
    }
}

/// Nobody asks for a block after the last one, so that who dies there is behind in no block. `dead`: whether
/// they die when their first symbols have come, or were dead before. Most time that the write takes, in ms.
fn who_dies_in_the_last_block_is_a_straggler(
    packets: u64,
    dead: &[usize],
    before: bool,
    most: u64,
) {
    for mode in MODES {
        let mut net = network(5, mode);
        let die = |net: &mut Network| dead.iter().for_each(|host| net.unplug(*host));
        if before {
            die(&mut net);
        }
        net.send_to_all(packets * SYMBOL);
        net.run_until(Instant::from_micros(1_000));
        die(&mut net);
        net.run();
        let gone = dead.len();
        net.receivers(1..5 - gone);
        let sent = net.group_record();
        assert_eq!(sent.status, Status::Finished, "{mode:?}");
        let summary = GroupSummary {
            receivers: 4,
            receivers_finished: 4 - gone as u32,
            receivers_detached: gone as u32,
        };
        assert_eq!(sent.group, Some(summary), "{mode:?}");
        let took = sent.duration_ns;
        assert!(took < most * 1_000_000, "{mode:?}: {took}");
        // The end of each is in a record of its own.
        assert_eq!(net.detached.len(), gone, "{mode:?}");
        for (flow, peer) in &net.detached {
            let of_it = net.records.iter().find(|(_, f, _)| f == flow).unwrap();
            assert!(
                matches!(of_it.2.status, Status::Failed(_)),
                "{mode:?}: {peer}"
            );
        }
        assert_all_is_forgotten(&mut net, 5 - gone);
    }
}

#[test]
fn one_that_dies_in_the_last_block_is_a_straggler_in_time() {
    // 400 symbols take 10 ms at 500 Mbit/s.
    who_dies_in_the_last_block_is_a_straggler(400, &[4], false, 50);
}

#[test]
fn one_that_was_dead_before_an_object_of_less_than_the_initial_window_is_a_straggler() {
    who_dies_in_the_last_block_is_a_straggler(40, &[4], true, 30);
}

/// Each of them is not the only one who is left. They are asked first, after 10 ms.
#[test]
fn two_that_die_in_the_last_block_are_stragglers() {
    who_dies_in_the_last_block_is_a_straggler(400, &[3, 4], false, 60);
}

/// Symbols for one receiver go nowhere else: whoever is slow while all others are done has a session of its own.
#[test]
fn one_that_is_slow_in_the_last_block_finishes_alone() {
    for mode in MODES {
        let mut net = network(4, mode);
        let mut rng = SmallRng::seed_from_u64(5);
        net.fate_to = Box::new(move |host, header| {
            let lost = host == 3 && carries_payload(header) && rng.random_range(0..100) < 90;
            Fate::Drop.when(lost)
        });
        net.send_to_all(400 * SYMBOL);
        net.run();
        let received = net.receivers(1..4);
        let others = received[..2].iter().map(|r| r.duration_ns).max().unwrap();
        let sent = net.group_record();
        assert_eq!(sent.status, Status::Finished, "{mode:?}");
        assert_eq!(sent.group.unwrap().receivers_detached, 1, "{mode:?}");
        // The time for which the others wait, and a packet's way.
        let most = others + 21_000_000;
        assert!(
            sent.duration_ns < most,
            "{mode:?}: {}, at most {most}",
            sent.duration_ns
        );
        assert_all_is_forgotten(&mut net, 4);
    }
}

/// A receiver that has everything and checks it for longer than a straggler is waited for is none: it answers.
#[test]
fn one_that_checks_what_it_has_is_no_straggler_while_it_answers() {
    for dies in [false, true] {
        for mode in MODES {
            let mut net = network(4, mode);
            net.tell(3, |transport, _| transport.hold_confirmations());
            net.send_to_all(200 * SYMBOL);
            net.run_until(Instant::from_micros(500_000));
            if dies {
                net.unplug(3);
            } else {
                let flow = net.records.iter().find(|(host, ..)| *host == 3).unwrap().1;
                net.tell(3, |transport, now| transport.confirm(now, flow));
            }
            net.run();
            let sent = net.group_record();
            assert_eq!(sent.status, Status::Finished, "{mode:?}");
            let ends = sent
                .group
                .map(|g| (g.receivers_finished, g.receivers_detached));
            let expected = if dies { (2, 1) } else { (3, 0) };
            assert_eq!(ends, Some(expected), "{mode:?}, dies: {dies}");
            assert!(
                sent.duration_ns < 700_000_000,
                "{mode:?}: {}",
                sent.duration_ns
            );
        }
    }
}

/// Nobody who has not said anything gets more than the initial window: not a group one of whose
/// receivers is dead, and not that receiver once it is alone.
#[test]
fn who_never_answers_gets_the_initial_window() {
    for mode in MODES {
        let mut net = network(4, mode);
        let mut to_dead = 0;
        net.unplug(3);
        let seen = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = seen.clone();
        net.fate_to = Box::new(move |host, header| {
            if host == 3 && carries_payload(header) && !header.flags.contains(EbbFlags::MULTICAST) {
                to_dead += 1;
                count.set(to_dead);
            }
            Fate::Pass
        });
        net.send_to_all(2000 * SYMBOL);
        net.run();
        assert_eq!(seen.get(), 0, "{mode:?}");
    }
    for mode in [Mode::ConstantRate, Mode::Push, Mode::Hybrid] {
        let mut net = network(4, mode);
        (1..4).for_each(|host| net.unplug(host));
        net.send_to_all(2000 * SYMBOL);
        net.run();
        let symbols = net
            .log
            .iter()
            .filter(|(_, _, h)| carries_payload(h))
            .count();
        assert_eq!(symbols, 64, "{mode:?}");
    }
}

#[test]
fn a_straggler_is_detached_and_finishes_alone() {
    for mode in [Mode::Pull, Mode::Push] {
        let mut net = network(4, mode);
        // Host 3 loses everything for a while.
        let mut copies = 0;
        net.fate_to = Box::new(move |host, header| {
            copies += u32::from(host == 3 && carries_payload(header));
            // Packets to it alone pass.
            let lost = host == 3 && copies > 150 && header.flags.contains(EbbFlags::MULTICAST);
            Fate::Drop.when(lost)
        });
        net.send_to_all(3000 * SYMBOL);
        net.run();
        net.receivers(1..4);
        let sent = net.group_record();
        assert_eq!(sent.status, Status::Finished, "{mode:?}");
        let summary = GroupSummary {
            receivers: 3,
            receivers_finished: 2,
            receivers_detached: 1,
        };
        assert_eq!(sent.group, Some(summary), "{mode:?}");
        assert_eq!(*net.detached[0].1.ip(), address(3), "{mode:?}");
        assert_all_is_forgotten(&mut net, 4);
    }
}

/// A receiver that is not done in time is left without the object, in whatever block it is late. Modes that
/// push wait for it once for 20 ms, at the end of the block that it lacks; the others answer whoever asks.
#[test]
fn who_is_late_is_left_if_it_is_to_unsubscribe() {
    for (mode, packets, most_ms) in [
        (Mode::Pull, 400, 15),
        (Mode::Pull, 1000, 30),
        (Mode::Push, 400, 15),
        (Mode::Push, 1000, 45),
        (Mode::ConstantRate, 400, 15),
        (Mode::ConstantRate, 1000, 60),
        (Mode::Hybrid, 400, 15),
        (Mode::Hybrid, 1000, 35),
    ] {
        let mut net = network_of(4, mode, Stragglers::Unsubscribe);
        let mut rng = SmallRng::seed_from_u64(3);
        net.fate_to = Box::new(move |host, header| {
            let lost = host == 3 && carries_payload(header) && rng.random_range(0..100) < 95;
            Fate::Drop.when(lost)
        });
        net.send_to_all(packets * SYMBOL);
        net.run();
        let received = net.receivers(1..3);
        let slowest = received.iter().map(|r| r.duration_ns).max().unwrap();
        assert!(
            slowest < most_ms * 1_000_000,
            "{mode:?}, {packets}: {slowest}"
        );
        let sent = net.group_record();
        let summary = GroupSummary {
            receivers: 3,
            receivers_finished: 2,
            receivers_detached: 0,
        };
        assert_eq!(sent.group, Some(summary), "{mode:?}, {packets}");
        let named = address(3).to_string();
        let why = format!("{:?}", sent.status);
        assert!(
            why.contains(&named) && why.contains("behind all others"),
            "{mode:?}, {packets}: {why}"
        );
        let late = net.records.iter().find(|(host, ..)| *host == 3).unwrap();
        let status = &late.2.status;
        assert!(
            matches!(status, Status::Failed(_)),
            "{mode:?}, {packets}: {status:?}"
        );
        assert!(net.detached.is_empty(), "{mode:?}, {packets}");
        assert_all_is_forgotten(&mut net, 4);
    }
}

#[test]
fn a_receiver_that_refuses_leaves_and_the_others_go_on() {
    for mode in MODES {
        let mut net = network(4, mode);
        net.refuse_content_at = Some(2);
        for host in 1..4 {
            net.tell(host, |transport, _| transport.hold_confirmations());
        }
        net.send_to_all(200 * SYMBOL);
        net.run_until(Instant::from_micros(200_000));
        for host in [1, 3] {
            let own = net.records.iter().find(|(at, ..)| *at == host);
            let flow = own.unwrap().1;
            net.tell(host, |transport, now| transport.confirm(now, flow));
        }
        net.run();
        let sent = net.group_record();
        let refused = address(2).to_string();
        let why = format!("{:?}", sent.status);
        assert!(
            why.contains(&refused) && why.contains("aborted"),
            "{mode:?}: {why}"
        );
        assert_eq!(sent.group.unwrap().receivers_finished, 2, "{mode:?}");
        assert_all_is_forgotten(&mut net, 4);
    }
}

#[test]
fn a_paused_receiver_holds_the_group_for_the_timeout_and_finishes_later() {
    for mode in MODES {
        let mut net = network(4, mode);
        net.send_to_all(1450 * SYMBOL);
        net.run_until(Instant::from_micros(4_000));
        let (_, flow) = *net.delivered.keys().find(|(host, _)| *host == 2).unwrap();
        net.tell(2, |transport, now| transport.set_paused(now, flow, true));
        net.run_until(Instant::from_micros(1_000_000));
        let done: Vec<usize> = net.records.iter().map(|(host, ..)| *host).collect();
        assert!(done.contains(&1) && done.contains(&3), "{mode:?}: {done:?}");
        net.tell(2, |transport, now| transport.set_paused(now, flow, false));
        net.run();
        net.receivers(1..4);
        assert_all_is_forgotten(&mut net, 4);
    }
}
