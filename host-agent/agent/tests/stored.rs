//! A sender gets the true end of its object, and what a peer names harms nobody. Among
//! three hosts; needs root.

use std::time::Duration;

use ebb_testkit::{Need, names};

use crate::hosts::{Hosts, Running, record, stderr};

const TRANSPORTS: [&str; 6] = ["ndp", "scdp", "reno", "reno-ecn", "dctcp", "hull"];

fn generate(hosts: &Hosts, options: &str, to: &str) -> std::process::Output {
    let args = format!("send --generate 700 {options} {to}");
    hosts.agent("a", &args).output().unwrap()
}

fn a_sender_hears_that_its_object_was_not_stored() {
    let hosts = Hosts::on_bridge(3);
    for transport in TRANSPORTS {
        let dir = hosts.dir.make_dir(transport);
        std::fs::write(dir.join("taken"), "precious").unwrap();
        std::os::unix::fs::symlink("elsewhere", dir.join("link")).unwrap();
        let args = format!("recv --transport {transport} --dir {}", dir.display());
        let mut receiver = Running::ready(hosts.agent("b", &args), 1);
        let bad_name = "takes no file of that name";
        for (name, why, told) in [
            (".bashrc", "leading dot", bad_name),
            (".ebb-x", "leading dot", bad_name),
            ("taken", "is there already", "is there already"),
            ("link", "is there already", "is there already"),
        ] {
            let output = generate(
                &hosts,
                &format!("--transport {transport} --name {name}"),
                "10.0.0.3",
            );
            let sent = record(&output);
            assert_eq!(sent["status"], "failed", "{transport} {name}: {sent}");
            assert_eq!(output.status.code(), Some(1), "{transport} {name}");
            let reason = sent["reason"].as_str().unwrap();
            assert!(reason.contains(told), "{transport} {name}: {reason}");
            let received = receiver.line();
            assert_eq!(received["status"], "failed", "{transport}: {received}");
            let reason = received["reason"].as_str().unwrap();
            assert!(reason.contains(why), "{transport}: {reason}");
        }
        assert_eq!(std::fs::read(dir.join("taken")).unwrap(), b"precious");
        assert_eq!(names(&dir), ["link", "taken"]);
    }
}

fn with_overwrite_files_are_replaced() {
    let hosts = Hosts::on_bridge(3);
    let dir = hosts.dir.make_dir("received");
    std::fs::write(dir.join("taken"), "old").unwrap();
    let outside = hosts.dir.join("outside");
    std::fs::write(&outside, "precious").unwrap();
    std::os::unix::fs::symlink(&outside, dir.join("link")).unwrap();
    let args = format!("recv --transport ndp --overwrite --dir {}", dir.display());
    let mut receiver = Running::ready(hosts.agent("b", &args), 1);
    for name in ["taken", "link"] {
        let output = generate(
            &hosts,
            &format!("--transport ndp --name {name}"),
            "10.0.0.3",
        );
        assert!(output.status.success(), "{}", record(&output));
        assert_eq!(receiver.line()["status"], "finished");
        assert_eq!(std::fs::metadata(dir.join(name)).unwrap().len(), 700);
    }
    assert_eq!(std::fs::read(&outside).unwrap(), b"precious");
}

fn a_group_hears_of_the_one_that_could_not_store() {
    let hosts = Hosts::on_bridge(3);
    let dirs = ["b", "c"].map(|side| hosts.dir.make_dir(side));
    std::fs::write(dirs[1].join("object"), "precious").unwrap();
    let mut receivers = ["b", "c"].map(|side| {
        let dir = hosts.dir.join(side);
        let args = format!("recv --dir {}", dir.display());
        Running::ready(hosts.agent(side, &args), 1)
    });
    let output = generate(&hosts, "--name object", "10.0.0.3 10.0.0.4");
    let sent = record(&output);
    assert_eq!(output.status.code(), Some(1), "{sent}");
    assert_eq!(sent["receivers_finished"], 1, "{sent}");
    assert!(
        sent["reason"].as_str().unwrap().contains("10.0.0.4"),
        "{sent}"
    );
    let ends = receivers
        .each_mut()
        .map(|receiver| receiver.line()["status"].clone());
    assert_eq!(ends, ["finished", "failed"]);
    assert_eq!(
        std::fs::metadata(dirs[0].join("object")).unwrap().len(),
        700
    );
    assert_eq!(std::fs::read(dirs[1].join("object")).unwrap(), b"precious");
}

/// The reader of a pipe takes longer than any engine would wait, and then goes.
fn a_server_hears_that_nobody_took_what_was_fetched() {
    let hosts = Hosts::on_bridge(3);
    let served = hosts.dir.make_dir("served");
    // The object is longer than what a pipe holds, and shorter than what stops a flow.
    std::fs::write(served.join("object"), vec![7; 300_000]).unwrap();
    let fetches = (7000..).zip(TRANSPORTS).map(|(port, transport)| {
        let options = format!("--transport {transport}");
        let serve = format!("recv {options} --port {port} --serve {}", served.display());
        let server = Running::ready(hosts.agent("b", &serve), 1);
        let fetch = format!("fetch object {options} --from 10.0.0.3:{port} -o -");
        (transport, server, Running::start(hosts.agent("a", &fetch)))
    });
    let fetches: Vec<_> = fetches.collect();
    std::thread::sleep(Duration::from_millis(500));
    for (transport, mut server, fetching) in fetches {
        let Running { mut process, lines } = fetching;
        drop(lines);
        assert!(!process.wait().success());
        let sent = server.line();
        assert_eq!(sent["role"], "sender", "{transport}: {sent}");
        assert_eq!(sent["status"], "failed", "{transport}: {sent}");
    }
}

fn text_of_a_peer_is_never_written_as_it_is() {
    let hosts = Hosts::on_bridge(3);
    // The name sets the title of the window, ends lines, has a C1 control and turns the direction of writing.
    let name = "\u{1b}]0;owned\u{7}\r\n\u{9b}2J\u{202e}x";
    let clean = |text: &[u8]| {
        let text = std::str::from_utf8(text).unwrap();
        for bad in ['\u{1b}', '\u{7}', '\r', '\u{9b}', '\u{202e}'] {
            assert!(!text.contains(bad), "{}", text.escape_debug());
        }
    };
    let mut receiver = Running::ready(hosts.agent("b", "recv --transport ndp"), 1);
    let mut send = hosts.agent("a", "send --transport ndp --generate 700 10.0.0.3");
    let output = send.args(["--name", name]).output().unwrap();
    assert!(output.status.success());
    clean(&output.stdout);
    assert_eq!(record(&output)["name"], name);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut receiver.lines, &mut line).unwrap();
    clean(line.as_bytes());
    let received: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(received["name"], name);
    // The refusal of a server quotes the name.
    let mut fetch = hosts.agent("a", "fetch --transport ndp --from 10.0.0.3 -o none");
    let output = fetch.args(["--", name]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    clean(&output.stderr);
    clean(&output.stdout);
    assert!(
        stderr(&output).contains(r"\u{1b}]0;owned"),
        "{}",
        stderr(&output)
    );
    assert!(!hosts.dir.join("none").exists());
}

ebb_testkit::tests! {
    Need::Root => [
        a_sender_hears_that_its_object_was_not_stored,
        with_overwrite_files_are_replaced,
        a_group_hears_of_the_one_that_could_not_store,
        a_server_hears_that_nobody_took_what_was_fetched,
        text_of_a_peer_is_never_written_as_it_is,
    ],
}
