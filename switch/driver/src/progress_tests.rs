//! Partitions of real switches under a wall clock that is only a number, and threads that get the
//! CPU when a random schedule says so: what happens must not depend on it.

use std::collections::VecDeque;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use ebb_engine::drive::{Crossing, Cut, Partition};
use ebb_engine::{Host, LinkState, Network};

#[path = "../../engine/tests/switches.rs"]
mod switches;

fn at(us: u64) -> Instant {
    Instant::from_micros(us)
}

fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Two partitions with 10 us each way, or three in a row.
fn reports(partitions: usize) -> Vec<Report> {
    let mut reports = vec![Report::new(partitions); partitions];
    for (own, report) in reports.iter_mut().enumerate() {
        report.read_until = at(1_000);
        report.next = Instant::FAR_FUTURE;
        for (to, toward) in report.toward.iter_mut().enumerate() {
            toward.lookahead = match own.abs_diff(to) {
                1 => us(10),
                _ => Duration::MAX,
            };
        }
    }
    reports
}

#[test]
fn a_partition_runs_as_far_ahead_as_links_are_long() {
    let mut reports = reports(3);
    reports[0].next = at(100);
    let limit = |own| Course::new(own, 3).limit(&reports);
    // From the event at partition 0, over as many links as lie between; and there and back.
    assert_eq!((limit(1).until, limit(1).by), (at(110), 0));
    assert_eq!((limit(2).until, limit(2).by), (at(120), 0));
    assert_eq!((limit(0).until, limit(0).by), (at(120), 0));
}

#[test]
fn frames_under_way_count_until_they_have_been_taken() {
    let mut reports = reports(3);
    let mut sender = Course::new(0, 3);
    sender.set_lookahead(&[Duration::MAX, us(10), Duration::MAX]);
    sender.sent(1, 2, at(50));
    sender.sent(1, 1, at(40));
    reports[0] = sender.report(Instant::FAR_FUTURE, at(1_000), false).clone();
    let limit = |reports: &[Report]| Course::new(2, 3).limit(reports).until;
    assert_eq!(
        limit(&reports),
        at(50),
        "the frame at 40, and 10 from there"
    );
    reports[1].toward[0].taken = 2;
    sender.acknowledge(&reports);
    reports[0] = sender.report(Instant::FAR_FUTURE, at(1_000), false).clone();
    assert_eq!(limit(&reports), at(50));
    reports[1].toward[0].taken = 3;
    // Even before the sender knows.
    assert_eq!(limit(&reports), at(1_010));
    sender.acknowledge(&reports);
    assert_eq!(
        sender.report(at(0), at(0), false).toward[1].in_flight,
        Instant::FAR_FUTURE
    );
}

#[test]
fn who_has_ended_holds_back_nobody() {
    let mut reports = reports(2);
    reports[0].next = at(5);
    reports[1].next = at(500);
    reports[1].toward[0].sent = 1;
    reports[1].toward[0].in_flight = at(7);
    reports[0].done = true;
    assert_eq!(Course::new(1, 2).limit(&reports).until, at(520));
}

/// Frames from outside; frames that go there are noted in the trace.
struct Outside {
    frames: VecDeque<(Instant, Vec<u8>)>,
    /// Whether it says that it is.
    passive: bool,
}

impl Outside {
    fn is_quiet(&self, now: Instant) -> bool {
        self.frames.front().is_none_or(|(at, _)| *at > now)
    }

    fn read(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        match self.is_quiet(now) {
            true => None,
            false => self.frames.pop_front(),
        }
    }
}

impl Host for Outside {
    fn name(&self) -> &str {
        "outside"
    }
    fn receive(&mut self, _: Instant, _: Vec<u8>) {}
    fn wake(&mut self, _: Instant) {}
    fn next_wake(&self) -> Option<Instant> {
        None
    }
    fn poll_transmit(&mut self, _: Instant) -> Option<(Instant, Vec<u8>)> {
        None
    }
    fn is_passive(&self) -> bool {
        self.passive
    }
}

const SWITCHES: u8 = 6;
const FRAMES: usize = 60;

