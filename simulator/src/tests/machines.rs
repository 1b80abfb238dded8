//! Hosts with virtual machines.

use super::*;

const FRAME: u64 = 1_538;

/// A star whose hosts have a VM each, but the first, which has two. They are guaranteed 100 Mbit/s.
fn network(hosts: usize) -> (Topology, Value) {
    let star = Topology::star(hosts);
    let mut network = star.network("reno");
    network["params"]["nic"]["frame_overhead_bytes"] = json!(24);
    network["switches"][0]["traffic_manager"]["profile"][0]["frame_overhead_bytes"] = json!(24);
    network["hypervisor"] =
        json!({"batch_ns": 50_000, "hose_ns": 1_000_000, "message_ns": 1_100_000});
    let vm = |host: usize, number: usize| {
        json!({
            "name": format!("v{host}-{number}"),
            // The router knows the addresses of hosts alone.
            "ip": format!("10.0.0.{}", if number == 1 { host + 1 } else { 200 + host }),
            "dscp": 0,
            "guarantee": {"rate_bps": 100_000_000, "burst_bytes": 2 * FRAME, "peak_bps": 500_000_000},
        })
    };
    for host in 1..=hosts {
        let entry = &mut network["hosts"][host - 1];
        entry["ip"] = json!(format!("10.1.0.{host}"));
        entry["vms"] = json!([vm(host, 1)]);
    }
    network["hosts"][0]["vms"] = json!([vm(1, 1), vm(1, 2)]);
    (star, network)
}

fn object(id: u64, from: &str, to: &str, bytes: u64) -> Value {
    json!({"id": id, "start_ns": 0, "sources": [from], "destinations": [to], "bytes": bytes})
}

#[test]
fn vms_of_a_host_reach_each_other_and_others() {
    let (star, network) = network(2);
    let transfers = json!([
        object(0, "v1-1", "v1-2", 100_000),
        object(1, "v1-1", "v2-1", 100_000),
        object(2, "v2-1", "v1-1", 100_000),
    ]);
    star.run(with(network, "transfers", transfers))
        .assert_good();
}

/// Three VMs send to one: together they get its 100 Mbit/s, whatever their links could carry.
#[test]
fn senders_share_the_guarantee_of_their_receiver() {
    let (star, network) = network(4);
    let bytes = 400_000;
    let senders = ["v2-1", "v3-1", "v4-1"];
    let transfers: Vec<Value> = (0..)
        .zip(senders)
        .map(|(id, from)| object(id, from, "v1-1", bytes))
        .collect();
    let outcome = star.run(with(network, "transfers", json!(transfers)));
    outcome.assert_good();
    let last = (0..3).map(|id| outcome.receiver(id).record.finished_at_ns);
    let last = last.max().unwrap_or_default();
    // 1.2 MB at 100 Mbit/s, of which bursts of 3,076 bytes each may come at once.
    assert!((95_000_000..125_000_000).contains(&last), "{last} ns");
}

/// NDP writes DSCP and identification itself.
#[test]
fn vms_without_guarantees_may_have_ndp() {
    let (star, mut network) = network(3);
    let params = star.network("ndp");
    for key in ["scheme", "switches"] {
        network[key] = params[key].clone();
    }
    network["switches"][0]["traffic_manager"]["profile"][0]["frame_overhead_bytes"] = json!(24);
    for host in 0..3 {
        for vm in network["hosts"][host]["vms"].as_array_mut().unwrap() {
            vm.as_object_mut().unwrap().remove("guarantee");
        }
    }
    let transfers = json!([
        object(0, "v2-1", "v1-1", 200_000),
        object(1, "v3-1", "v1-1", 200_000),
        object(2, "v1-1", "v1-2", 200_000),
    ]);
    star.run(with(network, "transfers", transfers))
        .assert_good();
}

#[test]
fn a_network_with_vms_that_cannot_work_is_refused() {
    let (_, network) = network(2);
    let refused = |network: Value| {
        let network: Network = serde_json::from_value(network).expect("a network");
        format!("{:#}", network.build().err().expect("no network"))
    };
    let short = json!({"batch_ns": 1_000, "hose_ns": 1_000_000, "message_ns": 0});
    let error = refused(with(network.clone(), "hypervisor", short));
    assert!(
        error.contains("batch_ns is 1000, expected at least"),
        "{error}"
    );
    let error = refused(with(network.clone(), "scheme", json!("ndp")));
    assert!(error.contains("choose one of the TCP family"), "{error}");
    let error = refused(with(network.clone(), "scheme", json!("scdp")));
    assert!(error.contains("scdp sends to groups"), "{error}");
    let mut pausing = network.clone();
    pausing["params"]["nic"]["pfc"] = json!(true);
    let error = refused(pausing);
    assert!(error.contains("expected no nic.pfc"), "{error}");
    let mut small = network;
    small["hosts"][0]["vms"][0]["guarantee"]["burst_bytes"] = json!(1_000);
    let error = refused(small);
    assert!(
        error.contains("guarantee of v1-1: burst_bytes is 1000"),
        "{error}"
    );
}
