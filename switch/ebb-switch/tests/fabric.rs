//! `ebb-switch --fabric` and its service: two switches and the link between them, no interfaces, so
//! no root.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ebb_p4runtime::proto::fabric as proto;
use ebb_p4runtime::proto::fabric::fabric_client::FabricClient;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

const PATIENCE: Duration = Duration::from_secs(20);

struct Fabric {
    process: Child,
    directory: PathBuf,
    client: FabricClient<Channel>,
}

impl Fabric {
    async fn start(test: &str) -> Self {
        let name = format!("ebb-fabric-test-{}-{test}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let [s1, s2] = [(); 2].map(|()| free_address());
        let socket = directory.join("fabric.sock");
        let file = directory.join("fabric.toml");
        let text = format!(
            r#"
            fabric_socket = "fabric.sock"
            [[switch]]
            name = "s1"
            device_id = 1
            grpc_server_addr = "{s1}"
            [[switch]]
            name = "s2"
            device_id = 2
            grpc_server_addr = "{s2}"
            [[link]]
            a = "s1:1"
            b = "s2:7"
            "#
        );
        std::fs::write(&file, text).expect("written");
        let process = Command::new(env!("CARGO_BIN_EXE_ebb-switch"))
            .args(["--fabric", file.to_str().expect("UTF-8"), "-L", "warn"])
            .current_dir(&directory)
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let endpoint =
            Endpoint::from_shared(format!("unix:{}", socket.display())).expect("an address");
        let began = Instant::now();
        let channel = loop {
            match endpoint.connect().await {
                Ok(channel) => break channel,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        Self {
            process,
            directory,
            client: FabricClient::new(channel),
        }
    }

    async fn link(&mut self) -> proto::Link {
        let request = proto::GetFabricRequest {};
        let fabric = self.client.get_fabric(request).await.expect("answered");
        let mut links = fabric.into_inner().links;
        assert_eq!(links.len(), 1);
        links.remove(0)
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("bound")
}

#[tokio::test]
async fn the_state_of_a_link_inside_is_set_and_told() {
    let mut fabric = Fabric::start("link").await;
    let whole = fabric.link().await.a_to_b.expect("a state");
    assert!(whole.up && whole.loss == 0.0 && whole.corrupt == 0.0 && whole.rate_bps.is_none());
    let request = proto::SetLinkRequest {
        a: "s2".into(),
        b: "s1".into(),
        one_way: true,
        up: Some(false),
        loss: Some(0.5),
        rate_bps: Some(1_000_000),
        ..Default::default()
    };
    fabric.client.set_link(request).await.expect("accepted");
    let link = fabric.link().await;
    assert_eq!(link.a_to_b, Some(whole));
    let faulty = proto::LinkState {
        up: false,
        loss: 0.5,
        rate_bps: Some(1_000_000),
        corrupt: 0.0,
    };
    assert_eq!(link.b_to_a, Some(faulty));
    let unknown = proto::SetLinkRequest {
        a: "s1:2".into(),
        ..Default::default()
    };
    let error = fabric.client.set_link(unknown).await.expect_err("refused");
    assert_eq!(error.code(), Code::NotFound);
    assert!(error.message().contains("s1:1-s2:7"), "{error}");
}

#[tokio::test]
async fn ports_inside_are_captured() {
    let mut fabric = Fabric::start("capture").await;
    let start = |at: &str, name: &str| proto::StartCaptureRequest {
        at: at.into(),
        toward: String::new(),
        name: name.into(),
    };
    let stop = |at: &str| proto::StopCaptureRequest {
        at: at.into(),
        toward: String::new(),
    };
    let client = &mut fabric.client;
    // Others cannot make a link here, but if they could, it would not be followed.
    let precious = fabric.directory.join("precious");
    std::fs::write(&precious, "mine").expect("written");
    let captures = fabric.directory.join("pcaps");
    std::fs::create_dir(&captures).expect("a folder");
    let link = captures.join("seven_in.pcap");
    std::os::unix::fs::symlink(&precious, &link).expect("a link");
    client
        .start_capture(start("s2:7", "seven.pcap"))
        .await
        .expect("accepted");
    assert_eq!(std::fs::read(&precious).expect("there"), b"mine");
    client.stop_capture(stop("s2:7")).await.expect("accepted");
    for direction in ["in", "out"] {
        let file = captures.join(format!("seven_{direction}.pcap"));
        let bytes = std::fs::read(&file).expect("a file");
        assert_eq!(bytes.len(), 24, "a header and no frame");
    }
    for (request, expected) in [
        (start("s2:7", "../precious"), "without a folder"),
        (start("s2:8", "x"), "port 8 of \"s2\" has no link"),
    ] {
        let error = client.start_capture(request).await.expect_err("refused");
        assert!(error.message().contains(expected), "{error}");
    }
    let error = client
        .stop_capture(stop("s2:7"))
        .await
        .expect_err("refused");
    assert_eq!(error.code(), Code::NotFound, "{error}");
}

#[tokio::test]
async fn a_switch_restarts() {
    let mut fabric = Fabric::start("restart").await;
    let restart = |name: &str| proto::RestartSwitchRequest { name: name.into() };
    fabric
        .client
        .restart_switch(restart("s1"))
        .await
        .expect("accepted");
    let error = fabric
        .client
        .restart_switch(restart("s3"))
        .await
        .expect_err("refused");
    assert!(
        error.message().contains("switches: s1, s2; hosts: none"),
        "{error}"
    );
    assert!(fabric.link().await.a_to_b.expect("a state").up);
}
