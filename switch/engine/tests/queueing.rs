//! Queues under random load: what the traffic manager and the engine do to Poisson arrivals of
//! equal frames is what queueing theory says of M/D/1.

use std::collections::VecDeque;

use ebb_engine::simulation::{Host, Simulation};
use ebb_testkit::is_long;
use ebb_traffic_manager::{Profile, QueueConfig, QueueStatistics};
use ebb_units::{BitRate, Duration, Instant};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::switches::*;

const FRAME_BYTES: usize = 125;
const RATE: BitRate = BitRate::from_mbps(125);
/// The delay of every link.
const DELAY: Duration = Duration::from_micros(1);
const FRAMES: usize = 25_000;
/// Into how many batches the frames are cut to estimate an error: successive waits depend on each other, the means of
/// long batches hardly.
const BATCHES: usize = 25;
const SEED: u64 = 1;
const PORT: u16 = 2;

/// A host whose frames leave at given times, as if its link took no time to put them on; it notes when frames arrive.
struct Source {
    name: &'static str,
    to_send: VecDeque<Instant>,
    arrived: Vec<Instant>,
}

impl Source {
    fn new(name: &'static str) -> Self {
        Source {
            name,
            to_send: VecDeque::new(),
            arrived: Vec::new(),
        }
    }
}

impl Host for Source {
    fn name(&self) -> &str {
        self.name
    }

    fn receive(&mut self, now: Instant, _: Vec<u8>) {
        self.arrived.push(now);
    }

    fn wake(&mut self, _: Instant) {}

    fn next_wake(&self) -> Option<Instant> {
        self.to_send.front().copied()
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        let at = self.next_wake().filter(|at| *at <= now)?;
        self.to_send.pop_front();
        Some((at, frame(1, FRAME_BYTES)))
    }
}

fn service() -> Duration {
    RATE.time_for(FRAME_BYTES as u64)
}

/// The times at which frames leave the source.
fn poisson(load: f64) -> Vec<Instant> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mean_ps = service().as_picos() as f64 / load;
    let mut at = Instant::ZERO;
    let gaps = std::iter::repeat_with(|| -mean_ps * (1.0 - random.random::<f64>()).ln());
    let times = gaps.take(FRAMES).map(|gap| {
        at += Duration::from_picos(gap.round() as u64);
        at
    });
    times.collect()
}

/// Delays of all frames, and the statistics of their queue.
fn waits(sent: &[Instant]) -> (Vec<Duration>, QueueStatistics) {
    let profile = Profile {
        name: "p".into(),
        rate_bps: RATE,
        delay_ns: DELAY.as_nanos(),
        rx_delay_ns: DELAY.as_nanos(),
        queue: vec![QueueConfig::default()],
        ..Profile::default()
    };
    let mut switch = switch("s", profile);
    forward(&mut switch, 1, PORT);
    let mut simulation = Simulation::new();
    let switch = simulation.add_switch(switch);
    let source = simulation.add_host(Source::new("source"));
    let sink = simulation.add_host(Source::new("sink"));
    simulation.connect(at(switch, 1), at(source, 0)).unwrap();
    simulation.connect(at(switch, PORT), at(sink, 0)).unwrap();
    // A host is asked when it wants to be woken after each call.
    simulation.with_host(source, |host| host.to_send = sent.iter().copied().collect());
    simulation.run_until(Instant::FAR_FUTURE, |_, _| false);
    let arrived = &simulation.host(sink).unwrap().arrived;
    assert_eq!(arrived.len(), sent.len());
    let unavoidable = DELAY + service() + DELAY;
    let waits = sent.iter().zip(arrived);
    let waits = waits.map(|(sent, arrived)| arrived.since(*sent + unavoidable));
    let ports = simulation.switch(switch).unwrap().statistics();
    let port = ports.into_iter().find(|port| port.port == PORT).unwrap();
    (waits.collect(), port.queues[0].clone())
}

/// The wait of a frame is what is left of the work that the frame before found and brought.
fn lindley(sent: &[Instant]) -> Vec<Duration> {
    let mut free_at = Instant::ZERO;
    let waits = sent.iter().map(|at| {
        let start = free_at.max(*at);
        free_at = start + service();
        start.since(*at)
    });
    waits.collect()
}

