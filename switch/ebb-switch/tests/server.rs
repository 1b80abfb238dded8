//! A running switch, as its clients see it.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::stream_message_request::Update;
use ebb_testkit::{PATIENCE, wait_until};
use tonic::transport::{Channel, Endpoint};

pub const SWITCH: &str = env!("CARGO_BIN_EXE_ebb-switch");
pub const ELECTION: p4::Uint128 = p4::Uint128 { high: 0, low: 1 };

/// Waits until somebody listens there.
pub fn wait_until_it_listens(address: &str) {
    wait_until("the switch listens", || TcpStream::connect(address).is_ok());
}

/// Connects as soon as somebody listens there: `http://ADDRESS` or `unix:PATH`.
pub async fn connect(uri: String) -> Channel {
    let endpoint = Endpoint::from_shared(uri).expect("an address");
    let end = Instant::now() + PATIENCE;
    loop {
        match endpoint.connect().await {
            Ok(channel) => return channel,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// With this a controller becomes the primary one.
pub fn arbitration() -> p4::StreamMessageRequest {
    let update = p4::MasterArbitrationUpdate {
        election_id: Some(ELECTION),
        ..Default::default()
    };
    p4::StreamMessageRequest {
        update: Some(Update::Arbitration(update)),
    }
}
