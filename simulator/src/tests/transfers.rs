//! Every kind of transfer, with the transports that have it.

use ebb_transport::{Role, Status, TransportKind};
use ebb_wire::Protocol;
use serde_json::{Value, json};

use super::*;

const BYTES: u64 = 200_000;

/// Transfers that start together, with keys beside the usual.
fn listed(entries: &[Value]) -> Value {
    let entries = (0u64..).zip(entries).map(|(id, entry)| {
        let mut all = json!({"id": id, "start_ns": 1000, "bytes": BYTES});
        for (key, value) in entry.as_object().unwrap() {
            all[key] = value.clone();
        }
        all
    });
    Value::Array(entries.collect())
}

fn run(topology: &Topology, transport: TransportKind, transfers: Value) -> Outcome {
    topology.run(with(
        topology.network(transport.name()),
        "transfers",
        transfers,
    ))
}

fn started(outcome: &Outcome, transfer: u64) -> u64 {
    outcome.sender(transfer).record.started_at_ns
}

#[test]
fn a_send_is_told_by_both_ends_so_that_they_can_be_paired() {
    for transport in TransportKind::ALL {
        let outcome = run(&Topology::star(2), transport, lone(50_000, 777, 2));
        outcome.assert_good();
        assert_eq!(outcome.flows.len(), 2, "{transport}");
        let (sent, received) = (&outcome.sender(0).record, &outcome.receiver(0).record);
        assert_eq!(
            (sent.local, sent.session),
            (received.peer, received.session)
        );
        assert_eq!(sent.peer.port(), transport.service_port());
        assert_eq!(sent.started_at_ns, 777);
        assert_eq!(sent.stream_bytes, received.stream_bytes, "{transport}");
        assert!(received.started_at_ns > sent.started_at_ns);
        assert!(received.finished_at_ns <= sent.finished_at_ns);
    }
}

#[test]
fn one_to_many_is_one_flow_to_a_group_or_one_to_each() {
    let topology = Topology::racks(3, 2);
    let transfers = listed(&[json!({
        "kind": "send-one-to-many", "sources": ["h1"], "destinations": ["h2", "h3", "h5"],
    })]);
    for transport in TransportKind::ALL {
        let mut network = with(
            topology.network(transport.name()),
            "transfers",
            transfers.clone(),
        );
        network["params"]["trevi"] = json!({"mode": "pull"});
        let outcome = topology.run(network);
        outcome.assert_good();
        let (sent, received) = (outcome.of(Role::Sender, 0), outcome.of(Role::Receiver, 0));
        assert_eq!(received.len(), 3, "{transport}");
        if !transport.entry().groups {
            assert_eq!(sent.len(), 3, "{transport}");
            continue;
        }
        assert_eq!(sent.len(), 1);
        let record = &sent[0].record;
        assert!(record.peer.ip().is_multicast());
        let group = record.group.unwrap();
        assert_eq!((group.receivers, group.receivers_finished), (3, 3));
        // Once over its link, not three times.
        assert!(record.counters.payload_bytes_sent < BYTES + BYTES / 5);
    }
}

#[test]
fn a_fetch_is_begun_by_its_destination() {
    for transport in TransportKind::ALL {
        let transfers = listed(&[json!({
            "kind": "fetch-one-to-one", "sources": ["h3"], "destinations": ["h1"],
        })]);
        let outcome = run(&Topology::star(3), transport, transfers);
        outcome.assert_good();
        let (served, fetched) = (outcome.sender(0), outcome.receiver(0));
        // The request has to come first: at least its way there and the first packet's back.
        assert!(
            served.record.started_at_ns > 1000 + 2 * DELAY_NS,
            "{transport}"
        );
        assert_eq!(fetched.started_at_ns, Some(1000), "{transport}");
        let open = fetched.open.as_ref().unwrap();
        assert_eq!(open.part, ebb_workload::Part::Start);
        assert_eq!(open.offered_at_ns, Some(1000));
        let open = served.open.as_ref().unwrap();
        assert_eq!(open.part, ebb_workload::Part::Serve);
        // The requests themselves are not told.
        assert_eq!(outcome.flows.len(), 2, "{transport}");
    }
}

