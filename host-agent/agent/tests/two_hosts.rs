//! The commands between two hosts. Needs root.

use std::os::fd::AsRawFd;

use ebb_testkit::{Need, Signal, names, wait_until};

use crate::hosts::{Hosts, Running, record, stderr, wait_for_bytes, write_random};

fn a_file_arrives_over_every_transport() {
    let hosts = Hosts::pair();
    let file = hosts.dir.join("file.bin");
    let content = write_random(&file, 1_000_000);
    for transport in ["ndp", "scdp", "reno", "reno-ecn", "dctcp", "hull"] {
        let dir = hosts.dir.make_dir("received");
        let receiving = hosts.receive(&format!(
            "--transport {transport} --count 1 --dir {}",
            dir.display()
        ));
        let output = hosts.send(&format!("--transport {transport} {}", file.display()));
        let sent = record(&output);
        assert!(output.status.success(), "{transport}: {sent}");
        assert_eq!(sent["status"], "finished");
        let (records, good) = receiving.records();
        assert!(good, "{transport}: {records:?}");
        assert_eq!(records[0]["sha256_ok"], true);
        assert_eq!(records[0]["object_bytes"], 1_000_000);
        assert_eq!(names(&dir), ["file.bin"]);
        assert!(
            std::fs::read(dir.join("file.bin")).unwrap() == content,
            "{transport}"
        );
        std::fs::remove_file(dir.join("file.bin")).unwrap();
        // That it arrived shows that the kernel stayed out of it, which would have reset the connection or sent ICMP.
        assert_eq!(sent["scheme"], transport);
    }
}

/// The frames go to the group's MAC address, and the pulls come back by unicast.
fn an_object_arrives_at_a_group() {
    let hosts = Hosts::pair();
    let receiving = hosts.receive("--transport scdp --count 1");
    let args = "send --group 239.0.0.1 --transport scdp --generate 1000000 10.0.0.3:7000";
    let output = hosts.agent("a", args).output().unwrap();
    let sent = record(&output);
    assert!(output.status.success(), "{sent}");
    assert_eq!(sent["peer"], "239.0.0.1:7000");
    assert_eq!(sent["receivers"], 1);
    assert_eq!(sent["receivers_finished"], 1);
    let (records, good) = receiving.records();
    assert!(good, "{records:?}");
    assert_eq!(records[0]["sha256_ok"], true);
    let args = "send --group 239.0.0.1 --transport ndp --generate 1 10.0.0.3:7000";
    let output = hosts.agent("a", args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("no one-to-many flows"), "{text}");
}

fn a_stopped_receiver_fails_the_sender_and_leaves_no_file() {
    let hosts = Hosts::pair();
    for transport in ["ndp", "scdp"] {
        let dir = hosts.dir.make_dir("received");
        let receiving = hosts.receive(&format!("--transport {transport} --dir {}", dir.display()));
        let sender = hosts.start_send(&format!("--transport {transport} --generate 100000000"));
        wait_for_bytes(&dir);
        receiving.signal(Signal::TERM);
        let (records, _) = receiving.records();
        assert_eq!(records[0]["status"], "failed");
        assert!(names(&dir).is_empty(), "{:?}", names(&dir));
        let (code, sent, _) = sender.outcome();
        assert_eq!(code, Some(1));
        assert!(
            sent["reason"].as_str().unwrap().contains("aborted"),
            "{sent}"
        );
    }
}

fn a_file_that_shrinks_while_it_is_sent_fails_the_flow() {
    let hosts = Hosts::pair();
    let file = hosts.dir.join("file.bin");
    let dir = hosts.dir.make_dir("received");
    for transport in ["ndp", "scdp", "dctcp"] {
        write_random(&file, 20_000_000);
        let receiving = hosts.receive(&format!(
            "--transport {transport} --count 1 --dir {}",
            dir.display()
        ));
        let sender = hosts.start_send(&format!("--transport {transport} {}", file.display()));
        wait_for_bytes(&dir);
        let open = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
        open.set_len(1000).unwrap();
        let (_, sent, _) = sender.outcome();
        let reason = sent["reason"].to_string();
        assert!(
            reason.contains("cannot read the object"),
            "{transport}: {reason}"
        );
        let (records, good) = receiving.records();
        assert!(!good, "{transport}: {records:?}");
        assert_eq!(records[0]["status"], "failed", "{transport}: {records:?}");
        assert!(names(&dir).is_empty());
    }
}

fn a_killed_receiver_fails_the_sender_and_the_next_one_cleans_up() {
    let hosts = Hosts::pair();
    let dir = hosts.dir.make_dir("received");
    let args = format!("--transport ndp --dir {}", dir.display());
    let receiving = hosts.receive(&args);
    let sender = hosts.start_send("--transport ndp --generate 100000000");
    wait_for_bytes(&dir);
    drop(receiving);
    let (code, sent, _) = sender.outcome();
    assert_eq!(code, Some(1));
    assert_eq!(sent["status"], "failed");
    let left = names(&dir);
    assert!(
        left.len() == 1 && left[0].starts_with(".ebb-") && left[0].ends_with(".part"),
        "{left:?}"
    );
    let next = hosts.receive(&args);
    assert!(names(&dir).is_empty(), "{:?}", names(&dir));
    drop(next);
}

