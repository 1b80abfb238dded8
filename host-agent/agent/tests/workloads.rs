//! `ebb-agent bench` in network namespaces: one per host, and one with the bridge that joins them.
//! Needs root.

use std::collections::BTreeMap;
use std::fmt::Write;

use ebb_testkit::{Need, wait_until};
use serde_json::Value;

use crate::hosts::{Hosts, Running, lines, stderr};

/// The names in [`Hosts`] of those whom the workloads call h1, h2 and so on.
const HOSTS: [&str; 4] = ["a", "b", "c", "d"];

/// Hosts with a list of themselves, two in a rack.
fn hosts() -> Hosts {
    let hosts = Hosts::on_bridge(HOSTS.len());
    let mut list = String::new();
    for index in 1..=HOSTS.len() {
        writeln!(
            list,
            "[[host]]\nname = 'h{index}'\naddress = '10.0.0.{}'\nrack = 'r{}'\npod = 'p'",
            index + 1,
            (index - 1) / 2
        )
        .unwrap();
    }
    hosts.dir.write("hosts.toml", &list);
    hosts.set_params(r#"{"nic": {"rate_bps": 50000000}}"#);
    hosts
}

/// The transfers of a workload.
fn transfers(hosts: &Hosts, workload: &str) -> Vec<Value> {
    let args = format!("workload {workload} --hosts hosts.toml");
    lines(&hosts.client("a", &args).output().unwrap())
}

/// Runs a workload on all hosts; returns what each printed.
fn run(hosts: &Hosts, workload: &str, transport: &str) -> Vec<Vec<Value>> {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let start_at_ns = now.tv_sec * 1_000_000_000 + now.tv_nsec + 1_500_000_000;
    let running = (1..).zip(HOSTS).map(|(index, host)| {
        let args = format!(
            "bench --transport {transport} --params params.json --workload {workload} \
             --hosts hosts.toml --self h{index} --start-at-ns {start_at_ns} \
             --patience-ns 5000000000"
        );
        Running::start(hosts.client(host, &args))
    });
    let running: Vec<Running> = running.collect();
    running.into_iter().map(succeeded).collect()
}

/// Waits for the end; returns what it printed.
fn succeeded(running: Running) -> Vec<Value> {
    let (lines, good) = running.records();
    assert!(good, "{lines:?}");
    lines
}

fn names(value: &Value) -> Vec<&str> {
    let names = value.as_array().unwrap().iter();
    names.map(|name| name.as_str().unwrap()).collect()
}

/// Every transfer of the schedule has its records, at every host that it concerns, once; what
/// arrived is right; and everything began no earlier than it should.
fn check(transfers: &[Value], printed: &[Vec<Value>]) {
    let mut flows: BTreeMap<(usize, u64, String), Vec<&Value>> = BTreeMap::new();
    for (index, lines) in printed.iter().enumerate() {
        for line in lines.iter().filter(|line| line["event"] == "flow") {
            assert_eq!(line["status"], "finished", "{line}");
            let id = line["transfer"].as_u64().unwrap();
            let part = line["part"].as_str().unwrap().to_owned();
            flows.entry((index + 1, id, part)).or_default().push(line);
        }
    }
    let host = |name: &str| -> usize { name[1..].parse().unwrap() };
    let mut take = |host: usize, id: u64, part: &str| -> Value {
        let key = (host, id, part.to_owned());
        let found = flows.remove(&key).unwrap_or_default();
        // On a busy machine a receiver of a group may fall behind, and gets a flow of its own.
        let detached = found
            .iter()
            .filter_map(|flow| flow["receivers_detached"].as_u64());
        let expected = 1 + detached.max().unwrap_or(0);
        assert_eq!(found.len() as u64, expected, "h{host}: {key:?}: {found:?}");
        found[0].clone()
    };
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    for transfer in transfers {
        let id = transfer["id"].as_u64().unwrap();
        let (sources, destinations) = (
            names(&transfer["sources"]),
            names(&transfer["destinations"]),
        );
        let is_fetch = transfer["kind"].as_str().unwrap().starts_with("fetch");
        let (starter, others, part) = match is_fetch {
            true => (destinations[0], sources, "serve"),
            false => (sources[0], destinations, "receive"),
        };
        let started = take(host(starter), id, "start");
        assert!(started["late_ns"].as_u64().is_some(), "{started}");
        assert_eq!(started["object_bytes"], transfer["bytes"]);
        let mut arrivals = Vec::new();
        for other in others {
            let record = take(host(other), id, part);
            assert_eq!(record["job"], transfer["job"]);
            if !is_fetch {
                assert_eq!(record["sha256_ok"], true, "{record}");
                arrivals.push(record["finished_at_ns"].as_u64().unwrap());
            }
        }
        if is_fetch {
            assert_eq!(started["sha256_ok"], true, "{started}");
        }
        if let Some(end) = arrivals.into_iter().max() {
            ends.insert(id, end);
        }
        let after = &transfer["after"];
        if after["moment"] == "finished" && transfer["kind"] == "response" {
            let began = started["started_at_ns"].as_u64().unwrap();
            let cause = ends[&after["transfer"].as_u64().unwrap()];
            assert!(began >= cause + after["delay_ns"].as_u64().unwrap());
        }
    }
    assert!(flows.is_empty(), "nobody asked for {flows:?}");
    let summaries: Vec<&Value> = printed
        .iter()
        .map(|lines| &lines[lines.len() - 1])
        .collect();
    let sum = |part: &str, key: &str| -> u64 {
        let counts = summaries.iter().map(|summary| &summary[part][key]);
        counts.map(|count| count.as_u64().unwrap()).sum()
    };
    assert_eq!(sum("started", "finished"), transfers.len() as u64);
    for part in ["started", "served", "received"] {
        for key in ["failed", "unfinished", "not_started"] {
            assert_eq!(sum(part, key), 0, "{part} {key}");
        }
    }
}

fn an_incast_a_permutation_and_a_search_run_as_planned() {
    let hosts = hosts();
    hosts.dir.write(
        "ndp.toml",
        r#"
        [[traffic]]
        name = "incast"
        pattern = { type = "incast", senders = 3 }
        arrivals = { type = "once" }
        size = { type = "fixed", bytes = 100_000 }
        [[traffic]]
        name = "permutation"
        pattern = { type = "permutation" }
        arrivals = { type = "back-to-back", rounds = 3 }
        size = { type = "uniform", min_bytes = 1, max_bytes = 60_000 }
        priority = 3
        [[traffic]]
        name = "search"
        pattern.type = "partition-aggregate"
        pattern.fan_out = 3
        pattern.query_bytes = 3500
        pattern.service = { type = "exponential", mean_ns = 2_000_000 }
        arrivals = { type = "poisson", rate_hz = 20 }
        size = { type = "fixed", bytes = 2800 }
        count = 10
        [[traffic]]
        name = "reads"
        pattern = { type = "storage-read", mode = "nearest", placement = "any", blocks = 2 }
        arrivals = { type = "poisson", rate_hz = 20 }
        size = { type = "fixed", bytes = 50_000 }
        count = 6
        "#,
    );
    let transfers = transfers(&hosts, "ndp.toml");
    assert_eq!(transfers.len(), 3 + 4 * 3 + 10 * 6 + 6 * 2);
    let printed = run(&hosts, "ndp.toml", "ndp");
    check(&transfers, &printed);
    let jobs: u64 = printed
        .iter()
        .map(|lines| lines[lines.len() - 1]["jobs"]["finished"].as_u64().unwrap())
        .sum();
    // Each chained transfer, query and read; the incast has no host that sees all of it.
    assert_eq!(jobs, 12 + 10 + 6);
}

fn requests_share_the_connections_that_they_are_drawn_for() {
    let hosts = hosts();
    hosts.set_params(
        r#"{"nic": {"rate_bps": 50000000}, "tcp": {"connections": "open", "data_in_syn": true}}"#,
    );
    hosts.dir.write(
        "requests.toml",
        r#"
        [[traffic]]
        name = "requests"
        pattern = { type = "requests", connections = 2 }
        arrivals = { type = "poisson", rate_hz = 60 }
        size = { type = "uniform", min_bytes = 1, max_bytes = 20_000 }
        count = 60
        "#,
    );
    let transfers = transfers(&hosts, "requests.toml");
    assert_eq!(transfers.len(), 60);
    let printed = run(&hosts, "requests.toml", "detail");
    check(&transfers, &printed);
    // Client and server, number, and the port of the client that its answers come to.
    let mut ports: BTreeMap<(String, u64), Vec<u64>> = BTreeMap::new();
    for line in printed.iter().flatten().filter(|l| l["part"] == "serve") {
        let id = line["transfer"].as_u64().unwrap();
        let transfer = transfers.iter().find(|t| t["id"] == id).unwrap();
        let pair = format!("{} {}", transfer["sources"], transfer["destinations"]);
        let number = transfer["connection"].as_u64().unwrap();
        let peer = line["peer"].as_str().unwrap();
        let port = peer.rsplit(':').next().unwrap().parse().unwrap();
        ports.entry((pair, number)).or_default().push(port);
    }
    assert!(ports.values().any(|of| of.len() > 2), "{ports:?}");
    for (connection, of) in ports {
        assert!(
            of.iter().all(|port| *port == of[0]),
            "{connection:?}: {of:?}"
        );
    }
}

fn storage_is_written_in_all_three_ways_and_read_from_all_replicas() {
    let hosts = hosts();
    let traffic = |mode: &str| {
        format!(
            "[[traffic]]\nname = '{mode}'\ncount = 4\nsize = {{ type = 'fixed', bytes = 200_000 }}
             arrivals = {{ type = 'poisson', rate_hz = 10 }}
             pattern = {{ type = 'storage-write', mode = '{mode}', placement = 'any' }}\n"
        )
    };
    let modes = ["one-to-many", "multi-unicast", "daisy-chain"];
    let reads = traffic("reads").replace(
        "type = 'storage-write', mode = 'reads'",
        "type = 'storage-read'",
    );
    hosts
        .dir
        .write("scdp.toml", &(modes.map(traffic).concat() + &reads));
    let transfers = transfers(&hosts, "scdp.toml");
    assert_eq!(transfers.len(), 4 + 12 + 12 + 4);
    check(&transfers, &run(&hosts, "scdp.toml", "scdp"));
}

fn from_host_to_host_and_back() {
    let hosts = hosts();
    hosts.dir.write("object.bin", "x".repeat(300_000));
    let common = "--transport dctcp --params params.json";
    let _server = Running::start(hosts.client("b", &format!("recv {common} --serve .")));
    wait_for_service(&hosts, common);
    for (args, direction, bytes) in [
        ("--bytes 250000 --count 3 --parallel 2", "send", 1_500_000),
        ("--fetch object.bin --count 2", "fetch", 600_000),
    ] {
        let bench = format!("bench 10.0.0.3 {common} {args}");
        let lines = lines(&hosts.client("a", &bench).output().unwrap());
        let result = &lines[lines.len() - 1];
        assert_eq!(result["event"], "bench", "{result}");
        assert_eq!(result["direction"], direction);
        assert_eq!(result["content_bytes"], bytes, "{result}");
        // Not faster than the NIC is allowed to be.
        let goodput_bps = result["goodput_bps"].as_f64().unwrap();
        assert!((1e5..5e7).contains(&goodput_bps), "{result}");
        assert!(result["cpu_cores"].as_f64().unwrap() > 0.0);
        assert_eq!(lines.len() as u64, result["objects"].as_u64().unwrap() + 1);
    }
}

/// A thousand objects of 10 kB at a time from two hosts to one, whose agent checks every hash.
fn a_thousand_sessions_at_a_time() {
    let hosts = hosts();
    hosts.set_params(r#"{"nic": {"rate_bps": 100000000}}"#);
    for transport in ["ndp", "scdp", "dctcp"] {
        let common = format!("--transport {transport} --params params.json");
        let server = Running::start(hosts.client("b", &format!("recv {common} --count 1001")));
        wait_for_service(&hosts, &common);
        let bench = format!("bench 10.0.0.3 {common} --bytes 10000 --count 1 --parallel 500");
        let senders = ["a", "c"].map(|host| Running::start(hosts.client(host, &bench)));
        for sender in senders {
            let lines = succeeded(sender);
            let result = &lines[lines.len() - 1];
            assert_eq!(result["objects"], 500, "{transport}: {result}");
        }
        let received = succeeded(server);
        let flows = received.iter().filter(|line| line["event"] == "flow");
        let right = flows.filter(|flow| flow["sha256_ok"] == true).count();
        assert_eq!(
            right, 1001,
            "{transport}, with the one that asked for the service"
        );
    }
}

/// The server prints that it is ready, but whoever reads that must go on reading: asking is simpler.
fn wait_for_service(hosts: &Hosts, common: &str) {
    let args = format!("bench 10.0.0.3 {common} --bytes 1 --count 1");
    wait_until("somebody answers", || {
        hosts.client("a", &args).output().unwrap().status.success()
    });
}

fn what_cannot_work_is_told_before_anything_is_sent() {
    let hosts = hosts();
    hosts.dir.write(
        "read.toml",
        "[[traffic]]\nname = 'w'\npattern = { type = 'storage-read', placement = 'any', mode = 'many-to-one' }
         arrivals = { type = 'once' }\nsize = { type = 'fixed', bytes = 9 }",
    );
    for (args, expected) in [
        (
            "--self h1 --transport ndp",
            "traffic w: ndp has no flows from several hosts, scdp and trevi have; choose mode = \"nearest\"",
        ),
        ("--self h9", "--self h9: the workload has no such host"),
        (
            "--self h2",
            "--self h2: it has \"10.0.0.3\" in the list of hosts, but here is \"10.0.0.2\"",
        ),
    ] {
        let args = format!(
            "bench --workload read.toml --hosts hosts.toml --params params.json \
             --start-at-ns 1 {args}"
        );
        let output = hosts.client("a", &args).output().unwrap();
        let errors = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(expected), "`{errors}` lacks `{expected}`");
        assert!(output.stdout.is_empty());
    }
}

ebb_testkit::tests! {
    Need::Root => [
        an_incast_a_permutation_and_a_search_run_as_planned,
        requests_share_the_connections_that_they_are_drawn_for,
        storage_is_written_in_all_three_ways_and_read_from_all_replicas,
        from_host_to_host_and_back,
        a_thousand_sessions_at_a_time,
        what_cannot_work_is_told_before_anything_is_sent,
    ],
}
