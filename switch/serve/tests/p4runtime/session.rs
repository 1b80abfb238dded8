//! Sessions: arbitration, pipeline configs, packet I/O, digests.

use crate::common::messages::{TO_CPU, bridge, direct, frame};
use crate::common::{Controller, DEVICE_ID, OneSwitch, Running, config, uint128};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::get_forwarding_pipeline_config_request::ResponseType;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_p4runtime::proto::p4::stream_message_request::Update as Request;
use ebb_p4runtime::proto::p4::stream_message_response::Update;
use ebb_p4runtime::{Arbitration, ServeError, Server};
use tonic::Code;

#[tokio::test]
async fn an_address_in_use_is_named_before_anything_starts() {
    let first = Server::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = first.addresses().next().unwrap();
    let error = Server::bind(&[address]).err().unwrap();
    assert!(matches!(error, ServeError::Bind { .. }));
    let message = error.to_string();
    assert!(message.starts_with(&format!(
        "cannot listen on {address}: Address already in use"
    )));
    assert!(message.contains("stop what uses the address or choose another one"));
    let reason = std::io::ErrorKind::PermissionDenied.into();
    let denied = ServeError::Bind {
        address: "127.0.0.1:80".into(),
        reason,
    };
    assert!(!denied.to_string().contains("stop what uses"), "{denied}");
}

#[tokio::test]
async fn without_arbitration_a_client_without_stream_pushes_and_writes() {
    let any = "127.0.0.1:0".parse().unwrap();
    let bound = Server::bind(&[any]).unwrap();
    let server = Running::with(
        bound.with_arbitration(Arbitration::Optional),
        OneSwitch::start(),
    );
    let mut client = server.client().await;
    let push = p4::SetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        action: Action::VerifyAndCommit as i32,
        config: Some(config()),
        ..Default::default()
    };
    client
        .set_forwarding_pipeline_config(push.clone())
        .await
        .unwrap();
    let write = p4::WriteRequest {
        device_id: DEVICE_ID,
        ..Default::default()
    };
    client.write(write.clone()).await.unwrap();
    // While a controller is there, it is as without the option.
    let mut controller = server.primary().await;
    let refused = client.write(write.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    controller.write_all(Vec::new()).await.unwrap();
    // A stream without an election id is primary with 0, and so are requests without one.
    let update = p4::MasterArbitrationUpdate {
        device_id: DEVICE_ID,
        ..Default::default()
    };
    controller.send(Request::Arbitration(update)).await;
    assert_eq!(controller.arbitration().await, Code::Ok);
    client.write(write).await.unwrap();
    client.set_forwarding_pipeline_config(push).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn capabilities_name_the_version() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let request = p4::CapabilitiesRequest::default();
    let response = client.capabilities(request).await.unwrap().into_inner();
    assert_eq!(response.p4runtime_api_version, "1.5.0");
    server.stop().await;
}

#[tokio::test]
async fn a_higher_election_id_takes_over_and_the_old_primary_cannot_write() {
    let server = Running::start().await;
    let mut first = server.primary().await;
    let mut second = Controller::connect(&server, 2).await;
    assert_eq!(first.arbitration().await, Code::AlreadyExists);
    assert_eq!(second.arbitration().await, Code::Ok);

    let denied = first.write_all(Vec::new()).await.unwrap_err();
    assert_eq!(denied.code(), Code::PermissionDenied);
    // The request is not denied: what is missing is a program.
    let early = second.write_all(Vec::new()).await.unwrap_err();
    assert_eq!(early.code(), Code::FailedPrecondition);

    let mut third = Controller::connect(&server, 0).await;
    assert_eq!(third.arbitration().await, Code::AlreadyExists);
    drop(second);
    assert_eq!(first.arbitration().await, Code::NotFound);
    assert_eq!(third.arbitration().await, Code::NotFound);
    // The highest id that there was will do, and everybody hears of it.
    first.arbitrate(DEVICE_ID, 2).await;
    assert_eq!(first.arbitration().await, Code::Ok);
    assert_eq!(third.arbitration().await, Code::AlreadyExists);
    server.stop().await;
}

#[tokio::test]
async fn duplicate_election_ids_and_strange_devices_end_the_stream() {
    let server = Running::start().await;
    let _first = server.primary().await;
    let mut twin = Controller::connect(&server, 1).await;
    let error = twin.try_receive().await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    let mut lost = Controller::connect_as(&server, 99, 3).await;
    let error = lost.try_receive().await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    assert_eq!(
        error.message(),
        "no device 99 here; this address serves device 7"
    );
    server.stop().await;
}

