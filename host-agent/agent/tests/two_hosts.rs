//! What the commands do, between two hosts. Needs root.

mod common;
mod hosts;

use std::time::{Duration, Instant};

use common::{AGENT, ip, record, write_random};
use ebb_test_needs::Need;
use hosts::Hosts;
use std::process::Command;

fn a_file_arrives_over_every_scheme() {
    let hosts = Hosts::new();
    let file = hosts.dir.join("file.bin");
    let content = write_random(&file, 1_000_000);
    for scheme in ["ndp", "scdp", "reno", "reno-ecn", "dctcp", "hull"] {
        let dir = hosts.dir.join("received");
        let receiving = hosts.receive(&format!(
            "--scheme {scheme} --count 1 --dir {}",
            dir.display()
        ));
        let output = hosts.send(&format!("--scheme {scheme} {}", file.display()));
        let sent = record(&output);
        assert!(output.status.success(), "{scheme}: {sent}");
        assert_eq!(sent["status"], "finished");
        let (records, good) = receiving.end();
        assert!(good, "{scheme}: {records:?}");
        assert_eq!(records[0]["sha256_ok"], true);
        assert_eq!(records[0]["object_bytes"], 1_000_000);
        assert_eq!(hosts.received(), ["file.bin"]);
        assert!(
            std::fs::read(dir.join("file.bin")).unwrap() == content,
            "{scheme}"
        );
        std::fs::remove_file(dir.join("file.bin")).unwrap();
        // The kernel stayed out of it: it would have reset the connection or sent ICMP.
        assert_eq!(sent["scheme"], scheme);
    }
}

/// The frames go to the group's MAC address, and the pulls come back by unicast.
fn an_object_arrives_at_a_group() {
    let hosts = Hosts::new();
    let receiving = hosts.receive("--scheme scdp --count 1");
    let args = "send --group 239.0.0.1 --scheme scdp --generate 1000000 10.0.0.3:7000";
    let output = hosts.agent("a", args).output().unwrap();
    let sent = record(&output);
    assert!(output.status.success(), "{sent}");
    assert_eq!(sent["peer"], "239.0.0.1:7000");
    assert_eq!(sent["receivers"], 1);
    assert_eq!(sent["receivers_finished"], 1);
    let (records, good) = receiving.end();
    assert!(good, "{records:?}");
    assert_eq!(records[0]["sha256_ok"], true);
    let args = "send --group 239.0.0.1 --scheme ndp --generate 1 10.0.0.3:7000";
    let output = hosts.agent("a", args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no one-to-many flows"), "{text}");
}

fn a_stopped_receiver_fails_the_sender_and_leaves_no_file() {
    let hosts = Hosts::new();
    for scheme in ["ndp", "scdp"] {
        let dir = hosts.dir.join("received");
        let receiving = hosts.receive(&format!("--scheme {scheme} --dir {}", dir.display()));
        let sender = hosts
            .agent(
                "a",
                &format!("send --scheme {scheme} --generate 20000000 10.0.0.3:7000"),
            )
            .spawn()
            .unwrap();
        hosts.wait_for_bytes();
        receiving.signal(libc::SIGTERM);
        let (records, _) = receiving.end();
        assert_eq!(records[0]["status"], "failed");
        assert!(hosts.received().is_empty(), "{:?}", hosts.received());
        let output = sender.wait_with_output().unwrap();
        let sent = record(&output);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            sent["reason"].as_str().unwrap().contains("aborted"),
            "{sent}"
        );
    }
}

