use proptest::prelude::*;

use super::*;

const PACKET: usize = 1500;

/// Everything with an ECN-Echo is associated, so that tests decide who is.
fn pacer() -> Pacer<u32, u64> {
    Pacer::new(
        &PacerParams {
            association_probability: 1.0,
            ..PacerParams::default()
        },
        1,
    )
}

fn us(us: u64) -> Instant {
    Instant::from_micros(us)
}

/// Offers `bytes_per_second` as packets of flow 1 until `until`; returns departures of the packets.
fn offer(p: &mut Pacer<u32, u64>, from: Instant, until: Instant, gap: Duration) -> Vec<Instant> {
    let mut departures = Vec::new();
    let (mut now, mut arrival, mut n) = (from, from, 0);
    while now < until {
        p.on_ecn_echo(now, 1);
        if now >= arrival {
            n += 1;
            assert_eq!(
                p.enqueue(now, n, PACKET, 1),
                Admission::Queued,
                "at {now:?}"
            );
            arrival += gap;
        }
        while p.poll(now).is_some() {
            departures.push(now);
        }
        now = p
            .next_deadline()
            .map_or(arrival, |deadline| deadline.min(arrival));
    }
    departures
}

#[test]
fn unassociated_flows_pass_undelayed_even_past_a_backlog() {
    let mut p = pacer();
    p.on_ecn_echo(us(0), 1);
    for n in 0..10 {
        p.enqueue(us(0), n, PACKET, 1);
    }
    assert!(p.backlog_bytes() > 0);
    assert_eq!(p.enqueue(us(1), 77, PACKET, 2), Admission::Pass(77));
    assert_eq!(p.counters().passed_packets, 1);
}

#[test]
fn the_bucket_lets_3_kb_go_at_once() {
    let mut p = pacer();
    p.on_ecn_echo(us(0), 1);
    for n in 0..4 {
        p.enqueue(us(0), n, PACKET, 1);
    }
    assert_eq!(
        (p.poll(us(0)), p.poll(us(0)), p.poll(us(0))),
        (Some(0), Some(1), None)
    );
    assert_eq!(p.backlog_bytes(), 2 * PACKET as u64);
}

/// HULL 4.2: the fixed point of equation (4) is R = M_r / T_r with no backlog.
#[test]
fn the_rate_converges_to_what_the_host_sends() {
    // Whole numbers of packets per T_r, so that the measurement itself is constant. With the
    // default parameters the slower of the two time constants of equation (4) is 7 ms.
    for gap_us in [16, 32, 64] {
        let mut p = pacer();
        let gap = Duration::from_micros(gap_us);
        offer(&mut p, us(0), us(128_000), gap);
        let offered = PACKET as f64 / gap.as_secs_f64();
        let rate = p.rate_bytes_per_second(us(128_000));
        assert!(
            (rate / offered - 1.0).abs() < 0.02,
            "{gap_us} us: {rate} for {offered}"
        );
        assert_eq!(p.backlog_bytes(), 0);
    }
}

#[test]
fn a_burst_leaves_spread_over_time() {
    let mut p = pacer();
    // A steady 500 Mbit/s sets the rate ...
    let gap = Duration::from_micros(24);
    offer(&mut p, us(0), us(10_000), gap);
    let start = us(10_000);
    p.on_ecn_echo(start, 1);
    // ... then 30 packets arrive at once, which a 1 Gbit/s NIC would send in 360 us.
    for n in 0..30 {
        assert_eq!(p.enqueue(start, n, PACKET, 1), Admission::Queued);
    }
    let mut departures = Vec::new();
    while let Some(at) = p.next_deadline() {
        while p.poll(at).is_some() {
            departures.push(at);
        }
    }
    let spread = departures.last().unwrap().since(start);
    assert!(spread > Duration::from_micros(400), "spread over {spread}");
    // No two packets beyond the bucket leave back to back.
    let closest = departures
        .windows(2)
        .skip(4)
        .map(|w| w[1].since(w[0]))
        .min()
        .unwrap();
    assert!(closest > Duration::from_micros(5), "{closest}");
}

