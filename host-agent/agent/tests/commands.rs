//! The commands among three hosts, with engines of their own and as clients of daemons.

use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use ebb_testkit::{Namespace, Need, PATIENCE, Signal, names, run, wait_until};
use ebb_transport::TransportKind;

use crate::hosts::{AGENT, Hosts, Running, record, stderr, wait_for_bytes, write_random};

fn a_log_that_goes_into_a_pipe_has_no_colours() {
    let old = ["send", "--scheme", "ndp", "no-file", "10.0.0.1"];
    let output = Command::new(AGENT).args(old).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("WARN") && !said.contains('\u{1b}'), "{said}");
}

fn one_object_goes_to_several_hosts() {
    let hosts = Hosts::on_bridge(3);
    let content = write_random(&hosts.dir.join("file.bin"), 500_000);
    let receivers = ["b", "c"].map(|side| {
        let dir = hosts.dir.make_dir(side);
        let args = format!("recv --count 1 --dir {}", dir.display());
        (Running::ready(hosts.agent(side, &args), 1), dir)
    });
    let send = "send file.bin 10.0.0.3 10.0.0.4";
    let output = hosts.agent("a", send).output().unwrap();
    let sent = record(&output);
    assert!(output.status.success(), "{sent}");
    // The group's address is made of the SHA-256 of 0a000003 0a000004 (docs/wire-format.md).
    assert_eq!(sent["peer"], "239.95.91.193:7001");
    assert_eq!(sent["receivers_finished"], 2);
    for (receiver, dir) in receivers {
        assert!(receiver.end());
        assert!(std::fs::read(dir.join("file.bin")).unwrap() == content);
    }
    // The other transports send to each of them.
    let receivers = ["b", "c"]
        .map(|side| Running::ready(hosts.agent(side, "recv --transport dctcp --count 1"), 1));
    let send = "send --unicast --transport dctcp --generate 100000 10.0.0.3 10.0.0.4";
    let output = hosts.agent("a", send).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 2);
    assert!(receivers.into_iter().all(Running::end));
}

