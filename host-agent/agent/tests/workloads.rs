//! `ebb-agent bench` in network namespaces: one per host, and one with the bridge that joins them.
//! Needs root.

mod common;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{AGENT, ip, sandbox};
use ebb_test_needs::Need;
use serde_json::Value;

const HOSTS: usize = 4;

/// h1..h4 with 10.0.0.2.., two in a rack; gone when dropped.
struct Hosts {
    name: String,
    dir: PathBuf,
}

impl Hosts {
    fn new() -> Self {
        let (name, dir) = sandbox("ebbw");
        let hosts = Hosts { name, dir };
        let n = &hosts.name;
        ip(&format!("netns add {n}"));
        // Without snooping, multicast goes to all ports.
        ip(&format!("-n {n} link add br0 type bridge mcast_snooping 0"));
        ip(&format!("-n {n} link set br0 up"));
        let mut list = String::new();
        for index in 1..=HOSTS {
            let host = format!("{n}-h{index}");
            let address = format!("10.0.0.{}", index + 1);
            ip(&format!("netns add {host}"));
            ip(&format!(
                "-n {host} link add eth1 type veth peer name p{index} netns {n}"
            ));
            ip(&format!("-n {n} link set p{index} master br0 up"));
            ip(&format!("-n {host} address add {address}/24 dev eth1"));
            ip(&format!("-n {host} link set eth1 up"));
            ip(&format!("-n {host} link set lo up"));
            writeln!(
                list,
                "[[host]]\nname = 'h{index}'\naddress = '{address}'\nrack = 'r{}'\npod = 'p'",
                (index - 1) / 2
            )
            .unwrap();
        }
        hosts.write("hosts.toml", &list);
        hosts.write("params.json", r#"{"nic": {"rate_bps": 50000000}}"#);
        hosts
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.join(name), text).unwrap();
    }