/// A write by Trevi's multicast: each link of the tree carries the object, and the overhead of its
/// code, once; a link that is not of the tree carries nothing of it. A flow to each replica loads the
/// links that they share three times (Moncaster, section 4.4.2: a claim that was never measured).
#[test]
fn a_tree_carries_the_bytes_of_a_write_once_on_every_link() {
    let topology = Topology::racks(3, 2);
    let bytes: u64 = 2_000_000;
    let run = |transfers: Value| {
        let mut network = with(
            topology.network("trevi"),
            "transfers",
            listed_as(transfers, bytes),
        );
        network["params"]["trevi"] = json!({"mode": "pull"});
        let outcome = topology.run(network);
        outcome.assert_good();
        outcome.sent
    };
    let way = |from: &str, to: &str| (from.to_owned(), to.to_owned());
    // h1 is behind s0 with h2; s3 is in the middle.
    let tree = [
        way("s0", "s3"),
        way("s3", "s1"),
        way("s3", "s2"),
        way("s0", "h2"),
        way("s1", "h3"),
        way("s2", "h5"),
    ];
    // Headers of 82 bytes on 1432 of payload; a tenth more symbols than source symbols.
    let once = bytes as f64 * 1.1 * 1514.0 / 1432.0;
    let sent = run(json!([{
        "kind": "send-one-to-many", "sources": ["h1"], "destinations": ["h2", "h3", "h5"],
    }]));
    for (link, bytes) in &sent {
        let ratio = *bytes as f64 / once;
        if tree.contains(link) {
            assert!((0.98..1.03).contains(&ratio), "{link:?}: {ratio}");
        } else {
            // Requests of the receivers, of 82 bytes each, and nothing else.
            assert!(ratio < 0.2, "{link:?}: {ratio}");
        }
    }
    let each = |to: &str| json!({"sources": ["h1"], "destinations": [to]});
    let sent = run(json!([each("h3"), each("h4"), each("h5")]));
    let ratio = sent[&tree[0]] as f64 / once;
    assert!((2.9..3.2).contains(&ratio), "{ratio}");
}

/// The same for objects of this size.
fn listed_as(entries: Value, bytes: u64) -> Value {
    let mut all = listed(entries.as_array().unwrap());
    for entry in all.as_array_mut().unwrap() {
        entry["bytes"] = json!(bytes);
    }
    all
}

#[test]
fn many_to_one_comes_from_all_servers() {
    // Three windows that open at once lose nothing.
    let topology = Topology {
        queue_packets: 200,
        ..Topology::racks(3, 2)
    };
    for transport in [TransportKind::Scdp, TransportKind::Trevi] {
        let transfers = listed(&[json!({
            "kind": "fetch-many-to-one", "sources": ["h2", "h4", "h6"], "destinations": ["h1"],
        })]);
        let mut network = with(topology.network(transport.name()), "transfers", transfers);
        network["params"]["trevi"] = json!({"mode": "pull"});
        let outcome = topology.run(network);
        outcome.assert_good();
        let sent = outcome.of(Role::Sender, 0);
        assert_eq!(sent.len(), 3);
        let bytes = sent.iter().map(|s| s.record.counters.payload_bytes_sent);
        // Trevi has no shares: who is nearer is asked for more.
        let least = if transport == TransportKind::Scdp {
            BYTES / 6
        } else {
            0
        };
        assert!(bytes.clone().all(|bytes| bytes > least), "{transport}");
        assert!(bytes.sum::<u64>() < BYTES + BYTES / 4, "{transport}");
        let fetched = &outcome.receiver(0).record;
        assert_eq!(fetched.senders.len(), 3);
        assert!(fetched.senders.iter().all(|sender| sender.left.is_none()));
    }
}

#[test]
fn what_a_transport_cannot_do_is_told_before_it_starts() {
    let topology = Topology::star(3);
    let transfers = listed(&[json!({
        "kind": "fetch-many-to-one", "sources": ["h2", "h3"], "destinations": ["h1"],
        "traffic": "reads",
    })]);
    let network = with(topology.network("ndp"), "transfers", transfers);
    let network: Network = serde_json::from_value(network).unwrap();
    let error = network.build().err().unwrap().to_string();
    assert!(
        error.starts_with("traffic reads: ndp has no flows from"),
        "{error}"
    );
}