#[test]
fn an_association_expires_unless_renewed() {
    let mut p = pacer();
    p.on_ecn_echo(us(0), 1);
    p.on_ecn_echo(us(6_000), 1);
    assert!(p.is_associated(us(15_999), 1));
    assert!(!p.is_associated(us(16_000), 1));
    assert_eq!(p.enqueue(us(16_000), 5, PACKET, 1), Admission::Pass(5));
}

#[test]
fn packets_never_overtake_their_own_flow_when_the_association_expires() {
    let params = PacerParams {
        association_probability: 1.0,
        association_timeout_ns: 100_000,
        beta_hz: 0.01,
        ..PacerParams::default()
    };
    let mut p = Pacer::new(&params, 1);
    p.on_ecn_echo(us(0), 1);
    for n in 0..5 {
        p.enqueue(us(0), n, PACKET, 1);
    }
    // Expired, but three packets still wait.
    assert_eq!(p.enqueue(us(200), 5, PACKET, 1), Admission::Queued);
    let mut out = Vec::new();
    while let Some(at) = p.next_deadline() {
        out.extend(p.poll(at));
    }
    assert_eq!(out, [0, 1, 2, 3, 4, 5]);
    let later = p.bucket.now();
    assert_eq!(p.enqueue(later, 6, PACKET, 1), Admission::Pass(6));
}

#[test]
fn the_table_has_64_entries() {
    let mut p = pacer();
    for flow in 0..70 {
        p.on_ecn_echo(us(1), flow);
    }
    let associated = (0..70).filter(|&flow| p.is_associated(us(1), flow)).count();
    assert_eq!(associated, 64);
    // Expiry makes room again.
    p.on_ecn_echo(us(10_001), 69);
    assert!(p.is_associated(us(10_001), 69));
}

#[test]
fn association_is_a_matter_of_chance_with_the_given_probability() {
    let mut p: Pacer<u32, u64> = Pacer::new(
        &PacerParams {
            table_entries: 10_000,
            ..PacerParams::default()
        },
        7,
    );
    for flow in 0..8000 {
        p.on_ecn_echo(us(0), flow);
    }
    let associated = p.counters().associations;
    // Mean 1000, standard deviation 30.
    assert!((880..1120).contains(&associated), "{associated}");
}

/// [E]: with a rate near zero the head would wait for ever, were its departure not computed anew
/// at each update.
#[test]
fn the_head_is_rescheduled_when_the_rate_changes() {
    let mut p = pacer();
    p.on_ecn_echo(us(0), 1);
    for n in 0..3 {
        p.enqueue(us(0), n, PACKET, 1);
    }
    p.poll(us(0));
    p.poll(us(0));
    // At the rate after the first update alone (4500 bytes measured) packet 2 would take 168 us
    // more; the updates move it.
    let first = p.next_deadline().unwrap();
    assert!(first > us(64) && first < us(1000), "{first:?}");
    // More arrivals raise the measured rate: the head now leaves sooner.
    for n in 3..40 {
        p.enqueue(us(50), n, PACKET, 1);
    }
    let sooner = p.next_deadline().unwrap();
    assert!(sooner < first, "{sooner:?} < {first:?}");
    assert_eq!(p.poll(sooner - Duration::from_nanos(1)), None);
    assert_eq!(p.poll(sooner), Some(2));
}

#[test]
fn a_full_fifo_refuses_and_has_room_says_so_before() {
    let mut p = pacer();
    p.on_ecn_echo(us(0), 1);
    let mut queued = 0;
    while p.has_room(us(0), 1, PACKET) {
        assert_eq!(p.enqueue(us(0), queued, PACKET, 1), Admission::Queued);
        queued += 1;
    }
    // Two packets are out by the bucket; 128000 / 1500 = 85 fit behind them.
    assert_eq!(queued, 87);
    assert_eq!(p.enqueue(us(0), 999, PACKET, 1), Admission::Full(999));
    assert_eq!(p.counters().refused_packets, 1);
    assert!(
        p.has_room(us(0), 2, PACKET),
        "other flows are not concerned"
    );
}

