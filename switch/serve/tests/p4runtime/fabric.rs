//! The fabric service.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Controller, Running};
use crate::one_switch::{DEVICE_ID, OneSwitch, Port, new_switch};
use ebb_engine::NodePort;
use ebb_engine::simulation::Simulation;
use ebb_p4runtime::proto::fabric as proto;
use ebb_p4runtime::proto::fabric::LinkState;
use ebb_p4runtime::proto::fabric::fabric_client::FabricClient;
use ebb_p4runtime::{Fabric, Layout, LinkEnd, Node, Server, SwitchInfo};
use ebb_serve::EngineFabric;
use ebb_testkit::Folder;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

const UP: LinkState = LinkState {
    up: true,
    loss: 0.0,
    corrupt: 0.0,
    rate_bps: None,
};

/// This network under a virtual clock:
///
/// ```text
///          ┌─2──2─┐
/// h1 ──1 s1       s2 1── h2
///          └─3──3─┘
/// ```
fn simulated(captures: &Path) -> (Arc<OneSwitch>, Arc<EngineFabric>) {
    let mut simulation = Simulation::new();
    let outside = Arc::default();
    let switches = [("s1", DEVICE_ID), ("s2", 8)].map(|(name, id)| {
        let switch = new_switch(name, id);
        simulation.add_switch(switch)
    });
    let hosts = [1, 2].map(|number| {
        let outside = Arc::clone(&outside);
        simulation.add_host(Port { number, outside })
    });
    let (switch, host) = (Node::Switch, Node::Host);
    let links = [
        [(switch(0), 1), (host(0), 0)],
        [(switch(0), 2), (switch(1), 2)],
        [(switch(0), 3), (switch(1), 3)],
        [(host(1), 0), (switch(1), 1)],
    ];
    let here = |(node, port)| NodePort {
        node: match node {
            Node::Switch(index) => switches[index],
            Node::Host(index) => hosts[index],
        },
        port,
    };
    for [a, b] in links {
        simulation.connect(here(a), here(b)).unwrap();
    }
    let info = |name: &str, device_id| SwitchInfo {
        name: name.into(),
        device_id,
        grpc_address: ([127, 0, 0, 1], 9558 + device_id as u16).into(),
    };
    let s1 = OneSwitch::of(simulation, switches[0], outside);
    let fabric = EngineFabric {
        layout: Layout {
            switches: vec![info("s1", DEVICE_ID), info("s2", 8)],
            hosts: vec!["h1".into(), "h2".into()],
            links: links
                .map(|ends| ends.map(|(node, port)| LinkEnd { node, port }))
                .into(),
        },
        switches: switches.into(),
        links: links.map(|ends| ends.map(here)).into(),
        captures: captures.to_owned(),
        epoch_ns: 0,
        handle: s1.handle(),
    };
    (s1, Arc::new(fabric))
}

struct Served {
    fabric: Arc<EngineFabric>,
    client: FabricClient<Channel>,
    /// The P4Runtime server of s1.
    s1: Running,
    folder: Folder,
}

impl Served {
    async fn start() -> Self {
        let folder = Folder::new("fabric");
        let (s1, fabric) = simulated(&folder);
        let any = "127.0.0.1:0".parse().unwrap();
        let server = Server::bind(&[any]).unwrap();
        let socket = folder.join("fabric.sock");
        let server = server.with_fabric(&socket, fabric.clone()).unwrap();
        let s1 = Running::with(server, s1);
        let endpoint = Endpoint::from_shared(format!("unix:{}", socket.display())).unwrap();
        Self {
            client: FabricClient::new(endpoint.connect().await.unwrap()),
            fabric,
            s1,
            folder,
        }
    }

    async fn states(&self) -> Vec<[LinkState; 2]> {
        self.fabric.link_states().await.unwrap()
    }

    async fn set(&mut self, request: proto::SetLinkRequest) -> Result<proto::Link, Status> {
        let response = self.client.set_link(request).await?.into_inner();
        Ok(response.link.expect("a link"))
    }

    async fn refused(&mut self, request: proto::SetLinkRequest) -> (Code, String) {
        let before = self.states().await;
        let status = self.set(request).await.expect_err("was accepted");
        assert_eq!(self.states().await, before);
        (status.code(), status.message().to_owned())
    }
}

fn between(a: &str, b: &str) -> proto::SetLinkRequest {
    proto::SetLinkRequest {
        a: a.into(),
        b: b.into(),
        ..Default::default()
    }
}

