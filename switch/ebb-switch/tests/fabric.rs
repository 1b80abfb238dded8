//! `ebb-switch --fabric` and its service: two switches and the link between them, no interfaces.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

use ebb_p4runtime::proto::fabric as proto;
use ebb_p4runtime::proto::fabric::fabric_client::FabricClient;
use ebb_p4runtime::proto::p4::forwarding_pipeline_config::Cookie;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_p4runtime::proto::p4::{ForwardingPipelineConfig, GetForwardingPipelineConfigRequest};
use ebb_p4runtime::read_config;
use ebb_testkit::{Folder, Need, Process, free_address};
use tonic::Code;
use tonic::transport::Channel;

use crate::server::{SWITCH, connect};

struct Fabric {
    process: Process,
    folder: Folder,
    client: FabricClient<Channel>,
}

impl Fabric {
    async fn start() -> Self {
        Self::start_with("", [free_address(), free_address()]).await
    }

    /// `more`: what the file has beside two switches and their link.
    async fn start_with(more: &str, addresses: [SocketAddr; 2]) -> Self {
        Self::start_by(Command::new(SWITCH), more, addresses).await
    }

    /// The same by a command to which the arguments are added.
    async fn start_by(mut command: Command, more: &str, [s1, s2]: [SocketAddr; 2]) -> Self {
        let folder = Folder::new("fabric");
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
            {more}
            "#
        );
        let file = folder.write("fabric.toml", text);
        command.arg("--fabric").arg(file).args(["-L", "warn"]);
        let process = Process::start(command.current_dir(&folder).stderr(Stdio::null()));
        let socket = folder.join("fabric.sock");
        let channel = connect(format!("unix:{}", socket.display())).await;
        Self {
            process,
            folder,
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

#[tokio::main(flavor = "current_thread")]
async fn the_state_of_a_link_inside_is_set_and_told() {
    let mut fabric = Fabric::start().await;
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

#[tokio::main(flavor = "current_thread")]
async fn ports_inside_are_captured() {
    let mut fabric = Fabric::start().await;
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
    let precious = fabric.folder.write("precious", "mine");
    let captures = fabric.folder.make_dir("pcaps");
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

#[tokio::main(flavor = "current_thread")]
async fn a_switch_restarts() {
    let mut fabric = Fabric::start().await;
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

#[tokio::main(flavor = "current_thread")]
async fn switches_start_with_the_program_of_the_file_by_its_cookie() {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let [json, p4info] = ["patch.json", "patch.p4info.txtpb"].map(|name| programs.join(name));
    let (addresses, cookie) = ([free_address(), free_address()], 7);
    let program = format!("[program]\njson = {json:?}\np4info = {p4info:?}\ncookie = {cookie}\n");
    let fabric = Fabric::start_with(&program, addresses).await;
    for (address, device_id) in addresses.into_iter().zip([1, 2]) {
        let mut client = P4RuntimeClient::new(connect(format!("http://{address}")).await);
        let request = GetForwardingPipelineConfigRequest {
            device_id,
            ..Default::default()
        };
        let answer = client.get_forwarding_pipeline_config(request).await;
        let config = answer.expect("answered").into_inner().config;
        let expected = ForwardingPipelineConfig {
            cookie: Some(Cookie { cookie }),
            ..read_config(&json, &p4info).expect("readable")
        };
        assert_eq!(config, Some(expected));
    }
    drop(fabric);
}

#[tokio::main(flavor = "current_thread")]
async fn a_higher_real_time_priority_is_kept() {
    let mut command = Command::new("chrt");
    command.args(["--rr", "10", SWITCH, "--realtime", "on"]);
    let fabric = Fabric::start_by(command, "", [free_address(), free_address()]).await;
    let tasks = format!("/proc/{}/task", fabric.process.id());
    let priorities: Vec<_> = std::fs::read_dir(tasks)
        .expect("a process")
        .map(|task| std::fs::read_to_string(task.expect("a thread").path().join("stat")))
        .map(|stat| stat.expect("readable"))
        .filter(|stat| stat.contains("(packets-"))
        .map(|stat| {
            let (_, fields) = stat.split_once(") ").expect("a name");
            // Field 40 of proc(5), the third being the first after the name.
            fields.split(' ').nth(37).expect("a priority").to_owned()
        })
        .collect();
    assert_eq!(priorities, ["10"]);
}

ebb_testkit::tests! {
    Need::Root => [a_higher_real_time_priority_is_kept],
    Need::Nothing => [
        the_state_of_a_link_inside_is_set_and_told,
        ports_inside_are_captured,
        a_switch_restarts,
        switches_start_with_the_program_of_the_file_by_its_cookie,
    ],
}