/// A ring of switches with a host on each, flooded from all sides, over links with faults.
fn ring(parts: usize, passive: bool) -> Network<Outside> {
    let mut network = Network::new();
    let rate = ebb_units::BitRate::from_mbps(1000);
    let switches: Vec<_> = (0..SWITCHES)
        .map(|i| {
            let mut profile = switches::deflecting_profile(rate, 8_000 + 1_000 * u64::from(i));
            profile.rx_delay_ns = 3_000;
            let mut switch = switches::switch(&format!("s{i}"), profile);
            for to in 0..SWITCHES {
                let hops = (to + SWITCHES - i) % SWITCHES;
                let port = match hops {
                    0 => 3,
                    _ if hops <= SWITCHES / 2 => 2,
                    _ => 1,
                };
                switches::forward(&mut switch, to, port);
            }
            network.add_switch(switch)
        })
        .collect();
    for (i, switch) in switches.iter().enumerate() {
        let next = switches[(i + 1) % switches.len()];
        network
            .connect(switches::at(*switch, 2), switches::at(next, 1))
            .unwrap();
        let frames = (0..FRAMES).map(|n| {
            let to = (i + 1 + n % (switches.len() - 1)) % switches.len();
            let time = at(5 * n as u64 + 7 * i as u64);
            (time, switches::frame(to as u8, 100 + (n * 97) % 1400))
        });
        let host = network.add_host(Outside {
            frames: frames.collect(),
            passive,
        });
        network
            .connect(switches::at(host, 0), switches::at(*switch, 3))
            .unwrap();
    }
    let faulty = LinkState {
        loss: 0.1,
        corrupt: 0.1,
        rate_bps: Some(700_000_000),
        ..LinkState::default()
    };
    for (n, link) in network.link_states().into_iter().enumerate() {
        if n % 3 == 0 {
            network.set_link(link.from, faulty).unwrap();
        }
    }
    network.spread(
        parts,
        Cut {
            least_delay: us(5),
            hosts: false,
        },
    );
    network
}

/// The next step of a thread.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Read,
    Take,
    Run,
    Send,
    Tell,
    /// Until its next event, or something comes.
    Sleep,
}

struct Thread {
    course: Course,
    step: Step,
    read_until: Instant,
    read_now: Instant,
    sleeps_until: Instant,
    batches: Vec<(usize, Vec<Crossing>)>,
}

/// Everything the threads share.
struct Machine {
    wall: Instant,
    reports: Vec<Report>,
    /// From, to.
    queues: Vec<Vec<VecDeque<Vec<Crossing>>>>,
    late: u64,
}

impl Machine {
    fn is_quiet(partition: &mut Partition<Outside>, wall: Instant) -> bool {
        partition.hosts().all(|(_, host)| host.is_quiet(wall))
    }

    fn is_busy(&self, threads: &[Thread], partitions: &[Partition<Outside>]) -> bool {
        let unread = |p: &Partition<Outside>| p.hosts().any(|(_, host)| !host.frames.is_empty());
        partitions
            .iter()
            .any(|p| p.next_event().is_some() || unread(p))
            || self.queues.iter().flatten().any(|queue| !queue.is_empty())
            || threads.iter().any(|thread| !thread.batches.is_empty())
    }

    fn step(&mut self, own: usize, thread: &mut Thread, partitions: &mut [Partition<Outside>]) {
        let wall = self.wall;
        let next = |p: &Partition<Outside>| p.next_event().unwrap_or(Instant::FAR_FUTURE);
        match thread.step {
            Step::Read => {
                // Frames that come while it reads are for the next time.
                let hosts: Vec<u32> = partitions[own].hosts().map(|(index, _)| index).collect();
                for host in hosts {
                    while let Some((at, frame)) = partitions[own]
                        .host_mut(host)
                        .and_then(|host| host.read(thread.read_now))
                    {
                        partitions[own].inject(host, at, frame);
                    }
                }
                thread.read_until = thread.read_now;
                thread.step = Step::Take;
            }
            Step::Take => {
                for (from, queues) in self.queues.iter_mut().enumerate() {
                    while let Some(batch) = queues[own].pop_front() {
                        thread.course.took(from, batch.len());
                        self.late += partitions[own].accept_late(batch);
                    }
                }
                thread.step = Step::Run;
            }
            Step::Run => {
                let mut reports = self.reports.clone();
                for (other, report) in reports.iter_mut().enumerate() {
                    if other != own && report.asleep {
                        assert!(report.read_until <= wall);
                        if Self::is_quiet(&mut partitions[other], wall) {
                            report.read_until = wall;
                        }
                    }
                }
                let partition = &mut partitions[own];
                thread.course.acknowledge(&reports);
                let own_report = thread
                    .course
                    .report(next(partition), thread.read_until, false);
                reports[own].clone_from(own_report);
                let limit = thread.course.limit(&reports).until;
                partition.run_some(limit.min(thread.read_until), 3);
                for to in 0..self.queues.len() {
                    let batch = partition.take_crossing(to);
                    if !batch.is_empty() {
                        thread.batches.push((to, batch));
                    }
                }
                thread.step = Step::Send;
            }
            Step::Send => {
                for (to, batch) in thread.batches.drain(..) {
                    let earliest = batch.iter().map(|crossing| crossing.at).min();
                    let earliest = earliest.expect("no batch is empty");
                    thread.course.sent(to, batch.len(), earliest);
                    self.queues[own][to].push_back(batch);
                }
                thread.step = Step::Tell;
            }
            Step::Tell => {
                let partition = &partitions[own];
                let asleep = next(partition) >= thread.read_until;
                let report = thread
                    .course
                    .report(next(partition), thread.read_until, asleep);
                self.reports[own].clone_from(report);
                thread.sleeps_until = next(partition);
                thread.step = match asleep {
                    true => Step::Sleep,
                    false => Step::Read,
                };
                thread.read_now = wall;
            }
            Step::Sleep => {
                let frames = self.queues.iter().any(|queues| !queues[own].is_empty());
                let quiet = Self::is_quiet(&mut partitions[own], wall);
                if frames || !quiet || thread.sleeps_until <= wall {
                    self.reports[own].asleep = false;
                    thread.step = Step::Read;
                    thread.read_now = wall;
                }
            }
        }
    }
}

