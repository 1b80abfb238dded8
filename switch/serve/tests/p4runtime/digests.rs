//! Digest lists on the stream: when they are sent, and what acknowledgements do (P4Runtime spec,
//! "DigestEntry").

use std::time::{Duration, Instant};

use crate::common::messages::*;
use crate::common::{Controller, Running};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::digest_entry::Config;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::p4_data::Data;
use ebb_p4runtime::proto::p4::stream_error::Details;
use ebb_p4runtime::proto::p4::stream_message_request::Update as Request;
use ebb_p4runtime::proto::p4::stream_message_response::Update;
use tonic::Code;

const NEVER: i64 = i64::MAX;

fn learn(max_list_size: i32, max_timeout_ns: i64, ack_timeout_ns: i64) -> Entity {
    Entity::DigestEntry(p4::DigestEntry {
        digest_id: LEARNED,
        config: Some(Config {
            max_timeout_ns,
            max_list_size,
            ack_timeout_ns,
        }),
    })
}

/// Has the data plane see these addresses.
fn seen(server: &Running, macs: &[u8]) {
    let frames: Vec<_> = macs.iter().map(|mac| frame(0, *mac)).collect();
    server.switch.arrive(9, &frames);
}

/// The id and the addresses of the list that comes next.
async fn list(c: &mut Controller) -> (u64, Vec<u8>) {
    let Update::Digest(list) = c.receive().await else {
        panic!("expected a digest list");
    };
    assert_eq!(list.digest_id, LEARNED);
    let mac = |data: p4::P4Data| match data.data {
        Some(Data::Struct(fields)) => match &fields.members[0].data {
            Some(Data::Bitstring(mac)) => mac[0],
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    (list.list_id, list.data.into_iter().map(mac).collect())
}

/// Checks that the data plane has said all that it had to say, and nobody was told.
async fn nothing(server: &Running, c: &mut Controller) {
    server.switch.packet_in(&[0; 60]);
    let next = c.receive().await;
    assert!(matches!(next, Update::Packet(_)), "{next:?}");
}

async fn acknowledge(c: &Controller, digest_id: u32, list_id: u64) {
    let ack = p4::DigestListAck { digest_id, list_id };
    c.send(Request::DigestAck(ack)).await;
}

#[tokio::test]
async fn a_list_goes_when_it_is_full_and_has_no_digest_twice() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(learn(3, NEVER, 0)).await;
    seen(&server, &[1, 2, 1, 2]);
    nothing(&server, &mut c).await;
    seen(&server, &[3, 1]);
    let (first, macs) = list(&mut c).await;
    assert_eq!(macs, [1, 2, 3]);
    // Without a timeout for acknowledgements nothing is remembered: 1 is new.
    seen(&server, &[2, 3]);
    let (second, macs) = list(&mut c).await;
    assert_eq!(macs, [1, 2, 3]);
    assert_ne!(first, second);
    server.stop().await;
}

#[tokio::test]
async fn a_list_that_is_not_full_goes_after_the_timeout() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let began = Instant::now();
    c.insert(learn(0, 50_000_000, 0)).await;
    seen(&server, &[1, 2]);
    assert_eq!(list(&mut c).await.1, [1, 2]);
    assert!(began.elapsed() >= Duration::from_millis(50));
    server.stop().await;
}

#[tokio::test]
async fn what_was_sent_comes_again_only_when_it_is_acknowledged() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(learn(1, NEVER, NEVER)).await;
    seen(&server, &[1, 2]);
    let (first, _) = list(&mut c).await;
    list(&mut c).await;
    seen(&server, &[1, 2]);
    nothing(&server, &mut c).await;
    acknowledge(&c, LEARNED, first).await;
    // The answer to the next message shows that the acknowledgement was read.
    acknowledge(&c, LEARNED + 1, first).await;
    let error = c.stream_error().await;
    assert_eq!(Code::from(error.canonical_code), Code::InvalidArgument);
    assert!(error.message.contains("no digest with id"), "{error:?}");
    let ack = p4::DigestListAck {
        digest_id: LEARNED + 1,
        list_id: first,
    };
    let details = p4::DigestListAckError {
        digest_list_ack: Some(ack),
    };
    assert_eq!(error.details, Some(Details::DigestListAck(details)));
    seen(&server, &[2, 1]);
    assert_eq!(list(&mut c).await.1, [1]);
    nothing(&server, &mut c).await;
    server.stop().await;
}

#[tokio::test]
async fn a_change_holds_for_what_waits_and_a_deletion_forgets_it() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(learn(100, NEVER, 0)).await;
    seen(&server, &[1, 2]);
    nothing(&server, &mut c).await;
    c.modify(learn(2, NEVER, 0)).await;
    assert_eq!(list(&mut c).await.1, [1, 2]);
    c.modify(learn(100, NEVER, 0)).await;
    seen(&server, &[3]);
    nothing(&server, &mut c).await;
    // A timeout that is shorter than the one with which the wait began holds at once.
    c.modify(learn(100, 1, 0)).await;
    assert_eq!(list(&mut c).await.1, [3]);

    c.modify(learn(100, NEVER, 0)).await;
    seen(&server, &[4]);
    nothing(&server, &mut c).await;
    c.delete(learn(0, 0, 0)).await;
    c.insert(learn(1, 0, 0)).await;
    nothing(&server, &mut c).await;
    seen(&server, &[5]);
    assert_eq!(list(&mut c).await.1, [5]);
    server.stop().await;
}

#[tokio::test]
async fn lists_are_for_the_primary_only() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let mut backup = Controller::connect(&server, 0).await;
    assert_eq!(backup.arbitration().await, Code::AlreadyExists);
    c.insert(learn(1, 0, 0)).await;
    seen(&server, &[1]);
    let (id, _) = list(&mut c).await;
    acknowledge(&backup, LEARNED, id).await;
    let error = backup.stream_error().await;
    assert_eq!(Code::from(error.canonical_code), Code::PermissionDenied);
    server.stop().await;
}
