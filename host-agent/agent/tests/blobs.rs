//! The blob store: a client on a, replicas on b, c and d, and the locator; needs root.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use ebb_testkit::{Need, Signal, wait_until};
use serde_json::Value;

use crate::hosts::{AGENT, Hosts, Running, lines, record, stderr, write_random};

/// A tract of 8 MiB and a short one.
const BYTES: usize = (8 << 20) + 100_000;
/// One tract.
const SHORT: usize = 2_500_000;
/// Lines of a daemon that is ready: one for each transport.
const TRANSPORTS: usize = ebb_transport::TransportKind::ALL.len();

struct Store {
    hosts: Hosts,
    transport: &'static str,
    locator: Option<Running>,
    replicas: Vec<(Running, Running)>,
}

impl Store {
    fn new() -> Self {
        Store::over("scdp")
    }

    fn over(transport: &'static str) -> Self {
        let hosts = Hosts::on_bridge(4);
        hosts.set_params(r#"{"nic": {"rate_bps": 400000000}}"#);
        let mut store = Store {
            hosts,
            transport,
            locator: None,
            replicas: Vec::new(),
        };
        store.start_locator();
        for host in ["b", "c", "d"] {
            let replica = store.start_replica(host);
            store.replicas.push(replica);
        }
        store.wait_for_servers(3);
        store
    }

    fn start_locator(&mut self) {
        let args = "blob locator --database locator.redb --listen ./locator --dead-after 3 --server \
                    10.0.0.3 10.0.0.4 10.0.0.5";
        self.locator = Some(Running::ready(self.hosts.client("a", args), 1));
    }

    /// A daemon, and a replica beside it.
    fn start_replica(&self, host: &str) -> (Running, Running) {
        self.start_beside(self.hosts.agent(host, "run"), host)
    }

    fn start_beside(&self, daemon: Command, host: &str) -> (Running, Running) {
        let daemon = Running::ready(daemon, TRANSPORTS);
        let transport = self.transport;
        let args =
            format!("blob replica --locator ./locator --dir tracts-{host} --transport {transport}");
        (daemon, Running::ready(self.hosts.client(host, &args), 1))
    }

    fn kill_replica(&mut self, index: usize) {
        let (daemon, replica) = &mut self.replicas[index];
        for running in [replica, daemon] {
            running.signal(Signal::KILL);
            running.process.wait();
        }
    }

    fn command(&self, args: &str) -> Command {
        let transport = self.transport;
        let args = format!("blob {args} --locator ./locator --transport {transport}");
        self.hosts.agent("a", &args)
    }

    fn status(&self) -> Value {
        let args = "blob repair --status --locator ./locator";
        record(&self.hosts.client("a", args).output().unwrap())
    }

    fn wait_for_servers(&self, count: usize) {
        wait_until("servers are known", || {
            let status = self.status();
            let servers = status["servers"].as_array().unwrap();
            servers
                .iter()
                .filter(|server| server["alive"] == true)
                .count()
                == count
        });
    }

    fn repair(&self) -> Value {
        let args = "blob repair --locator ./locator";
        let output = self.hosts.client("a", args).output().unwrap();
        let status = record(&output);
        assert!(output.status.success(), "{status} {}", stderr(&output));
        status
    }

    fn put(&self, file: &str, options: &str) -> Value {
        let output = self
            .command(&format!("put {file} {options}"))
            .output()
            .unwrap();
        let line = record(&output);
        assert_eq!(line["status"], "stored", "{line} {}", stderr(&output));
        line
    }

    fn get(&self, name: &str) -> (Value, Vec<u8>) {
        let output = self
            .command(&format!("get {name} -o got"))
            .output()
            .unwrap();
        let line = record(&output);
        assert_eq!(line["status"], "got", "{line} {}", stderr(&output));
        (line, std::fs::read(self.hosts.dir.join("got")).unwrap())
    }

    fn list(&self) -> Vec<Value> {
        lines(
            &self
                .hosts
                .client("a", "blob list --locator ./locator")
                .output()
                .unwrap(),
        )
    }

    /// The files of tracts of a host.
    fn tracts(&self, host: &str) -> Vec<PathBuf> {
        let dir = std::fs::read_dir(self.hosts.dir.join(format!("tracts-{host}"))).unwrap();
        let paths = dir.map(|entry| entry.unwrap().path());
        let mut tracts: Vec<_> = paths
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with("tract-")
            })
            .collect();
        tracts.sort();
        tracts
    }
}