fn down(a: &str, b: &str) -> proto::SetLinkRequest {
    proto::SetLinkRequest {
        up: Some(false),
        ..between(a, b)
    }
}

#[tokio::test]
async fn the_fabric_is_described_with_both_ends_and_states_of_links() {
    let mut served = Served::start().await;
    served.set(down("s2:2", "")).await.unwrap();
    let request = proto::GetFabricRequest {};
    let fabric = served
        .client
        .get_fabric(request)
        .await
        .unwrap()
        .into_inner();
    let names: Vec<_> = fabric.switches.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["s1", "s2"]);
    assert_eq!(fabric.switches[0].grpc_address, "127.0.0.1:9565");
    assert_eq!(fabric.hosts, ["h1", "h2"]);
    let end = |node: &str, port| {
        Some(proto::End {
            node: node.into(),
            port,
        })
    };
    assert_eq!(
        (fabric.links[0].a.clone(), fabric.links[0].b.clone()),
        (end("s1", 1), end("h1", 0))
    );
    let up = |l: &proto::Link| (l.a_to_b.unwrap().up, l.b_to_a.unwrap().up);
    let up: Vec<_> = fabric.links.iter().map(up).collect();
    assert_eq!(
        up,
        [(true, true), (false, false), (true, true), (true, true)]
    );
    served.s1.stop().await;
}

#[tokio::test]
async fn a_change_leaves_what_it_does_not_mention_and_the_other_direction_if_asked_to() {
    let mut served = Served::start().await;
    // The request sees the link from s2, against the order of the layout.
    let lossy = proto::SetLinkRequest {
        loss: Some(0.25),
        rate_bps: Some(1_000_000),
        one_way: true,
        ..between("s2:3", "s1")
    };
    let link = served.set(lossy).await.unwrap();
    let lost = LinkState {
        loss: 0.25,
        rate_bps: Some(1_000_000),
        ..UP
    };
    assert_eq!(link.a.unwrap().node, "s2");
    assert_eq!((link.a_to_b, link.b_to_a), (Some(lost), Some(UP)));
    assert_eq!(served.states().await[2], [UP, lost]);

    let corrupting = proto::SetLinkRequest {
        corrupt: Some(1.0),
        rate_bps: Some(0),
        ..between("s1:3", "s2:3")
    };
    served.set(corrupting).await.unwrap();
    let corrupt = LinkState { corrupt: 1.0, ..UP };
    let both = LinkState {
        loss: 0.25,
        ..corrupt
    };
    assert_eq!(served.states().await[2], [corrupt, both]);

    // To name a host is enough, from either end.
    let link = served.set(down("h2", "")).await.unwrap();
    assert_eq!(link.b.unwrap().node, "s2");
    served.set(down("s1", "h1")).await.unwrap();
    let down = [LinkState { up: false, ..UP }; 2];
    assert_eq!(
        (served.states().await[0], served.states().await[3]),
        (down, down)
    );
    served.s1.stop().await;
}

#[tokio::test]
async fn places_that_are_not_there_are_named_with_what_is() {
    let mut served = Served::start().await;
    for (request, code, expected) in [
        (
            down("s9", "s1"),
            Code::NotFound,
            "no switch or host \"s9\"; switches: s1, s2; hosts: h1, h2",
        ),
        (
            down("s1", "s2"),
            Code::InvalidArgument,
            "2 links fit; name ports to choose one of: s1:2-s2:2, s1:3-s2:3",
        ),
        (
            down("s1:2", "s2:3"),
            Code::NotFound,
            "no link joins \"s1:2\" and \"s2:3\"; links of s1: s1:1-h1, s1:2-s2:2, s1:3-s2:3",
        ),
        (down("s1:9", ""), Code::NotFound, "no link at \"s1:9\""),
        (
            down("s1", "h2"),
            Code::NotFound,
            "no link joins \"s1\" and \"h2\"",
        ),
        (
            down("s1:x", "s2"),
            Code::InvalidArgument,
            "expected SWITCH:PORT",
        ),
        (
            down("h1:1", "s1"),
            Code::InvalidArgument,
            "leave the port out",
        ),
    ] {
        let (got, message) = served.refused(request).await;
        assert_eq!(got, code, "{message}");
        assert!(message.contains(expected), "{message}\nlacks {expected}");
    }
    served.s1.stop().await;
}

#[tokio::test]
async fn shares_are_from_0_to_1() {
    let mut served = Served::start().await;
    for share in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
        let request = proto::SetLinkRequest {
            corrupt: Some(share),
            ..down("s1:2", "s2")
        };
        let (code, message) = served.refused(request).await;
        assert_eq!(code, Code::OutOfRange);
        assert!(message.starts_with("corrupt "), "{message}");
    }
    served.s1.stop().await;
}

