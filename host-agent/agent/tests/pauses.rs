//! Agents under PFC frames of the neighbour, between two hosts. Needs root.

use std::thread;
use std::time::{Duration, Instant};

use ebb_packet_io::{PacketSocket, SocketOptions};
use ebb_testkit::{Need, PATIENCE, Signal, names, wait_until};
use ebb_wire::{MacAddress, PfcFrame};
use serde_json::Value;

use crate::hosts::{Hosts, Running};

/// At 20 Mbit/s a quantum takes 25.6 us. Flows of a priority are of class 6, others of class 0.
const PARAMS: &str =
    r#"{"nic": {"rate_bps": 20000000, "pfc": true, "classes": [{"dscp": 34, "queue": 6}]}}"#;
const QUANTUM: Duration = Duration::from_nanos(25_600);

/// Sends frames from the link of host b.
struct Neighbour(PacketSocket);

impl Neighbour {
    /// The thread of the test is in the namespace of b from now on.
    fn of(hosts: &Hosts) -> Self {
        hosts.space("b").enter();
        Neighbour(PacketSocket::open("eth1", &SocketOptions::default()).unwrap())
    }

    fn send(&self, frame: &[u8]) {
        assert_eq!(self.0.send_batch([frame].into_iter()).unwrap(), 1);
    }

    fn pause(&self, mask: u8, quanta: u16) {
        self.send(&frame(mask, quanta));
    }
}

fn frame(mask: u8, quanta: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    PfcFrame::of_classes(mask, quanta).emit(MacAddress([2, 0, 0, 0, 0, 9]), &mut frame);
    frame
}

/// The record of a sender, and what its NIC tells.
fn ended(sender: Running) -> (Value, Value) {
    let (records, _) = sender.records();
    let [record, end] = &records[..] else {
        panic!("{records:?}");
    };
    assert_eq!(end["event"], "end");
    (record.clone(), end["nic"].clone())
}

fn a_pause_stops_its_class_and_not_another_until_it_expires() {
    let hosts = Hosts::pair();
    hosts.set_params(PARAMS);
    let dir = hosts.dir.make_dir("received");
    let receiving = hosts.receive(&format!(
        "--transport dctcp --count 2 --dir {}",
        dir.display()
    ));
    // 1.2 s and 0.4 s, each on an engine of its own.
    let stopped = hosts.start_send("--transport dctcp --generate 3000000 --name stopped");
    let other = hosts.start_send("--transport dctcp --generate 1000000 --name other --priority 1");
    wait_until("both flows have begun", || names(&dir).len() == 2);
    let neighbour = Neighbour::of(&hosts);
    neighbour.pause(1, 0x8000);
    let pause = QUANTUM * 0x8000;

    let (record, nic) = ended(other);
    assert_eq!(record["status"], "finished", "{record}");
    let took = Duration::from_nanos(record["duration_ns"].as_u64().unwrap());
    assert!(took < pause, "{took:?}");
    assert_eq!(nic["pauses_received"][6], 0, "{nic}");
    let (record, nic) = ended(stopped);
    assert_eq!(record["status"], "finished", "{record}");
    let took = Duration::from_nanos(record["duration_ns"].as_u64().unwrap());
    assert!(took > pause + Duration::from_secs(1), "{took:?}");
    assert_eq!(
        nic["pauses_received"],
        serde_json::json!([1, 0, 0, 0, 0, 0, 0, 0])
    );
    assert_eq!(nic["paused_ns"][0], pause.as_nanos() as u64, "{nic}");
    assert!(receiving.end());
}

fn frames_that_are_none_stop_nothing() {
    let hosts = Hosts::pair();
    hosts.set_params(PARAMS);
    let dir = hosts.dir.make_dir("received");
    let receiving = hosts.receive(&format!(
        "--transport dctcp --count 1 --dir {}",
        dir.display()
    ));
    let sender = hosts.start_send("--transport dctcp --generate 1000000");
    wait_until("the flow has begun", || !names(&dir).is_empty());
    let neighbour = Neighbour::of(&hosts);
    let mut wrong_opcode = frame(0xff, 0xffff);
    wrong_opcode[15] = 0;
    let mut no_class = frame(0xff, 0xffff);
    no_class[17] = 0;
    let short = &frame(0xff, 0xffff)[..34];
    for bad in [&wrong_opcode, &no_class, short] {
        neighbour.send(bad);
    }
    let (record, nic) = ended(sender);
    assert_eq!(record["status"], "finished", "{record}");
    assert_eq!(nic["refused_frames"], 3, "{nic}");
    assert_eq!(
        nic["paused_ns"],
        serde_json::json!([0, 0, 0, 0, 0, 0, 0, 0])
    );
    assert!(receiving.end());
}

fn an_agent_that_is_stopped_for_ever_ends_when_it_is_told_to() {
    let hosts = Hosts::pair();
    hosts.set_params(PARAMS);
    let dir = hosts.dir.make_dir("received");
    let receiving = hosts.receive(&format!("--transport dctcp --dir {}", dir.display()));
    let sender = hosts.start_send("--transport dctcp --generate 3000000");
    wait_until("the flow has begun", || !names(&dir).is_empty());
    let neighbour = Neighbour::of(&hosts);
    neighbour.pause(0xff, 0xffff);
    // A refresh, as of somebody who never lets go.
    thread::sleep(Duration::from_millis(200));
    neighbour.pause(0xff, 0xffff);
    let told = Instant::now();
    sender.signal(Signal::TERM);
    let (record, nic) = ended(sender);
    assert!(told.elapsed() < PATIENCE, "{:?}", told.elapsed());
    assert_eq!(record["status"], "failed", "{record}");
    assert_eq!(nic["pauses_received"][7], 2, "{nic}");
    let paused = nic["paused_ns"][7].as_u64().unwrap();
    assert!(paused >= 200_000_000, "{nic}");
    receiving.signal(Signal::TERM);
    receiving.records();
}

ebb_testkit::tests! {
    Need::Root => [
        a_pause_stops_its_class_and_not_another_until_it_expires,
        frames_that_are_none_stop_nothing,
        an_agent_that_is_stopped_for_ever_ends_when_it_is_told_to,
    ],
}