#[test]
fn without_backlog_there_is_no_timer_and_idling_has_a_closed_form() {
    let mut lazy = pacer();
    let mut stepped = pacer();
    for p in [&mut lazy, &mut stepped] {
        offer(p, us(0), us(5_000), Duration::from_micros(24));
        while let Some(at) = p.next_deadline() {
            p.poll(at);
        }
        assert_eq!(p.next_deadline(), None);
    }
    for at in (6_000..9_000).step_by(7) {
        stepped.rate_bytes_per_second(us(at));
    }
    let (a, b) = (
        lazy.rate_bytes_per_second(us(9_000)),
        stepped.rate_bytes_per_second(us(9_000)),
    );
    assert!((a - b).abs() <= 1e-6 * b, "{a} and {b}");
    // A year later nothing is left of the rate, and this returns at once.
    let year = Instant::from_micros(200 * 24 * 3600 * 1_000_000);
    assert_eq!(lazy.rate_bytes_per_second(year), 0.0);
}

#[test]
fn two_flows_share_one_fifo_in_order() {
    let mut p = pacer();
    p.on_ecn_echo(us(0), 1);
    p.on_ecn_echo(us(0), 2);
    for n in 0..20 {
        assert_eq!(
            p.enqueue(us(n), n, PACKET, 1 + (n % 2) as u32),
            Admission::Queued
        );
    }
    let mut out = Vec::new();
    while let Some(at) = p.next_deadline() {
        out.extend(p.poll(at));
    }
    assert_eq!(out, (0..20).collect::<Vec<_>>());
}

/// The contract of docs/architecture.md: times multiplied by D, `_hz` and rates divided by D,
/// bytes unchanged. The same packets then leave at D times the time.
#[test]
fn behaviour_is_invariant_under_dilation() {
    let departures = |dilation: u64| {
        let nominal = PacerParams::default();
        let params = PacerParams {
            update_period_ns: nominal.update_period_ns * dilation,
            association_timeout_ns: nominal.association_timeout_ns * dilation,
            beta_hz: nominal.beta_hz / dilation as f64,
            association_probability: 1.0,
            ..nominal
        };
        let mut p = Pacer::new(&params, 1);
        let mut out = Vec::new();
        for n in 0..60u64 {
            let now = us((n / 20 * 500 + n % 20 * 3) * dilation);
            p.on_ecn_echo(now, 1);
            p.enqueue(now, n, PACKET, 1);
        }
        while let Some(at) = p.next_deadline() {
            while p.poll(at).is_some() {
                out.push(at.as_picos() as f64 / dilation as f64);
            }
        }
        out
    };
    let (real, dilated) = (departures(1), departures(64));
    assert_eq!(real.len(), 60);
    for (a, b) in real.iter().zip(&dilated) {
        assert!((a - b).abs() < 100.0, "{a} ps and {b} ps");
    }
}

#[test]
fn the_page_has_every_parameter_with_its_default() {
    let page = include_str!("../../../docs/pacer.md");
    let defaults = serde_json::to_value(PacerParams::default()).unwrap();
    for (name, default) in defaults.as_object().unwrap() {
        let row = format!("| `{name}` | {} |", default.as_f64().unwrap());
        assert!(page.contains(&row), "docs/pacer.md lacks `{row}`");
    }
}

#[test]
fn bad_parameters_are_named() {
    assert_eq!(PacerParams::default().validate(), Ok(()));
    let error = PacerParams {
        beta_hz: 0.0,
        ..PacerParams::default()
    }
    .validate()
    .unwrap_err();
    assert!(
        error.to_string().starts_with("pacer.beta_hz is 0"),
        "{error}"
    );
    assert!(
        PacerParams {
            eta: f64::NAN,
            ..PacerParams::default()
        }
        .validate()
        .is_err()
    );
}

