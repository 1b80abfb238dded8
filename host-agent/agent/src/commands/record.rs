//! The lines that the agent prints: `docs/agent-records.md`.

use std::io::Write;
use std::sync::OnceLock;
use std::sync::mpsc;
use std::time::Duration;

use ebb_printable::printable_json;
use serde_json::{Map, Value};

/// Prints a line about an event. It has the fields of all `parts`, each of which is a JSON object.
pub fn print(event: &str, parts: impl IntoIterator<Item = Value>) {
    print_line(line(event, parts));
}

/// The line that [`print`] prints.
pub fn line(event: &str, parts: impl IntoIterator<Item = Value>) -> String {
    let mut fields = Map::from_iter([("event".to_owned(), event.into())]);
    for part in parts {
        if let Value::Object(part) = part {
            fields.extend(part);
        }
    }
    printable_json(&Value::Object(fields).to_string()).into_owned()
}

/// Waits until all lines are written, for a bounded time: a reader that has stopped reading must
/// not keep the agent from ending.
pub fn finish() {
    if let Some(lines) = LINES.get() {
        let (done, written) = mpsc::channel();
        if lines.send(Order::Confirm(done)).is_ok() && written.recv_timeout(LAST_LINES).is_err() {
            tracing::warn!("nobody reads what this agent prints: its last lines are lost");
        }
    }
}

/// An order to the thread that writes: a slow reader delays this thread and not the flows.
enum Order {
    Write(String),
    /// Channel that is notified when all lines before this are written.
    Confirm(mpsc::Sender<()>),
}

static LINES: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
/// How long an agent that ends waits for its last lines to be read.
const LAST_LINES: Duration = Duration::from_secs(1);

fn write_all(orders: &mpsc::Receiver<Order>) {
    for order in orders {
        match order {
            Order::Write(text) => {
                // An error: the reader has ended.
                let mut out = std::io::stdout().lock();
                let _ = writeln!(out, "{text}").and_then(|()| out.flush());
            }
            Order::Confirm(written) => {
                let _ = written.send(());
            }
        }
    }
}

fn print_line(text: String) {
    let lines = LINES.get_or_init(|| {
        let (sender, orders) = mpsc::channel();
        std::thread::spawn(move || write_all(&orders));
        sender
    });
    let _ = lines.send(Order::Write(text));
}
