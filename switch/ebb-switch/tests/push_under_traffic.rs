//! Real frames while programs are pushed: none is lost by a push that is refused, and each is counted when
//! one is accepted.
//!
//! Needs root, `ip` and `ethtool`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_p4runtime::read_config;
use ebb_testkit::Need;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;
use tonic::transport::Channel;

use crate::server::{ELECTION, arbitration, connect};
use crate::spaces::{LEFT, Namespaces, RIGHT, socket_in, start, stop};

/// The time between two frames: 5000 come per second.
const GAP: Duration = Duration::from_micros(200);
const PAYLOAD: usize = 200;
/// How long nothing comes, once the last frame was sent, until the frames that have come are all.
const SILENCE: Duration = Duration::from_millis(500);
/// How many frames pass while pushes go on.
const ENOUGH: u64 = 1000;
/// Room for more than may wait while a busy machine does something else.
const BUFFER_BYTES: usize = 16 << 20;

/// Datagrams from left to right.
struct Traffic {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    sender: thread::JoinHandle<()>,
    receiver: thread::JoinHandle<u64>,
}

impl Traffic {
    fn start(spaces: &Namespaces) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = stop.clone();
        let socket = socket_in(&spaces.right, RIGHT);
        set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES).expect("as root");
        socket.set_read_timeout(Some(SILENCE)).expect("a timeout");
        let receiver = thread::spawn(move || {
            let (mut buffer, mut received) = ([0; PAYLOAD], 0);
            loop {
                let last = stopping.load(Ordering::Relaxed);
                match socket.recv(&mut buffer) {
                    Ok(_) => received += 1,
                    Err(_) if last => return received,
                    Err(_) => {}
                }
            }
        });
        let sent = Arc::<AtomicU64>::default();
        let (stopped, count) = (stop.clone(), sent.clone());
        let socket = socket_in(&spaces.left, LEFT);
        let sender = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                socket.send_to(&[7; PAYLOAD], (RIGHT, 7000)).expect("sent");
                count.fetch_add(1, Ordering::Relaxed);
                thread::sleep(GAP);
            }
        });
        Self {
            stop,
            sent,
            sender,
            receiver,
        }
    }

    fn is_enough(&self) -> bool {
        self.sent.load(Ordering::Relaxed) >= ENOUGH
    }

    /// How many were sent, and how many have come.
    fn end(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.sender.join().expect("sent");
        let received = self.receiver.join().expect("received");
        (self.sent.load(Ordering::Relaxed), received)
    }
}

async fn primary() -> (
    P4RuntimeClient<Channel>,
    tokio::sync::mpsc::Sender<p4::StreamMessageRequest>,
) {
    let channel = connect("http://127.0.0.1:9559".to_owned()).await;
    let mut client = P4RuntimeClient::new(channel);
    let (requests, receiver) = tokio::sync::mpsc::channel(1);
    requests.send(arbitration()).await.expect("taken");
    let answers = client.stream_channel(ReceiverStream::new(receiver)).await;
    let answer = answers.expect("a stream").into_inner().message().await;
    answer.expect("primary").expect("an answer");
    (client, requests)
}

type Change = fn(&mut p4::ForwardingPipelineConfig);

/// Programs that cannot be installed, each for another reason.
const BROKEN: [(&str, Change); 5] = [
    ("no JSON", |c| c.p4_device_config = vec![0xff; 1 << 20]),
    ("half of it", |c| {
        let half = c.p4_device_config.len() / 2;
        c.p4_device_config.truncate(half);
    }),
    ("of something else", |c| c.p4_device_config = b"{}".to_vec()),
    ("nested too deep", |c| {
        c.p4_device_config = vec![b'['; 1 << 20]
    }),
    ("another table", |c| {
        let info = c.p4info.as_mut().expect("a P4Info");
        info.tables[0].preamble.as_mut().expect("its name").name = "elsewhere".into();
    }),
];

fn a_push_that_is_refused_loses_no_frame_and_one_that_is_not_counts_them() {
    let spaces = Namespaces::create();
    let programs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let [json, info] = ["patch.json", "patch.p4info.txtpb"].map(|name| programs.join(name));
    let program = read_config(&json, &info).expect("readable");
    for io in ["ring", "sockets"] {
        let [json, info] = [&json, &info].map(|path| path.to_str().expect("UTF-8"));
        let options = ["-i", "1@p1", "-i", "2@p2", "--io", io, "--p4info", info];
        let options = [&options[..], &["--report", "json", "-L", "error", json]].concat();
        let switch = start(&spaces.middle, &options);
        let (refused, accepted) = under_traffic(&spaces, &program);
        let (code, report) = stop(switch);
        assert_eq!(code, Some(0), "{report}");
        let (sent, received) = refused;
        assert_eq!(
            sent, received,
            "--io {io}: lost by refused pushes: {report}"
        );
        let (sent, received) = accepted;
        assert_eq!(sent, received + dropped(&report), "--io {io}: {report}");
    }
}

type Counts = (u64, u64);

/// How many frames were sent and received while pushes were refused, and while they were accepted.
fn under_traffic(spaces: &Namespaces, program: &p4::ForwardingPipelineConfig) -> (Counts, Counts) {
    let push = |action: Action, config: p4::ForwardingPipelineConfig| {
        p4::SetForwardingPipelineConfigRequest {
            election_id: Some(ELECTION),
            action: action.into(),
            config: Some(config),
            ..Default::default()
        }
    };
    let controller = async || {
        let (mut client, _stream) = primary().await;
        let traffic = Traffic::start(spaces);
        while !traffic.is_enough() {
            for (what, change) in BROKEN {
                for action in [
                    Action::Verify,
                    Action::VerifyAndSave,
                    Action::VerifyAndCommit,
                    Action::ReconcileAndCommit,
                ] {
                    let mut broken = program.clone();
                    change(&mut broken);
                    let request = push(action, broken);
                    let refused = client.set_forwarding_pipeline_config(request).await;
                    let status = refused.expect_err(what);
                    assert_eq!(status.code(), Code::InvalidArgument, "{what}: {status}");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            }
        }
        let refused = traffic.end();
        let traffic = Traffic::start(spaces);
        while !traffic.is_enough() {
            let request = push(Action::VerifyAndCommit, program.clone());
            let accepted = client.set_forwarding_pipeline_config(request).await;
            accepted.expect("accepted");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        (refused, traffic.end())
    };
    thread::scope(|scope| {
        let there = scope.spawn(|| {
            spaces.middle.enter();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.expect("a runtime").block_on(controller())
        });
        there.join().expect("the controller")
    })
}

/// Packets dropped for whatever reason, by the report of one switch.
fn dropped(report: &str) -> u64 {
    let json = report.lines().last().expect("a report");
    let report: serde_json::Value = serde_json::from_str(json).expect("JSON");
    let drops = report[0]["drops"].as_array().expect("drops");
    let packets = drops.iter().map(|row| row["packets"].as_u64());
    packets.map(|packets| packets.expect("a number")).sum()
}

ebb_testkit::tests! {
    Need::Root => [a_push_that_is_refused_loses_no_frame_and_one_that_is_not_counts_them],
}
