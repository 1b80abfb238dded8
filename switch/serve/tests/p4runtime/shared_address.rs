//! Devices that share an address are told apart by the ids in requests.

use std::net::SocketAddr;
use std::sync::Arc;

use ebb_p4runtime::proto::p4::p4_runtime_client::P4RuntimeClient;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_p4runtime::proto::p4::stream_message_request::Update as Asked;
use ebb_p4runtime::proto::p4::stream_message_response::Update;
use ebb_p4runtime::proto::tm::traffic_manager_client::TrafficManagerClient;
use ebb_p4runtime::proto::{p4, tm};
use ebb_p4runtime::{Arbitration, Device, Server};
use ebb_serve::EngineDevice;
use tokio::sync::oneshot;
use tonic::Code;
use tonic::transport::Channel;

use crate::common::{OneSwitch, config, uint128};

/// Serves devices 1 and 2 at one address until the sender goes.
fn serve_two() -> (SocketAddr, [Arc<OneSwitch>; 2], oneshot::Sender<()>) {
    let any = Server::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = any.addresses().next().unwrap();
    drop(any);
    let server = Server::bind(&[address; 2]).unwrap();
    let server = server.with_arbitration(Arbitration::Optional);
    assert!(server.addresses().eq([address; 2]));
    let switches = [OneSwitch::start(), OneSwitch::start()];
    let devices = switches.iter().zip(1..).map(|(switch, id)| {
        Arc::new(EngineDevice {
            id,
            ..switch.device()
        }) as Arc<dyn Device>
    });
    let devices = devices.collect();
    let (stop, stopped) = oneshot::channel::<()>();
    tokio::spawn(async move {
        let shutdown = async { drop(stopped.await) };
        server.serve(devices, shutdown).await.unwrap();
    });
    (address, switches, stop)
}

async fn channel(address: SocketAddr) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    endpoint.connect().await.unwrap()
}

fn arbitration(device_id: u64) -> p4::StreamMessageRequest {
    p4::StreamMessageRequest {
        update: Some(Asked::Arbitration(p4::MasterArbitrationUpdate {
            device_id,
            election_id: Some(uint128(7)),
            ..Default::default()
        })),
    }
}

#[tokio::test]
async fn a_request_is_for_the_device_whose_id_it_has() {
    let (address, _switches, _stop) = serve_two();
    let mut client = P4RuntimeClient::new(channel(address).await);
    let push = p4::SetForwardingPipelineConfigRequest {
        device_id: 2,
        action: Action::VerifyAndCommit as i32,
        config: Some(config()),
        ..Default::default()
    };
    client.set_forwarding_pipeline_config(push).await.unwrap();
    let mut cookie = async |device_id| {
        let request = p4::GetForwardingPipelineConfigRequest {
            device_id,
            ..Default::default()
        };
        let answer = client.get_forwarding_pipeline_config(request).await?;
        let config = answer.into_inner().config;
        Ok::<_, tonic::Status>(config.and_then(|config| config.cookie).map(|c| c.cookie))
    };
    assert_eq!(cookie(1).await.unwrap(), None);
    assert_eq!(cookie(2).await.unwrap(), Some(42));
    let unknown = cookie(3).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let mut traffic = TrafficManagerClient::new(channel(address).await);
    for (device_id, found) in [(1, true), (2, true), (3, false)] {
        let request = tm::GetStatsRequest {
            device_id,
            reset: false,
        };
        assert_eq!(traffic.get_stats(request).await.is_ok(), found);
    }
}

#[tokio::test]
async fn a_stream_is_of_the_device_that_its_first_message_names() {
    let (address, _switches, _stop) = serve_two();
    let mut client = P4RuntimeClient::new(channel(address).await);
    let mut primaries = Vec::new();
    for device in [1, 2] {
        // Both are primary with one election id, as each is of another device.
        let messages = tokio_stream::StreamExt::chain(
            tokio_stream::iter([arbitration(device)]),
            tokio_stream::pending(),
        );
        let mut stream = client.stream_channel(messages).await.unwrap().into_inner();
        let told = stream.message().await.unwrap().unwrap().update;
        let Some(Update::Arbitration(told)) = told else {
            panic!("{told:?}");
        };
        assert_eq!((told.device_id, told.status.unwrap().code), (device, 0));
        primaries.push(stream);
    }
    let unknown = tokio_stream::iter([arbitration(3)]);
    let refused = client.stream_channel(unknown).await.unwrap_err();
    assert_eq!(refused.code(), Code::NotFound);
    let nameless = p4::StreamMessageRequest {
        update: Some(Asked::Packet(p4::PacketOut::default())),
    };
    let nameless = client.stream_channel(tokio_stream::iter([nameless])).await;
    assert_eq!(nameless.unwrap_err().code(), Code::FailedPrecondition);
}
