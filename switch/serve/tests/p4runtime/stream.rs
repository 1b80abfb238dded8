//! Messages on the stream: errors of its messages, idle timeouts, and nothing for those who have not said
//! who they are.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::messages::*;
use crate::common::{Controller, DEVICE_ID, Running, uint128};
use ebb_engine::Switch;
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::stream_error::Details;
use ebb_p4runtime::proto::p4::stream_message_request::Update as Request;
use ebb_p4runtime::proto::p4::stream_message_response::Update;
use prost_types::Any;
use tonic::Code;

#[tokio::test]
async fn messages_of_unknown_types_are_answered_with_themselves() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let strange = Any {
        type_url: "type.googleapis.com/of.Somebody".into(),
        value: vec![1, 2, 3],
    };
    c.send(Request::Other(strange.clone())).await;
    let error = c.stream_error().await;
    assert_eq!(Code::from(error.canonical_code), Code::Unimplemented);
    assert_eq!(
        error.message,
        "there are no messages of type 'of.Somebody' here"
    );
    let other = Some(strange);
    let details = Details::Other(p4::StreamOtherError { other });
    assert_eq!(error.details, Some(details));
    // The stream stays open.
    c.arbitrate(DEVICE_ID, 1).await;
    assert_eq!(c.arbitration().await, Code::Ok);
    server.stop().await;
}

#[tokio::test]
async fn a_packet_out_that_is_refused_comes_back() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let sent = server.switch.packets_out();
    let metadata = |id: u32, value: &[u8]| p4::PacketMetadata {
        metadata_id: id,
        value: value.to_vec(),
    };
    let good = vec![metadata(1, &[3]), metadata(2, &[0])];
    let wide = vec![metadata(1, &[2, 0]), metadata(2, &[0])];
    let empty = vec![metadata(1, &[]), metadata(2, &[0])];
    let twice = [good.clone(), vec![metadata(1, &[3])]].concat();
    let stray = [good.clone(), vec![metadata(3, &[3])]].concat();
    for (metadata, code) in [
        (wide, Code::OutOfRange),
        (empty, Code::OutOfRange),
        (twice, Code::InvalidArgument),
        (stray, Code::InvalidArgument),
        (Vec::new(), Code::InvalidArgument),
    ] {
        let packet = p4::PacketOut {
            payload: b"payload".to_vec(),
            metadata,
        };
        c.send(Request::Packet(packet.clone())).await;
        let error = c.stream_error().await;
        assert_eq!(Code::from(error.canonical_code), code, "{}", error.message);
        let packet_out = Some(packet);
        let details = Details::PacketOut(p4::PacketOutError { packet_out });
        assert_eq!(error.details, Some(details));
    }
    assert_eq!(*sent.lock().unwrap(), Vec::<Vec<u8>>::new());
    server.stop().await;
}

#[tokio::test]
async fn whoever_has_not_arbitrated_is_nobody() {
    let server = Running::start().await;
    let mut silent = Controller::silent(&server).await;
    silent.send(Request::Packet(p4::PacketOut::default())).await;
    let error = silent.stream_error().await;
    assert_eq!(Code::from(error.canonical_code), Code::PermissionDenied);
    let mut primary = server.ready().await;
    server.switch.packet_in(&[0; 60]);
    assert!(matches!(primary.receive().await, Update::Packet(_)));
    // The other stream got no packet, and no notice but that of its own arbitration.
    silent.arbitrate(DEVICE_ID, 0).await;
    assert_eq!(silent.arbitration().await, Code::AlreadyExists);
    server.stop().await;
}

#[tokio::test]
async fn a_message_without_content_ends_the_stream() {
    let server = Running::start().await;
    let mut c = server.primary().await;
    c.send_raw(p4::StreamMessageRequest { update: None }).await;
    let error = c.try_receive().await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(error.message(), "a stream message without content");
    server.stop().await;
}

