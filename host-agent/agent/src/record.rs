//! The lines that the agent prints: `docs/agent-records.md`.

use std::io::Write;
use std::net::SocketAddrV4;

use ebb_transport::object::EnvelopeHeader;
use ebb_transport::{FlowRecord, Status};
use serde::Serialize;

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line<'a> {
    /// The agent listens.
    Ready {
        scheme: &'a str,
        local: SocketAddrV4,
    },
    /// A flow has ended.
    Flow {
        /// `null` if the flow failed before the receiver knew.
        name: Option<&'a str>,
        /// Bytes of the content; `null` as above.
        object_bytes: Option<u64>,
        /// Receiver: whether the content has the announced hash; `null` if not all arrived.
        sha256_ok: Option<bool>,
        #[serde(flatten)]
        record: &'a FlowRecord,
    },
}

pub fn print_ready(scheme: &str, local: SocketAddrV4) {
    print(&Line::Ready { scheme, local });
}

pub fn print_flow(envelope: Option<&EnvelopeHeader>, sha256_ok: Option<bool>, record: &FlowRecord) {
    print(&Line::Flow {
        name: envelope.map(|envelope| envelope.name.as_str()),
        object_bytes: envelope.map(|envelope| envelope.content_bytes),
        sha256_ok,
        record,
    });
}

pub fn has_failed(record: &FlowRecord) -> bool {
    record.status != Status::Finished
}

fn print(line: &Line<'_>) {
    let text = serde_json::to_string(line)
        .unwrap_or_else(|error| format!("{{\"event\":\"error\",\"reason\":\"{error}\"}}"));
    // Nobody reads any more: nothing can be told to anybody.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}
