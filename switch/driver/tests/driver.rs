//! Any number of threads forwards the same frames; links, captures and restarts while the driver runs. Needs root and
//! `ip`.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ebb_driver::DriverOptions;
use ebb_engine::{Direction, FrameSink, LatenessReport, LinkState, SwitchReport};
use ebb_packet_io::{MAX_FRAME_BYTES, PacketSocket, PollFd, ReceiveBuffers, wait};
use ebb_testkit::{Need, PATIENCE, wait_until};
use ebb_traffic_manager::Pfc;
use ebb_units::BitRate;

use crate::chain::*;
use crate::switches::{at, frame};

/// After this many waits of 50 ms without a frame, no more frames come. Waits are counted and not time, because a
/// machine that stood still for a second has waited once.
const SILENCE: usize = 6;

/// Both hosts send bursts. Returns how many frames each received, after waiting for `expected` ones, or for
/// [`PATIENCE`].
fn exchange_bursts(
    sockets: &[PacketSocket; 2],
    bursts: usize,
    burst: usize,
    expected: [usize; 2],
) -> [usize; 2] {
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
    let mut received = [0; 2];
    let mut count = |received: &mut [usize; 2]| {
        for (socket, count) in sockets.iter().zip(received) {
            loop {
                let batch = socket.receive_batch(&mut buffers).expect("received");
                *count += batch.iter().filter(|f| f.bytes.len() == BYTES).count();
                if batch.drained {
                    break;
                }
            }
        }
    };
    for _ in 0..bursts {
        for (socket, to) in sockets.iter().zip([2, 1]) {
            send(socket, &vec![frame(to, BYTES); burst]);
        }
        thread::sleep(Duration::from_millis(2));
        count(&mut received);
    }
    let (sent_at, mut silence) = (Instant::now(), 0);
    while silence < SILENCE {
        let mut polled = [0, 1].map(|i| PollFd::readable(sockets[i].as_fd()));
        wait(&mut polled, Some(Duration::from_millis(50))).expect("waited");
        let before = received;
        count(&mut received);
        let missing = received.iter().zip(expected).any(|(got, due)| *got < due);
        if received != before || (missing && sent_at.elapsed() < PATIENCE) {
            silence = 0;
        } else {
            silence += 1;
        }
    }
    received
}

/// Sends 2000 frames in either direction. Returns how many came through, the statistics of all switches, and how many
/// packets all switches together have had.
fn flood(options: DriverOptions) -> ([usize; 2], Vec<SwitchReport>, u64) {
    let sockets = ["h1", "h2"].map(open);
    let (network, _) = chain(200_000);
    let (handle, running) = start(network, options);
    let received = exchange_bursts(&sockets, 100, 20, [2000, 2000]);
    handle.stop();
    let network = running.join().expect("no panic");
    let reports = network.switches().map(|(_, s)| SwitchReport::of(s));
    (received, reports.collect(), network.work().packet_hops)
}

fn two_threads_forward_what_one_forwards() {
    let _space = Space::enter();
    // Threads that work at once, and threads that work every millisecond only, which is five times the delay of a link.
    let alone = [(1, 0), (2, 0), (1, 1000), (2, 1000)];
    let every = [false, true].map(|senders| alone.map(|(n, us)| (n, us, senders)));
    for (threads, coalesce_us, senders) in every.into_iter().flatten() {
        let options = options(threads, coalesce_us);
        let (received, reports, hops) = flood(DriverOptions { senders, ..options });
        assert_eq!(received, [2000, 2000], "{threads} threads: {reports:?}");
        assert_eq!(hops, 4000 * SWITCHES as u64, "{threads} threads");
        for report in &reports {
            assert_eq!(report.drops, [], "{threads} threads, {}", report.switch);
            let sent = report.ports.iter().map(|port| port.transmitted.packets);
            assert_eq!(
                sent.sum::<u64>(),
                4000,
                "{threads} threads, {}",
                report.switch
            );
        }
    }
}

