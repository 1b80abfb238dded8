//! Many connections that never say a word, to a switch that may have few file descriptors.

use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ebb_p4runtime::proto::p4::CapabilitiesRequest;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_testkit::{Need, PATIENCE, Process, free_address};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::server::{SWITCH, wait_until_it_listens};

const FILES: usize = 64;
const SILENT: usize = 300;

struct Switch {
    process: Process,
    address: String,
}

impl Switch {
    fn start() -> Self {
        let address = free_address().to_string();
        let limited = format!("ulimit -n {FILES}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limited, SWITCH, "--no-p4"]);
        command.args(["-L", "error", "--grpc-server-addr", &address]);
        let process = Process::start(command.stderr(Stdio::null()));
        wait_until_it_listens(&address);
        Self { process, address }
    }

    async fn client(&self) -> Result<P4RuntimeClient<Channel>, tonic::transport::Error> {
        let endpoint = Channel::from_shared(format!("http://{}", self.address));
        let channel = endpoint.expect("an address").connect().await?;
        Ok(P4RuntimeClient::new(channel))
    }

    /// The processor time that it has used, in hundredths of a second, user and system (proc(5), fields 14 and 15).
    fn processor_time(&self) -> u64 {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = std::fs::read_to_string(path).expect("it runs");
        let after_name = stat.rsplit(") ").next().expect("fields");
        let fields = after_name.split(' ').skip(11).take(2);
        fields.map(|n| n.parse::<u64>().expect("a number")).sum()
    }

    fn open_files(&self) -> usize {
        let path = format!("/proc/{}/fd", self.process.id());
        std::fs::read_dir(path).expect("it runs").count()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn silent_connections_leave_room_and_the_processor_to_others() {
    let switch = Switch::start();
    let mut controller = switch.client().await.expect("connected");
    let request = CapabilitiesRequest::default;
    // Its connection has a call that lasts, so it stays.
    let (_requests, receiver) = tokio::sync::mpsc::channel(1);
    let stream = controller
        .stream_channel(ReceiverStream::new(receiver))
        .await;
    let mut stream = stream.expect("a stream").into_inner();
    let silent: Vec<_> = (0..SILENT)
        .map(|_| TcpStream::connect(&switch.address).expect("accepted or waiting"))
        .collect();
    // Somebody new gets in, and whoever was there is answered.
    let began = Instant::now();
    let mut late = loop {
        match switch.client().await {
            Ok(client) => break client,
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
    };
    late.capabilities(request()).await.expect("answered");
    controller.capabilities(request()).await.expect("answered");
    let next = tokio::time::timeout(Duration::from_millis(10), stream.message()).await;
    assert!(next.is_err(), "the stream ended: {next:?}");
    assert!(switch.open_files() < FILES, "{}", switch.open_files());
    // A process that spins would use more than a quarter of a second of processor time.
    let before = switch.processor_time();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let used = switch.processor_time() - before;
    assert!(used < 25, "{used} of 100 hundredths");
    drop(silent);
}

ebb_testkit::tests! {
    Need::Nothing => [
        silent_connections_leave_room_and_the_processor_to_others,
    ],
}