fn a_file_that_shrinks_while_it_is_sent_fails_the_flow() {
    let hosts = Hosts::new();
    let file = hosts.dir.join("file.bin");
    let dir = hosts.dir.join("received");
    for scheme in ["ndp", "scdp", "dctcp"] {
        write_random(&file, 4_000_000);
        let receiving = hosts.receive(&format!(
            "--scheme {scheme} --count 1 --dir {}",
            dir.display()
        ));
        let args = format!("send --scheme {scheme} {} 10.0.0.3:7000", file.display());
        let sender = hosts.agent("a", &args).spawn().unwrap();
        hosts.wait_for_bytes();
        let open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        open.set_len(1000).unwrap();
        let output = sender.wait_with_output().unwrap();
        let reason = record(&output)["reason"].to_string();
        assert!(
            reason.contains("cannot read the object"),
            "{scheme}: {reason}"
        );
        let (records, good) = receiving.end();
        assert!(!good, "{scheme}: {records:?}");
        assert_eq!(records[0]["status"], "failed", "{scheme}: {records:?}");
        assert!(hosts.received().is_empty());
    }
}

fn a_killed_receiver_fails_the_sender_and_the_next_one_cleans_up() {
    let hosts = Hosts::new();
    let dir = hosts.dir.join("received");
    let args = format!("--scheme ndp --dir {}", dir.display());
    let mut receiving = hosts.receive(&args);
    let sender = hosts
        .agent("a", "send --scheme ndp --generate 20000000 10.0.0.3:7000")
        .spawn()
        .unwrap();
    hosts.wait_for_bytes();
    receiving.child.kill().unwrap();
    receiving.child.wait().unwrap();
    let output = sender.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(record(&output)["status"], "failed");
    let left = hosts.received();
    assert!(
        left.len() == 1 && left[0].starts_with(".ebb-") && left[0].ends_with(".part"),
        "{left:?}"
    );
    let next = hosts.receive(&args);
    assert!(hosts.received().is_empty(), "{:?}", hosts.received());
    drop(next);
}

