//! Storage in the scavenger class beside a foreground that shares all its links: each packet of the
//! foreground waits at each link for the packet of storage that is being sent, and for nothing else.

use ebb_transport::Role;
use serde_json::{Value, json};

use super::*;

/// Links on the way between the two racks, each with a packet in service.
const LINKS: u64 = 4;
/// One way after the other, in the time of a short flow: SYN, SYN with ACK, data in one window.
const WAYS: u64 = 3;
const OBJECTS: u64 = 5;
/// Time of a packet of storage on a link.
const PACKET_NS: u64 = (MTU + ETHERNET) * 8;

/// Transports of storage: one whose receivers ask for packets, and Trevi in each of its modes.
fn storages() -> [Storage; 5] {
    let trevi = |mode: &str| Storage {
        transport: "trevi",
        params: json!({"mode": mode, "rate_bps": 900_000_000}),
    };
    let ndp = Storage {
        transport: "ndp",
        params: json!({}),
    };
    let [constant, push, pull, hybrid] = ["constant-rate", "push", "pull", "hybrid"].map(trevi);
    [ndp, constant, push, pull, hybrid]
}

/// The transport of storage, with its parameters.
#[derive(Debug)]
struct Storage {
    transport: &'static str,
    params: Value,
}

/// Short flows from h1 to h4, one at a time, and, if it is there, storage that fills every link of their
/// way: the one of the sender, those between the racks and the one of the receiver, there and back.
/// Packets of storage are in the scavenger class, requests for them too. `order` is that of the queues.
fn run(storage: Option<&Storage>, order: &str) -> Outcome {
    let topology = Topology::racks(2, 3);
    let transfer = |id, traffic, from, to, start_ns: u64, bytes: u64| {
        json!({
            "id": id,
            "traffic": traffic,
            "priority": u8::from(traffic == "web"),
            "start_ns": start_ns,
            "sources": [from],
            "destinations": [to],
            "bytes": bytes,
        })
    };
    let web = (0..OBJECTS).map(|id| {
        // They meet storage at another point of its packets each time.
        transfer(id, "web", "h1", "h4", 2_000_000 + id * 2_003_700, 10_000)
    });
    let pairs = [
        ("h1", "h6"),
        ("h2", "h5"),
        ("h3", "h4"),
        ("h4", "h1"),
        ("h5", "h2"),
        ("h6", "h3"),
    ];
    let pairs = pairs.into_iter().zip(OBJECTS..);
    let stored = pairs.map(|((from, to), id)| transfer(id, "storage", from, to, 0, 40_000_000));
    let mut network = topology.network("reno");
    network["transfers"] = Value::Array(match storage {
        Some(_) => web.chain(stored).collect(),
        None => web.collect(),
    });
    network["params"]["dscp"] = json!({"trimmable": 8, "control": 8});
    if let Some(storage) = storage {
        network["transport_of"] = json!({"storage": storage.transport});
        network["params"][storage.transport] = storage.params.clone();
    }
    network["ends_with"] = json!(["web"]);
    for switch in network["switches"].as_array_mut().unwrap() {
        let profile = &mut switch["traffic_manager"]["profile"][0];
        profile["queue"] = json!([
            {"id": 0, "pool": true},
            {"id": 1, "pool": true, "on_full": "push-out"},
        ]);
        profile["group"] = json!([{"queues": [1, 0], "order": order}]);
        profile["pool_packets"] = json!(20);
    }
    topology.run(network)
}

/// When each of the short flows has arrived whole.
fn arrivals(outcome: &Outcome) -> Vec<u64> {
    let arrived = |id| outcome.of(Role::Receiver, id)[0].record.finished_at_ns;
    (0..OBJECTS).map(arrived).collect()
}

/// How much later the short flows arrive beside storage.
fn delays(storage: &Storage, order: &str) -> Vec<u64> {
    let (alone, beside) = (run(None, order), run(Some(storage), order));
    let lost = |outcome: &Outcome| {
        let records = (0..OBJECTS).map(|id| &outcome.sender(id).record);
        records
            .map(|record| record.counters.retransmitted)
            .sum::<u64>()
    };
    assert_eq!((lost(&alone), lost(&beside)), (0, 0));
    let pairs = arrivals(&alone).into_iter().zip(arrivals(&beside));
    pairs
        .map(|(alone, beside)| beside.checked_sub(alone).unwrap())
        .collect()
}

#[test]
fn the_foreground_waits_for_one_packet_of_storage_on_each_link() {
    for storage in storages() {
        let delays = delays(&storage, "priority");
        let bound = WAYS * LINKS * PACKET_NS;
        assert!(
            delays.iter().all(|delay| *delay <= bound),
            "{storage:?}: {delays:?}, at most {bound}"
        );
        // Storage is there at every link.
        let most = delays.iter().max().unwrap();
        assert!(*most > WAYS * PACKET_NS, "{storage:?}: {delays:?}");
    }
}

#[test]
fn in_order_of_arrival_it_waits_for_more() {
    let [ndp, ..] = storages();
    let delays = delays(&ndp, "arrival");
    let bound = WAYS * LINKS * PACKET_NS;
    assert!(delays.iter().all(|delay| *delay > bound), "{delays:?}");
}
