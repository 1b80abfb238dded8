//! Files that cannot be simulated are told in one line: what, where, and what would do.

use serde_json::{Value, json};

use super::*;

fn refusal(change: impl FnOnce(&mut Value)) -> String {
    let mut network = Topology::racks(2, 2).network("ndp");
    change(&mut network);
    let error = match serde_json::from_value::<Network>(network) {
        Err(error) => error.to_string(),
        Ok(network) => match network.build() {
            Err(error) => format!("{error:#}"),
            Ok(_) => panic!("built"),
        },
    };
    assert!(!error.contains('\n'), "{error}");
    error
}

fn transfer(keys: Value) -> Value {
    let mut all = json!({
        "id": 0, "start_ns": 0, "sources": ["h1"], "destinations": ["h2"], "bytes": 1,
    });
    for (key, value) in keys.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

#[test]
fn names_that_are_not_there_or_there_twice() {
    let told = refusal(|n| n["links"][0][0]["node"] = json!("h99"));
    assert_eq!(told, "link to h99: there is no such node");
    let told = refusal(|n| n["hosts"][1]["name"] = json!("s0"));
    assert_eq!(told, "two nodes have the name s0");
    let told = refusal(|n| n["hosts"][1]["ip"] = n["hosts"][0]["ip"].clone());
    assert_eq!(told, "h1 and h2 have the address 10.0.0.2");
    let told = refusal(|n| n["links"][1] = n["links"][0].clone());
    assert!(told.contains("is connected twice"), "{told}");
    let told = refusal(|n| n["links"][0][1]["port"] = json!(510));
    assert!(told.contains("CPU port"), "{told}");
    let told = refusal(|n| n["hosts"][0]["mac"] = json!("02:00"));
    assert!(told.starts_with("mac of host h1: "), "{told}");
    let told = refusal(|n| n["colour"] = json!(1));
    assert!(told.contains("`colour`, expected one of"), "{told}");
    let told = refusal(|n| n["scheme"] = json!("udp"));
    assert!(told.contains("`udp`, expected one of `ndp`"), "{told}");
    let told = refusal(|n| n["params"]["ndp"] = json!({"initial_window_packets": 0}));
    assert!(told.contains("ndp.initial_window_packets is 0"), "{told}");
}

#[test]
fn external_hosts_that_cannot_be() {
    let told = refusal(|n| {
        n["hosts"][0]["external"] = json!(true);
        n["transfers"] = json!([transfer(json!({}))]);
    });
    assert_eq!(told, "transfer 0: there is no host h1");
    let told = refusal(|n| {
        n["hosts"][0]["external"] = json!(true);
        n["hosts"][0]["vms"] = json!([{"name": "v1", "ip": "10.0.0.9", "dscp": 0}]);
    });
    assert_eq!(told, "host h1: external, and with VMs");
    let told = refusal(|n| {
        n["hosts"][0]["external"] = json!(true);
        n["skip"] = json!(true);
    });
    assert!(told.contains("external hosts"), "{told}");
}

#[test]
fn a_program_that_is_not_there() {
    let program = json!({"json": "no.json", "p4info": "no.txtpb", "cookie": u64::MAX});
    for of in ["/program", "/switches/1/program"] {
        let told = refusal(|n| {
            let (place, key) = of.rsplit_once('/').unwrap();
            n.pointer_mut(place).unwrap()[key] = program.clone();
        });
        assert!(told.starts_with("cannot read no.txtpb: "), "{told}");
    }
    let schema = json!({"file": "no-bf-rt.json", "name": "no"});
    let told = refusal(|n| n["switches"][0]["bf_rt_schema"] = schema);
    assert!(told.contains("no-bf-rt.json"), "{told}");
    let told = refusal(|n| n["program"] = json!({"json": "no.json", "p4info": "no.txtpb"}));
    assert!(told.contains("missing field `cookie`"), "{told}");
}

#[test]
fn transfers_that_cannot_be() {
    let of = |list: Value| refusal(|n| n["transfers"] = list);
    let told = of(json!([transfer(json!({"sources": ["h9"]}))]));
    assert_eq!(told, "transfer 0: there is no host h9");
    let told = of(json!([transfer(json!({"destinations": ["h1"]}))]));
    assert_eq!(told, "transfer 0: a host is named twice");
    let told = of(json!([transfer(json!({"destinations": []}))]));
    assert!(told.contains("0 destinations"), "{told}");
    let told = of(json!([transfer(json!({"priority": 8}))]));
    assert!(told.contains("priority 8; 0 (normal) to 7"), "{told}");
    let told = of(json!([transfer(json!({})), transfer(json!({}))]));
    assert_eq!(told, "two transfers have the same id");
    let after = json!({"transfer": 7, "moment": "finished", "delay_ns": 0, "serial": false});
    let told = of(json!([transfer(json!({"after": after}))]));
    assert!(told.starts_with("transfer 0 waits for 7"), "{told}");
    let told = refusal(|n| n["workload"] = json!("nowhere.toml"));
    assert!(told.starts_with("cannot read nowhere.toml"), "{told}");
    let told = refusal(|n| {
        n["workload"] = json!("w.toml");
        n["transfers"] = json!([transfer(json!({}))]);
    });
    assert_eq!(told, "workload and transfers: give one of them");
}
