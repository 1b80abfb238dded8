//! The trace service of a switch that the engine runs, without interfaces: packets come from the CPU port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ebb_bmv2_json::Program;
use ebb_engine::{ControlHandle, Driver, DriverOptions, Network, NodeId, Switch, SwitchOptions};
use ebb_p4runtime::proto::trace as proto;
use ebb_p4runtime::proto::trace::event::Event;
use ebb_p4runtime::proto::trace::trace_client::TraceClient;
use ebb_p4runtime::{Device, Server};
use ebb_pipeline::Pipeline;
use ebb_switch::service::EngineDevice;
use ebb_traffic_manager::TrafficManagerConfig;
use tonic::Code;
use tonic::transport::Channel;

const CPU_PORT: u16 = 510;
const PATIENCE: Duration = Duration::from_secs(20);

struct Running {
    handle: ControlHandle,
    switch: NodeId,
    client: TraceClient<Channel>,
}

/// A switch with the program that joins ports 1 and 2, and drops what comes from elsewhere.
async fn start() -> Running {
    let program = Program::from_json(include_bytes!("programs/patch.json")).expect("readable");
    let options = SwitchOptions {
        name: "s".into(),
        device_id: 3,
        cpu_port: Some(CPU_PORT),
        drop_port: 511,
    };
    let mut switch = Switch::new(options, TrafficManagerConfig::like_bmv2(1)).expect("valid");
    switch.install(Pipeline::load(&program).expect("loadable"));
    let mut network = Network::new();
    let switch = network.add_switch(switch);
    let driver = Driver::new(network, DriverOptions::default()).expect("a driver");
    let handle = driver.handle();
    thread::spawn(move || driver.run());
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let server = Server::bind(&[any]).expect("bound");
    let address = server.addresses().next().expect("one");
    let device = EngineDevice {
        id: 3,
        switch,
        handle: handle.clone(),
    };
    let devices = vec![Arc::new(device) as Arc<dyn Device>];
    tokio::spawn(server.serve(devices, std::future::pending()));
    let client = TraceClient::connect(format!("http://{address}")).await;
    Running {
        handle,
        switch,
        client: client.expect("connected"),
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
    }
}

fn request(packets: u64, port: &[u32]) -> proto::WatchRequest {
    proto::WatchRequest {
        device_id: 3,
        port: port.to_vec(),
        packets,
    }
}

#[tokio::test]
async fn a_stream_has_the_visits_of_so_many_packets_and_ends() {
    let mut running = start().await;
    let stream = running.client.watch(request(2, &[510])).await;
    let mut stream = stream.expect("accepted").into_inner();
    for n in 0..3 {
        let packet_out = move |switch: &mut Switch| {
            switch.packet_out(vec![n; 60]);
        };
        running
            .handle
            .post(running.switch, packet_out)
            .expect("running");
    }
    let mut visits = Vec::new();
    let all = async {
        while let Some(visit) = stream.message().await.expect("no error") {
            visits.push(visit);
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("it ends");
    let packets: Vec<_> = visits.iter().map(|v| v.packet_id).collect();
    assert_eq!(packets, [1, 2]);
    let events = &visits[1].events;
    let Some(Event::Enters(enters)) = &events[0].event else {
        panic!("{events:?}");
    };
    assert_eq!((enters.port, &*enters.frame), (510, &[1; 60][..]));
    assert!(events[0].text.starts_with("in at port 510: 60 bytes 0101"));
    let last = events.last().and_then(|e| e.event.as_ref());
    let dropped = Event::Dropped("ingress-mark-to-drop".into());
    assert_eq!(last, Some(&dropped));
}

#[tokio::test]
async fn wrong_requests_and_too_many_are_refused() {
    let mut running = start().await;
    let client = &mut running.client;
    let error = client
        .watch(request(1, &[70_000]))
        .await
        .expect_err("refused");
    assert_eq!(error.code(), Code::OutOfRange);
    assert!(error.message().contains("port 70000"), "{error}");
    let other = proto::WatchRequest {
        device_id: 4,
        ..Default::default()
    };
    assert!(client.watch(other).await.is_err());
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(client.watch(request(0, &[])).await.expect("accepted"));
    }
    let error = client.watch(request(0, &[])).await.expect_err("refused");
    assert_eq!(error.code(), Code::ResourceExhausted);
}
