//! How the engine takes what happens to a host, between two hosts. Needs root.

use std::thread;
use std::time::{Duration, Instant};

use ebb_testkit::{Need, PATIENCE, Signal, names};

use crate::hosts::{Hosts, record, wait_for_bytes};

/// Packets are trimmed, lost, copied, late and damaged, in both directions at once.
fn objects_survive_every_fault() {
    let hosts = Hosts::pair();
    let rates =
        r#"{"trim": 0.02, "drop": 0.005, "duplicate": 0.01, "reorder": 0.01, "corrupt": 0.005}"#;
    let faults = format!(r#"{{"seed": 7, "leaving": {rates}, "arriving": {rates}}}"#);
    let params = format!(r#"{{"nic": {{"rate_bps": 100000000}}, "faults": {faults}}}"#);
    hosts.set_params(&params);
    for transport in ["ndp", "scdp", "dctcp"] {
        let receiving = hosts.receive(&format!("--transport {transport} --count 1"));
        let output = hosts.send(&format!("--transport {transport} --generate 3000000"));
        let sent = record(&output);
        assert!(output.status.success(), "{transport}: {sent}");
        let (records, good) = receiving.records();
        assert!(good, "{transport}: {records:?}");
        assert_eq!(records[0]["sha256_ok"], true, "{transport}");
        // There are 2095 packets or more, each of which is trimmed with a probability of 4 %.
        let trimmed = records[0]["trimmed"].as_u64().unwrap();
        match transport {
            "dctcp" => assert_eq!(trimmed, 0),
            _ => assert!((30..200).contains(&trimmed), "{transport}: {trimmed}"),
        }
        assert!(sent["packets_sent"].as_u64().unwrap() > 2095, "{sent}");
    }
}

fn a_deleted_interface_ends_the_agents_with_a_record_and_a_reason() {
    let hosts = Hosts::pair();
    let dir = hosts.dir.make_dir("received");
    let mut receiving = hosts.receive(&format!("--transport ndp --dir {}", dir.display()));
    let sender = hosts.start_send("--transport ndp --generate 50000000");
    wait_for_bytes(&dir);
    hosts.space("a").ip("link delete eth1");
    let (code, sent, text) = sender.outcome();
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("eth1"), "{text}");
    assert!(text.contains("does it still exist?"), "{text}");
    assert_eq!(sent["status"], "failed");
    // The peer of a veth goes with it.
    assert_eq!(receiving.process.wait().code(), Some(2));
    let (records, _) = receiving.records();
    assert_eq!(records[0]["status"], "failed");
    assert!(names(&dir).is_empty(), "{:?}", names(&dir));
}

fn many_flows_end_at_once_when_their_receiver_is_told_to() {
    const FLOWS: usize = 20;
    let hosts = Hosts::pair();
    for transport in ["scdp", "dctcp"] {
        let dir = hosts.dir.make_dir("received");
        let receiving = hosts.receive(&format!("--transport {transport} --dir {}", dir.display()));
        let args = format!("--transport {transport} --generate 20000000");
        let senders = [(); FLOWS].map(|()| hosts.start_send(&args));
        wait_for_bytes(&dir);
        let told = Instant::now();
        receiving.signal(Signal::TERM);
        let (records, _) = receiving.records();
        assert!(told.elapsed() < PATIENCE, "{transport}");
        assert!(!records.is_empty(), "{transport}");
        assert!(records.iter().all(|record| record["status"] == "failed"));
        for sender in senders {
            let (code, sent, _) = sender.outcome();
            assert_eq!(code, Some(1), "{transport}: {sent}");
            assert_eq!(sent["status"], "failed", "{transport}");
        }
        assert!(names(&dir).is_empty(), "{:?}", names(&dir));
    }
}

fn an_engine_that_had_no_processor_says_how_late_it_was() {
    let hosts = Hosts::pair();
    let stopped = Duration::from_millis(100);
    let dir = hosts.dir.make_dir("received");
    let args = format!(
        "--transport ndp --count 1 --lateness --dir {}",
        dir.display()
    );
    let receiving = hosts.receive(&args);
    let sender = hosts.start_send("--transport ndp --generate 20000000 --lateness");
    // The whole transfer takes 1.6 s.
    wait_for_bytes(&dir);
    // An engine that is stopped at work is not late for a deadline. It may wake between the look and the signal, the
    // more often the busier the machine is; eight stops all but never miss its sleep altogether.
    for _ in 0..8 {
        receiving.process.stop_asleep();
        thread::sleep(stopped);
        receiving.signal(Signal::CONT);
    }
    let (sent, _) = sender.records();
    let (records, good) = receiving.records();
    assert!(good, "{records:?}");
    let end = &records[1];
    assert_eq!(end["event"], "end");
    let late = end["lateness"]["wakeups"]["max_ns"].as_u64().unwrap();
    // The engine had asked to be woken within some milliseconds.
    assert!(late >= stopped.as_nanos() as u64 / 2, "{end}");
    assert!(late < 60_000_000_000, "{end}");
    // The sender had packets to send all the time, at the rate of its NIC.
    let end = sent.last().unwrap();
    let departures = &end["lateness"]["departures"];
    assert!(departures["count"].as_u64().unwrap() > 100, "{end}");
    assert!(departures["p99_ns"].as_u64() <= departures["max_ns"].as_u64());
}

/// Engines that look only every millisecond still keep to the rate, since the NIC makes up for it.
fn objects_arrive_at_engines_that_rarely_look() {
    let hosts = Hosts::pair();
    let engine = r#""engine": {"coalesce_microseconds": 1000}"#;
    let nic = r#""nic": {"rate_bps": 50000000, "catch_up_packets": 16}"#;
    hosts.set_params(&format!("{{{engine}, {nic}}}"));
    for transport in ["ndp", "scdp", "dctcp"] {
        let receiving = hosts.receive(&format!("--transport {transport} --count 1"));
        let output = hosts.send(&format!("--transport {transport} --generate 3000000"));
        let sent = record(&output);
        assert!(output.status.success(), "{transport}: {sent}");
        let (records, good) = receiving.records();
        assert!(good, "{transport}: {records:?}");
        assert_eq!(records[0]["sha256_ok"], true, "{transport}");
        let mbps = 24e9 / records[0]["duration_ns"].as_f64().unwrap();
        eprintln!("{transport}: {mbps:.1} Mbit/s");
    }
}

ebb_testkit::tests! {
    Need::Root => [
        objects_survive_every_fault,
        a_deleted_interface_ends_the_agents_with_a_record_and_a_reason,
        many_flows_end_at_once_when_their_receiver_is_told_to,
        an_engine_that_had_no_processor_says_how_late_it_was,
        objects_arrive_at_engines_that_rarely_look,
    ],
}