/// Whatever a switch has sent has left or is counted as dropped, also by a thread that only sends and
/// through an interface that goes down or away meanwhile.
fn what_is_not_sent_is_counted() {
    for (senders, vanish) in [(false, false), (true, false), (false, true), (true, true)] {
        let space = Space::enter();
        let sockets = ["h1", "h2"].map(open);
        let (network, switches) = chain(200_000);
        let options = DriverOptions {
            senders,
            ..options(1, 1000)
        };
        let (handle, running) = start(network, options);
        let before = exchange_bursts(&sockets, 10, 20, [200, 200]);
        assert_eq!(before, [200, 200]);
        space.ip(match vanish {
            true => "link del p2",
            false => "link set p2 down",
        });
        // Only h1 can send: the interface of the other host has gone as well, or has no carrier.
        const SENT: u64 = 1000;
        send(&sockets[0], &vec![frame(2, BYTES); SENT as usize]);
        let last = switches[SWITCHES - 1];
        let taken = |s: &mut ebb_engine::Switch| {
            let report = SwitchReport::of(s);
            let dropped: u64 = report.drops.iter().map(|row| row.count.packets).sum();
            (report.ports[1].transmitted.packets, dropped)
        };
        wait_until("all have come through and are counted", || {
            let (sent, dropped) = handle.with_blocking(last, taken).expect("it runs");
            sent >= 200 + SENT && dropped >= SENT
        });
        handle.stop();
        let network = running.join().expect("no panic");
        let (_, last) = network.switches().last().expect("switches");
        let report = SwitchReport::of(last);
        let drops: Vec<_> = report.drops.iter().collect();
        let found = drops
            .iter()
            .map(|row| (row.port, row.reason.as_str(), row.count.packets));
        let expected = [(2, "port-down", SENT)];
        assert!(
            found.eq(expected),
            "senders {senders}, gone {vanish}: {drops:?}"
        );
        assert_eq!(drops[0].count.bytes, SENT * BYTES as u64);
    }
}

/// An interface that is deleted and made again, as Mininet and container runtimes do, is another interface.
fn an_interface_that_is_made_again_is_opened_again() {
    for senders in [false, true] {
        let space = Space::enter();
        let h1 = open("h1");
        let (network, switches) = chain(200_000);
        let options = DriverOptions {
            senders,
            ..options(1, 1000)
        };
        let (handle, running) = start(network, options);
        let last = switches[SWITCHES - 1];
        let lost = || {
            let drops = handle.with_blocking(last, |s| SwitchReport::of(s).drops);
            let drops = drops.expect("it runs");
            assert!(
                drops.iter().all(|row| row.reason == "port-down"),
                "{drops:?}"
            );
            drops.iter().map(|row| row.count.packets).sum::<u64>()
        };
        space.ip("link del p2");
        send(&h1, &vec![frame(2, BYTES); 50]);
        wait_until("all are counted", || lost() >= 50);
        space.make_pair(2);
        let h2 = open("h2");
        // The driver looks for it every second.
        let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
        wait_until("it is opened again", || {
            send(&h1, &[frame(2, BYTES)]);
            thread::sleep(Duration::from_millis(15));
            let batch = h2.receive_batch(&mut buffers).expect("received");
            batch.iter().any(|f| f.bytes.len() == BYTES)
        });
        let before = lost();
        let sockets = [h1, h2];
        exchange_bursts(&sockets, 1, 0, [0, 0]);
        let received = exchange_bursts(&sockets, 10, 20, [200, 200]);
        assert_eq!(received, [200, 200], "senders {senders}");
        assert_eq!(
            lost(),
            before,
            "what was counted stays, and no more is lost"
        );
        handle.stop();
        running.join().expect("no panic");
    }
}

/// A switch whose thread stands still for a while says so, in the counts of that time.
fn how_late_frames_were_is_told() {
    const STILL: Duration = Duration::from_millis(400);
    for senders in [false, true] {
        let _space = Space::enter();
        let sockets = ["h1", "h2"].map(open);
        let (network, switches) = chain(200_000);
        let options = DriverOptions {
            senders,
            ..options(1, 0)
        };
        let (handle, running) = start(network, options);
        let [first, last] = [switches[0], switches[SWITCHES - 1]];
        let lateness = |switch| {
            handle
                .with_blocking(switch, |s| s.lateness())
                .expect("it runs")
        };
        assert_eq!(exchange_bursts(&sockets, 1, 20, [20, 20]), [20, 20]);
        // The departures of what another thread sends are known a turn later.
        let all_known = || {
            wait_until("all departures are known", || {
                [first, last].map(|s| lateness(s).departures.count >= 20) == [true; 2]
            });
        };
        all_known();
        for switch in &switches {
            handle
                .post(*switch, |s| s.reset_statistics())
                .expect("it runs");
        }
        assert_eq!(lateness(last), LatenessReport::default());

        handle
            .post(first, |_| thread::sleep(STILL))
            .expect("it runs");
        thread::sleep(STILL / 10);
        assert_eq!(exchange_bursts(&sockets, 1, 20, [20, 20]), [20, 20]);
        all_known();
        for switch in [first, last] {
            let LatenessReport {
                wakeups,
                departures,
            } = lateness(switch);
            assert_eq!(departures.count, 20, "senders {senders}");
            assert!(wakeups.count > 0 && wakeups.count <= 20, "{wakeups:?}");
            let least = STILL.as_nanos() as u64 / 2;
            for late in [wakeups, departures] {
                assert!(late.max_ns >= least && late.p999_ns >= least, "{late:?}");
                assert!(
                    late.p99_ns <= late.p999_ns && late.p999_ns <= late.max_ns,
                    "{late:?}"
                );
            }
        }
        // A switch without an interface that shares its thread with the others has no lateness.
        assert_eq!(lateness(switches[1]), LatenessReport::default());
        handle.stop();
        running.join().expect("no panic");
    }
}

