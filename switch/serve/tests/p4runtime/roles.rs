//! Roles: who may write, read and hear what (P4Runtime spec, "Role Config").

use crate::common::messages::*;
use crate::common::{Controller, DEVICE_ID, Running, codes, config, uint128, update};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_p4runtime::proto::p4::stream_message_request::Update as Request;
use ebb_p4runtime::proto::p4::stream_message_response::Update;
use ebb_p4runtime::proto::p4::update::Type as Change;
use prost::Message;
use prost_types::Any;
use tonic::{Code, Status};

const KNOWN: &str = "stratum.P4RoleConfig";

/// Stratum's message, by its field numbers.
#[derive(Clone, PartialEq, Message)]
struct RoleConfig {
    #[prost(uint32, repeated, tag = "1")]
    exclusive: Vec<u32>,
    #[prost(uint32, repeated, tag = "2")]
    shared: Vec<u32>,
    #[prost(bool, tag = "4")]
    receives_packet_ins: bool,
    #[prost(bool, tag = "5")]
    can_push_pipeline: bool,
}

fn role(name: &str, kind: &str, config: &RoleConfig) -> p4::MasterArbitrationUpdate {
    p4::MasterArbitrationUpdate {
        device_id: DEVICE_ID,
        election_id: Some(uint128(1)),
        role: Some(p4::Role {
            name: name.into(),
            config: Some(Any {
                type_url: format!("type.googleapis.com/{kind}"),
                value: config.encode_to_vec(),
            }),
            ..Default::default()
        }),
        ..Default::default()
    }
}

async fn write_as(c: &mut Controller, role: &str, updates: Vec<p4::Update>) -> Result<(), Status> {
    let request = p4::WriteRequest {
        device_id: DEVICE_ID,
        role: role.into(),
        election_id: Some(uint128(1)),
        updates,
        ..Default::default()
    };
    c.client.write(request).await.map(drop)
}

fn bridge_only() -> RoleConfig {
    RoleConfig {
        exclusive: vec![BRIDGE],
        ..Default::default()
    }
}

/// A controller whose role "l2" has the table `bridge` for itself.
async fn exclusive_bridge(server: &Running) -> Controller {
    let mut controller = Controller::silent(server).await;
    controller
        .send(Request::Arbitration(role("l2", KNOWN, &bridge_only())))
        .await;
    assert_eq!(controller.arbitration().await, Code::Ok);
    controller
}

#[tokio::test]
async fn a_role_writes_what_is_its_own_and_others_do_not() {
    let server = Running::start().await;
    let mut main = server.ready().await;
    let mut other = exclusive_bridge(&server).await;

    let insert = |e| update(Change::Insert, Entity::TableEntry(e));
    let both = vec![insert(bridge(&[1], &[1])), insert(limited())];
    let status = write_as(&mut other, "l2", both.clone()).await.unwrap_err();
    assert_eq!(codes(&status), [Code::Ok, Code::PermissionDenied]);
    let status = write_as(&mut main, "", both.clone()).await.unwrap_err();
    assert_eq!(codes(&status), [Code::PermissionDenied, Code::Ok]);
    let nobody = write_as(&mut other, "l3", both).await.unwrap_err();
    assert_eq!(nobody.code(), Code::NotFound);

    // It sees its own only, pushes no pipeline, and hears of no packets.
    let request = p4::ReadRequest {
        device_id: DEVICE_ID,
        role: "l2".into(),
        entities: vec![p4::Entity {
            entity: Some(Entity::TableEntry(Default::default())),
        }],
    };
    let mut read = other.client.read(request).await.unwrap().into_inner();
    let found = read.message().await.unwrap().unwrap().entities;
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].entity,
        Some(Entity::TableEntry(bridge(&[1], &[1])))
    );
    let push = p4::SetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        role: "l2".into(),
        election_id: Some(uint128(1)),
        action: Action::VerifyAndCommit as i32,
        config: Some(config()),
        ..Default::default()
    };
    let push = other.client.set_forwarding_pipeline_config(push).await;
    assert_eq!(push.unwrap_err().code(), Code::PermissionDenied);
    server.switch.packet_in(&[0; 60]);
    assert!(matches!(main.receive().await, Update::Packet(_)));
    // This is the next that it hears, so it was told of no packet.
    other
        .send(Request::Arbitration(role("l2", KNOWN, &bridge_only())))
        .await;
    assert_eq!(other.arbitration().await, Code::Ok);

    let mut stranger = Controller::silent(&server).await;
    let unknown = role("l4", "example.Role", &bridge_only());
    stranger.send(Request::Arbitration(unknown)).await;
    let error = stranger.try_receive().await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert_eq!(
        error.message(),
        "role.config is a 'example.Role'; leave it out for full access, or send a \
         stratum.P4RoleConfig"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_role_keeps_its_objects_while_its_controller_is_there() {
    let server = Running::start().await;
    let mut main = server.ready().await;
    let other = exclusive_bridge(&server).await;
    let entry = Entity::TableEntry(bridge(&[1], &[1]));
    assert_eq!(main.refused(entry.clone()).await.0, Code::PermissionDenied);
    drop(other);
    let began = std::time::Instant::now();
    while let Err(status) = main.write(Change::Insert, entry.clone()).await {
        assert!(began.elapsed().as_secs() < 20, "{status}");
        tokio::task::yield_now().await;
    }
    server.stop().await;
}
