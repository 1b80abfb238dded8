//! A load from host to host is counted packet by packet. Needs root.

use std::fs::{Permissions, set_permissions};
use std::io::{BufRead, Read};
use std::os::unix::fs::PermissionsExt;

use ebb_packet_io::RingListener;
use ebb_testkit::{Folder, Need, Process, wait_until};
use serde_json::Value;

use crate::hosts::{Hosts, lines, parse, stderr};

/// The only line of one end with this direction: what it has sent, or what it has received.
fn told<'a>(lines: &'a [Value], direction: &str) -> &'a Value {
    let mut found = lines.iter().filter(|line| line["direction"] == direction);
    let line = found.next().unwrap_or_else(|| panic!("{lines:?}"));
    assert!(found.next().is_none(), "{lines:?}");
    line
}

fn every_packet_of_both_directions_is_counted() {
    let hosts = Hosts::pair();
    // With this patience all packets leave, even if the machine does other things meanwhile; by the time of the start
    // both listen.
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let start_ns = (now.tv_sec + 3) * 1_000_000_000;
    let common = format!(
        "--rate-bps 20M --packet-bytes 986 --seconds 0.5 --patience-us 60000000 --start-at-ns {start_ns}"
    );
    let a = hosts.client("a", &format!("load 10.0.0.3 {common}"));
    let b = hosts.client("b", &format!("load 10.0.0.2 {common}"));
    let [a, b] = [a, b].map(|mut command| command.spawn().unwrap());
    let ends = [a, b].map(|child| lines(&child.wait_with_output().unwrap()));
    for (one, other) in [(&ends[0], &ends[1]), (&ends[1], &ends[0])] {
        let sent = told(one, "sent");
        // Half a second at 20 Mbit/s is 1250 frames of 1000 bytes.
        assert_eq!(sent["packets"], 1250, "{sent}");
        assert_eq!((&sent["skipped"], &sent["refused"]), (&0.into(), &0.into()));
        // The time is that from the first to the last packet, of which the first may be late.
        let ns = |key: &str| sent[key].as_u64().unwrap();
        assert!(
            ns("elapsed_ns") + ns("max_lateness_ns") >= 499_000_000,
            "{sent}"
        );
        let received = told(other, "received");
        assert_eq!(received["stream"], sent["stream"]);
        assert_eq!(received["sent"], 1250, "{received}");
        assert_eq!(received["received"], 1250, "{received}");
        assert_eq!(received["lost"], 0, "{received}");
        assert_eq!(received["reordered"], 0, "{received}");
        assert_eq!(received["bytes"], 1_250_000, "{received}");
        assert!(received["delay"]["max_ns"].as_u64().unwrap() > 0);
    }
    // The rule that kept the kernel from answering is gone.
    let rules = hosts.space("a").ip("rule show");
    assert!(!rules.contains("udp"), "{rules}");
}

/// The packets are made by hand, as other programs can make them: bash sends each as one UDP datagram.
fn what_is_lost_late_or_comes_twice_is_told() {
    let hosts = Hosts::pair();
    let mut sink = Process::start(&mut hosts.client("b", "sink --count 1"));
    let mut out = sink.stdout();
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("ready"), "{line}");
    let datagram = |kind: u8, number: u64| {
        // It is in an IP packet of 20 + 8 + 32 bytes and belongs to stream 9.
        let load = [
            b"Ebb1\0\0\0\x3c\0\0\0\x09".as_slice(),
            &number.to_be_bytes(),
            &[0; 12],
        ];
        let mut load = load.concat();
        load[4] = kind;
        let hex: String = load.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("printf '{hex}' > /dev/udp/10.0.0.3/7010;")
    };
    let data = [0, 1, 4, 2, 2, 0, 6].map(|number| datagram(0, number));
    let script = data.concat() + "printf garbage > /dev/udp/10.0.0.3/7010;" + &datagram(1, 9);
    let mut bash = hosts.space("a").command("bash");
    assert!(bash.args(["-c", &script]).status().unwrap().success());
    let mut text = String::new();
    out.read_to_string(&mut text).unwrap();
    assert!(sink.wait().success());
    let lines = parse(&text);
    let received = told(&lines, "received");
    for (key, count) in [
        ("sent", 9),
        ("received", 5),
        ("lost", 4),
        ("reordered", 1),
        ("duplicates", 2),
        ("trimmed", 0),
    ] {
        assert_eq!(received[key], count, "{key} of {received}");
    }
    assert_eq!(lines.last().unwrap()["ignored"], 1, "{lines:?}");
}

/// Whoever is to read a ring gets the processor: it is tried again once per budget of lateness.
fn a_ring_that_nobody_reads_costs_a_wake_up_per_budget() {
    let hosts = Hosts::pair();
    let folder = Folder::new("load-ring");
    set_permissions(&*folder, Permissions::from_mode(0o700)).unwrap();
    let path = folder.join("a");
    let listener = RingListener::bind(&path).unwrap();
    let load = format!(
        "load 10.0.0.3 --rate-bps 10G --seconds 0.5 --settle-seconds 0.001 --lateness-us 5000 --json --ring {}",
        path.display()
    );
    let child = hosts.client("a", &load).spawn().unwrap();
    let mut ring = None;
    wait_until("the host has its ring", || {
        ring = listener.accept().unwrap();
        ring.is_some()
    });
    let lines = lines(&child.wait_with_output().unwrap());
    let sent = told(&lines, "sent");
    assert!(sent["skipped"].as_u64().unwrap() > 100_000, "{sent}");
    let wakeups = lines.last().unwrap()["wakeups"].as_u64().unwrap();
    // A hundred budgets, and what comes at the end.
    assert!(wakeups <= 150, "{wakeups}");
}

fn a_packet_that_does_not_fit_is_refused_before_anything_is_sent() {
    let hosts = Hosts::pair();
    let output = hosts
        .client("a", "load 10.0.0.3 --packet-bytes 1501")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = stderr(&output);
    assert!(error.contains("1501") && error.contains("1500"), "{error}");
}

ebb_testkit::tests! {
    Need::Root => [
        every_packet_of_both_directions_is_counted,
        what_is_lost_late_or_comes_twice_is_told,
        a_ring_that_nobody_reads_costs_a_wake_up_per_budget,
        a_packet_that_does_not_fit_is_refused_before_anything_is_sent,
    ],
}
