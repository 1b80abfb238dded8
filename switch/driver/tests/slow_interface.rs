//! An interface that is slower than the switch: what it does not take waits in the switch's queues, where
//! it shows, and is dropped there; the kernel holds a few frames.
//!
//! Needs root, `ip` and `tc`.

use std::thread;
use std::time::{Duration, Instant};

use ebb_driver::{DriverOptions, Interface, Reception};
use ebb_engine::{Network, NodeId, Switch, SwitchOptions, SwitchReport};
use ebb_packet_io::{MAX_FRAME_BYTES, PacketSocket, ReceiveBuffers};
use ebb_testkit::{Need, PATIENCE, wait_until};
use ebb_traffic_manager::TrafficManagerConfig;

use crate::chain::{BYTES, SWITCHES, Space, chain, open, options, send, start};
use crate::switches::{at, forward, frame, trim_program};

/// Packets that a queue holds if nobody says otherwise, as on BMv2.
const QUEUE_PACKETS: u64 = 64;

/// A switch without a traffic manager configuration between p1 and p2.
fn plain_switch() -> (Network<Interface>, NodeId) {
    let options = SwitchOptions {
        name: "s1".into(),
        device_id: 0,
        cpu_port: None,
        drop_port: 511,
    };
    let mut switch = Switch::new(options, TrafficManagerConfig::default()).expect("valid");
    switch.install(trim_program()).expect("nothing is exported");
    forward(&mut switch, 2, 2);
    let mut network = Network::new();
    let switch = network.add_switch(switch);
    let ring = Reception::Ring { bytes: 8 << 20 };
    Interface::attach(&mut network, at(switch, 1), "p1", ring).expect("attached");
    Interface::attach(&mut network, at(switch, 2), "p2", Reception::Calls).expect("attached");
    (network, switch)
}

/// A frame with its number in it.
fn numbered(number: u32) -> Vec<u8> {
    let mut frame = frame(2, BYTES);
    frame[20..24].copy_from_slice(&number.to_be_bytes());
    frame
}

fn send_numbers(socket: &PacketSocket, numbers: std::ops::Range<u32>) {
    send(socket, &numbers.map(numbered).collect::<Vec<_>>());
}

/// A number of frames that is more than any test needs to fill the queues.
const MANY: u32 = 100_000;

/// Sends frames, a few at a time, until something is so. Returns how many.
fn send_until(socket: &PacketSocket, mut done: impl FnMut() -> bool) -> u32 {
    let (mut sent, begun) = (0, Instant::now());
    while !done() {
        assert!(begun.elapsed() < PATIENCE && sent < MANY, "{sent} frames");
        send_numbers(socket, sent..sent + 4);
        sent += 4;
        thread::sleep(Duration::from_millis(2));
    }
    sent
}

/// The numbers of the frames that have arrived.
fn receive(socket: &PacketSocket, buffers: &mut ReceiveBuffers, numbers: &mut Vec<u32>) {
    loop {
        let batch = socket.receive_batch(buffers).expect("received");
        for frame in batch.iter().filter(|frame| frame.bytes.len() == BYTES) {
            numbers.push(u32::from_be_bytes(frame.bytes[20..24].try_into().unwrap()));
        }
        if batch.drained {
            return;
        }
    }
}

/// Bytes in the queueing discipline of p2.
fn backlog_bytes(space: &Space) -> u64 {
    let text = space.tc("-s qdisc show dev p2");
    let backlog = text.split("backlog ").nth(1).expect("a backlog");
    let (bytes, _) = backlog.split_once('b').expect("in bytes");
    // Above 10 kB it counts in Kb.
    match bytes.strip_suffix('K') {
        Some(kilobytes) => kilobytes.parse::<u64>().expect("a number") << 10,
        None => bytes.parse().expect("a number"),
    }
}

/// Limits the rate at which p2 takes frames.
fn slow_down(space: &Space, rate: &str) {
    let limits = "burst 2000 limit 4000000";
    space.tc(&format!("qdisc add dev p2 root tbf rate {rate} {limits}"));
}