#[test]
fn a_response_starts_after_its_query_and_the_work_on_it() {
    let query = |from: &str| json!({"kind": "query", "sources": [from], "destinations": ["h1"], "bytes": 100});
    let response = |to: &str, query: u64| {
        json!({
            "kind": "response", "sources": ["h1"], "destinations": [to],
            "after": {
                "transfer": query, "moment": "finished", "delay_ns": 500_000, "serial": true,
            },
        })
    };
    for transport in [
        TransportKind::Ndp,
        TransportKind::Scdp,
        TransportKind::Dctcp,
    ] {
        let transfers = listed(&[
            query("h2"),
            query("h3"),
            response("h2", 0),
            response("h3", 1),
        ]);
        let outcome = run(&Topology::star(3), transport, transfers);
        outcome.assert_good();
        let came = |id| outcome.receiver(id).record.finished_at_ns;
        let (first, second) = (came(0).min(came(1)), came(0).max(came(1)));
        let mut starts = [started(&outcome, 2), started(&outcome, 3)];
        starts.sort_unstable();
        // One at a time: the second waits for the first, which takes longer than its own way.
        assert!(second < first + 500_000);
        assert_eq!(starts, [first + 500_000, first + 1_000_000], "{transport}");
        let receiver = outcome.receiver(2);
        assert_eq!(receiver.open.as_ref().unwrap().offered_at_ns, None);
        let sender = outcome.sender(2).open.as_ref().unwrap();
        assert_eq!(sender.offered_at_ns, Some(started(&outcome, 2)));
    }
}

#[test]
fn a_chain_goes_on_with_the_first_bytes() {
    for transport in [TransportKind::Ndp, TransportKind::Reno] {
        let link = |from: &str, to: &str, before: Option<u64>| {
            let after = before.map(|transfer| {
                json!({"transfer": transfer, "moment": "begun", "delay_ns": 0, "serial": false})
            });
            json!({"sources": [from], "destinations": [to], "after": after})
        };
        let transfers = listed(&[
            link("h1", "h2", None),
            link("h2", "h3", Some(0)),
            link("h3", "h4", Some(1)),
        ]);
        let outcome = run(&Topology::star(4), transport, transfers);
        outcome.assert_good();
        for id in [1, 2] {
            let before = &outcome.receiver(id - 1).record;
            let at = started(&outcome, id);
            assert!(at >= before.started_at_ns, "{transport}");
            // NDP delivers 32 packets at a time, TCP the first after a handshake.
            let first = match transport {
                TransportKind::Ndp => 500_000,
                _ => 50_000,
            };
            assert!(at < before.started_at_ns + first, "{transport}");
            assert!(before.finished_at_ns > at + 500_000, "{transport}");
        }
    }
}

#[test]
fn what_waits_for_a_failure_never_starts() {
    let topology = Topology::star(3);
    // The query is too large for its transport to be sent.
    let after = json!({"transfer": 0, "moment": "finished", "delay_ns": 0, "serial": false});
    let transfers = listed(&[
        json!({"sources": ["h1"], "destinations": ["h2"], "bytes": u64::MAX / 2}),
        json!({"sources": ["h1"], "destinations": ["h3"], "after": after}),
    ]);
    let outcome = run(&topology, TransportKind::Ndp, transfers);
    assert_eq!(outcome.flows.len(), 0);
    assert_eq!(outcome.failed.len(), 1);
    assert!(
        outcome.failed[0].1.contains("at most"),
        "{:?}",
        outcome.failed
    );
    assert_eq!(outcome.not_started.len(), 1);
    assert_eq!(outcome.not_started[0].0, 1);
    assert_eq!(outcome.unfinished, 0);
    assert_eq!(outcome.done, (2, 0));
}

#[test]
fn priorities_are_served_first() {
    let transfers = listed(&[
        json!({"sources": ["h1"], "destinations": ["h3"]}),
        json!({"sources": ["h2"], "destinations": ["h3"], "priority": 7}),
    ]);
    for transport in [TransportKind::Ndp, TransportKind::Scdp] {
        let outcome = run(&Topology::star(3), transport, transfers.clone());
        outcome.assert_good();
        let end = |id| outcome.receiver(id).record.finished_at_ns;
        assert!(end(1) + 800_000 < end(0), "{transport}");
    }
}