#[tokio::test]
async fn stopping_the_server_ends_the_streams() {
    let server = Running::start().await;
    let mut controller = server.primary().await;
    server.stop().await;
    assert!(!matches!(controller.try_receive().await, Ok(Some(_))));
}

async fn get(
    controller: &mut Controller,
    response_type: ResponseType,
) -> p4::ForwardingPipelineConfig {
    let request = p4::GetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        response_type: response_type as i32,
    };
    let response = controller.client.get_forwarding_pipeline_config(request);
    response.await.unwrap().into_inner().config.unwrap()
}

#[tokio::test]
async fn a_config_is_read_back_in_the_parts_asked_for() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    assert_eq!(get(&mut c, ResponseType::All).await, config());
    let cookie = get(&mut c, ResponseType::CookieOnly).await;
    assert_eq!(cookie.cookie.unwrap().cookie, 42);
    assert!(cookie.p4info.is_none() && cookie.p4_device_config.is_empty());
    let device = get(&mut c, ResponseType::DeviceConfigAndCookie).await;
    assert!(device.p4info.is_none() && device.p4_device_config == config().p4_device_config);
    let info = get(&mut c, ResponseType::P4infoAndCookie).await;
    assert!(info.p4info.is_some() && info.p4_device_config.is_empty());
    server.stop().await;
}

#[tokio::test]
async fn verify_changes_nothing_and_commit_takes_what_was_saved() {
    let server = Running::start().await;
    let mut c = server.primary().await;
    c.set_config(Action::Verify, Some(config())).await.unwrap();
    let nothing = c.set_config(Action::Commit, None).await.unwrap_err();
    assert_eq!(nothing.code(), Code::NotFound);

    c.set_config(Action::VerifyAndSave, Some(config()))
        .await
        .unwrap();
    assert!(!server.switch.has_program());
    // Writes go to the saved config and are there after the commit.
    let group = p4::MulticastGroupEntry {
        multicast_group_id: 5,
        ..Default::default()
    };
    let group = multicast(group);
    c.insert(group.clone()).await;
    let refused = c.set_config(Action::Commit, Some(config())).await;
    assert_eq!(refused.unwrap_err().code(), Code::InvalidArgument);
    c.set_config(Action::Commit, None).await.unwrap();
    assert!(server.switch.has_program());
    assert_eq!(c.read_one(group.clone()).await, group);

    // Committing again clears the state, reconciling keeps it.
    c.set_config(Action::ReconcileAndCommit, Some(config()))
        .await
        .unwrap();
    assert_eq!(c.read(group.clone()).await.unwrap().len(), 1);
    // The saved configuration is what is read and written, also where something is committed.
    c.set_config(Action::VerifyAndSave, Some(config()))
        .await
        .unwrap();
    assert_eq!(c.read(group.clone()).await.unwrap(), []);
    c.set_config(Action::VerifyAndCommit, Some(config()))
        .await
        .unwrap();
    assert_eq!(c.read(group).await.unwrap(), []);
    server.stop().await;
}

fn multicast(group: p4::MulticastGroupEntry) -> p4::entity::Entity {
    use p4::packet_replication_engine_entry::Type;
    p4::entity::Entity::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry {
        r#type: Some(Type::MulticastGroupEntry(group)),
    })
}

#[tokio::test]
async fn configs_that_cannot_work_say_why() {
    let server = Running::start().await;
    let mut c = server.primary().await;
    let mut message = async |config| {
        let refused = c.set_config(Action::Verify, config).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        refused.message().to_owned()
    };
    assert_eq!(
        message(None).await,
        "the request has no config, which this action needs"
    );
    let mut elf = config();
    elf.p4_device_config = b"\x7fELF".to_vec();
    assert_eq!(
        message(Some(elf)).await,
        "p4_device_config (4 bytes) is not BMv2 JSON; give the .json file that ebb-p4c or \
         p4c-bm2-ss wrote"
    );
    let mut renamed = config();
    let info = renamed.p4info.as_mut().unwrap();
    info.tables[1].preamble.as_mut().unwrap().name = "MyIngress.router".into();
    let message = message(Some(renamed)).await;
    assert!(message.starts_with(
        "P4Info and p4_device_config do not belong together: table 'MyIngress.router':"
    ));
    server.stop().await;
}