fn speed_up(space: &Space) {
    space.tc("qdisc del dev p2 root");
}

fn what_a_slow_interface_does_not_take_waits_in_the_queue_and_is_dropped_there() {
    for senders in [false, true] {
        let space = Space::enter();
        // At 2 Mbit/s, 250 frames leave in a second.
        slow_down(&space, "2mbit");
        let [h1, h2] = ["h1", "h2"].map(open);
        let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
        let (network, switch) = plain_switch();
        let options = DriverOptions {
            senders,
            ..options(1, 0)
        };
        let (handle, running) = start(network, options);
        let report = || {
            handle
                .with_blocking(switch, |s| SwitchReport::of(s))
                .expect("it runs")
        };

        // Twenty frames in 2 ms are far more than go out, and enough for the sending thread to send.
        let (mut sent, mut arrived, mut backlogs) = (0, Vec::new(), Vec::new());
        for round in 0..100 {
            send_numbers(&h1, sent..sent + 20);
            sent += 20;
            thread::sleep(Duration::from_millis(2));
            receive(&h2, &mut buffers, &mut arrived);
            if round % 10 == 9 {
                backlogs.push(backlog_bytes(&space));
            }
        }
        let queue = report().ports[1].queues[0].clone();
        assert_eq!(queue.max_depth_packets, QUEUE_PACKETS, "senders {senders}");
        assert!(
            queue.depth_packets > QUEUE_PACKETS / 2,
            "{}",
            queue.depth_packets
        );
        // The kernel begins with 64 KB by its own account, which is 28 frames here, and one waits.
        let (most, last) = (*backlogs.iter().max().unwrap(), *backlogs.last().unwrap());
        assert!(most <= 30 * BYTES as u64, "{most}");
        assert!(last <= 8 * BYTES as u64, "{last}: the bound adapts");

        // Nothing is lost but what the queue dropped, and nothing overtakes.
        let begun = Instant::now();
        let dropped = loop {
            receive(&h2, &mut buffers, &mut arrived);
            let report = report();
            let dropped: u64 = report.drops.iter().map(|row| row.count.packets).sum();
            let full = report.drops.iter().all(|row| row.reason == "queue-full");
            assert!(full, "{:?}", report.drops);
            if arrived.len() as u64 + dropped == u64::from(sent) {
                break dropped;
            }
            assert!(begun.elapsed() < PATIENCE, "{} {dropped}", arrived.len());
            thread::sleep(Duration::from_millis(5));
        };
        assert!(dropped > 100, "{dropped}");
        assert!(arrived.is_sorted(), "{arrived:?}");

        // When it is fast again, it takes all that comes at once, as far as the queue holds it.
        speed_up(&space);
        let before = arrived.len();
        for burst in 1..=10 {
            send_numbers(&h1, sent..sent + 50);
            sent += 50;
            while arrived.len() < before + 50 * burst {
                receive(&h2, &mut buffers, &mut arrived);
                assert!(begun.elapsed() < PATIENCE, "{}", arrived.len() - before);
                thread::sleep(Duration::from_millis(1));
            }
        }
        handle.stop();
        let network = running.join().expect("no panic");
        let report = SwitchReport::of(network.switch(switch).expect("a switch"));
        let after: u64 = report.drops.iter().map(|row| row.count.packets).sum();
        assert_eq!(after, dropped);
    }
}