fn blobs_outlive_a_replica_and_a_repair_brings_it_back() {
    let mut store = Store::new();
    let first = write_random(&store.hosts.dir.join("first"), BYTES);
    store.put("first", "--multicast");
    assert_eq!(store.tracts("b").len(), 2);
    assert!(store.get("first").1 == first);
    // A blob that cannot get its place is not said to be read.
    std::fs::create_dir(store.hosts.dir.join("taken")).unwrap();
    let output = store.command("get first -o taken").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(!told.contains("status"), "{told}");
    store.kill_replica(0);
    assert!(store.get("first").1 == first);
    std::fs::write(store.hosts.dir.join("second"), &first[1000..]).unwrap();
    // The one that is dead may still be in its rows, or not.
    store.put("second", "");
    assert!(store.get("second").1 == first[1000..]);
    store.replicas[0] = store.start_replica("b");
    store.wait_for_servers(3);
    let status = store.repair();
    assert_eq!(
        (&status["short"], &status["lost"]),
        (&0.into(), &0.into()),
        "{status}"
    );
    assert_eq!(status["servers"][0]["repair"]["copied"], 2, "{status}");
    // All is on the one that was dead.
    store.kill_replica(1);
    store.kill_replica(2);
    assert!(store.get("second").1 == first[1000..]);
}

fn a_damaged_tract_is_never_read_and_is_replaced() {
    let store = Store::new();
    let content = write_random(&store.hosts.dir.join("file"), SHORT);
    store.put("file", "--name blob");
    for host in ["b", "c"] {
        let tract = &store.tracts(host)[0];
        let mut damaged = std::fs::read(tract).unwrap();
        damaged[1000] ^= 1;
        std::fs::write(tract, &damaged).unwrap();
    }
    let (line, got) = store.get("blob");
    assert!(got == content, "{line}");
    let status = store.repair();
    let sum = |what: &str| {
        let servers = status["servers"].as_array().unwrap().iter();
        servers
            .map(|server| server["repair"][what].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(
        (sum("damaged"), sum("copied"), sum("failed")),
        (2, 2, 0),
        "{status}"
    );
    for host in ["c", "d"] {
        for (a, b) in store.tracts("b").iter().zip(store.tracts(host)) {
            assert!(std::fs::read(a).unwrap() == std::fs::read(b).unwrap());
        }
    }
}

fn any_transport_carries_tracts() {
    for transport in ["ndp", "dctcp", "trevi"] {
        let store = Store::over(transport);
        let content = write_random(&store.hosts.dir.join("file"), 300_000);
        store.put("file", "");
        assert!(store.get("file").1 == content);
        std::fs::write(&store.tracts("b")[0], "damaged").unwrap();
        assert!(store.get("file").1 == content);
        store.repair();
        assert!(std::fs::read(&store.tracts("b")[0]).unwrap() == content);
    }
}

/// A put to replicas that do not answer takes as long as the transport waits for them.
fn neither_a_full_disk_nor_a_partition_loses_a_blob() {
    let mut store = Store::new();
    let content = write_random(&store.hosts.dir.join("file"), SHORT);
    // No file of more than 1 MiB, or 2 where a block has 1024 bytes, can be written on b.
    store.kill_replica(0);
    let mut daemon = store.hosts.space("b").command("sh");
    let limited =
        "trap '' XFSZ; ulimit -f 2048; exec \"$0\" run --interface eth1 --params params.json";
    daemon
        .args(["-c", limited, AGENT])
        .current_dir(&store.hosts.dir);
    daemon.stdout(Stdio::piped()).stderr(Stdio::piped());
    store.replicas[0] = store.start_beside(daemon, "b");
    store.wait_for_servers(3);
    let line = store.put("file", "");
    assert!(line["lacking"]["10.0.0.3"].is_string(), "{line}");
    assert_eq!(line["lacking"].as_object().unwrap().len(), 1, "{line}");
    assert!(store.get("file").1 == content);
    // The client reaches d only, the locator all.
    for host in ["a", "b", "c"] {
        store.hosts.isolate(host, true);
    }
    let output = store.command("put file --name other").output().unwrap();
    let line = record(&output);
    assert_eq!(line["status"], "failed", "{line}");
    let reason = line["reason"].as_str().unwrap();
    assert!(
        reason.contains("10.0.0.3:") && reason.contains("10.0.0.4:"),
        "{reason}"
    );
    assert!(store.get("file").1 == content);
    for host in ["a", "b", "c"] {
        store.hosts.isolate(host, false);
    }
    store.put("file", "--name other");
    assert_eq!(store.list().len(), 2);
}

/// Whoever reaches a host can send to its replica, and can ask for tracts, but not change any.
fn what_is_no_tract_is_not_taken() {
    let store = Store::new();
    let content = write_random(&store.hosts.dir.join("file"), 1000);
    store.put("file", "");
    let tract = store.tracts("b")[0].clone();
    let name = tract.file_name().unwrap().to_string_lossy().into_owned();
    for name in ["x", ".store", "tract-1-1-0-00", &name] {
        let args = format!("send --generate 1000 --name {name} 10.0.0.3:7190");
        let output = store.hosts.agent("a", &args).output().unwrap();
        assert_eq!(record(&output)["status"], "failed", "{name}");
    }
    assert!(std::fs::read(&tract).unwrap() == content);
    assert_eq!(store.tracts("b"), [tract]);
    let output = store
        .hosts
        .agent("a", "fetch .store --from 10.0.0.3 -o stolen")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
}

fn nonsense_and_silence_do_not_stop_a_locator() {
    let store = Store::new();
    let path = store.hosts.dir.join("locator");
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let connect = || UnixStream::connect(&path).unwrap();
    // Bytes that come back until the locator closes the connection.
    let said = |mut stream: UnixStream| {
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text);
        text
    };
    for nonsense in [
        "hello\n".to_owned(),
        "\n".to_owned(),
        "[".repeat(100_000) + "\n",
        r#"{"id":1,"ask":"lookup","name":"a","more":1}"#.to_owned() + "\n",
    ] {
        let mut stream = connect();
        stream.write_all(nonsense.as_bytes()).unwrap();
        let text = said(stream);
        assert!(text.contains("\"answer\":\"refused\""), "{text}");
    }
    let mut stream = connect();
    // The locator reads no further than the longest question.
    let _ = stream.write_all(&vec![b' '; (2 << 20) + 1]);
    drop(stream);
    // More than there is room for: those that have been silent for longest are closed.
    let mut silent: Vec<_> = (0..100).map(|_| connect()).collect();
    assert_eq!(said(silent.remove(0)), "");
    wait_until("the locator answers", || {
        let args = "blob list --locator ./locator";
        store
            .hosts
            .client("a", args)
            .output()
            .unwrap()
            .status
            .success()
    });
}

fn of_two_writers_one_wins_and_a_locator_that_restarts_knows_all() {
    let mut store = Store::new();
    let contents = ["one", "two"].map(|name| {
        let content = write_random(&store.hosts.dir.join(name), BYTES);
        let content: Vec<u8> = content
            .into_iter()
            .map(|byte| byte ^ name.as_bytes()[0])
            .collect();
        std::fs::write(store.hosts.dir.join(name), &content).unwrap();
        content
    });
    let puts = ["one", "two"]
        .map(|file| Running::start(store.command(&format!("put {file} --name same"))));
    let ended = puts.map(|put| put.outcome().1["status"].clone());
    let winner = ended.iter().position(|status| status == "stored").unwrap();
    assert_eq!(ended[1 - winner], "conflict");
    store.locator.take().unwrap().signal(Signal::KILL);
    let second = "blob locator --database locator.redb --listen ./other --server 10.0.0.3";
    store.start_locator();
    let output = store.hosts.client("a", second).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("another locator"),
        "{}",
        stderr(&output)
    );
    let list = store.list();
    assert_eq!(list.len(), 1, "{list:?}");
    assert_eq!(
        (&list[0]["name"], &list[0]["version"]),
        (&"same".into(), &1.into())
    );
    let (line, got) = store.get("same");
    assert!(got == contents[winner], "{line}");
    assert_eq!(store.put("one", "--name same")["version"], 2);
    let output = store.command("get other -o other").output().unwrap();
    assert_eq!(record(&output)["status"], "missing");
    // The tracts of the loser and of the replaced content go.
    store.wait_for_servers(3);
    store.repair();
    assert!(
        ["b", "c", "d"]
            .iter()
            .all(|host| store.tracts(host).len() == 2)
    );
}