fn the_rule_of_a_killed_agent_goes_with_the_next_one_and_no_other_rule_does() {
    let hosts = Hosts::pair();
    let rules = |host| hosts.space(host).ip("rule show");
    // A rule that somebody else has put at the same place.
    let other = "pref 50 ipproto tcp dport 61000-65000 protocol 99 blackhole";
    hosts.space("a").ip(&format!("rule add {other}"));
    let _receiving = hosts.receive("--transport dctcp");
    let of_receiver = rules("b");
    assert!(of_receiver.contains("ipproto tcp dport 7000 blackhole"));
    let before = rules("a");
    let sender = hosts.start_send("--transport dctcp --generate 40000000");
    wait_until("its rule is there", || {
        rules("a").matches("ipproto tcp").count() >= 2
    });
    drop(sender);
    assert_eq!(rules("a").matches("ipproto tcp").count(), 2);
    // An agent that hides no TCP ports removes it too. (The one rule of TCP that stays is that of somebody else.)
    let output = hosts
        .agent("a", "send --transport ndp --generate 1 10.0.0.3:7009")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let after = rules("a");
    assert_eq!(after.matches("ipproto tcp").count(), 1, "{before}{after}");
    assert!(after.contains("61000-65000"), "{after}");
    // The rule of an agent that is running stays.
    let output = hosts
        .agent("b", "send --transport dctcp --generate 1 10.0.0.2:7009")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(rules("b"), of_receiver);
}

fn a_receiver_outlives_its_link() {
    let hosts = Hosts::pair();
    let flows = ["ndp", "dctcp"].map(|transport| {
        let dir = hosts.dir.make_dir(transport);
        let receive = format!(
            "recv --transport {transport} --count 2 --dir {}",
            dir.display()
        );
        let receiving = Running::ready(hosts.agent("b", &receive), 1);
        let send = format!("send --transport {transport} --generate 200000000 10.0.0.3");
        let sender = Running::start(hosts.agent("a", &send));
        wait_for_bytes(&dir);
        (transport, receiving, sender)
    });
    hosts.space("b").ip("link set eth1 down");
    let receivers = flows.map(|(transport, mut receiving, sender)| {
        assert_eq!(sender.outcome().1["status"], "failed", "{transport}");
        assert_eq!(receiving.line()["status"], "failed", "{transport}");
        (transport, receiving)
    });
    hosts.space("b").ip("link set eth1 up");
    let route = "route replace default via 10.0.0.2 dev eth1 onlink";
    hosts.space("b").ip(route);
    for (transport, receiving) in receivers {
        let send = format!("send --transport {transport} --generate 1000 10.0.0.3");
        let output = hosts.agent("a", &send).output().unwrap();
        assert!(output.status.success(), "{}", record(&output));
        let (records, _) = receiving.records();
        let ends: Vec<_> = records.iter().map(|r| r["status"].as_str()).collect();
        assert_eq!(ends, [Some("finished")]);
    }
}

fn nobody_has_to_read_the_records() {
    let hosts = Hosts::pair();
    let mut receiving = hosts.receive("--transport ndp --count 60");
    // To fill a pipe of 16 pages would take long, so this one has a single page.
    // SAFETY: no pointers; the descriptor is open.
    let size = unsafe {
        let pipe = receiving.lines.get_ref().as_raw_fd();
        libc::fcntl(pipe, libc::F_SETPIPE_SZ, 4096)
    };
    assert_eq!(size, 4096);
    for _ in 0..12 {
        let output = hosts.send("--transport ndp --generate 100");
        assert!(output.status.success(), "{}", record(&output));
    }
    receiving.signal(Signal::INT);
    receiving.process.wait();
}

fn a_sender_without_receiver_gives_up() {
    let hosts = Hosts::pair();
    let start = |transport| hosts.start_send(&format!("--transport {transport} --generate 1000"));
    for sender in ["ndp", "scdp"].map(start) {
        let (code, sent, _) = sender.outcome();
        assert_eq!(code, Some(1));
        assert!(sent["reason"].as_str().unwrap().contains("silent"));
    }
}

fn what_cannot_work_is_said_in_one_line() {
    let hosts = Hosts::pair();
    let mut outputs = Vec::new();
    let first = hosts.receive("--transport ndp");
    let second = hosts
        .agent("b", "recv --port 7000 --transport scdp")
        .output()
        .unwrap();
    outputs.push((second, "port 7000 of 10.0.0.3 is in use"));
    drop(first);
    let mut command = hosts.agent("a", "send --transport ndp --generate 5 10.0.0.3:7000");
    command.args(["--name", "../x"]);
    outputs.push((command.output().unwrap(), "not a single path component"));
    let missing = hosts.send("--transport ndp /nowhere/x");
    outputs.push((missing, "cannot open /nowhere/x"));
    let args = "recv --port 7 --transport ndp --interface h9-eth9";
    let nowhere = hosts.client("a", args).output().unwrap();
    outputs.push((nowhere, "there is no interface `h9-eth9`"));
    for (output, expected) in outputs {
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "`{text}` lacks `{expected}`");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

/// Nobody answers whether it is still needed: its sender waits for another receiver of the group.
fn who_stays_to_answer_late_packets_says_so() {
    let hosts = Hosts::on_bridge(3);
    let times =
        r#""rto_ns": 500000000, "max_rto_ns": 500000000, "straggler_timeout_ns": 20000000000"#;
    hosts.set_params(&format!(r#"{{"scdp": {{{times}}}}}"#));
    let [receiving, stopped] = ["b", "c"].map(|host| {
        let receiver = hosts.agent(host, "recv --transport scdp --count 1");
        Running::ready(receiver, 1)
    });
    stopped.process.stop_asleep();
    let send = "send --transport scdp --generate 700 10.0.0.3 10.0.0.4";
    let _sending = Running::start(hosts.agent("a", send));
    let (code, received, said) = receiving.outcome();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(received["status"], "finished");
    assert!(said.contains("to answer late packets"), "{said}");
}

ebb_testkit::tests! {
    Need::Root => [
        a_file_arrives_over_every_transport,
        who_stays_to_answer_late_packets_says_so,
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
