//! The traffic-manager service.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::messages::{bridge, frame};
use crate::common::{DEVICE_ID, Running, config, settled};
use crate::one_switch::LATE_DEPARTURES;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_p4runtime::proto::tm;
use ebb_p4runtime::proto::tm::traffic_manager_client::TrafficManagerClient;
use ebb_p4runtime::proto::trace as proto;
use ebb_p4runtime::proto::trace::event::Event as TraceEvent;
use ebb_p4runtime::proto::trace::trace_client::TraceClient;
use ebb_traffic_manager::{DelaySummary, DelayTally, TrafficManagerConfig};
use tonic::Code;
use tonic::transport::Channel;

const CONFIG: &str = r#"
    [[profile]]
    name = "fabric"
    rate_bps = 20_000_000
      [[profile.queue]]
      id = 0
      capacity_packets = 1
    [ports]
    default = "fabric"
"#;

async fn client(server: &Running) -> TrafficManagerClient<Channel> {
    TrafficManagerClient::new(server.channel().await)
}

fn installed(server: &Running) -> TrafficManagerConfig {
    server.switch.with(|s| s.traffic_manager_config().clone())
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
    let given: TrafficManagerConfig = toml::from_str(CONFIG).unwrap();
    let read: TrafficManagerConfig = serde_json::from_str(&json).unwrap();
    assert_eq!(read, installed(&server));
    // The switch has added what its CPU port needs.
    assert_eq!(read.profile[..1], given.profile);
    assert_eq!(read.ports["default"], given.ports["default"]);
    client.set_config(set(&json)).await.unwrap();
    assert_eq!(installed(&server), read);
    server.stop().await;
}

#[tokio::test]
async fn a_wrong_configuration_changes_nothing_and_names_the_key() {
    let server = Running::start().await;
    let before = installed(&server);
    let mut client = client(&server).await;
    let unknown = CONFIG.replace("rate_bps", "rate_mbps");
    let error = client.set_config(set(&unknown)).await.unwrap_err();
    assert_eq!(error.code(), Code::InvalidArgument);
    assert!(error.message().contains("rate_mbps"), "{}", error.message());
    assert!(error.message().contains("rate_bps"), "{}", error.message());
    let missing = CONFIG.replace("default = \"fabric\"", "default = \"host\"");
    let error = client.set_config(set(&missing)).await.unwrap_err();
    assert!(error.message().contains("no such profile"));
    assert_eq!(installed(&server), before);
    server.stop().await;
}

#[tokio::test]
async fn statistics_are_read_reset_and_streamed() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let (linked, unlinked) = (bridge(&[1], &[3]), bridge(&[2], &[20]));
    for entry in [linked, unlinked] {
        c.insert(Entity::TableEntry(entry)).await;
    }
    let mut client = client(&server).await;
    client.set_config(set(CONFIG)).await.unwrap();
    // A frame of 60 bytes takes 24 us. One leaves, one waits, and there is no room for the other two.
    server.switch.arrive(2, &[frame(1, 0)]);
    server
        .switch
        .arrive(2, &[frame(1, 0), frame(1, 0), frame(1, 0)]);
    server.switch.arrive(2, &[frame(2, 0)]);
    let get = tm::GetStatsRequest {
        device_id: DEVICE_ID,
        reset: true,
    };
    let stats = client.get_stats(get).await.unwrap().into_inner();
    let port = stats.ports.iter().find(|port| port.port == 3).unwrap();
    let queue = &port.queues[0];
    assert_eq!(queue.queue, 0);
    assert_eq!(queue.enqueued.unwrap().packets, 2);
    assert_eq!(queue.drops[0].reason, "queue-full");
    assert_eq!(queue.drops[0].count.unwrap().bytes, 120);
    let other = &stats.drops[0];
    assert_eq!((other.port, other.reason.as_str()), (20, "no-such-port"));
    assert_eq!(other.count.unwrap().bytes, 60);
    let late = stats.lateness.unwrap();
    assert_eq!(late.wakeups.unwrap().count, 0);
    let mut tally = DelayTally::default();
    LATE_DEPARTURES.into_iter().for_each(|late| tally.add(late));
    let DelaySummary {
        count,
        p99_ns,
        p999_ns,
        max_ns,
    } = tally.summary();
    let expected = tm::DelaySummary {
        count,
        p99_ns,
        p999_ns,
        max_ns,
    };
    assert_eq!((count, max_ns), (3, 2_501));
    assert_eq!(late.departures.unwrap(), expected);

    let stream = tm::StreamStatsRequest {
        device_id: DEVICE_ID,
        interval_ns: 1_000_000,
    };
    let mut stream = client.stream_stats(stream).await.unwrap().into_inner();
    for _ in 0..2 {
        let stats = stream.message().await.unwrap().unwrap();
        let port = stats.ports.iter().find(|port| port.port == 3).unwrap();
        assert_eq!(port.queues[0].enqueued.unwrap().packets, 0);
        assert_eq!(port.queues[0].depth_packets, 1);
    }
    let fast = tm::StreamStatsRequest {
        device_id: DEVICE_ID,
        interval_ns: 5,
    };
    let error = client.stream_stats(fast).await.unwrap_err();
    assert_eq!(error.code(), Code::OutOfRange);
    server.stop().await;
}