fn an_object_is_fetched_from_one_host_or_several() {
    let hosts = Hosts::on_bridge(3);
    let served = hosts.dir.make_dir("served");
    let content = write_random(&served.join("file.bin"), 2_000_000);
    let server = format!("recv --serve {}", served.display());
    let _servers = ["b", "c"].map(|side| Running::ready(hosts.agent(side, &server), 1));

    let fetch = |args: &str| {
        let output = hosts.agent("a", &format!("fetch {args}")).output().unwrap();
        (output.status.code(), output)
    };
    let (code, output) = fetch("file.bin --from 10.0.0.3 -o here.bin");
    assert_eq!(code, Some(0), "{}", stderr(&output));
    assert_eq!(record(&output)["sha256_ok"], true);
    assert!(std::fs::read(hosts.dir.join("here.bin")).unwrap() == content);
    let (code, output) = fetch("file.bin --from 10.0.0.3 10.0.0.4");
    assert_eq!(code, Some(0), "{}", stderr(&output));
    assert!(std::fs::read(hosts.dir.join("file.bin")).unwrap() == content);
    let (code, output) = fetch("file.bin --from 10.0.0.3 -o -");
    assert_eq!(code, Some(0), "{}", stderr(&output));
    assert!(output.stdout == content);
    assert!(stderr(&output).contains(r#""sha256_ok":true"#));

    let (code, output) = fetch("nothing --from 10.0.0.3");
    assert_eq!(code, Some(1));
    let text = stderr(&output);
    assert!(
        text.contains("10.0.0.3 refuses: there is no object `nothing` here"),
        "{text}"
    );
    let (code, output) = fetch("file.bin --from 10.0.0.3:7009");
    assert_eq!(code, Some(1));
    assert!(
        stderr(&output).contains("10.0.0.3 does not take the request: "),
        "{}",
        stderr(&output)
    );
    let (code, output) = fetch("file.bin --transport ndp --from 10.0.0.3 10.0.0.4");
    assert_eq!(code, Some(2));
    assert!(
        stderr(&output).contains("no many-to-one"),
        "{}",
        stderr(&output)
    );
    let left = names(&hosts.dir);
    assert_eq!(left, ["file.bin", "here.bin", "params.json", "served"]);
}

/// One of two servers has no such object, is not there, or dies meanwhile: the other sends all of it.
fn a_server_that_does_not_send_is_done_without() {
    let hosts = Hosts::on_bridge(3);
    let with = hosts.dir.make_dir("with");
    let content = write_random(&with.join("file.bin"), 3_000_000);
    let without = hosts.dir.make_dir("without");
    let serve = |side, dir: &std::path::Path| {
        let args = format!("recv --serve {}", dir.display());
        Running::ready(hosts.agent(side, &args), 1)
    };
    let _good = serve("b", &with);
    let fetch = |from: &str| {
        let fetch = format!("fetch file.bin --from {from} -o got.bin");
        let output = hosts.agent("a", &fetch).output().unwrap();
        let got = std::fs::read(hosts.dir.join("got.bin")).unwrap_or_default();
        let _ = std::fs::remove_file(hosts.dir.join("got.bin"));
        (output, got)
    };
    let bad = serve("c", &without);
    for (from, why) in [
        ("10.0.0.3 10.0.0.4", "refuses: there is no object"),
        ("10.0.0.4 10.0.0.3", "refuses: there is no object"),
        // Nothing listens at the one, and there is no host with the address of the other.
        ("10.0.0.3 10.0.0.4:7009", ""),
        ("10.0.0.9 10.0.0.3", ""),
    ] {
        let (output, got) = fetch(from);
        let done = record(&output);
        assert!(output.status.success(), "{from}: {done}");
        assert!(got == content, "{from}");
        let senders = done["senders"].to_string();
        assert!(senders.contains(why), "{from}: {senders}");
    }
    let (output, got) = fetch("10.0.0.4 10.0.0.4:7009");
    assert_eq!(
        (output.status.code(), got.len()),
        (Some(2), 0),
        "twice one host"
    );
    drop(bad);

    let dying = serve("c", &with);
    let large = std::fs::File::create(with.join("large.bin")).unwrap();
    large.set_len(10_000_000).unwrap();
    let received = hosts.dir.make_dir("received");
    let mut fetching = hosts.agent("a", "fetch large.bin --from 10.0.0.3 10.0.0.4");
    fetching.current_dir(&received);
    let mut fetching = Running::start(fetching);
    wait_for_bytes(&received);
    dying.signal(Signal::KILL);
    let done = fetching.line();
    assert_eq!(done["status"], "finished", "{done}");
    assert!(fetching.end());
    assert_eq!(names(&received), ["large.bin"]);
}

fn servers_that_disagree_or_die_fail_the_fetch() {
    let hosts = Hosts::on_bridge(3);
    let mut servers = Vec::new();
    for (side, byte) in [("b", 0u8), ("c", 1)] {
        let dir = hosts.dir.make_dir(side);
        let mut content = write_random(&dir.join("file.bin"), 2_000_000);
        // The files differ in every byte, since half of the object comes from either.
        content.iter_mut().for_each(|b| *b ^= byte);
        std::fs::write(dir.join("file.bin"), content).unwrap();
        let file = std::fs::File::create(dir.join("large.bin")).unwrap();
        file.set_len(20_000_000).unwrap();
        let args = format!("recv --serve {}", dir.display());
        servers.push(Running::ready(hosts.agent(side, &args), 1));
    }
    let fetch = "fetch file.bin --from 10.0.0.3 10.0.0.4";
    let output = hosts.agent("a", fetch).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let failed = record(&output);
    assert_eq!(failed["status"], "failed");
    assert_eq!(failed["sha256_ok"], false, "{failed}");
    assert!(failed["reason"].as_str().unwrap().contains("SHA-256"));

    let received = hosts.dir.make_dir("received");
    let mut fetch = hosts.agent("a", "fetch large.bin --from 10.0.0.3");
    fetch.current_dir(&received);
    let mut fetching = Running::start(fetch);
    wait_for_bytes(&received);
    servers[0].signal(Signal::KILL);
    let failed = fetching.line();
    assert_eq!(failed["status"], "failed", "{failed}");
    assert!(!fetching.end());
    assert!(names(&received).is_empty());
}

fn both_sides_hear_of_a_full_disk_and_of_a_wrong_hash() {
    let hosts = Hosts::on_bridge(3);
    let small = hosts.dir.make_dir("small");
    let _mounted = SmallDisk::mount(&small);
    let file = hosts.dir.join("file.bin");
    write_random(&file, 4_000_000);
    for transport in ["ndp", "scdp", "dctcp"] {
        let args = format!("recv --transport {transport} --dir {}", small.display());
        let mut receiver = Running::ready(hosts.agent("b", &args), 1);
        let send = format!("send --transport {transport} file.bin 10.0.0.3");
        let output = hosts.agent("a", &send).output().unwrap();
        let sent = record(&output);
        assert_eq!(sent["status"], "failed", "{transport}: {sent}");
        let received = receiver.line();
        assert_eq!(received["status"], "failed", "{transport}: {received}");
        let reason = received["reason"].as_str().unwrap();
        assert!(reason.contains("No space left"), "{transport}: {reason}");
        assert!(names(&small).is_empty());
        // The receiver takes other objects as before.
        let send = format!("send --transport {transport} --generate 1000 10.0.0.3");
        let output = hosts.agent("a", &send).output().unwrap();
        assert!(output.status.success(), "{}", record(&output));
        assert_eq!(receiver.line()["sha256_ok"], true);
        std::fs::remove_file(small.join("generated-1000-0.bin")).unwrap();

        // The file changes while it is being sent.
        let dir = hosts.dir.make_dir(&format!("received-{transport}"));
        let args = format!(
            "recv --transport {transport} --port 7009 --dir {}",
            dir.display()
        );
        let mut receiver = Running::ready(hosts.agent("b", &args), 1);
        let send = format!("send --transport {transport} file.bin 10.0.0.3:7009");
        let mut sender = Running::start(hosts.agent("a", &send));
        wait_for_bytes(&dir);
        let open = std::fs::OpenOptions::new().write(true).open(&file);
        open.unwrap().write_all_at(&[0; 1000], 3_999_000).unwrap();
        let received = receiver.line();
        assert_eq!(received["sha256_ok"], false, "{transport}: {received}");
        let sent = sender.line();
        assert_eq!(sent["status"], "failed", "{transport}: {sent}");
        assert!(names(&dir).is_empty());
        write_random(&file, 4_000_000);
    }
}

/// A file system of 1 MiB; unmounted when dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Self {
        run(&format!(
            "mount -t tmpfs -o size=1m ebb-test {}",
            at.display()
        ));
        SmallDisk(at)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        // `-l`, because a receiver of a test that failed may still use it.
        run(&format!("umount -l {}", self.0.display()));
    }
}