fn threads_with_nothing_to_do_sleep() {
    let _space = Space::enter();
    let sockets = ["h1", "h2"].map(open);
    let (network, switches) = chain(200_000);
    let (handle, running) = start(network, options(2, 0));
    assert_eq!(exchange_bursts(&sockets, 2, 2, [4, 4]), [4, 4]);
    let used = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).tv_nsec;
    let before = used();
    thread::sleep(Duration::from_millis(500));
    let busy_ms = (used() - before).rem_euclid(1_000_000_000) / 1_000_000;
    assert!(busy_ms < 100, "{busy_ms} ms of 500 ms");
    // Although they sleep, they know what time it is.
    for switch in [switches[0], switches[SWITCHES - 1]] {
        // Somewhere between the question and its answer.
        let now = || {
            let asked = Instant::now();
            let time = handle.with_blocking(switch, |s| s.now()).expect("awake");
            (asked, time, Instant::now())
        };
        let (first_asked, first, first_answered) = now();
        thread::sleep(Duration::from_millis(50));
        let (asked, last, answered) = now();
        let passed = Duration::from(last.since(first));
        let slack = Duration::from_millis(25);
        assert!(passed + slack > asked - first_answered, "{passed:?}");
        assert!(passed < answered - first_asked + slack, "{passed:?}");
    }
    handle.stop();
    running.join().expect("no panic");
}

fn links_captures_and_restarts_while_it_runs() {
    let _space = Space::enter();
    let sockets = ["h1", "h2"].map(open);
    let (network, switches) = chain(200_000);
    let (handle, running) = start(network, options(2, 0));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let captured = Captured::default();
    let (s2, s3) = (switches[1], switches[2]);

    let sink = captured.clone();
    let capture = handle.start_capture(at(s2, 2), Box::new(|| Ok(Box::new(sink))));
    runtime
        .block_on(capture)
        .expect("it runs")
        .expect("a capture");
    let down = LinkState {
        up: false,
        ..LinkState::default()
    };
    let set = handle.set_link(at(s3, 1), down);
    runtime.block_on(set).expect("it runs").expect("a link");
    let states = runtime.block_on(handle.link_states()).expect("it runs");
    assert_eq!(states.len(), 2 * (SWITCHES - 1 + 2));
    let downs: Vec<_> = states.iter().filter(|info| !info.state.up).collect();
    assert_eq!(
        (downs.len(), downs[0].from, downs[0].to),
        (1, at(s3, 1), at(s2, 2))
    );

    assert_eq!(
        exchange_bursts(&sockets, 10, 5, [0, 50]),
        [0, 50],
        "one direction is down"
    );
    let lost = handle
        .with_blocking(s3, |s| SwitchReport::of(s).drops)
        .expect("it runs");
    assert_eq!((lost[0].port, lost[0].reason.as_str()), (1, "link-down"));
    assert_eq!(lost[0].count.packets, 50);
    let stop = handle.stop_capture(at(s2, 2));
    runtime
        .block_on(stop)
        .expect("it runs")
        .expect("it was running");
    let directions = captured.0.lock().expect("no panic").clone();
    assert_eq!(
        directions,
        [Direction::Out; 50],
        "the link is down before this end"
    );

    let up = handle.set_link(at(s3, 1), LinkState::default());
    runtime.block_on(up).expect("it runs").expect("a link");
    assert_eq!(exchange_bursts(&sockets, 10, 5, [50, 50]), [50, 50]);

    runtime
        .block_on(handle.restart_switch(s2))
        .expect("it runs")
        .expect("a switch");
    assert_eq!(exchange_bursts(&sockets, 2, 5, [0, 0]), [0, 0]);
    let report = handle
        .with_blocking(s2, |s| SwitchReport::of(s))
        .expect("it runs");
    let dropped: u64 = report.drops.iter().map(|row| row.count.packets).sum();
    assert_eq!(
        (report.drops[0].reason.as_str(), dropped),
        ("no-program", 20)
    );
    handle.stop();
    running.join().expect("no panic");
    let again = handle.with_blocking(s2, |_| ());
    assert!(again.is_err(), "the driver has ended");
}

