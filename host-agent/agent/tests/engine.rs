//! How the engine takes what happens to a host, between two hosts. Needs root.

mod common;
#[allow(dead_code)] // of these helpers, some are for the other tests
mod hosts;

use std::time::{Duration, Instant};

use common::{ip, record};
use ebb_test_needs::Need;
use hosts::Hosts;

/// Trims, losses, copies, late and damaged packets, in both directions at once.
fn objects_survive_every_fault() {
    let hosts = Hosts::new();
    let rates =
        r#"{"trim": 0.02, "drop": 0.005, "duplicate": 0.01, "reorder": 0.01, "corrupt": 0.005}"#;
    let faults = format!(r#"{{"seed": 7, "leaving": {rates}, "arriving": {rates}}}"#);
    let params = format!(r#"{{"nic": {{"rate_bps": 100000000}}, "faults": {faults}}}"#);
    std::fs::write(hosts.dir.join("params.json"), params).unwrap();
    for scheme in ["ndp", "scdp", "dctcp"] {
        let receiving = hosts.receive(&format!("--scheme {scheme} --count 1"));
        let output = hosts.send(&format!("--scheme {scheme} --generate 3000000"));
        let sent = record(&output);
        assert!(output.status.success(), "{scheme}: {sent}");
        let (records, good) = receiving.end();
        assert!(good, "{scheme}: {records:?}");
        assert_eq!(records[0]["sha256_ok"], true, "{scheme}");
        // 2095 packets or more, each trimmed with a probability of 4 %.
        let trimmed = records[0]["trimmed"].as_u64().unwrap();
        match scheme {
            "dctcp" => assert_eq!(trimmed, 0),
            _ => assert!((30..200).contains(&trimmed), "{scheme}: {trimmed}"),
        }
        assert!(sent["packets_sent"].as_u64().unwrap() > 2095, "{sent}");
    }
}

fn a_deleted_interface_ends_the_agents_with_a_record_and_a_reason() {
    let hosts = Hosts::new();
    let dir = hosts.dir.join("received");
    let mut receiving = hosts.receive(&format!("--scheme ndp --dir {}", dir.display()));
    let sender = hosts
        .agent("a", "send --scheme ndp --generate 50000000 10.0.0.3:7000")
        .spawn()
        .unwrap();
    hosts.wait_for_bytes();
    ip(&format!("-n {}-a link delete eth1", hosts.name));
    let output = sender.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("eth1"), "{text}");
    assert!(text.contains("does it still exist?"), "{text}");
    assert_eq!(record(&output)["status"], "failed");
    // The peer of a veth goes with it.
    assert_eq!(receiving.child.wait().unwrap().code(), Some(2));
    let (records, _) = receiving.end();
    assert_eq!(records[0]["status"], "failed");
    assert!(hosts.received().is_empty(), "{:?}", hosts.received());
}

fn many_flows_end_at_once_when_their_receiver_is_told_to() {
    const FLOWS: usize = 20;
    let hosts = Hosts::new();
    for scheme in ["scdp", "dctcp"] {
        let dir = hosts.dir.join("received");
        let receiving = hosts.receive(&format!("--scheme {scheme} --dir {}", dir.display()));
        let args = format!("send --scheme {scheme} --generate 20000000 10.0.0.3:7000");
        let senders: Vec<_> = (0..FLOWS)
            .map(|_| hosts.agent("a", &args).spawn().unwrap())
            .collect();
        hosts.wait_for_bytes();
        let told = Instant::now();
        receiving.signal(libc::SIGTERM);
        let (records, _) = receiving.end();
        assert!(told.elapsed() < Duration::from_secs(5), "{scheme}");
        assert!(!records.is_empty(), "{scheme}");
        assert!(records.iter().all(|record| record["status"] == "failed"));
        for sender in senders {
            let output = sender.wait_with_output().unwrap();
            let sent = record(&output);
            assert_eq!(output.status.code(), Some(1), "{scheme}: {sent}");
            assert_eq!(sent["status"], "failed", "{scheme}");
        }
        assert!(hosts.received().is_empty(), "{:?}", hosts.received());
    }
}

fn an_engine_that_had_no_processor_says_how_late_it_was() {
    let hosts = Hosts::new();
    let stopped = Duration::from_millis(400);
    let dir = hosts.dir.join("received");
    let args = format!("--scheme ndp --count 1 --lateness --dir {}", dir.display());
    let receiving = hosts.receive(&args);
    let sender = hosts
        .agent(
            "a",
            "send --scheme ndp --generate 20000000 10.0.0.3:7000 --lateness",
        )
        .spawn()
        .unwrap();
    // It takes 1.6 s in all.
    hosts.wait_for_bytes();
    receiving.signal(libc::SIGSTOP);
    std::thread::sleep(stopped);
    receiving.signal(libc::SIGCONT);
    let output = sender.wait_with_output().unwrap();
    let (records, good) = receiving.end();
    assert!(good, "{records:?}");
    let end = &records[1];
    assert_eq!(end["event"], "end");
    let late = end["lateness"]["wakeups"]["max_ns"].as_u64().unwrap();
    // It had asked to be woken within a timeout of some ms.
    assert!(late >= stopped.as_nanos() as u64 / 2, "{end}");
    assert!(late < 60_000_000_000, "{end}");
    // The sender waited for its NIC all the time.
    let text = String::from_utf8(output.stdout).unwrap();
    let end: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let departures = &end["lateness"]["departures"];
    assert!(departures["count"].as_u64().unwrap() > 100, "{end}");
    assert!(departures["p99_ns"].as_u64() <= departures["max_ns"].as_u64());
}

/// Engines that look only every millisecond still keep to the rate, since the NIC makes up for it.
fn objects_arrive_at_engines_that_rarely_look() {
    let hosts = Hosts::new();
    let engine = r#""engine": {"coalesce_microseconds": 1000}"#;
    let nic = r#""nic": {"rate_bps": 50000000, "catch_up_packets": 16}"#;
    std::fs::write(
        hosts.dir.join("params.json"),
        format!("{{{engine}, {nic}}}"),
    )
    .unwrap();
    for scheme in ["ndp", "scdp", "dctcp"] {
        let receiving = hosts.receive(&format!("--scheme {scheme} --count 1"));
        let output = hosts.send(&format!("--scheme {scheme} --generate 3000000"));
        let sent = record(&output);
        assert!(output.status.success(), "{scheme}: {sent}");
        let (records, good) = receiving.end();
        assert!(good, "{scheme}: {records:?}");
        assert_eq!(records[0]["sha256_ok"], true, "{scheme}");
        let mbps = 24e9 / records[0]["duration_ns"].as_f64().unwrap();
        eprintln!("{scheme}: {mbps:.1} Mbit/s");
    }
}

ebb_test_needs::tests! {
    Need::Root => [
        objects_survive_every_fault,
        a_deleted_interface_ends_the_agents_with_a_record_and_a_reason,
        many_flows_end_at_once_when_their_receiver_is_told_to,
        an_engine_that_had_no_processor_says_how_late_it_was,
        objects_arrive_at_engines_that_rarely_look,
    ],
}
