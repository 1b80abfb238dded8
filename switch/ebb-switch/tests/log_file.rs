//! `--log-file` and `--dump-packet-data`: what scripts for BMv2 look for in the log.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_p4runtime::proto::p4::stream_message_request::Update;
use tokio_stream::wrappers::ReceiverStream;

const PATIENCE: Duration = Duration::from_secs(20);

struct Switch {
    process: Child,
    folder: PathBuf,
}

impl Drop for Switch {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[tokio::test]
async fn a_packet_is_in_the_log_and_the_log_in_a_new_file() {
    let name = format!("ebb-log-test-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    // A link that somebody else has put into a folder for all is not followed.
    let precious = folder.join("precious");
    std::fs::write(&precious, "mine").expect("written");
    std::os::unix::fs::symlink(&precious, folder.join("s1.txt")).expect("a link");
    let programs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let probe = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = probe.local_addr().expect("bound").to_string();
    drop(probe);
    let process = Command::new(env!("CARGO_BIN_EXE_ebb-switch"))
        .args(["--log-file", "s1", "--log-flush", "--dump-packet-data", "4"])
        .args(["--nanolog", "ipc:///tmp/unused", "--p4info"])
        .args(["patch.p4info.txtpb", "patch.json"].map(|name| programs.join(name)))
        .args(["--", "--cpu-port", "510", "--grpc-server-addr", &address])
        .current_dir(&folder)
        .stderr(Stdio::null())
        .spawn()
        .expect("started");
    let switch = Switch { process, folder };

    let began = Instant::now();
    let mut client = loop {
        match P4RuntimeClient::connect(format!("http://{address}")).await {
            Ok(client) => break client,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let (requests, receiver) = tokio::sync::mpsc::channel(2);
    let say = async |update| {
        let update = Some(update);
        let message = p4::StreamMessageRequest { update };
        requests.send(message).await.expect("taken");
    };
    let arbitration = p4::MasterArbitrationUpdate {
        election_id: Some(p4::Uint128 { high: 0, low: 1 }),
        ..Default::default()
    };
    say(Update::Arbitration(arbitration)).await;
    let packet = p4::PacketOut {
        payload: [0xab; 60].to_vec(),
        ..Default::default()
    };
    say(Update::Packet(packet)).await;
    let answers = client.stream_channel(ReceiverStream::new(receiver)).await;
    let mut answers = answers.expect("a stream").into_inner();
    answers.message().await.expect("primary");

    let log = || std::fs::read_to_string(switch.folder.join("s1.txt")).expect("a log");
    let began = Instant::now();
    while !log().contains("Received packet of length 60 on port 510: abababab\n") {
        assert!(began.elapsed() < PATIENCE, "{}", log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(log().contains("--nanolog is ignored: "), "{}", log());
    let who = format!("P4Runtime on {address}: any user of this machine; no TLS");
    assert!(log().contains(&who), "{}", log());
    let kept = std::fs::read_to_string(&precious).expect("there");
    assert_eq!(kept, "mine");
}