fn commands_use_the_daemon_of_their_host() {
    let hosts = Hosts::on_bridge(3);
    let received = hosts.dir.make_dir("received");
    let mut daemon = Running::ready(hosts.agent("b", "run"), TransportKind::ALL.len());
    let _other = Running::ready(hosts.agent("a", "run"), TransportKind::ALL.len());
    let output = hosts.client("b", "run").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("a daemon runs at @ebb-agent already"));
    // While nobody listens, the daemon refuses objects.
    let send = "send --transport ndp --generate 1000 10.0.0.3";
    let output = hosts.client("a", send).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let args = format!("recv --transport ndp --dir {}", received.display());
    let two = format!("{args} --count 2");
    let mut receiver = Running::ready(hosts.client("b", &two), 1);
    let output = hosts.client("b", "recv --transport ndp").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("another client listens on port 7000"));
    let output = hosts.client("a", send).output().unwrap();
    assert!(output.status.success(), "{}", record(&output));
    assert_eq!(receiver.line()["sha256_ok"], true);
    assert_eq!(names(&received), ["generated-1000-0.bin"]);
    // A client that is killed takes its flow along, and nothing else.
    let send = "send --transport ndp --generate 40000000 10.0.0.3";
    let sender = Running::start(hosts.client("a", send));
    wait_until("something arrives", || names(&received).len() == 2);
    sender.signal(Signal::KILL);
    assert_eq!(receiver.line()["status"], "failed");
    assert!(!receiver.end());
    assert_eq!(names(&received), ["generated-1000-0.bin"]);
    // So does one that is asked to end.
    let receiver = Running::ready(hosts.client("b", &args), 1);
    let mut sender = Running::start(hosts.client("a", send));
    wait_until("something arrives", || names(&received).len() == 2);
    receiver.signal(Signal::TERM);
    assert!(receiver.end());
    assert_eq!(sender.line()["status"], "failed");
    // A daemon that is stopped tells everybody.
    let mut receiver = Running::ready(hosts.client("b", &args), 1);
    let mut sender = Running::start(hosts.client("a", send));
    wait_until("something arrives", || names(&received).len() == 2);
    daemon.signal(Signal::TERM);
    assert_eq!(receiver.line()["status"], "failed");
    assert_eq!(sender.line()["status"], "failed");
    daemon.process.wait();
}

