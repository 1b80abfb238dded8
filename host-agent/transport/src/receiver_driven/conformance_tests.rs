//! Runs that every receiver-driven transport has to end alike: losses, crowds and vanished peers.
//!
//! Differences between the transports are in a [`Case`]; runs that only one of them can do are in its
//! own folder.

use std::net::SocketAddrV4;
use std::sync::Arc;

use ebb_nic::DscpSet;
use ebb_units::{Duration, Instant};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::SendRequest;
use crate::ndp::{NdpHost, NdpParams};
use crate::object::GeneratedSource;
use crate::record::{Role, Status};
use crate::scdp::{ScdpHost, ScdpParams};
use crate::testing::{Fate, Network, PORT, PortParams, address};

/// Payload of a full packet.
const SYMBOL: u64 = 1432;
/// Packets that may be under way unasked.
const WINDOW: u64 = 12;

/// One transport, and what its runs may cost.
struct Case {
    name: &'static str,
    /// So many hosts around one switch, with default parameters.
    network: fn(usize) -> Network,
    /// Packets of the object in the run with all kinds of damage.
    mixture_packets: u64,
    /// Packets that an object of one block takes beyond those lost, if any was lost.
    overhead: u64,
    /// Packets that a lost first window may cost.
    lost_window_packets: u64,
    /// When the last of eight flows of 100 KB has to have arrived, from the start of the run.
    incast_ns: u64,
    /// Jain's index of five flows to one receiver, at least.
    fairness: f64,
    /// Least goodput of all together over a link of 1 Gbit/s.
    goodput_bps: f64,
    /// When a flow whose receiver has vanished is forgotten everywhere.
    forgotten_us: u64,
}

const CASES: [Case; 2] = [
    Case {
        name: "ndp",
        network: |hosts| {
            Network::new(hosts, PortParams::default(), |config| {
                NdpHost::new(config, NdpParams::default())
            })
        },
        mixture_packets: 150,
        overhead: 0,
        lost_window_packets: WINDOW + 1,
        // 8 * 100 KB are 6.4 ms of payload; trimmed headers and the first window cost some.
        incast_ns: 7_800_000,
        fairness: 0.99,
        goodput_bps: 0.90e9,
        forgotten_us: 4_800_000,
    },
    Case {
        name: "scdp",
        network: |hosts| {
            Network::new(hosts, PortParams::default(), |config| {
                ScdpHost::new(config, ScdpParams::default())
            })
        },
        mixture_packets: 250,
        overhead: 2,
        // The eleven that the receiver never heard of, the probe, and the overhead.
        lost_window_packets: WINDOW + 2 + 2,
        incast_ns: 8_000_000,
        // Whole blocks are delivered.
        fairness: 0.98,
        goodput_bps: 0.85e9,
        forgotten_us: 4_900_000,
    },
];

#[test]
fn a_wholly_lost_window_is_recovered() {
    for case in CASES {
        let mut net = (case.network)(2);
        net.fate = Box::new(|n, _| Fate::Drop.when(n < WINDOW));
        net.send(0, 1, 100 * SYMBOL);
        net.run();
        let (sent, _) = net.pair(0, 1);
        let packets = sent.counters.packets_sent;
        let most = 100 + case.lost_window_packets;
        assert!(packets <= most, "{}: {packets} packets", case.name);
    }
}

/// Packets that keep arriving must not hide that the rest of the window is lost for good.
#[test]
fn a_window_of_which_one_packet_or_none_survives_grows_back() {
    for case in CASES {
        let finished = [0, WINDOW - 1, WINDOW].map(|lost| {
            let mut net = (case.network)(2);
            let mut data = 0;
            net.fate = Box::new(move |_, header| {
                data += u64::from(header.packet_type.carries_payload());
                let hit = (500..500 + lost).contains(&data);
                Fate::Drop.when(hit && header.packet_type.carries_payload())
            });
            net.send(0, 1, 4000 * SYMBOL);
            net.run();
            net.pair(0, 1).1.finished_at_ns
        });
        let more_ns = finished.map(|lossy_ns| lossy_ns - finished[0]);
        // Two timeouts of 10 ms, or one, and the time of what was lost.
        let most = [0, 22_000_000, 12_000_000];
        let within = more_ns.iter().zip(most).all(|(&more, most)| more <= most);
        assert!(within, "{}: {more_ns:?} ns more", case.name);
    }
}

#[test]
fn any_mixture_of_loss_trims_duplicates_and_reordering_ends_well() {
    for case in CASES {
        for seed in 0..30 {
            let mut rng = SmallRng::seed_from_u64(seed);
            let mut net = (case.network)(2);
            net.fate = Box::new(move |_, header| match rng.random_range(0..100) {
                0..3 => Fate::Drop,
                3..8 if header.packet_type.carries_payload() => Fate::Trim,
                8..12 => Fate::Duplicate,
                12..30 => Fate::Late(Duration::from_micros(rng.random_range(1..300))),
                _ => Fate::Pass,
            });
            net.send(0, 1, case.mixture_packets * SYMBOL + seed);
            net.run();
            net.pair(0, 1);
            assert_eq!(net.records.len(), 2, "{}, seed {seed}", case.name);
        }
    }
}