/// Runs the ring on this many threads. `schedule` says who gets the CPU for a step, and how much time
/// passes then.
fn run(parts: usize, schedule: impl FnMut() -> (usize, u64)) -> (u64, u64) {
    run_ring(ring(parts, true), parts, schedule)
}

/// The expected result: that of one thread, which takes every host for one that may answer.
static EXPECTED: LazyLock<(u64, u64)> = LazyLock::new(|| run_ring(ring(1, false), 1, punctual()));

fn run_ring(
    mut network: Network<Outside>,
    parts: usize,
    mut schedule: impl FnMut() -> (usize, u64),
) -> (u64, u64) {
    let partitions = network.partitions();
    let count = partitions.len();
    assert_eq!(count, parts);
    let mut threads: Vec<_> = (0..count)
        .map(|own| {
            let mut course = Course::new(own, count);
            course.set_lookahead(partitions[own].lookahead());
            Thread {
                course,
                step: Step::Read,
                read_until: Instant::ZERO,
                read_now: Instant::ZERO,
                sleeps_until: Instant::ZERO,
                batches: Vec::new(),
            }
        })
        .collect();
    let mut machine = Machine {
        wall: Instant::ZERO,
        reports: vec![Report::new(count); count],
        queues: (0..count)
            .map(|_| (0..count).map(|_| VecDeque::new()).collect())
            .collect(),
        late: 0,
    };
    let mut steps = 0;
    while machine.is_busy(&threads, partitions) {
        let (own, passed) = schedule();
        machine.wall += Duration::from_nanos(passed);
        machine.step(own % count, &mut threads[own % count], partitions);
        steps += 1;
        assert!(steps < 2_000_000, "nobody gets anywhere");
    }
    assert_eq!(machine.late, 0);
    assert_eq!(network.next_event(), None);
    (network.trace_hash(), network.work().packet_hops)
}

fn punctual() -> impl FnMut() -> (usize, u64) {
    let mut turn = 0;
    move || {
        turn += 1;
        (turn, 300)
    }
}

#[test]
fn threads_that_are_late_change_nothing() {
    let expected = *EXPECTED;
    assert!(expected.1 > 600, "{expected:?}");
    for parts in [1, 2, 3] {
        assert_eq!(run(parts, punctual()), expected, "{parts} punctual threads");
        // One of them hardly ever gets the CPU.
        let mut turn = 0;
        let starved = move || {
            turn += 1;
            match turn % 997 {
                0..100 => (0, 500),
                _ => (1 + turn % (parts - 1).max(1), 500),
            }
        };
        assert_eq!(
            run(parts, starved),
            expected,
            "{parts} threads, one starved"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(ebb_testkit::cases(6))
    })]

    #[test]
    fn no_schedule_changes_what_happens(
        parts in 2..5usize,
        bursts in prop::collection::vec((0..4usize, 1..200usize, 50..3_000u64), 1..50),
    ) {
        let expected = *EXPECTED;
        let mut burst = 0;
        let mut left = 0;
        let mut turn = 0;
        let schedule = move || {
            if left == 0 {
                burst = (burst + 1) % bursts.len();
                left = bursts[burst].1;
            }
            left -= 1;
            turn += 1;
            // Everybody gets a step now and then.
            let who = if turn % 7 == 0 { turn / 7 } else { bursts[burst].0 };
            (who, bursts[burst].2)
        };
        prop_assert_eq!(run(parts, schedule), expected);
    }
}