proptest! {
    /// Whatever happens when: every packet comes out exactly once, each flow in its order, never
    /// before it went in, and the bucket's bytes in any stretch of time are bounded by its depth
    /// plus what the rate allowed.
    #[test]
    fn packets_are_conserved_and_flows_keep_their_order(
        operations in prop::collection::vec((0u8..4, 0u32..3, 0u64..300), 1..150),
    ) {
        let mut p = pacer();
        let mut now = Instant::ZERO;
        let mut sent: Vec<Vec<u64>> = vec![Vec::new(); 3];
        let mut out: Vec<Vec<u64>> = vec![Vec::new(); 3];
        let mut n = 0u64;
        for (operation, flow, gap) in operations {
            now += Duration::from_micros(gap);
            match operation {
                0 => p.on_ecn_echo(now, flow),
                1 => while let Some(packet) = p.poll(now) {
                    out[(packet % 3) as usize].push(packet);
                },
                _ => {
                    let packet = n * 3 + u64::from(flow);
                    n += 1;
                    match p.enqueue(now, packet, 60 + (n as usize * 97) % 1440, flow) {
                        Admission::Pass(packet) => {
                            sent[flow as usize].push(packet);
                            out[flow as usize].push(packet);
                        }
                        Admission::Queued => sent[flow as usize].push(packet),
                        Admission::Full(_) => {}
                    }
                }
            }
        }
        for _ in 0..1000 {
            let Some(at) = p.next_deadline() else { break };
            while let Some(packet) = p.poll(at) {
                out[(packet % 3) as usize].push(packet);
            }
        }
        prop_assert_eq!(p.backlog_bytes(), 0);
        prop_assert_eq!(sent, out);
    }
}

/// Equation (4), computed by a test that only knows what went in and what was queued: R at the end
/// of every T_r, for arrivals at random, and the packets in it are never more than the bucket and R
/// allow.
#[test]
fn the_rate_is_the_recurrence_of_equation_4() {
    use rand::Rng;
    let params = PacerParams {
        association_probability: 1.0,
        ..PacerParams::default()
    };
    let (eta, beta) = (params.eta, params.beta_hz);
    let period_seconds = params.update_period_ns as f64 * 1e-9;
    for seed in 0..5 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut p: Pacer<u32, usize> = Pacer::new(&params, seed);
        let (mut rate, mut allowed, mut left) = (0.0, f64::from(params.bucket_bytes), 0.0);
        let mut intensity = 3;
        for period in 0..2000u64 {
            let start = Instant::from_nanos(period * params.update_period_ns);
            if rng.random_bool(0.02) {
                intensity = rng.random_range(0..8);
            }
            let clump = if rng.random_bool(0.01) { 30 } else { 0 };
            let mut offsets: Vec<u64> = (0..clump + rng.random_range(0..=intensity))
                .map(|_| rng.random_range(1..params.update_period_ns))
                .collect();
            offsets.sort_unstable();
            let mut measured = 0;
            for offset in offsets {
                let now = start + Duration::from_nanos(offset);
                let bytes = rng.random_range(60..1500);
                p.on_ecn_echo(now, 1);
                // Flow 2 is not paced, but counts for M_r.
                match p.enqueue(now, bytes, bytes, rng.random_range(1..=2)) {
                    Admission::Full(_) => {}
                    Admission::Pass(_) | Admission::Queued => measured += bytes,
                }
                while let Some(bytes) = p.poll(now) {
                    left += bytes as f64;
                }
            }
            let end = start + Duration::from_nanos(params.update_period_ns);
            // Q at the update: just before it, nothing else happens.
            let before = end - Duration::from_picos(1);
            p.handle_timeout(before);
            while let Some(bytes) = p.poll(before) {
                left += bytes as f64;
            }
            let backlog = p.backlog_bytes() as f64;
            allowed += rate * period_seconds;
            rate = (1.0 - eta) * rate + eta * measured as f64 / period_seconds + beta * backlog;
            let seen = p.rate_bytes_per_second(end);
            assert!(
                (seen - rate).abs() <= 1e-6 * rate.max(1.0),
                "seed {seed}, period {period}: {seen} for {rate}"
            );
            assert!(
                left <= allowed + 1.0,
                "seed {seed}, period {period}: {left} > {allowed}"
            );
        }
        assert!(left > 1e6, "{left}");
        assert!(
            p.counters().max_backlog_bytes > 10_000,
            "{:?}",
            p.counters()
        );
    }
}