#[test]
fn an_incast_of_eight_has_no_timeout_and_loses_nothing() {
    for case in CASES {
        let name = case.name;
        let mut net = (case.network)(9);
        for sender in 0..8 {
            net.send(sender, 8, 100_000);
        }
        net.run();
        let trims = net.ports[8].trims;
        assert!(trims > 50, "{name}: {trims} trims: no incast");
        assert_eq!(net.ports[8].drops, 0, "{name}");
        let mut last = 0;
        for sender in 0..8 {
            let (sent, received) = net.pair(sender, 8);
            let timeouts = (sent.counters.timeouts, received.counters.timeouts);
            assert_eq!(timeouts, (0, 0), "{name}");
            let trimmed = received.counters.trimmed;
            let overhead = if trimmed > 0 { case.overhead } else { 0 };
            let packets = 70 + trimmed + overhead;
            assert_eq!(sent.counters.packets_sent, packets, "{name}");
            last = last.max(received.finished_at_ns);
        }
        assert!(last < case.incast_ns, "{name}: {last}");
    }
}

#[test]
fn flows_to_one_receiver_share_its_link_fairly() {
    for case in CASES {
        let name = case.name;
        let mut net = (case.network)(6);
        for sender in 0..5 {
            net.send(sender, 5, 4_000_000);
        }
        net.run_until(Instant::from_micros(50_000));
        let bytes: Vec<f64> = net.delivered.values().map(|b| b.len() as f64).collect();
        let sum: f64 = bytes.iter().sum();
        let jain = sum * sum / (bytes.len() as f64 * bytes.iter().map(|b| b * b).sum::<f64>());
        assert_eq!(bytes.len(), 5, "{name}");
        assert!(jain > case.fairness, "{name}: {jain} {bytes:?}");
        assert!(sum * 8.0 / 0.05 > case.goodput_bps, "{name}: {sum}");
    }
}

#[test]
fn a_peer_that_vanishes_gives_a_failed_record_on_the_other_side() {
    for case in CASES {
        for (vanishes, role) in [(1, Role::Sender), (0, Role::Receiver)] {
            let name = case.name;
            let mut net = (case.network)(2);
            net.send(0, 1, 1_000_000);
            net.run_until(Instant::from_micros(2_000));
            net.unplug(vanishes);
            net.run();
            // Both give up after `give_up_ns`, and forget the flow soon after.
            assert_eq!(net.records.len(), 2, "{name}");
            let of_role = net.records.iter().find(|(_, _, r)| r.role == role);
            let (_, _, record) = of_role.unwrap();
            assert!(
                matches!(&record.status, Status::Failed(why) if why.contains("silent")),
                "{name}: {record:#?}"
            );
            assert!(record.duration_ns < 4_100_000_000, "{name}: {record:#?}");
            let latest = Instant::from_micros(case.forgotten_us);
            assert!(net.now < latest, "{name}: {:?}", net.now);
            assert!(!net.transport(0).is_active() && !net.transport(1).is_active());
        }
    }
}

#[test]
fn a_class_that_is_not_wanted_keeps_its_packets_and_hinders_nobody() {
    let dscp = crate::DscpParams::default();
    let (data, control) = (
        DscpSet::NONE.with(dscp.trimmable),
        DscpSet::NONE.with(dscp.control),
    );
    let now = Instant::from_micros(1);
    let mut packet = Vec::new();
    for case in CASES {
        let mut net = (case.network)(2);
        let mut window = Vec::new();
        net.transport(0).send(now, request(1)).unwrap();
        while net.transport(0).poll_transmit(now, &mut packet).is_some() {
            window.push(packet.clone());
        }
        // A host that has pulls to send, and data of a flow of its own.
        let host = net.transport(1);
        host.send(now, request(0)).unwrap();
        for packet in &window {
            host.handle_packet(now, packet);
        }
        let mut poll = |wanted| {
            host.poll_transmit_of(now, wanted, &mut packet)?;
            Some(packet[1] >> 2)
        };
        assert_eq!(poll(DscpSet::NONE), None, "{}", case.name);
        for (wanted, expected) in [(data, dscp.trimmable), (control, dscp.control)] {
            let mut seen = 0;
            while let Some(found) = poll(wanted) {
                assert_eq!(found, expected, "{}", case.name);
                seen += 1;
            }
            assert!(seen > 0, "{}: nothing of DSCP {expected}", case.name);
        }
        assert_eq!(poll(DscpSet::ALL), None, "{}", case.name);
    }
}

/// To send 100 packets to a host.
fn request(to: usize) -> SendRequest {
    SendRequest {
        to: SocketAddrV4::new(address(to), PORT),
        source_port: None,
        source: Arc::new(GeneratedSource {
            seed: 1,
            bytes: 100 * SYMBOL,
        }),
        priority: 0,
        part: None,
        via: crate::Via::Any,
    }
}
