//! `--log-file` and `--dump-packet-data`: what scripts for BMv2 look for in the log.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_p4runtime::proto::p4::stream_message_request::Update;
use ebb_testkit::{Folder, Need, Process, free_address, wait_until};
use tokio_stream::wrappers::ReceiverStream;

use crate::server::{SWITCH, arbitration, connect};

#[tokio::main(flavor = "current_thread")]
async fn a_packet_is_in_the_log_and_the_log_in_a_new_file() {
    let folder = Folder::new("log");
    // A link that somebody else has put into a folder for all is not followed.
    let precious = folder.write("precious", "mine");
    std::os::unix::fs::symlink(&precious, folder.join("s1.txt")).expect("a link");
    let programs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let address = free_address().to_string();
    let mut command = Command::new(SWITCH);
    command
        .args(["--log-file", "s1", "--log-flush", "--dump-packet-data", "4"])
        .args(["--nanolog", "ipc:///tmp/unused", "-L", "trace", "--p4info"])
        .args(["patch.p4info.txtpb", "patch.json"].map(|name| programs.join(name)))
        .args(["--", "--cpu-port", "510", "--grpc-server-addr", &address])
        .current_dir(&folder);
    let _switch = Process::start(command.stderr(Stdio::null()));

    let mut client = P4RuntimeClient::new(connect(format!("http://{address}")).await);
    let (requests, receiver) = tokio::sync::mpsc::channel(2);
    requests.send(arbitration()).await.expect("taken");
    let packet = p4::PacketOut {
        payload: [0xab; 60].to_vec(),
        ..Default::default()
    };
    let update = Some(Update::Packet(packet));
    let message = p4::StreamMessageRequest { update };
    requests.send(message).await.expect("taken");
    let answers = client.stream_channel(ReceiverStream::new(receiver)).await;
    let mut answers = answers.expect("a stream").into_inner();
    answers.message().await.expect("primary");

    let log = || std::fs::read_to_string(folder.join("s1.txt")).expect("a log");
    wait_until("the packet is in the log", || {
        log().contains("Received packet of length 60 on port 510: abababab\n")
    });
    assert!(log().contains("--nanolog is ignored: "), "{}", log());
    let program = programs.join("patch.json");
    let runs = format!("device 0: program {}; CPU port 510", program.display());
    assert!(log().contains(&runs), "{}", log());
    // Events of the packet, at both levels.
    for line in [
        "DEBUG device 0 packet 1: in at port 510: 60 bytes abababab",
        "TRACE device 0 packet 1: state start",
    ] {
        assert!(log().contains(line), "{line}: {}", log());
    }
    assert!(!log().contains("h2"), "{}", log());
    let who = format!("P4Runtime on {address}: any user of this machine; no TLS");
    assert!(log().contains(&who), "{}", log());
    let kept = std::fs::read_to_string(&precious).expect("there");
    assert_eq!(kept, "mine");
}

ebb_testkit::tests! {
    Need::Nothing => [
        a_packet_is_in_the_log_and_the_log_in_a_new_file,
    ],
}