#[tokio::test]
async fn captures_are_at_switch_ports() {
    let mut served = Served::start().await;
    let start = |at: &str, toward: &str, name: &str| proto::StartCaptureRequest {
        at: at.into(),
        toward: toward.into(),
        name: name.into(),
    };
    let folder = served.folder.to_path_buf();
    let client = &mut served.client;
    let files = client.start_capture(start("s2", "h2", "a.pcap")).await;
    let files = files.unwrap().into_inner();
    let expected = ["a_in.pcap", "a_out.pcap"].map(|name| folder.join(name).display().to_string());
    assert_eq!([files.in_file, files.out_file], expected);
    client
        .start_capture(start("s1:1", "", "b.pcap"))
        .await
        .unwrap();
    // The files of a capture that runs are not replaced by those of another port.
    let taken = client.start_capture(start("s1:3", "s2", "a")).await;
    let taken = taken.unwrap_err();
    assert_eq!(taken.code(), Code::FailedPrecondition, "{taken}");
    assert!(taken.message().starts_with("a capture at s2:1"), "{taken}");
    client
        .start_capture(start("s1:3", "s2", "c.pcap"))
        .await
        .unwrap();
    let stop = |at: &str| proto::StopCaptureRequest {
        at: at.into(),
        toward: String::new(),
    };
    for name in ["a", "b", "c"].map(|name| format!("{name}_in.pcap")) {
        assert!(folder.join(&name).exists(), "{name}");
    }
    client.stop_capture(stop("s1:1")).await.unwrap();
    // The other captures still run.
    let again = client.stop_capture(stop("s1:1")).await.unwrap_err();
    assert_eq!(again.code(), Code::NotFound, "{again}");
    client.stop_capture(stop("s2:1")).await.unwrap();
    client.stop_capture(stop("s1:3")).await.unwrap();
    let nowhere = client.start_capture(start("s1:7", "", "d")).await;
    let nowhere = nowhere.unwrap_err();
    assert_eq!(nowhere.code(), Code::NotFound, "{nowhere}");
    assert!(!folder.join("d_in.pcap").exists());
    for (request, expected) in [
        (
            start("h1", "", "x"),
            "the switch port it is connected to is s1:1",
        ),
        (start("s1", "s2", "x"), "name ports to choose one"),
        (start("s1:1", "", ""), "expected 1 to 100 letters"),
        (start("s1:1", "", "/etc/x"), "without a folder"),
        (start("s1:1", "", "../x"), "without a folder"),
    ] {
        let status = served.client.start_capture(request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(expected), "{}", status.message());
    }
    served.s1.stop().await;
}

#[tokio::test]
async fn a_restarted_switch_knows_its_controllers_no_more() {
    let mut served = Served::start().await;
    let mut controller = served.s1.ready().await;
    let restart = |name: &str| proto::RestartSwitchRequest { name: name.into() };
    served.client.restart_switch(restart("s1")).await.unwrap();
    assert!(!served.s1.switch.has_program());
    let end = controller.try_receive().await.unwrap_err();
    assert_eq!(end.code(), Code::Unavailable);
    let writing = controller.write_all(Vec::new()).await.unwrap_err();
    assert_eq!(
        writing.code(),
        Code::PermissionDenied,
        "{}",
        writing.message()
    );
    // Any election id wins, also one that is lower than before, and there is no program.
    let mut next = Controller::connect(&served.s1, 1).await;
    assert_eq!(next.arbitration().await, Code::Ok);
    let writing = next.write_all(Vec::new()).await.unwrap_err();
    assert_eq!(writing.code(), Code::FailedPrecondition);

    let status = served
        .client
        .restart_switch(restart("h1"))
        .await
        .unwrap_err();
    assert!(
        status.message().contains("is a host"),
        "{}",
        status.message()
    );
    served.s1.stop().await;
}

#[tokio::test]
async fn a_socket_that_is_taken_is_named() {
    let served = Served::start().await;
    let socket = served.folder.join("fabric.sock");
    let server = Server::bind(&[]).unwrap();
    let error = server.with_fabric(&socket, served.fabric.clone());
    let message = error.err().expect("refused").to_string();
    assert!(message.contains(&socket.display().to_string()), "{message}");
    assert!(message.contains("fabric_socket"), "{message}");
    served.s1.stop().await;
    assert!(!socket.exists());
}