/// With links that have delays and queues without an end, nothing is lost.
fn a_slow_interface_holds_back_a_chain_of_switches_on_two_threads() {
    let space = Space::enter();
    slow_down(&space, "4mbit");
    let [h1, h2] = ["h1", "h2"].map(open);
    let (network, switches) = chain(200_000);
    let (handle, running) = start(network, options(2, 0));
    let last = switches[SWITCHES - 1];
    let sent = send_until(&h1, || {
        let depth = |s: &mut Switch| s.queue_depth(2, 0).packets;
        handle.with_blocking(last, depth).expect("it runs") >= 50
    });
    let mut buffers = ReceiveBuffers::new(32, MAX_FRAME_BYTES);
    let (mut arrived, begun) = (Vec::new(), Instant::now());
    while arrived.len() < sent as usize && begun.elapsed() < PATIENCE {
        receive(&h2, &mut buffers, &mut arrived);
        thread::sleep(Duration::from_millis(5));
    }
    handle.stop();
    let network = running.join().expect("no panic");
    assert!(arrived.iter().copied().eq(0..sent), "{sent}: {arrived:?}");
    for (_, switch) in network.switches() {
        assert_eq!(SwitchReport::of(switch).drops, []);
    }
}

fn an_interface_that_goes_down_while_frames_wait_for_it_drops_them_and_comes_back() {
    let space = Space::enter();
    // At 50 kbit/s a frame leaves in 160 ms: none does while the test looks.
    slow_down(&space, "50kbit");
    let [h1, h2] = ["h1", "h2"].map(open);
    let (network, switch) = plain_switch();
    let (handle, running) = start(network, options(1, 0));
    let depth = |s: &mut Switch| s.queue_depth(2, 0).packets;
    let waiting = || handle.with_blocking(switch, depth).expect("it runs");
    send_until(&h1, || waiting() > 0);
    space.ip("link set p2 down");
    wait_until("nothing waits", || waiting() == 0);
    speed_up(&space);
    space.ip("link set p2 up");
    let (mut buffers, mut arrived) = (ReceiveBuffers::new(32, MAX_FRAME_BYTES), Vec::new());
    let mut number = MANY;
    wait_until("it comes back", || {
        send_numbers(&h1, number..number + 1);
        number += 1;
        thread::sleep(Duration::from_millis(15));
        // The other end was without carrier, which it may still have to tell.
        let _ = h2.take_error();
        receive(&h2, &mut buffers, &mut arrived);
        arrived.iter().any(|number| *number >= MANY)
    });
    handle.stop();
    let network = running.join().expect("no panic");
    let report = SwitchReport::of(network.switch(switch).expect("a switch"));
    let down = report.drops.iter().any(|row| row.reason == "port-down");
    assert!(down, "{:?}", report.drops);
}

fn what_waits_for_an_interface_at_the_end_is_counted() {
    let space = Space::enter();
    slow_down(&space, "50kbit");
    let h1 = open("h1");
    let (network, switch) = plain_switch();
    let (handle, running) = start(network, options(1, 0));
    send_numbers(&h1, 0..200);
    let seen = |s: &mut Switch| {
        let port = &SwitchReport::of(s).ports[1];
        let queue = &port.queues[0];
        let dropped: u64 = queue.dropped.values().map(|count| count.packets).sum();
        queue.enqueued.packets + dropped
    };
    wait_until("all have come", || {
        handle.with_blocking(switch, seen).expect("it runs") >= 200
    });
    let held = backlog_bytes(&space) / BYTES as u64;
    handle.stop();
    let network = running.join().expect("no panic");
    let report = SwitchReport::of(network.switch(switch).expect("a switch"));
    let port = &report.ports[1];
    let busy = report
        .drops
        .iter()
        .find(|row| row.reason == "interface-busy");
    let busy = busy.map_or(0, |row| row.count.packets);
    // Packets that the switch has sent are held by the kernel, apart from the few that the burst allowed to leave.
    let taken = port.transmitted.packets - busy;
    assert!(
        busy > 0 && taken >= held && taken <= held + 5,
        "{busy} {taken} {held}"
    );
}

ebb_testkit::tests! {
    Need::Root => [
        what_a_slow_interface_does_not_take_waits_in_the_queue_and_is_dropped_there,
        a_slow_interface_holds_back_a_chain_of_switches_on_two_threads,
        an_interface_that_goes_down_while_frames_wait_for_it_drops_them_and_comes_back,
        what_waits_for_an_interface_at_the_end_is_counted,
    ],
}
