//! Packets through a traffic manager, for Callgrind to count (`tools/instructions`).
//!
//! Ports with the queues of NDP: data of 8 packets, which deflect, and headers before them. Prints how many packets are
//! counted.

use std::collections::BTreeMap;

use ebb_traffic_manager::{
    Admission, Arrival, Group, OnFull, Profile, QueueConfig, TrafficManager, TrafficManagerConfig,
};
use ebb_units::{BitRate, Instant};

const PORTS: u16 = 4;
/// Packets that arrive together at each port.
const BURST: u64 = 4;
/// Time between two bursts, in which a burst leaves.
const BURST_US: u64 = 50;
/// Bursts until all memory is there that the traffic manager keeps.
const WARM_UP: u64 = 100;
/// Bursts that count.
const BURSTS: u64 = 1000;

fn main() -> Result<(), String> {
    let mut manager = TrafficManager::new(config()).map_err(|e| e.to_string())?;
    let mut run = |number: u64| {
        let now = Instant::from_micros(number * BURST_US);
        (0..PORTS).try_for_each(|port| pass(&mut manager, now, port))
    };
    (0..WARM_UP).try_for_each(&mut run)?;
    ebb_testkit::counted(|| (WARM_UP..WARM_UP + BURSTS).try_for_each(run))?;
    println!("{}", u64::from(PORTS) * BURSTS * BURST);
    Ok(())
}

/// A burst through a port: a packet in four is a header.
fn pass(manager: &mut TrafficManager<Box<u64>>, now: Instant, port: u16) -> Result<(), String> {
    for number in 0..BURST {
        let (queue, len) = if number == 0 { (7, 64) } else { (1, 1514) };
        let arrival = Arrival {
            queue,
            len,
            ..Arrival::default()
        };
        let packet = Box::new(number);
        let Admission::Enqueued { .. } = manager.enqueue(now, port, arrival, packet) else {
            return Err("a queue is full".to_owned());
        };
    }
    let mut left = 0;
    while let Some(start) = manager.next_deadline(port) {
        let Some(departure) = manager.dequeue(start, port) else {
            return Err("nothing leaves at the deadline".to_owned());
        };
        manager.transmit(port, departure.queue, departure.start, departure.len, false);
        left += 1;
    }
    (left == BURST)
        .then_some(())
        .ok_or_else(|| "packets are missing".to_owned())
}

fn config() -> TrafficManagerConfig {
    let queue = |id, capacity_packets, on_full| QueueConfig {
        id,
        capacity_packets: Some(capacity_packets),
        on_full,
        ..QueueConfig::default()
    };
    let group = |queues: &[u8], weight| Group {
        queues: queues.to_vec(),
        weight,
        ..Group::default()
    };
    let profile = Profile {
        name: "ndp".to_owned(),
        rate_bps: BitRate::from_mbps(1000),
        delay_ns: 1000,
        queue: vec![
            queue(7, 1000, OnFull::Deflect),
            queue(1, 8, OnFull::Deflect),
            queue(0, 250, OnFull::TailDrop),
        ],
        group: vec![group(&[7], 10), group(&[1, 0], 1)],
        ..Profile::default()
    };
    TrafficManagerConfig {
        ports: BTreeMap::from([("default".to_owned(), profile.name.clone())]),
        profile: vec![profile],
        ..TrafficManagerConfig::default()
    }
}
