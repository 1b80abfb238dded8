//! Calls of the gRPC service.

use super::*;
use crate::arbitration::Arbitration;
use crate::bf_runtime::Service;
use crate::plain::Plain;
use crate::proto::bf_runtime::bf_runtime_client::BfRuntimeClient;
use crate::proto::bf_runtime::bf_runtime_server::BfRuntime;
use crate::proto::bf_runtime::bf_runtime_server::BfRuntimeServer;
use crate::served_device::ServedDevice;
use tokio::net::TcpListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::Request;
use tonic::transport::Server;

async fn service() -> Service {
    let compiled = fixture::compiled("entities");
    let programs = Arc::new(Programs::new(true));
    let forwarding = Forwarding::verify(&programs, compiled.pipeline_config()).unwrap();
    let host = ServedDevice::new(Arc::new(Plain::new(0)), programs, Arbitration::Required);
    host.commit(Arc::new(forwarding), None).await.unwrap();
    let schema = Schema::parse("entities", compiled.bf_rt.to_string().into()).unwrap();
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

#[tokio::test]
async fn a_read_of_much_that_is_not_there_ends_early_with_a_short_error() {
    let service = service().await;
    let usage = bf::Entity {
        entity: Some(Entity::TableUsage(bf::TableUsage {
            table_id: 1,
            usage: 0,
        })),
    };
    let request = bf::ReadRequest {
        entities: vec![usage; 1000],
        ..Default::default()
    };
    let answer = service.read(Request::new(request.clone())).await.unwrap();
    let parts: Vec<_> = answer.into_inner().collect().await;
    let status = parts.last().unwrap().as_ref().unwrap_err();
    assert_eq!(
        status.message(),
        "100 of 100 requests failed, so the other 900 were left alone; the first: the program has no table 1"
    );
    assert!(status.details().len() < 8 * 1024);
    // Who asks for the results one by one gets all of them.
    let mut request = Request::new(request);
    let metadata = request.metadata_mut();
    metadata.insert("error_in_resp", "1".parse().unwrap());
    let answer = service.read(request).await.unwrap();
    let parts: Vec<_> = answer.into_inner().collect().await;
    assert_eq!(parts.last().unwrap().as_ref().unwrap().status.len(), 1000);
}

#[tokio::test]
async fn a_device_serves_a_number_of_streams() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = Server::builder().add_service(BfRuntimeServer::new(service().await));
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    let client = BfRuntimeClient::connect(format!("http://{address}"));
    let client = client.await.unwrap();
    // The stream ends with the first of these.
    let open = || {
        let mut client = client.clone();
        let (asks, asked) = tokio::sync::mpsc::channel(1);
        asks.try_send(bf::StreamMessageRequest::default()).unwrap();
        async move {
            let stream = client.stream_channel(ReceiverStream::new(asked)).await?;
            Ok::<_, tonic::Status>((asks, stream))
        }
    };
    let mut streams = Vec::new();
    for _ in 0..64 {
        streams.push(open().await.unwrap());
    }
    let refused = open().await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    // The place of one that ends is free again.
    streams.pop();
    let mut tries = 0;
    while open().await.is_err() {
        tries += 1;
        assert!(tries < 500);
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}