/// The mean of values that depend on those near them, and its standard error.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> (f64, f64) {
    let values: Vec<f64> = values.collect();
    let batches = values.chunks_exact(values.len() / BATCHES);
    let means: Vec<f64> = batches
        .map(|batch| batch.iter().sum::<f64>() / batch.len() as f64)
        .collect();
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    let squares = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

/// The probabilities of 0, 1, .. frames in an M/D/1 system, from the balance of the chain of departures:
/// the frames left behind by one, and those that come while the next is sent.
fn states(load: f64, count: usize) -> Vec<f64> {
    let arrivals = |n: usize| (1..=n).fold((-load).exp(), |p, i| p * load / i as f64);
    let mut states = vec![1.0 - load];
    for j in 0..count {
        let through = (1..=j).map(|i| states[i] * arrivals(j + 1 - i));
        let flow: f64 = states[0] * arrivals(j) + through.sum::<f64>();
        states.push((states[j] - flow) / arrivals(0));
    }
    states
}

/// How many frames each arrival finds in the system, the one being sent included.
fn found(sent: &[Instant], waits: &[Duration]) -> Vec<usize> {
    let gone: Vec<_> = (sent.iter().zip(waits))
        .map(|(at, wait)| *at + *wait + service())
        .collect();
    let count = |(i, at): (usize, &Instant)| i - gone[..i].partition_point(|gone| gone <= at);
    sent.iter().enumerate().map(count).collect()
}

#[test]
fn poisson_arrivals_wait_as_in_m_d_1() {
    let loads: &[f64] = match is_long() {
        true => &[0.1, 0.3, 0.5, 0.7, 0.9],
        false => &[0.5, 0.9],
    };
    for &load in loads {
        let sent = poisson(load);
        let (waits, statistics) = waits(&sent);
        assert_eq!(waits, lindley(&sent), "load {load}");

        // The formula of Pollaczek and Khinchine, for a service that takes the same time always.
        let theory = load / (2.0 * (1.0 - load));
        let service_ps = service().as_picos() as f64;
        let in_services = |wait: &Duration| wait.as_picos() as f64 / service_ps;
        let (wait, error) = mean(waits.iter().map(in_services));
        let close = |value: f64, theory: f64, error: f64| (value - theory).abs() < 3.5 * error;
        assert!(
            close(wait, theory, error),
            "load {load}: mean wait {wait} +- {error}, theory {theory} services"
        );
        assert!(error < 0.12 * theory, "load {load}: {error} shows nothing");

        let found = found(&sent, &waits);
        for (n, probability) in states(load, 12).into_iter().enumerate() {
            let indicator = found.iter().map(|f| f64::from(u8::from(*f == n)));
            let (share, error) = mean(indicator);
            // Where nothing was seen, the error cannot be estimated.
            let error = error.max(1.0 / FRAMES as f64);
            assert!(
                close(share, probability, error),
                "load {load}: {n} in the system: {share} +- {error}, theory {probability}"
            );
        }

        // The switch's own statistics say the same (Little: waiting frames = rate * wait).
        let own = statistics.average_delay_ns * 1e3 / service_ps;
        assert!(
            (own / wait - 1.0).abs() < 1e-6,
            "load {load}: {own}, {wait}"
        );
        let span = sent[FRAMES - 1].since(sent[0]) + waits[FRAMES - 1];
        let total: f64 = waits.iter().map(|wait| wait.as_picos() as f64).sum();
        let depth = total / span.as_picos() as f64;
        let own = statistics.average_depth_packets;
        assert!(
            (own / depth - 1.0).abs() < 1e-6,
            "load {load}: {own}, {depth}"
        );
    }
}

#[test]
fn the_states_of_m_d_1_are_those_of_the_books() {
    let states = states(0.8, 100);
    assert!((states[1] - 0.2 * (0.8f64.exp() - 1.0)).abs() < 1e-12);
    assert!((states.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    let mean: f64 = (0..).zip(&states).map(|(n, p)| f64::from(n) * p).sum();
    assert!((mean - (0.8 + 0.64 / 0.4)).abs() < 1e-6, "{mean}");
}
