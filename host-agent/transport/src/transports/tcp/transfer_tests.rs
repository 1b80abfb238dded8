//! Whole transfers over the virtual network of `testing`.

use ebb_units::{BitRate, Duration, Instant};

use super::testing::{Fate, Link, Network};
use super::*;
use super::{DCTCP, RENO, RENO_ECN};

#[test]
fn a_clean_transfer_arrives_and_uses_the_link() {
    for algorithm in [RENO, RENO_ECN, DCTCP] {
        let mut net = Network::new(algorithm.clone(), TcpParams::default());
        net.transfer(3_000_000);
        net.run_and_check();
        let statistics = net.pairs[0].left.statistics();
        assert_eq!(statistics.sender.retransmitted, 0, "{algorithm:?}");
        assert_eq!(statistics.sender.timeouts, 0);
        // FIN rides on the last segment.
        assert_eq!(statistics.sender.packets, 3_000_000_u64.div_ceil(1460));
        // 3 MB take 24.9 ms with headers; handshake and slow start take a few round trips more.
        let sent = net.sent.last().unwrap().0;
        assert!(net.now > sent);
        let done = net
            .sent
            .iter()
            .rfind(|(_, s)| !s.payload.is_empty())
            .unwrap()
            .0;
        assert!(
            done < Instant::from_micros(26_000),
            "{algorithm:?} took until {done:?}"
        );
    }
}

#[test]
fn objects_of_every_small_size_arrive() {
    for bytes in [0, 1, 1459, 1460, 1461, 2920, 14_600, 14_601] {
        let mut net = Network::new(RENO, TcpParams::default());
        net.transfer(bytes);
        net.run_and_check();
        assert_eq!(
            net.pairs[0].left.statistics().sender.timeouts,
            0,
            "{bytes} bytes"
        );
    }
}

#[test]
fn exact_bytes_under_random_loss() {
    for (percent, sack, timestamps) in [
        (1, true, false),
        (5, true, true),
        (5, false, false),
        (20, true, false),
        (20, false, true),
    ] {
        for seed in 0..8 {
            // Enough attempts that 20 % loss each way is survived.
            let params = TcpParams {
                sack,
                timestamps,
                max_retries: 30,
                idle_timeout_ns: 20_000_000_000,
                ..TcpParams::default()
            };
            let mut net = Network::new(DCTCP, params);
            let loss = f64::from(percent) / 100.0;
            let rate = BitRate::from_mbps(1000);
            net.forward = Link::new(rate, Duration::from_micros(20)).lossy(loss, seed);
            net.backward = Link::new(rate, Duration::from_micros(20)).lossy(loss, seed + 100);
            net.transfer(300_000);
            net.run();
            assert!(
                net.pairs[0].received == net.pairs[0].expected,
                "{percent} % loss, sack {sack}, seed {seed}: {:?}",
                net.pairs[0].left.failure()
            );
        }
    }
}

#[test]
fn reordering_and_duplication_do_no_harm() {
    let mut net = Network::new(RENO, TcpParams::default());
    net.forward.fate = Box::new(|n, _| match n % 11 {
        3 => Fate::Late(Duration::from_micros(15)),
        7 => Fate::Duplicate,
        _ => Fate::Pass,
    });
    net.transfer(1_000_000);
    net.run_and_check();
    let statistics = net.pairs[0].left.statistics();
    assert_eq!(
        statistics.sender.retransmitted, 0,
        "reordering by one is not a loss"
    );
    assert!(
        net.pairs[0]
            .right
            .as_ref()
            .unwrap()
            .statistics()
            .receiver
            .duplicates
            > 50
    );
}