#[tokio::test]
async fn streams_have_a_limit_and_share_their_samples() {
    let (server, jobs) = Running::counted().await;
    let mut client = client(&server).await;
    let request = tm::StreamStatsRequest {
        device_id: DEVICE_ID,
        interval_ns: 20_000_000,
    };
    let mut open = Vec::new();
    for _ in 0..16 {
        let stream = client.stream_stats(request).await.expect("a stream");
        open.push(stream.into_inner());
    }
    let refused = client.stream_stats(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    // Who ends a stream makes room for another one, such as one that is never due again.
    drop(open.pop());
    let seldom = tm::StreamStatsRequest {
        interval_ns: u64::MAX,
        ..request
    };
    let mut tries = 0;
    let mut seldom = loop {
        match client.stream_stats(seldom).await {
            Ok(stream) => break stream.into_inner(),
            Err(_) => tries += 1,
        }
        assert!(tries < 200, "no room");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(seldom.message().await.expect("no error").is_some());
    let before = jobs.load(Ordering::Relaxed);
    let mut reading = tokio::task::JoinSet::new();
    for mut stream in open {
        reading.spawn(async move {
            let mut messages = 0;
            let all = async {
                while stream.message().await.expect("no error").is_some() {
                    messages += 1;
                }
            };
            let second = Duration::from_secs(1);
            tokio::time::timeout(second, all).await.expect_err("no end");
            messages
        });
    }
    let messages: usize = reading.join_all().await.into_iter().sum();
    let looks = jobs.load(Ordering::Relaxed) - before;
    assert!(looks > 0);
    assert!(
        looks < messages / 2,
        "{looks} looks for {messages} messages"
    );
    server.stop().await;
}

#[tokio::test]
async fn no_statistics_are_read_for_a_client_that_does_not_take_them() {
    let (server, jobs) = Running::counted().await;
    let endpoint = Channel::from_shared(format!("http://{}", server.address)).expect("an address");
    let endpoint = endpoint.initial_stream_window_size(16);
    let mut client = TrafficManagerClient::new(endpoint.connect().await.expect("connected"));
    let request = tm::StreamStatsRequest {
        device_id: DEVICE_ID,
        interval_ns: 1_000_000,
    };
    let _unread = client.stream_stats(request).await.expect("a stream");
    // One that HTTP/2 has, one that waits for it.
    let looks = settled(&jobs).await;
    assert!((1..=3).contains(&looks), "{looks}");
    server.stop().await;
}

#[tokio::test]
async fn who_asks_at_the_same_time_gets_the_same_statistics() {
    let (server, jobs) = Running::counted().await;
    let client = client(&server).await;
    let get = tm::GetStatsRequest {
        device_id: DEVICE_ID,
        reset: false,
    };
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..200 {
        let mut client = client.clone();
        asking.spawn(async move { client.get_stats(get).await.is_ok() });
    }
    assert!(asking.join_all().await.into_iter().all(|answered| answered));
    let looks = jobs.load(Ordering::Relaxed);
    assert!((1..100).contains(&looks), "{looks}");
    server.stop().await;
}

/// A queue that is lossless, whose drain bytes go to a register of the program.
const LOSSLESS: &str = r#"
    [pfc]
    pause_bytes = 8192
    resume_bytes = 4557
    [[export]]
    register = "REGISTER"
    what = "drain-bytes"
    [[profile]]
    name = "fabric"
    rate_bps = 20_000_000
      [[profile.queue]]
      id = 0
      lossless = true
    [ports]
    default = "fabric"
"#;

#[tokio::test]
async fn a_register_that_the_program_lacks_is_refused_whichever_comes_last() {
    let server = Running::start().await;
    let mut client = client(&server).await;
    client.set_config(set(LOSSLESS)).await.unwrap();
    let with_register = installed(&server);
    let mut c = server.primary().await;
    let refused = c.set_config(Action::VerifyAndCommit, Some(config())).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    let why = "[[export]] register \"REGISTER\": the program has no such register; it has: ";
    assert!(refused.message().contains(why), "{refused}");
    assert!(!server.switch.has_program());
    // A saved config is still there after it was refused, and fits later.
    c.set_config(Action::VerifyAndSave, Some(config()))
        .await
        .unwrap();
    c.set_config(Action::Commit, None).await.unwrap_err();
    client.set_config(set(CONFIG)).await.unwrap();
    c.set_config(Action::Commit, None).await.unwrap();
    assert!(server.switch.has_program());
    // Now the program was there before.
    let refused = client.set_config(set(LOSSLESS)).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert!(refused.message().contains(why), "{refused}");
    assert_ne!(installed(&server), with_register);
    server.stop().await;
}

#[tokio::test]
async fn pauses_are_in_statistics_and_traces() {
    let server = Running::start().await;
    let mut client = client(&server).await;
    let config = LOSSLESS
        .replace("[[export]]", "")
        .replace("register = \"REGISTER\"", "");
    let config = config.replace("what = \"drain-bytes\"", "");
    client.set_config(set(&config)).await.unwrap();
    let mut traces = TraceClient::new(server.channel().await);
    let watch = proto::WatchRequest {
        device_id: DEVICE_ID,
        port: vec![3],
        packets: 1,
    };
    let mut visits = traces.watch(watch).await.unwrap().into_inner();
    // IEEE 802.1Qbb: class 0 stops for 9 quanta, class 5 goes on.
    let mut frame = vec![
        0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 3, 0x88, 0x08, 1, 1, 0, 0x21, 0, 9,
    ];
    frame.resize(60, 0);
    server.switch.arrive(3, &[frame]);
    let visit = visits.message().await.unwrap().unwrap();
    assert_eq!(visit.packet_id, 0);
    let class = |class, quanta| proto::flow_control::Class { class, quanta };
    let told = proto::FlowControl {
        what: proto::flow_control::What::Received.into(),
        port: 3,
        classes: vec![class(0, 9), class(5, 0)],
        ..Default::default()
    };
    assert_eq!(visit.events[0].event, Some(TraceEvent::FlowControl(told)));
    let text = "port 3 is told: class 0 stops for 9 quanta, class 5 goes on";
    assert_eq!(visit.events[0].text, text);
    // 9 quanta at 20 Mbit/s are 230.4 us.
    server.switch.pass(300_000);
    let get = tm::GetStatsRequest {
        device_id: DEVICE_ID,
        reset: false,
    };
    let stats = client.get_stats(get).await.unwrap().into_inner();
    let port = stats.ports.iter().find(|port| port.port == 3).unwrap();
    assert_eq!(port.control_received.unwrap().packets, 1);
    assert_eq!(port.control.unwrap().packets, 0);
    let queue = &port.queues[0];
    let pauses = (queue.pauses_received, queue.pauses_expired, queue.paused_ns);
    assert_eq!(pauses, (1, 1, 230_400));
    server.stop().await;
}