/// The network with persistent connections.
fn run_open(topology: &Topology, transport: TransportKind, transfers: Value) -> Outcome {
    let mut network = with(topology.network(transport.name()), "transfers", transfers);
    network["params"]["tcp"] = json!({"connections": "open"});
    topology.run(network)
}

#[test]
fn transfers_of_one_connection_follow_each_other() {
    let of = |connection: u32| json!({"sources": ["h1"], "destinations": ["h2"], "connection": connection});
    for transport in [
        TransportKind::Reno,
        TransportKind::Dctcp,
        TransportKind::Detail,
    ] {
        let outcome = run_open(
            &Topology::star(2),
            transport,
            listed(&[of(0), of(0), of(3), of(0)]),
        );
        outcome.assert_good();
        let local = |id| outcome.sender(id).record.local;
        let end = |id| outcome.receiver(id).record.finished_at_ns;
        assert_eq!((local(0), local(0)), (local(1), local(3)), "{transport}");
        assert_ne!(local(0), local(2));
        assert!(end(0) < end(1) && end(1) < end(3), "{transport}");
        // The one on a connection of its own shares the link with all three.
        assert!(end(2) < end(1), "{transport}");
        let alone = run(&Topology::star(2), transport, listed(&[of(0), of(0)]));
        alone.assert_good();
        let local = |id| alone.sender(id).record.local;
        assert_ne!(local(0), local(1), "one object per connection by default");
    }
}

#[test]
fn an_answer_takes_the_connection_of_its_request() {
    let fetch = |start_ns: u64| {
        json!({
            "kind": "fetch-one-to-one", "sources": ["h1"], "destinations": ["h2"],
            "connection": 5, "bytes": 3_000, "start_ns": start_ns,
        })
    };
    let fetches = listed(&[fetch(1000), fetch(2_000_000)]);
    let outcome = run_open(&Topology::star(2), TransportKind::Detail, fetches.clone());
    outcome.assert_good();
    let sent = |id| &outcome.sender(id).record;
    assert_eq!(sent(0).local.port(), TransportKind::Detail.service_port());
    assert_eq!(sent(0).peer, sent(1).peer, "one connection for all four");
    // The second has no handshake to wait for.
    let took = |outcome: &Outcome, id| outcome.receiver(id).record.finished_at_ns;
    let apart = run(&Topology::star(2), TransportKind::Detail, fetches);
    apart.assert_good();
    assert!(took(&outcome, 1) < took(&apart, 1));
    assert_ne!(
        apart.sender(0).record.local.port(),
        TransportKind::Detail.service_port()
    );
}

#[test]
fn a_request_in_the_syn_saves_a_round_trip() {
    let fetch = json!({
        "kind": "fetch-one-to-one", "sources": ["h1"], "destinations": ["h2"], "bytes": 3_000,
    });
    let topology = Topology::star(2);
    let took = |data_in_syn: bool| {
        let transfers = listed(std::slice::from_ref(&fetch));
        let mut network = with(topology.network("detail"), "transfers", transfers);
        network["params"]["tcp"] = json!({"connections": "open", "data_in_syn": data_in_syn});
        let outcome = topology.run(network);
        outcome.assert_good();
        outcome.receiver(0).record.finished_at_ns
    };
    let (after, with_syn) = (took(false), took(true));
    // A round trip is at least two links of 1 us in each direction; the SYN takes longer with data.
    assert!(after > with_syn + 4_000, "{after} and {with_syn} ns");
}

/// Eight to one, so that data queues overflow and packets are trimmed or lost.
#[test]
fn an_incast_arrives_whole() {
    let senders: Vec<Value> = (2..10)
        .map(|n| json!({"sources": [format!("h{n}")], "destinations": ["h1"]}))
        .collect();
    for transport in TransportKind::ALL {
        let outcome = run(&Topology::star(9), transport, listed(&senders));
        outcome.assert_good();
        assert_eq!(outcome.flows.len(), 16);
        let sum = |of: fn(&ebb_transport::Counters) -> u64| {
            let flows = outcome.flows.iter();
            flows
                .map(|(_, ended)| of(&ended.record.counters))
                .sum::<u64>()
        };
        match transport {
            TransportKind::Ndp => assert!(sum(|c| c.trimmed) > 0),
            // Symbols that were cut are made up for by repair symbols, which have to be decoded.
            TransportKind::Scdp => {
                assert!(sum(|c| c.trimmed) > 0 && sum(|c| c.decodes) > 0 && sum(|c| c.encodes) > 0);
            }
            _ if transport.protocol() == Protocol::TCP => {
                assert!(sum(|c| c.retransmitted) > 0, "{transport}");
            }
            _ => {}
        }
    }
}

