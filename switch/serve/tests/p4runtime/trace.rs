//! The trace service: packets come from the CPU port.

use std::time::Duration;

use ebb_bmv2_json::Program;
use ebb_engine::Switch;
use ebb_p4runtime::proto::trace as proto;
use ebb_p4runtime::proto::trace::event::Event;
use ebb_p4runtime::proto::trace::trace_client::TraceClient;
use ebb_pipeline::Pipeline;
use tonic::Code;
use tonic::transport::Channel;

use crate::common::{DEVICE_ID, PATIENCE, Running};

/// A switch with the program that joins ports 1 and 2, and drops what comes from elsewhere.
async fn start() -> (Running, TraceClient<Channel>) {
    let json = include_bytes!("../../../ebb-switch/tests/programs/patch.json");
    let program = Program::from_json(json).expect("readable");
    let server = Running::start().await;
    let install = move |s: &mut Switch| s.install(Pipeline::load(&program).expect("loadable"));
    assert_eq!(server.switch.with(install), Ok(()));
    let client = TraceClient::new(server.channel().await);
    (server, client)
}

fn request(packets: u64, port: &[u32]) -> proto::WatchRequest {
    proto::WatchRequest {
        device_id: DEVICE_ID,
        port: port.to_vec(),
        packets,
    }
}

#[tokio::test]
async fn a_stream_has_the_visits_of_so_many_packets_and_ends() {
    let (server, mut client) = start().await;
    let stream = client.watch(request(2, &[510])).await;
    let mut stream = stream.expect("accepted").into_inner();
    for n in 0..3 {
        assert!(server.switch.with(move |s| s.packet_out(vec![n; 60])));
    }
    let mut visits = Vec::new();
    let all = async {
        while let Some(visit) = stream.message().await.expect("no error") {
            visits.push(visit);
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("it ends");
    let packets: Vec<_> = visits.iter().map(|v| v.packet_id).collect();
    assert_eq!(packets, [1, 2]);
    let events = &visits[1].events;
    let Some(Event::Enters(enters)) = &events[0].event else {
        panic!("{events:?}");
    };
    assert_eq!((enters.port, &*enters.frame), (510, &[1; 60][..]));
    assert!(events[0].text.starts_with("in at port 510: 60 bytes 0101"));
    let last = events.last().and_then(|e| e.event.as_ref());
    let dropped = Event::Dropped("ingress-mark-to-drop".into());
    assert_eq!(last, Some(&dropped));
}

#[tokio::test]
async fn wrong_requests_and_too_many_are_refused() {
    let (_server, mut client) = start().await;
    let error = client
        .watch(request(1, &[70_000]))
        .await
        .expect_err("refused");
    assert_eq!(error.code(), Code::OutOfRange);
    assert!(error.message().contains("port 70000"), "{error}");
    let other = proto::WatchRequest {
        device_id: DEVICE_ID + 1,
        ..Default::default()
    };
    assert!(client.watch(other).await.is_err());
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(client.watch(request(0, &[])).await.expect("accepted"));
    }
    let error = client.watch(request(0, &[])).await.expect_err("refused");
    assert_eq!(error.code(), Code::ResourceExhausted);
    // There is room again when they have gone, though no packet has come.
    drop(open);
    let mut tries = 0;
    while client.watch(request(0, &[])).await.is_err() {
        tries += 1;
        assert!(tries < 200, "no room");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
