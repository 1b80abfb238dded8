//! Calls of the gRPC service.

use super::*;
use crate::arbitration::Arbitration;
use crate::bf_runtime::Service;
use crate::plain::Plain;
use crate::proto::bf_runtime::bf_runtime_server::BfRuntime;
use crate::served_device::ServedDevice;
use tokio_stream::StreamExt;
use tonic::Request;

async fn service() -> Service {
    let [json, info] = ["entities.json", "entities.p4info.txtpb"].map(fixture);
    let programs = Arc::new(Programs::new(true));
    let config = read_config(&json, &info).unwrap();
    let forwarding = Forwarding::verify(&programs, config).unwrap();
    let host = ServedDevice::new(Arc::new(Plain::new(0)), programs, Arbitration::Required);
    host.commit(Arc::new(forwarding), None).await.unwrap();
    let schema = Schema::read("entities", &fixture("entities.bf-rt.json")).unwrap();
    Service::new(host, Arc::new(schema))
}

#[tokio::test]
async fn clients_bind_to_the_program_that_runs() {
    let service = service().await;
    let bind = |name: &str, action| {
        Request::new(bf::SetForwardingPipelineConfigRequest {
            action,
            config: vec![bf::ForwardingPipelineConfig {
                p4_name: name.into(),
                ..Default::default()
            }],
            ..Default::default()
        })
    };
    assert!(
        service
            .set_forwarding_pipeline_config(bind("entities", 0))
            .await
            .is_ok()
    );
    let other = service
        .set_forwarding_pipeline_config(bind("other", 0))
        .await;
    assert_eq!(other.unwrap_err().code(), Code::NotFound);
    let push = service
        .set_forwarding_pipeline_config(bind("entities", 3))
        .await;
    assert_eq!(push.unwrap_err().code(), Code::Unimplemented);
    let get = bf::GetForwardingPipelineConfigRequest::default();
    let got = service
        .get_forwarding_pipeline_config(Request::new(get))
        .await;
    assert_eq!(got.unwrap().into_inner().config[0].p4_name, "entities");
}

/// As the public client reads it: UNKNOWN, with an error for each element.
#[tokio::test]
async fn errors_have_a_detail_for_each_element() {
    let service = service().await;
    let usage = |table_id| bf::Entity {
        entity: Some(Entity::TableUsage(bf::TableUsage { table_id, usage: 0 })),
    };
    let bridge = Program::new().entry("bridge").table_id;
    let request = bf::ReadRequest {
        entities: vec![usage(bridge), usage(1)],
        ..Default::default()
    };
    let answer = service.read(Request::new(request)).await.unwrap();
    let parts: Vec<_> = answer.into_inner().collect().await;
    let first = parts[0].as_ref().unwrap().entities[0].clone();
    assert_eq!(first, usage(bridge));
    let status = parts.last().unwrap().as_ref().unwrap_err();
    assert_eq!(status.code(), Code::Unknown);
    assert!(String::from_utf8_lossy(status.details()).contains("bfrt_proto.Error"));
}