    fn agent(&self, host: usize, args: &str) -> Child {
        let netns = format!("{}-h{host}", self.name);
        Command::new("ip")
            .args(["netns", "exec", &netns, AGENT])
            .args(args.split_whitespace())
            .current_dir(&self.dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// The transfers of a workload.
    fn transfers(&self, workload: &str) -> Vec<Value> {
        let listing = self.agent(1, &format!("workload {workload} --hosts hosts.toml"));
        lines(&succeeded(listing))
    }

    /// Runs a workload on all hosts; returns what each printed.
    fn run(&self, workload: &str, scheme: &str) -> Vec<Vec<Value>> {
        let start_at_ns = monotonic_ns() + 1_500_000_000;
        let running: Vec<Child> = (1..=HOSTS)
            .map(|host| {
                let args = format!(
                    "bench --scheme {scheme} --params params.json --workload {workload} \
                     --hosts hosts.toml --self h{host} --start-at-ns {start_at_ns} \
                     --patience-ns 5000000000"
                );
                self.agent(host, &args)
            })
            .collect();
        running
            .into_iter()
            .map(|child| lines(&succeeded(child)))
            .collect()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for index in 1..=HOSTS {
            ip(&format!("netns delete {}-h{index}", self.name));
        }
        ip(&format!("netns delete {}", self.name));
        std::fs::remove_dir_all(&self.dir).unwrap();
    }
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn succeeded(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{errors}\n{text}");
    output
}

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8_lossy(&output.stdout);
    let parse = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(parse).collect()
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
    let hosts = Hosts::new();
    hosts.write(
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
    let transfers = hosts.transfers("ndp.toml");
    assert_eq!(transfers.len(), 3 + 4 * 3 + 10 * 6 + 6 * 2);
    let printed = hosts.run("ndp.toml", "ndp");
    check(&transfers, &printed);
    let jobs: u64 = printed
        .iter()
        .map(|lines| lines[lines.len() - 1]["jobs"]["finished"].as_u64().unwrap())
        .sum();
    // Each chained transfer, query and read; the incast has no host that sees all of it.
    assert_eq!(jobs, 12 + 10 + 6);
}

fn storage_is_written_in_all_three_ways_and_read_from_all_replicas() {
    let hosts = Hosts::new();
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
    hosts.write("scdp.toml", &(modes.map(traffic).concat() + &reads));
    let transfers = hosts.transfers("scdp.toml");
    assert_eq!(transfers.len(), 4 + 12 + 12 + 4);
    check(&transfers, &hosts.run("scdp.toml", "scdp"));
}

fn from_host_to_host_and_back() {
    let hosts = Hosts::new();
    hosts.write("object.bin", &"x".repeat(300_000));
    let common = "--scheme dctcp --params params.json";
    let mut server = hosts.agent(2, &format!("recv {common} --serve ."));
    wait_for_service(&hosts, common);
    for (args, direction, bytes) in [
        ("--bytes 250000 --count 3 --parallel 2", "send", 1_500_000),
        ("--fetch object.bin --count 2", "fetch", 600_000),
    ] {
        let output = succeeded(hosts.agent(1, &format!("bench 10.0.0.3 {common} {args}")));
        let lines = lines(&output);
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
    server.kill().unwrap();
    server.wait().unwrap();
}

/// A thousand objects of 10 kB at a time from two hosts to one, whose agent checks every hash.
fn a_thousand_sessions_at_a_time() {
    let hosts = Hosts::new();
    hosts.write("params.json", r#"{"nic": {"rate_bps": 100000000}}"#);
    for scheme in ["ndp", "scdp", "dctcp"] {
        let common = format!("--scheme {scheme} --params params.json");
        let server = hosts.agent(2, &format!("recv {common} --count 1001"));
        wait_for_service(&hosts, &common);
        let bench = format!("bench 10.0.0.3 {common} --bytes 10000 --count 1 --parallel 500");
        let senders = [1, 3].map(|host| hosts.agent(host, &bench));
        for sender in senders {
            let lines = lines(&succeeded(sender));
            let result = &lines[lines.len() - 1];
            assert_eq!(result["objects"], 500, "{scheme}: {result}");
        }
        let received = lines(&succeeded(server));
        let flows = received.iter().filter(|line| line["event"] == "flow");
        let right = flows.filter(|flow| flow["sha256_ok"] == true).count();
        assert_eq!(
            right, 1001,
            "{scheme}, with the one that asked for the service"
        );
    }
}

/// The server prints that it is ready, but whoever reads that must go on reading: asking is simpler.
fn wait_for_service(hosts: &Hosts, common: &str) {
    let patience = Instant::now() + Duration::from_secs(20);
    let args = format!("bench 10.0.0.3 {common} --bytes 1 --count 1");
    while !hosts
        .agent(1, &args)
        .wait_with_output()
        .unwrap()
        .status
        .success()
    {
        assert!(Instant::now() < patience, "nobody answers");
    }
}

fn what_cannot_work_is_told_before_anything_is_sent() {
    let hosts = Hosts::new();
    hosts.write(
        "write.toml",
        "[[traffic]]\nname = 'w'\npattern = { type = 'storage-write', placement = 'any' }
         arrivals = { type = 'once' }\nsize = { type = 'fixed', bytes = 9 }",
    );
    for (args, expected) in [
        (
            "--self h1 --scheme ndp",
            "traffic w: ndp has no flows from or to several hosts, scdp has; choose mode = \
             \"multi-unicast\" or \"daisy-chain\"",
        ),
        ("--self h9", "--self h9: the workload has no such host"),
        (
            "--self h2",
            "--self h2: it has \"10.0.0.3\" in the list of hosts, but here is \"10.0.0.2\"",
        ),
    ] {
        let args = format!(
            "bench --workload write.toml --hosts hosts.toml --params params.json \
             --start-at-ns 1 {args}"
        );
        let output = hosts.agent(1, &args).wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(expected), "`{errors}` lacks `{expected}`");
        assert!(output.stdout.is_empty());
    }
}

ebb_test_needs::tests! {
    Need::Root => [
        an_incast_a_permutation_and_a_search_run_as_planned,
        storage_is_written_in_all_three_ways_and_read_from_all_replicas,
        from_host_to_host_and_back,
        a_thousand_sessions_at_a_time,
        what_cannot_work_is_told_before_anything_is_sent,
    ],
}
