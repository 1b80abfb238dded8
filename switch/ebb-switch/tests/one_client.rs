//! Requests of one client without any right, and what the others of the process notice of it.

use std::process::{Command, Stdio};
use std::time::Duration;

use ebb_p4runtime::proto::gnmi;
use ebb_p4runtime::proto::gnmi::g_nmi_client::GNmiClient;
use ebb_p4runtime::proto::p4::CapabilitiesRequest;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_testkit::{Folder, Need, Process, Signal, free_address};
use tokio::task::JoinSet;
use tonic::transport::Channel;

use crate::server::{SWITCH, connect};

/// Longest wait for an answer, on a machine that does much else.
const BOUND: Duration = Duration::from_secs(20);

/// Two switches in one process, and where they serve.
fn start(folder: &Folder) -> (Process, [String; 2]) {
    let addresses = [(); 2].map(|()| free_address().to_string());
    let [s1, s2] = &addresses;
    let text = format!(
        r#"
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
    let file = folder.write("fabric.toml", text);
    let mut command = Command::new(SWITCH);
    command.arg("--fabric").arg(file).args(["-L", "error"]);
    (Process::start(command.stderr(Stdio::null())), addresses)
}

/// As many paths as a request may have, each as long as it may be.
fn request(elems: &[&str]) -> gnmi::GetRequest {
    let elem = |name: &&str| gnmi::PathElem {
        name: (*name).into(),
        ..gnmi::PathElem::default()
    };
    let path = gnmi::Path {
        elem: elems.iter().map(elem).collect(),
        ..gnmi::Path::default()
    };
    gnmi::GetRequest {
        path: vec![path; 1024],
        ..gnmi::GetRequest::default()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn wildcards_of_one_client_hold_up_neither_others_nor_a_signal() {
    let folder = Folder::new("one-client");
    let (mut process, addresses) = start(&folder);
    let [s1, s2] = addresses.map(|address| format!("http://{address}"));
    let mut any = vec!["..."; 31];
    any.push("out-discards");
    let mut mixed = ["...", "*"].repeat(15);
    mixed.extend(["...", "out-discards"]);
    let others: [Channel; 2] = [connect(s1.clone()).await, connect(s2).await];
    let hostile = GNmiClient::new(connect(s1).await);
    let mut asking = JoinSet::new();
    for elems in [&any, &mixed].repeat(8) {
        let (mut client, request) = (hostile.clone(), request(elems));
        asking.spawn(async move { client.get(request).await.map(drop) });
    }
    for _ in 0..10 {
        for channel in &others {
            let mut client = P4RuntimeClient::new(channel.clone());
            let answer = client.capabilities(CapabilitiesRequest::default());
            let answer = tokio::time::timeout(BOUND, answer).await;
            answer.expect("in time").expect("an answer");
        }
    }
    // It is asked again while the signal comes.
    let mut client = hostile.clone();
    let request = request(&mixed);
    asking.spawn(async move { client.get(request).await.map(drop) });
    process.signal(Signal::TERM);
    assert!(process.wait().success());
}

ebb_testkit::tests! {
    Need::Nothing => [
        wildcards_of_one_client_hold_up_neither_others_nor_a_signal,
    ],
}
