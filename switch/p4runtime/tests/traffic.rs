//! The traffic-manager service.

use crate::common::{DEVICE_ID, LATE_DEPARTURES, Running};
use ebb_p4runtime::proto::tm;
use ebb_p4runtime::proto::tm::traffic_manager_client::TrafficManagerClient;
use ebb_traffic_manager::{Arrival, DelaySummary, TrafficManagerConfig};
use tonic::Code;
use tonic::transport::Channel;

const CONFIG: &str = r#"
    [[profile]]
    name = "fabric"
    rate_bps = 20_000_000
      [[profile.queue]]
      id = 7
      capacity_packets = 1
    [ports]
    default = "fabric"
"#;

async fn client(server: &Running) -> TrafficManagerClient<Channel> {
    TrafficManagerClient::new(server.channel().await)
}

fn set(config: &str) -> tm::SetConfigRequest {
    tm::SetConfigRequest {
        device_id: DEVICE_ID,
        config: config.into(),
    }
}

#[tokio::test]
async fn a_configuration_in_toml_is_read_back_as_json_and_accepted_again() {
    let server = Running::start().await;
    let mut client = client(&server).await;
    client.set_config(set(CONFIG)).await.unwrap();
    let get = tm::GetConfigRequest {
        device_id: DEVICE_ID,
    };
    let json = client.get_config(get).await.unwrap().into_inner().config;
    let expected: TrafficManagerConfig = toml::from_str(CONFIG).unwrap();
    let read: TrafficManagerConfig = serde_json::from_str(&json).unwrap();
    assert_eq!(read, expected);
    client.set_config(set(&json)).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn a_wrong_configuration_changes_nothing_and_names_the_key() {
    let server = Running::start().await;
    let mut client = client(&server).await;
    let unknown = CONFIG.replace("rate_bps", "rate_mbps");
    let error = client.set_config(set(&unknown)).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("rate_mbps"), "{}", error.message());
    assert!(error.message().contains("rate_bps"), "{}", error.message());
    let missing = CONFIG.replace("default = \"fabric\"", "default = \"host\"");
    let error = client.set_config(set(&missing)).await.unwrap_err();
    assert!(error.message().contains("no such profile"));
    let switch = server.device.switch.lock().unwrap();
    assert_eq!(switch.traffic.config(), &TrafficManagerConfig::like_bmv2(1));
}

#[tokio::test]
async fn statistics_are_read_reset_and_streamed() {
    let server = Running::start().await;
    let mut client = client(&server).await;
    client.set_config(set(CONFIG)).await.unwrap();
    {
        let mut switch = server.device.switch.lock().unwrap();
        let now = switch.now;
        switch.traffic.open_port(now, 3);
        for _ in 0..3 {
            let arrival = Arrival {
                queue: 7,
                len: 100,
                deflections: 0,
            };
            let _ = switch.traffic.enqueue(now, 3, arrival, vec![0; 100]);
        }
    }
    let get = tm::GetStatsRequest {
        device_id: DEVICE_ID,
        reset: true,
    };
    let stats = client.get_stats(get).await.unwrap().into_inner();
    let queue = &stats.ports[0].queues[0];
    assert_eq!((stats.ports[0].port, queue.queue), (3, 7));
    assert_eq!(queue.enqueued.unwrap().packets, 1);
    assert_eq!(queue.drops[0].reason, "queue-full");
    assert_eq!(queue.drops[0].count.unwrap().bytes, 200);
    let other = &stats.drops[0];
    assert_eq!((other.port, other.reason.as_str()), (5, "kernel-drop"));
    assert_eq!(other.count.unwrap().bytes, 300);
    let late = stats.lateness.unwrap();
    assert_eq!(late.wakeups.unwrap().count, 0);
    let departures = late.departures.unwrap();
    let DelaySummary {
        count,
        p99_ns,
        p999_ns,
        max_ns,
    } = LATE_DEPARTURES;
    let expected = tm::DelaySummary {
        count,
        p99_ns,
        p999_ns,
        max_ns,
    };
    assert_eq!(departures, expected);

    let stream = tm::StreamStatsRequest {
        device_id: DEVICE_ID,
        interval_ns: 1_000_000,
    };
    let mut stream = client.stream_stats(stream).await.unwrap().into_inner();
    for _ in 0..2 {
        let stats = stream.message().await.unwrap().unwrap();
        assert_eq!(stats.ports[0].queues[0].enqueued.unwrap().packets, 0);
        assert_eq!(stats.ports[0].queues[0].depth_packets, 1);
    }
    let fast = tm::StreamStatsRequest {
        device_id: DEVICE_ID,
        interval_ns: 5,
    };
    let error = client.stream_stats(fast).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange);
    server.stop().await;
}