fn the_rule_of_a_killed_agent_goes_with_the_next_one_and_no_other_rule_does() {
    let hosts = Hosts::new();
    let n = &hosts.name;
    let rules = |side: &str| {
        let args = ["-n", &format!("{n}-{side}"), "rule", "show"];
        let output = Command::new("ip").args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    // What somebody else has put there, at the same place.
    ip(&format!(
        "-n {n}-a rule add pref 50 ipproto tcp dport 61000-65000 protocol 99 blackhole"
    ));
    let _receiving = hosts.receive("--scheme dctcp");
    let of_receiver = rules("b");
    assert!(of_receiver.contains("ipproto tcp dport 7000 blackhole"));
    let before = rules("a");
    let mut sender = hosts
        .agent("a", "send --scheme dctcp --generate 40000000 10.0.0.3:7000")
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    while rules("a").matches("ipproto tcp").count() < 2 {
        assert!(Instant::now() < patience, "{}", rules("a"));
        std::thread::sleep(Duration::from_millis(10));
    }
    sender.kill().unwrap();
    sender.wait().unwrap();
    assert_eq!(rules("a").matches("ipproto tcp").count(), 2);
    // One that hides nothing of TCP does it too; it leaves its own rule, which all share.
    let output = hosts
        .agent("a", "send --scheme ndp --generate 1 10.0.0.3:7009")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let after = rules("a");
    assert_eq!(after.matches("ipproto tcp").count(), 1, "{before}{after}");
    assert!(after.contains("61000-65000"), "{after}");
    // The rule of an agent that lives stays.
    let output = hosts
        .agent("b", "send --scheme dctcp --generate 1 10.0.0.2:7009")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(rules("b"), of_receiver);
}

fn a_receiver_outlives_its_link() {
    let hosts = Hosts::new();
    let n = &hosts.name;
    for scheme in ["ndp", "dctcp"] {
        let dir = hosts.dir.join("received");
        let args = format!("--scheme {scheme} --count 2 --dir {}", dir.display());
        let receiving = hosts.receive(&args);
        let args = format!("send --scheme {scheme} --generate 20000000 10.0.0.3:7000");
        let sender = hosts.agent("a", &args).spawn().unwrap();
        hosts.wait_for_bytes();
        ip(&format!("-n {n}-b link set eth1 down"));
        let output = sender.wait_with_output().unwrap();
        assert_eq!(record(&output)["status"], "failed");
        std::thread::sleep(Duration::from_millis(1200));
        ip(&format!("-n {n}-b link set eth1 up"));
        ip(&format!(
            "-n {n}-b route replace default via 10.0.0.2 dev eth1 onlink"
        ));
        let output = hosts.send(&format!("--scheme {scheme} --generate 1000"));
        assert!(output.status.success(), "{}", record(&output));
        let (records, _) = receiving.end();
        let ends: Vec<_> = records.iter().map(|r| r["status"].to_string()).collect();
        assert_eq!(ends, [r#""failed""#, r#""finished""#]);
        std::fs::remove_file(dir.join("generated-1000-0.bin")).unwrap();
    }
}

fn nobody_has_to_read_the_records() {
    let hosts = Hosts::new();
    let mut receiving = hosts.receive("--scheme ndp --count 60");
    // More lines than a pipe of 16 pages holds would take long: a smaller one.
    // SAFETY: no pointers; the descriptor is open.
    let size = unsafe {
        use std::os::fd::AsRawFd;
        libc::fcntl(
            receiving.lines.get_ref().as_raw_fd(),
            libc::F_SETPIPE_SZ,
            4096,
        )
    };
    assert_eq!(size, 4096);
    for _ in 0..12 {
        let output = hosts.send("--scheme ndp --generate 100");
        assert!(output.status.success(), "{}", record(&output));
    }
    receiving.signal(libc::SIGINT);
    let patience = Instant::now() + Duration::from_secs(10);
    while receiving.child.try_wait().unwrap().is_none() {
        assert!(Instant::now() < patience, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn a_sender_without_receiver_gives_up() {
    let hosts = Hosts::new();
    for scheme in ["ndp", "scdp"] {
        let output = hosts.send(&format!("--scheme {scheme} --generate 1000"));
        assert_eq!(output.status.code(), Some(1));
        assert!(
            record(&output)["reason"]
                .as_str()
                .unwrap()
                .contains("silent")
        );
    }
}

fn what_cannot_work_is_said_in_one_line() {
    let hosts = Hosts::new();
    let mut outputs = Vec::new();
    let first = hosts.receive("--scheme ndp");
    let second = hosts
        .agent("b", "recv --port 7000 --scheme scdp")
        .output()
        .unwrap();
    outputs.push((second, "port 7000 of 10.0.0.3 is in use"));
    drop(first);
    let mut command = hosts.agent("a", "send --scheme ndp --generate 5 10.0.0.3:7000");
    command.args(["--name", "../x"]);
    outputs.push((command.output().unwrap(), "not a single path component"));
    let missing = hosts.send("--scheme ndp /nowhere/x");
    outputs.push((missing, "cannot open /nowhere/x"));
    let mut command = Command::new("ip");
    let netns = format!("{}-a", hosts.name);
    command.args([
        "netns", "exec", &netns, AGENT, "recv", "--port", "7", "--scheme", "ndp",
    ]);
    command.args(["--interface", "h9-eth9"]);
    outputs.push((command.output().unwrap(), "there is no interface `h9-eth9`"));
    for (output, expected) in outputs {
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "`{text}` lacks `{expected}`");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

ebb_test_needs::tests! {
    Need::Root => [
        a_file_arrives_over_every_scheme,
        an_object_arrives_at_a_group,
        a_stopped_receiver_fails_the_sender_and_leaves_no_file,
        a_file_that_shrinks_while_it_is_sent_fails_the_flow,
        a_killed_receiver_fails_the_sender_and_the_next_one_cleans_up,
        the_rule_of_a_killed_agent_goes_with_the_next_one_and_no_other_rule_does,
        a_receiver_outlives_its_link,
        nobody_has_to_read_the_records,
        a_sender_without_receiver_gives_up,
        what_cannot_work_is_said_in_one_line,
    ],
}