/// A file in the place of the socket stays.
fn a_locator_replaces_no_file() {
    let hosts = Hosts::on_bridge(1);
    hosts.dir.write("taken", "precious");
    let args = "blob locator --database x --server 10.0.0.2 --listen ./taken";
    let output = hosts.client("a", args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("cannot listen"),
        "{}",
        stderr(&output)
    );
    assert_eq!(std::fs::read(hosts.dir.join("taken")).unwrap(), b"precious");
}

fn who_is_no_replica_is_told_so() {
    let hosts = Hosts::on_bridge(2);
    let output = hosts
        .client("a", "blob replica --dir tracts")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("ebb-agent run"),
        "{}",
        stderr(&output)
    );
    let open = hosts.dir.make_dir("open");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
    let output = hosts
        .client("a", "blob replica --dir open")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("can be changed by others"),
        "{}",
        stderr(&output)
    );
    let output = hosts.client(
        "a",
        "blob locator --database x --copies 4 --server 10.0.0.2",
    );
    let output = { output }.output().unwrap();
    assert!(
        stderr(&output).contains("4 copies on 1 servers"),
        "{}",
        stderr(&output)
    );
}

ebb_testkit::tests! {
    Need::Root => [
        blobs_outlive_a_replica_and_a_repair_brings_it_back,
        a_damaged_tract_is_never_read_and_is_replaced,
        any_transport_carries_tracts,
        neither_a_full_disk_nor_a_partition_loses_a_blob,
        what_is_no_tract_is_not_taken,
        nonsense_and_silence_do_not_stop_a_locator,
        of_two_writers_one_wins_and_a_locator_that_restarts_knows_all,
        a_locator_replaces_no_file,
        who_is_no_replica_is_told_so,
    ],
}