/// The resident memory of a process, in bytes.
fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// Waits until hardly anything arrives any more: less than 100 kB in 200 ms.
fn wait_until_quiet(space: &Namespace) {
    let received = || {
        let link = space.ip("-s -o link show eth1");
        let counts = link.split("RX:").nth(1).expect("counts");
        let bytes = counts.split('\\').nth(1).expect("numbers");
        let bytes = bytes.split_whitespace().next().expect("bytes first");
        bytes.parse::<u64>().expect("a number")
    };
    let end = Instant::now() + PATIENCE;
    let mut before = received();
    loop {
        thread::sleep(Duration::from_millis(200));
        let now = received();
        if now - before < 100_000 {
            return;
        }
        assert!(Instant::now() < end, "it never waits for its reader");
        before = now;
    }
}

fn a_reader_that_sleeps_costs_no_memory() {
    let hosts = Hosts::on_bridge(3);
    let served = hosts.dir.make_dir("served");
    let size = 30_000_000;
    let file = std::fs::File::create(served.join("large")).unwrap();
    file.set_len(size).unwrap();
    for transport in ["ndp", "scdp", "dctcp"] {
        // The rate is not limited, so all of it would come while the reader sleeps.
        let serve = format!("recv --serve {} --transport {transport}", served.display());
        let _server = Running::ready(hosts.client("b", &serve), 1);
        let fetch = format!("fetch large --from 10.0.0.3 -o - --transport {transport}");
        let mut fetching = Running::start(hosts.client("a", &fetch));
        let mut part = [0; 10_000];
        fetching.lines.read_exact(&mut part).unwrap();
        let before = resident_bytes(fetching.process.id());
        wait_until_quiet(hosts.space("a"));
        let after = resident_bytes(fetching.process.id());
        assert!(
            after < before + (12 << 20),
            "{transport}: {before} then {after}"
        );
        let mut rest = Vec::new();
        fetching.lines.read_to_end(&mut rest).unwrap();
        assert_eq!((part.len() + rest.len()) as u64, size, "{transport}");
        assert!(fetching.end(), "{transport}");
    }
}

/// The server has not gone, so it answers whether it still needs this host; without that, one that has
/// received something stays for as long as a silent peer may still ask: 55 s with these timeouts.
fn a_fetch_ends_when_its_server_knows() {
    let hosts = Hosts::pair();
    let timeouts = r#"{"rto_ns": 1000000000, "max_rto_ns": 8000000000}"#;
    let rate = r#"{"rate_bps": 100000000}"#;
    hosts.set_params(&format!(
        r#"{{"nic": {rate}, "ndp": {timeouts}, "scdp": {timeouts}}}"#
    ));
    let served = hosts.dir.make_dir("served");
    std::fs::write(served.join("object"), "content").unwrap();
    for transport in ["ndp", "scdp", "dctcp"] {
        let server = hosts.receive(&format!(
            "--transport {transport} --serve {}",
            served.display()
        ));
        for (name, is_there) in [("object", true), ("nothing", false)] {
            let begun = Instant::now();
            let args = format!("fetch {name} --transport {transport} --from 10.0.0.3:7000 -o -");
            let output = hosts.agent("a", &args).output().unwrap();
            let said = stderr(&output);
            assert_eq!(
                output.status.success(),
                is_there,
                "{transport} {name}: {said}"
            );
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "{transport} {name}"
            );
        }
        drop(server);
    }
}

ebb_testkit::tests! {
    Need::Root => [
        a_fetch_ends_when_its_server_knows,
        one_object_goes_to_several_hosts,
        an_object_is_fetched_from_one_host_or_several,
        a_server_that_does_not_send_is_done_without,
        servers_that_disagree_or_die_fail_the_fetch,
        both_sides_hear_of_a_full_disk_and_of_a_wrong_hash,
        commands_use_the_daemon_of_their_host,
        a_reader_that_sleeps_costs_no_memory,
        a_log_that_goes_into_a_pipe_has_no_colours,
    ],
}
