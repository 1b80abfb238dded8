//! Requests that are small to send and would be large to serve.

use std::time::{Duration, Instant};

use crate::common::messages::*;
use crate::common::{DEVICE_ID, OneSwitch, PATIENCE, Running, uint128};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_p4runtime::{MAX_MESSAGE_BYTES, Server};
use tonic::Code;
use tonic::codegen::http;

#[tokio::test]
async fn a_message_of_empty_parts_is_refused_before_it_is_decoded() {
    let server = Running::start().await;
    let mut primary = server.ready().await;
    // 400 kB on the wire, which would take 80 MB in memory.
    let write = p4::WriteRequest {
        device_id: DEVICE_ID,
        election_id: Some(uint128(1)),
        updates: vec![p4::Update::default(); 200_000],
        ..Default::default()
    };
    let refused = primary.client.write(write).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(
        refused.message().contains("nearly empty parts"),
        "{refused}"
    );
    let read = p4::ReadRequest {
        device_id: DEVICE_ID,
        entities: vec![p4::Entity::default(); 200_000],
        ..Default::default()
    };
    let refused = primary.client.read(read).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    // Other requests are served.
    primary.write_all(Vec::new()).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn the_length_of_a_message_has_a_limit_that_can_be_raised() {
    let write = || p4::WriteRequest {
        device_id: DEVICE_ID,
        role: "x".repeat(MAX_MESSAGE_BYTES),
        ..Default::default()
    };
    let server = Running::start().await;
    let refused = server.client().await.write(write()).await.unwrap_err();
    assert_eq!(refused.code(), Code::OutOfRange, "{refused}");
    server.stop().await;
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(&[any]).unwrap();
    let server = server.with_max_message_bytes(2 * MAX_MESSAGE_BYTES);
    let server = Running::with(server, OneSwitch::start());
    let refused = server.client().await.write(write()).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound, "no such role");
    server.stop().await;
}

#[tokio::test]
async fn a_read_of_much_that_is_not_there_ends_early_with_a_short_error() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let unknown = p4::Entity {
        entity: Some(port_in(Some(1), None)),
    };
    let Some(Entity::CounterEntry(mut cell)) = unknown.entity else {
        panic!("{unknown:?}");
    };
    cell.counter_id = 0x1200_ffff;
    let unknown = p4::Entity {
        entity: Some(Entity::CounterEntry(cell)),
    };
    let known = p4::Entity {
        entity: Some(Entity::TableEntry(default(BRIDGE, None))),
    };
    let mut entities = vec![known];
    entities.resize(50_001, unknown);
    let read = p4::ReadRequest {
        device_id: DEVICE_ID,
        entities,
        ..Default::default()
    };
    let began = Instant::now();
    let mut answer = c.client.read(read).await.unwrap().into_inner();
    let first = answer.message().await.unwrap().expect("what was found");
    assert_eq!(first.entities.len(), 1);
    let error = answer.message().await.unwrap_err();
    assert_eq!(error.code(), Code::Unknown);
    // Clients take trailers of 8 KiB, of which an element of the request takes 60 bytes.
    assert!(error.details().len() < 16_000, "{}", error.details().len());
    assert!(error.message().len() < 500, "{error}");
    assert!(error.message().contains("were left alone"), "{error}");
    assert!(began.elapsed() < PATIENCE);
    server.stop().await;
}

/// A message of which this much never comes: connection and stream, which end when they are dropped.
async fn half_sent(server: &Running, path: &str, sent: usize) -> h2::client::ResponseFuture {
    let connection = tokio::net::TcpStream::connect(server.address).await;
    let handshake = h2::client::handshake(connection.unwrap()).await;
    let (client, connection) = handshake.unwrap();
    tokio::spawn(connection);
    let request = http::Request::post(format!("http://{}{path}", server.address))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap();
    let mut client = client.ready().await.unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    let mut part = vec![0];
    part.extend((60_u32 << 10).to_be_bytes());
    part.resize(sent, 0);
    body.send_data(part.into(), false).unwrap();
    response
}

#[tokio::test]
async fn requests_that_are_never_complete_share_a_limit() {
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(&[any]).unwrap();
    // All requests together may then have 256 KiB.
    let server = server.with_max_message_bytes(64 << 10);
    let server = Running::with(server, OneSwitch::start());
    let mut held = Vec::new();
    for path in ["Write", "StreamChannel", "Read", "Write", "Write"] {
        let path = format!("/p4.v1.P4Runtime/{path}");
        held.push(half_sent(&server, &path, 50 << 10).await);
    }
    let write = p4::WriteRequest {
        device_id: DEVICE_ID,
        role: "x".repeat(60 << 10),
        ..Default::default()
    };
    let mut client = server.client().await;
    let code = async |client: &mut P4RuntimeClient<_>| {
        let refused = client.write(write.clone()).await;
        refused.unwrap_err().code()
    };
    // Packets that were sent may still be on their way.
    let began = Instant::now();
    while code(&mut client).await != Code::ResourceExhausted {
        assert!(began.elapsed() < PATIENCE);
    }
    // A small message still fits.
    let small = p4::CapabilitiesRequest::default();
    client.capabilities(small).await.unwrap();
    // Those that have been on their way for long give way, as many as it takes.
    let began = Instant::now();
    while code(&mut client).await != Code::NotFound {
        assert!(began.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let first = tokio::time::timeout(PATIENCE, held.remove(0)).await;
    let ended = first.expect("it is still waited for").unwrap();
    let code = Code::ResourceExhausted as i32;
    assert_eq!(ended.headers()["grpc-status"], code.to_string());
    drop(held);
    server.stop().await;
}

#[tokio::test]
async fn one_connection_leaves_room_for_others() {
    let any = "127.0.0.1:0".parse().unwrap();
    let server = Server::bind(&[any]).unwrap();
    let server = server.with_max_message_bytes(64 << 10);
    let server = Running::with(server, OneSwitch::start());
    let write = p4::WriteRequest {
        device_id: DEVICE_ID,
        role: "x".repeat(60 << 10),
        ..Default::default()
    };
    let greedy = server.client().await;
    let all = (0..100).map(|_| {
        let (mut client, write) = (greedy.clone(), write.clone());
        tokio::spawn(async move { client.write(write).await.unwrap_err() })
    });
    let all: Vec<_> = all.collect();
    let mut other = server.client().await;
    for _ in 0..10 {
        let error = other.write(write.clone()).await.unwrap_err();
        assert_eq!(error.code(), Code::NotFound, "{error}");
    }
    for refused in all {
        let error = refused.await.unwrap();
        let known = [Code::NotFound, Code::ResourceExhausted];
        assert!(known.contains(&error.code()), "{error}");
    }
    server.stop().await;
}