#[test]
fn coding_takes_time_if_it_is_said_how_fast_it_is() {
    let topology = Topology::star(9);
    let senders: Vec<Value> = (2..10)
        .map(|n| json!({"sources": [format!("h{n}")], "destinations": ["h1"]}))
        .collect();
    let run = |coding_bps: u64| {
        let network = with(topology.network("scdp"), "transfers", listed(&senders));
        let outcome = topology.run(with(network, "coding_bps", coding_bps.into()));
        outcome.assert_good();
        let flows = outcome.flows.iter();
        let decoding = flows.map(|(_, ended)| ended.record.counters.decode_ns);
        let last = outcome.flows.iter().map(|(_, e)| e.record.finished_at_ns);
        (decoding.sum::<u64>(), last.max().unwrap())
    };
    let (no_time, at_once) = run(0);
    let (some_time, later) = run(100_000_000);
    assert_eq!(no_time, 0);
    assert!(some_time > 8 * BYTES * 8 * 10 / 2, "{some_time}");
    assert!(later > at_once + 5_000_000, "{at_once} {later}");
}

#[test]
fn a_workload_is_drawn_as_the_agents_draw_it() {
    let topology = Topology::racks(3, 3);
    let folder = ebb_testkit::Folder::new("workload");
    let file = folder.write(
        "workload.toml",
        "[[traffic]]
         name = 'reads'
         pattern = { type = 'storage-read' }
         arrivals = { type = 'poisson', rate_hz = 2000 }
         size = { type = 'fixed', bytes = 30_000 }
         count = 40
         [[traffic]]
         name = 'writes'
         pattern = { type = 'storage-write' }
         arrivals = { type = 'poisson', rate_hz = 2000 }
         size = { type = 'uniform', min_bytes = 1, max_bytes = 50_000 }
         count = 40
         [[traffic]]
         name = 'searches'
         pattern = { type = 'partition-aggregate', fan_out = 4, query_bytes = 200,
                     service = { type = 'exponential', mean_ns = 100_000 } }
         arrivals = { type = 'poisson', rate_hz = 1000 }
         size = { type = 'fixed', bytes = 2000 }
         count = 20
         [[traffic]]
         name = 'ring'
         pattern = { type = 'permutation' }
         arrivals = { type = 'back-to-back', rounds = 3 }
         size = { type = 'fixed', bytes = 5000 }",
    );
    let network = with(topology.network("scdp"), "workload", json!(file));
    let outcome = topology.run(network);
    outcome.assert_good();
    let transfers = 40 + 40 + 20 * 8 + 9 * 3;
    assert_eq!(outcome.done, (transfers, 0));
    let starts = outcome.flows.iter().filter(|(_, ended)| {
        let open = ended.open.as_ref().unwrap();
        open.part == ebb_workload::Part::Start
    });
    assert_eq!(starts.count() as u64, transfers);
    let name = &outcome.flows[0].1.header.as_ref().unwrap().name;
    let workload = ebb_workload::Workload::parse(
        &std::fs::read_to_string(&file).unwrap(),
        ebb_workload::Format::Toml,
        |_| Err("none".into()),
    );
    // From the same file; the fingerprint is over the hosts too.
    assert!(
        workload.is_ok() && name.starts_with('w') && name.len() > 18,
        "{name}"
    );
}

#[test]
fn a_flow_that_nobody_takes_fails_and_is_told() {
    let topology = Topology::star(3);
    let mut network = with(topology.network("ndp"), "transfers", lone(5000, 0, 2));
    // A host that the switch does not know.
    network["hosts"][1]["mac"] = json!("02:00:00:00:00:77");
    let outcome = topology.run(network);
    let sent = &outcome.sender(0).record;
    assert!(matches!(&sent.status, Status::Failed(reason) if !reason.is_empty()));
    assert_eq!(outcome.done, (1, 0));
}
