//! Where docs/targets.md says that BMv2 does otherwise: `tests/bmv2/differences.p4` on our switch (`.stf`) and on
//! `simple_switch` (`.bmv2`: the same commands, without `*`, `$` and more). What needs `simple_switch` is ignored where
//! it is not on PATH.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use ebb_testkit::{Folder, Need, Process, free_address, wait_until};

use crate::{path, stdout, stf};

const PORTS: [u16; 2] = [0, 1];

type Frame = (u16, Vec<u8>);

fn read(name: &str) -> String {
    fs::read_to_string(path("bmv2").join(name)).expect("a file")
}

/// Builds without nanomsg do not know the option; others would all take the same default address.
fn has_notifications() -> bool {
    let help = Command::new("simple_switch").arg("--help").output();
    let help = help.expect("it starts");
    [help.stdout, help.stderr]
        .iter()
        .any(|text| String::from_utf8_lossy(text).contains("--notifications-addr"))
}

/// A `simple_switch` that reads and writes pcap files in a folder of its own.
struct Bmv2 {
    folder: Folder,
    process: Process,
}

impl Bmv2 {
    fn start(program: &str, packets: &[Frame]) -> Bmv2 {
        let folder = Folder::new("bmv2");
        folder.write("program.json", json(program));
        for port in PORTS {
            let frames = packets.iter().filter(|p| p.0 == port).map(|p| &p.1[..]);
            folder.write(&format!("{port}_in.pcap"), pcap(frames));
        }
        let thrift = free_address().port();
        let mut command = Command::new("simple_switch");
        command.args(["--use-files", "0", "--thrift-port", &thrift.to_string()]);
        if has_notifications() {
            command.args(["--notifications-addr", "ipc://notifications.ipc"]);
        }
        for port in PORTS {
            command.args(["-i", &format!("{port}@{port}")]);
        }
        command.arg("program.json").current_dir(&folder);
        let process = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        Bmv2 { folder, process }
    }

    /// The frames that have left so far, with their ports.
    fn output(&self) -> Vec<Frame> {
        let of = |port: u16| {
            let bytes = fs::read(self.folder.join(format!("{port}_out.pcap"))).unwrap_or_default();
            frames(&bytes).into_iter().map(move |frame| (port, frame))
        };
        PORTS.into_iter().flat_map(of).collect()
    }

    /// Waits until that many frames have left.
    fn wait_for(&mut self, count: usize) -> Vec<Frame> {
        wait_until("the frames have left", || {
            assert!(!self.process.has_ended(), "simple_switch ended");
            self.output().len() >= count
        });
        self.output()
    }
}

const DIFFERENCES: &str = "differences.p4";

fn json(program: &str) -> String {
    let compiled = ebb_p4c::compile_text(program, &read(program));
    compiled.expect("a right program").json.to_json()
}

/// A file of Ethernet frames, all at the same time.
fn pcap<'a>(frames: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1] {
        out.extend(u32::to_ne_bytes(word));
    }
    for frame in frames {
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            out.extend(word.to_ne_bytes());
        }
        out.extend(frame);
    }
    out
}

/// The frames of a pcap file that are whole; the last one may still be being written.
fn frames(pcap: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = pcap.get(24..).unwrap_or_default();
    while let Some((head, after)) = rest.split_first_chunk::<16>() {
        let length = u32::from_ne_bytes(head[8..12].try_into().expect("four bytes")) as usize;
        let Some((frame, after)) = after.split_at_checked(length) else {
            break;
        };
        found.push(frame.to_vec());
        rest = after;
    }
    found
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|d| (d[0] * 16 + d[1]) as u8).collect()
}

/// The frames of the lines `packet` and `expect` of a script.
fn script(text: &str) -> (Vec<Frame>, Vec<Frame>) {
    let of = |command: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(command));
        lines
            .map(|line| {
                let (port, bytes) = line.trim().split_once(' ').expect("port and bytes");
                (port.parse().expect("a port"), hex(bytes))
            })
            .collect()
    };
    (of("packet "), of("expect "))
}

/// Checks that the script of a program passes on our switch.
fn passes(program: &str) {
    let output = stf(&[], &[path("bmv2").join(program)]);
    assert_eq!(stdout(&output), "1 tests: 1 passed\n");
}

fn our_switch() {
    passes(DIFFERENCES);
}

fn our_switch_has_registers_of_200_bits() {
    passes("wide.p4");
}

fn simple_switch() {
    let text = read("differences.bmv2");
    let (packets, expected) = script(&text);
    let output = Bmv2::start(DIFFERENCES, &packets).wait_for(expected.len());
    // The order is not fixed: packets that take longer are overtaken.
    let sorted = |mut frames: Vec<Frame>| {
        frames.sort();
        frames
    };
    assert_eq!(sorted(output), sorted(expected));
}

fn a_false_assertion_ends_simple_switch() {
    let mut bmv2 = Bmv2::start(DIFFERENCES, &[(0, hex("04 00 00000000"))]);
    let status = bmv2.process.wait();
    // It exits without a signal if it does not know its arguments.
    assert!(status.signal().is_some(), "{status}");
}

fn random_numbers_of_simple_switch_differ_from_run_to_run() {
    let [first, second] = [(); 2].map(|()| {
        let output = Bmv2::start(DIFFERENCES, &[(0, hex("05 00 00000000"))]).wait_for(1);
        assert_eq!(output.len(), 1);
        output
    });
    assert_ne!(first, second);
}

fn simple_switch_has_registers_of_200_bits() {
    let packets = [(0, hex("07 00")), (0, hex("08 00"))];
    let output = Bmv2::start("wide.p4", &packets).wait_for(2);
    assert_eq!(output, [(1, hex("07 00")), (1, hex("08 07"))]);
}

ebb_testkit::tests! {
    Need::Nothing => [
        our_switch,
        our_switch_has_registers_of_200_bits,
    ],
    Need::Command("simple_switch") => [
        simple_switch,
        a_false_assertion_ends_simple_switch,
        random_numbers_of_simple_switch_differ_from_run_to_run,
        simple_switch_has_registers_of_200_bits,
    ],
}