/// A PFC frame that asks to pause class 0 for this many quanta.
fn pfc(quanta: u16) -> Vec<u8> {
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 0x01, 2, 0, 0, 0, 0, 9, 0x88, 0x08];
    frame.extend([0x01, 0x01, 0, 1]);
    frame.extend(quanta.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// Waits until a frame comes to an interface that is as wanted.
fn receive_until(socket: &PacketSocket, wanted: impl Fn(&[u8]) -> bool) {
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
    wait_until("a frame comes", || {
        let batch = socket.receive_batch(&mut buffers).expect("received");
        batch.iter().any(|frame| wanted(frame.bytes))
    });
}

/// The host behind the last switch pauses it, and the pause goes from switch to switch, of two
/// threads, up to the sender. Frames take a delay in every switch.
fn pauses_go_from_interface_to_interface() {
    let _space = Space::enter();
    let sockets = ["h1", "h2"].map(open);
    let (mut network, switches) = chain(200_000);
    for s in &switches {
        let set = network.with_switch(*s, |switch| {
            let mut config = switch.traffic_manager_config().clone();
            config.pfc = Some(Pfc {
                pause_bytes: Some(3_000),
                resume_bytes: Some(1_000),
                accounting: Default::default(),
                response_ns: 10_000,
                wakeup_ns: 0,
                max_frame_bytes: 1_530,
                watchdog_ns: 0,
                watchdog: Default::default(),
            });
            let profile = &mut config.profile[0];
            profile.pipeline_delay_ns = 1_000_000;
            // So that a pause lasts for half a minute.
            profile.rate_bps = BitRate::from_mbps(1);
            profile.queue[0].lossless = true;
            switch.set_traffic_manager_config(config)
        });
        assert_eq!(set, Some(Ok(())));
    }
    let (handle, running) = start(network, options(2, 0));
    let queue = |s: &mut ebb_engine::Switch| s.statistics()[1].queues[0].clone();
    send(&sockets[1], &[pfc(0xffff)]);
    let last = switches[SWITCHES - 1];
    wait_until("the last switch is paused", || {
        handle
            .with_blocking(last, queue)
            .expect("it runs")
            .pauses_received
            == 1
    });
    const SENT: usize = 60;
    send(&sockets[0], &vec![frame(2, BYTES); SENT]);
    receive_until(&sockets[0], |frame| frame[12..20] == pfc(0xffff)[12..20]);
    let waits = handle.with_blocking(last, queue).expect("it runs");
    assert_eq!((waits.transmitted.packets, waits.pauses_expired), (0, 0));
    send(&sockets[1], &[pfc(0)]);
    let mut arrived = 0;
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
    wait_until("all frames have come", || {
        let batch = sockets[1].receive_batch(&mut buffers).expect("received");
        arrived += batch
            .iter()
            .filter(|frame| frame.bytes.len() == BYTES)
            .count();
        arrived == SENT
    });
    receive_until(&sockets[0], |frame| frame[12..20] == pfc(0)[12..20]);
    handle.stop();
    let network = running.join().expect("no panic");
    for (_, s) in network.switches() {
        assert_eq!(SwitchReport::of(s).drops, []);
    }
}

/// The directions in which the captured frames went.
#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<Direction>>>);

impl FrameSink for Captured {
    fn record(
        &mut self,
        direction: Direction,
        _: ebb_units::Instant,
        frame: &[u8],
    ) -> io::Result<()> {
        assert_eq!(frame.len(), BYTES);
        self.0.lock().expect("no panic").push(direction);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

ebb_testkit::tests! {
    Need::Root => [
        two_threads_forward_what_one_forwards,
        what_is_not_sent_is_counted,
        an_interface_that_is_made_again_is_opened_again,
        how_late_frames_were_is_told,
        threads_with_nothing_to_do_sleep,
        links_captures_and_restarts_while_it_runs,
        pauses_go_from_interface_to_interface,
    ],
}