#[tokio::test]
async fn the_tutorials_wrapper_around_the_json_is_understood() {
    let server = Running::start().await;
    let mut c = server.primary().await;
    let mut wrapped = config();
    // Field 1 (reassign): true; field 3 (device_data): the JSON.
    let mut bytes = vec![0x08, 1, 0x1a];
    let json = config().p4_device_config;
    prost::encoding::encode_varint(json.len() as u64, &mut bytes);
    bytes.extend_from_slice(&json);
    wrapped.p4_device_config = bytes;
    c.set_config(Action::Verify, Some(wrapped)).await.unwrap();
    server.stop().await;
}

fn metadata(values: &[(u32, &[u8])]) -> Vec<p4::PacketMetadata> {
    let metadata = |(id, value): &(u32, &[u8])| p4::PacketMetadata {
        metadata_id: *id,
        value: value.to_vec(),
    };
    values.iter().map(metadata).collect()
}

#[tokio::test]
async fn packets_go_out_and_come_in_with_their_metadata() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let sent = server.switch.packets_out();
    let packet = p4::PacketOut {
        payload: b"payload".to_vec(),
        metadata: metadata(&[(1, &[3]), (2, &[0x55])]),
    };
    c.send(Request::Packet(packet)).await;
    // A packet-out has no answer. A wrong one has, and comes after it.
    let wrong = p4::PacketOut {
        metadata: metadata(&[(1, &[3])]),
        ..Default::default()
    };
    c.send(Request::Packet(wrong.clone())).await;
    let error = c.stream_error().await;
    assert_eq!(Code::from(error.canonical_code), Code::InvalidArgument);
    assert_eq!(
        error.message,
        "packet-out: metadata 'padding' (7 bits): missing"
    );
    assert_eq!(*sent.lock().unwrap(), [b"\x01\xd5payload"]);
    server.switch.pass(1_000);
    assert_eq!(server.switch.left(), [(3, b"payload".to_vec())]);

    let to_cpu = p4::TableEntry {
        action: direct(TO_CPU, &[]),
        ..bridge(&[9], &[0])
    };
    c.insert(Entity::TableEntry(to_cpu)).await;
    server.switch.arrive(3, &[frame(9, 1)]);
    let Update::Packet(packet) = c.receive().await else {
        panic!("expected a packet");
    };
    assert_eq!(packet.payload, frame(9, 1));
    assert_eq!(packet.metadata, metadata(&[(1, &[3]), (2, &[0])]));
    server.stop().await;
}

#[tokio::test]
async fn a_backup_may_not_send_packets() {
    let server = Running::start().await;
    let mut primary = server.ready().await;
    let mut backup = Controller::connect(&server, 0).await;
    assert_eq!(backup.arbitration().await, Code::AlreadyExists);
    backup.send(Request::Packet(p4::PacketOut::default())).await;
    let error = backup.stream_error().await;
    assert_eq!(Code::from(error.canonical_code), Code::PermissionDenied);
    assert!(primary.write_all(Vec::new()).await.is_ok());
    server.stop().await;
}

#[tokio::test]
async fn digests_are_sent_once_enabled() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    // Nobody asked for this one.
    server.switch.arrive(9, &[frame(0, 2)]);
    server.switch.packet_in(&[0; 60]);
    assert!(matches!(c.receive().await, Update::Packet(_)));
    let entry = p4::DigestEntry {
        digest_id: 400350661,
        config: Some(p4::digest_entry::Config {
            max_timeout_ns: 0,
            max_list_size: 1,
            ack_timeout_ns: 1_000_000_000,
        }),
    };
    c.insert(p4::entity::Entity::DigestEntry(entry)).await;
    server.switch.arrive(9, &[frame(0, 1)]);
    let Update::Digest(list) = c.receive().await else {
        panic!("expected a digest list");
    };
    assert_eq!(list.digest_id, 400350661);
    let bits = |value: &[u8]| p4::P4Data {
        data: Some(p4::p4_data::Data::Bitstring(value.to_vec())),
    };
    let expected = p4::P4Data {
        data: Some(p4::p4_data::Data::Struct(p4::P4StructLike {
            members: vec![bits(&[1]), bits(&[9])],
        })),
    };
    assert_eq!(list.data, [expected]);
    server.stop().await;
}

#[tokio::test]
async fn requests_for_other_devices_are_not_found() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let request = p4::WriteRequest {
        device_id: 8,
        election_id: Some(uint128(1)),
        ..Default::default()
    };
    let error = client.write(request).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound);
    server.stop().await;
}
