//! The lines that the agent prints: `docs/agent-records.md`.

use std::io::Write;
use std::net::SocketAddrV4;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;

use ebb_printable::printable_json;
use ebb_transport::Scheme;
use serde::Serialize;
use serde_json::Value;

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line<'a> {
    /// The agent listens.
    Ready { scheme: Scheme, local: SocketAddrV4 },
    /// A flow has ended.
    Flow {
        #[serde(flatten)]
        record: &'a Value,
    },
}

pub fn print_ready(scheme: Scheme, local: SocketAddrV4) {
    print_line(to_text(&Line::Ready { scheme, local }));
}

pub fn print_flow(record: &Value) {
    print_line(to_text(&Line::Flow { record }));
}

/// Any other line.
pub fn print_json(line: &Value) {
    print_line(line.to_string());
}

/// The line of a flow.
pub fn flow_line(record: &Value) -> String {
    printable_json(&to_text(&Line::Flow { record })).into_owned()
}

/// Waits until all lines are written, for a bounded time: a reader that has stopped reading must
/// not keep the agent from ending.
pub fn finish() {
    if let Some(lines) = LINES.get() {
        let (tell, written) = mpsc::channel();
        if lines.send(Order::Tell(tell)).is_ok() && written.recv_timeout(LAST_LINES).is_err() {
            tracing::warn!("nobody reads what this agent prints: its last lines are lost");
        }
    }
}

/// For the thread that writes, so that a slow reader does not hold up the flows.
enum Order {
    Write(String),
    /// Everything before this is written.
    Tell(mpsc::Sender<()>),
}

static LINES: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
const LAST_LINES: Duration = Duration::from_secs(1);

fn write_all(orders: &mpsc::Receiver<Order>) {
    for order in orders {
        match order {
            Order::Write(text) => {
                // Nobody reads any more: nothing can be told to anybody.
                let mut out = std::io::stdout().lock();
                let _ = writeln!(out, "{text}").and_then(|()| out.flush());
            }
            Order::Tell(written) => {
                let _ = written.send(());
            }
        }
    }
}

fn to_text(line: &Line<'_>) -> String {
    serde_json::to_string(line)
        .unwrap_or_else(|error| format!("{{\"event\":\"error\",\"reason\":\"{error}\"}}"))
}

fn print_line(text: String) {
    let lines = LINES.get_or_init(|| {
        let (sender, orders) = mpsc::channel();
        std::thread::spawn(move || write_all(&orders));
        sender
    });
    let _ = lines.send(Order::Write(printable_json(&text).into_owned()));
}