#[tokio::test]
async fn an_unset_election_id_is_lower_than_0_and_never_primary() {
    let server = Running::start().await;
    let mut standby = Controller::silent(&server).await;
    let arbitration = |election_id| {
        Request::Arbitration(p4::MasterArbitrationUpdate {
            device_id: DEVICE_ID,
            election_id,
            ..Default::default()
        })
    };
    standby.send(arbitration(None)).await;
    let Update::Arbitration(notice) = standby.receive().await else {
        panic!("expected arbitration");
    };
    // There has been no primary at all, so there is no id either.
    assert_eq!(notice.election_id, None);
    let code = |n: &p4::MasterArbitrationUpdate| Code::from(n.status.as_ref().unwrap().code);
    assert_eq!(code(&notice), Code::NotFound);
    let mut zero = Controller::silent(&server).await;
    zero.send(arbitration(Some(uint128(0)))).await;
    assert_eq!(zero.arbitration().await, Code::Ok);
    let Update::Arbitration(notice) = standby.receive().await else {
        panic!("expected arbitration");
    };
    assert_eq!(notice.election_id, Some(uint128(0)));
    assert_eq!(code(&notice), Code::AlreadyExists);
    zero.write_all(Vec::new()).await.unwrap_err();
    // A request without an id comes from nobody, even with a primary of id 0.
    let request = p4::WriteRequest {
        device_id: DEVICE_ID,
        ..Default::default()
    };
    let denied = zero.client.write(request).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    server.stop().await;
}

#[tokio::test]
async fn an_idle_entry_is_named_with_its_notes_and_not_after_it_has_gone() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let entry = p4::TableEntry {
        table_id: SOURCE,
        r#match: vec![exact(1, &[7])],
        action: direct(PERMIT, &[]),
        idle_timeout_ns: 5_000,
        metadata: b"mine".to_vec(),
        ..Default::default()
    };
    c.insert(Entity::TableEntry(entry.clone())).await;
    server.switch.pass(10_000);
    server.switch.with(Switch::check_idle_entries);
    let Update::IdleTimeoutNotification(notice) = c.receive().await else {
        panic!("expected a notification");
    };
    let key = p4::TableEntry {
        action: None,
        ..entry.clone()
    };
    assert_eq!(notice.table_entry, [key]);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let age = now.as_nanos() as i64 - notice.timestamp;
    assert!((0..60_000_000_000).contains(&age), "{age} ns");
    c.delete(Entity::TableEntry(entry.clone())).await;
    // It goes when the server has not yet heard of it.
    c.insert(Entity::TableEntry(entry)).await;
    server.switch.pass(10_000);
    server.switch.with(|switch| {
        switch.check_idle_entries();
        let pipeline = switch.pipeline_mut().unwrap();
        let table = pipeline.table("MyIngress.source").unwrap();
        let idle = pipeline.entries(table).next().unwrap().entry;
        pipeline.delete_entry(table, &idle.key, 0).unwrap();
    });
    server.switch.packet_in(&[0; 60]);
    assert!(matches!(c.receive().await, Update::Packet(_)));
    server.stop().await;
}

/// More packets at once than the switch takes at once: the stream waits, and does not end.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_burst_of_packets_out_arrives_whole() {
    // Each message has an HTTP/2 frame of its own, 230 bytes shorter than 256: together 690,000 bytes, more than half
    // of 1 MiB, at which the library would end a connection with that window (`CONNECTION_WINDOW_BYTES`).
    const BURST: usize = 3_000;
    let server = Running::start().await;
    let c = server.ready().await;
    let metadata = |metadata_id: u32, value: u8| p4::PacketMetadata {
        metadata_id,
        value: vec![value],
    };
    let sent = server.switch.packets_out();
    // Until all are sent, the switch takes none.
    let (release, released) = std::sync::mpsc::channel::<()>();
    let (hold, held) = std::sync::mpsc::channel();
    let switch = server.switch.clone();
    let holding = std::thread::spawn(move || {
        switch.with(move |_| {
            hold.send(()).unwrap();
            let _ = released.recv();
        });
    });
    held.recv().unwrap();
    for n in 0..BURST as u32 {
        let packet = p4::PacketOut {
            payload: n.to_be_bytes().to_vec(),
            metadata: vec![metadata(1, 3), metadata(2, 0)],
        };
        c.send(Request::Packet(packet)).await;
        // Messages that are ready together would go in one frame. (Tokio's timer would sleep a millisecond.)
        std::thread::sleep(Duration::from_micros(200));
    }
    drop(release);
    holding.join().unwrap();
    let began = std::time::Instant::now();
    let arrived = || sent.lock().unwrap().len();
    while arrived() < BURST {
        assert!(began.elapsed().as_secs() < 30, "{} arrived", arrived());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.stop().await;
}
