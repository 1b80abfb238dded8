//! Output of a command: a line per flow, for people on a terminal and as JSON otherwise, and a
//! progress bar on a terminal.

use std::fmt;
use std::io::{IsTerminal, Write};
use std::net::SocketAddrV4;
use std::sync::Mutex;
use std::time::Duration;

use ebb_printable::printable;
use ebb_transport::TransportKind;
use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use serde_json::{Value, json};

use crate::commands::record;
use crate::machine::lock::lock;

/// Environment variable: how many times slower than nominal the network runs. Lines for people are then in nominal
/// units; JSON has what was measured.
const DILATION_VARIABLE: &str = "EBB_DILATION";

pub struct Output {
    json: bool,
    /// How many times slower than nominal the network runs, for lines for people.
    dilation: f64,
    /// Lines go to stderr, because the content goes to stdout.
    to_stderr: bool,
    wants_progress: bool,
    /// The progress bar; `None` while nothing is under way.
    bar: Mutex<Option<ProgressBar>>,
}

impl Output {
    /// `json`: also on a terminal.
    pub fn new(json: bool) -> Self {
        Output {
            json: json || !std::io::stdout().is_terminal(),
            dilation: dilation(std::env::var(DILATION_VARIABLE).ok().as_deref()),
            to_stderr: false,
            wants_progress: !json && std::io::stderr().is_terminal(),
            bar: Mutex::new(None),
        }
    }

    /// For a command whose stdout gets the content.
    pub fn on_stderr(json: bool) -> Self {
        Output {
            json: json || !std::io::stderr().is_terminal(),
            to_stderr: true,
            ..Output::new(json)
        }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line for people.
    pub fn text(&self, line: &str) {
        self.print(line.to_owned());
    }

    pub fn wants_progress(&self) -> bool {
        self.wants_progress
    }

    /// Tells of an event: as a line of JSON with the fields of `parts`, or with `text` for people.
    pub fn report(
        &self,
        event: &str,
        parts: impl IntoIterator<Item = Value>,
        text: impl FnOnce() -> String,
    ) {
        match (self.json, self.to_stderr) {
            (true, false) => record::print(event, parts),
            (true, true) => {
                // A closed stderr must not turn an error into a panic.
                let _ = writeln!(std::io::stderr(), "{}", record::line(event, parts));
            }
            (false, _) => self.print(text()),
        }
    }

    pub fn ready(&self, transport: TransportKind, local: SocketAddrV4) {
        let ready = json!({"scheme": transport, "local": local});
        self.report("ready", [ready], || {
            format!("listening for {transport} on {local}")
        });
    }

    pub fn flow(&self, flow: &Value) {
        self.report("flow", [flow.clone()], || describe(flow, self.dilation));
    }

    pub fn progress(&self, name: &str, done_bytes: u64, total_bytes: Option<u64>) {
        if !self.wants_progress {
            return;
        }
        let mut bar = lock(&self.bar);
        let bar = bar.get_or_insert_with(|| new_bar(total_bytes, self.dilation));
        if let Some(total) = total_bytes {
            bar.set_length(total);
        }
        bar.set_message(printable(name).into_owned());
        bar.set_position(done_bytes);
    }

    /// Removes the progress bar of a transfer that has ended.
    pub fn end(&self) {
        if let Some(bar) = lock(&self.bar).take() {
            bar.finish_and_clear();
        }
    }

    /// Prints a transfer that failed without a flow whose line would show it.
    pub fn failed(&self, name: &str, reason: &str) {
        let (name, reason) = (printable(name), printable(reason));
        let _ = writeln!(std::io::stderr(), "ebb-agent: {name}: {reason}");
    }

    fn print(&self, line: String) {
        let line = printable(&line);
        let print = || {
            if self.to_stderr {
                let _ = writeln!(std::io::stderr(), "{line}");
            } else {
                let _ = writeln!(std::io::stdout(), "{line}");
            }
        };
        match &*lock(&self.bar) {
            Some(bar) => bar.suspend(print),
            None => print(),
        }
    }
}

/// Rate and remaining time are those of the mean since the beginning: what the last fifth of a
/// second brought says little.
fn new_bar(total_bytes: Option<u64>, dilation: f64) -> ProgressBar {
    let (bar, template) = match total_bytes {
        Some(total) => (
            ProgressBar::new(total),
            "{msg} {wide_bar} {percent:>3} % {bytes}/{total_bytes} {rate} ETA {left}",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {msg} {bytes} {rate}"),
    };
    let style = ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .with_key(
            "rate",
            move |state: &ProgressState, out: &mut dyn fmt::Write| {
                let nominal = mean_rate(state) * dilation;
                let _ = write!(out, "{}/s", HumanBytes(nominal as u64));
            },
        )
        .with_key("left", |state: &ProgressState, out: &mut dyn fmt::Write| {
            let rest = state.len().unwrap_or(0).saturating_sub(state.pos());
            let seconds = rest as f64 / mean_rate(state).max(1.0);
            let _ = write!(
                out,
                "{}",
                HumanDuration(Duration::from_secs(seconds as u64))
            );
        });
    bar.with_style(style)
}

/// Bytes per second.
fn mean_rate(state: &ProgressState) -> f64 {
    state.pos() as f64 / state.elapsed().as_secs_f64().max(1e-3)
}

/// How many times slower than nominal the network runs; 1 where nobody says so.
fn dilation(text: Option<&str>) -> f64 {
    let given = text.and_then(|text| text.parse::<f64>().ok());
    given.filter(|d| d.is_finite() && *d > 0.0).unwrap_or(1.0)
}

/// From how many bytes on the mean rate says something: a few packets take as long as the round
/// trip, whatever the rate.
const LEAST_RATED_BYTES: f64 = 100_000.0;

/// Summary of a flow in one line for people, in nominal units.
fn describe(flow: &Value, dilation: f64) -> String {
    let text = |key: &str| flow[key].as_str().unwrap_or("?").to_owned();
    let (from, to) = match flow["role"].as_str() {
        Some("sender") => (text("local"), text("peer")),
        _ => (text("peer"), text("local")),
    };
    let name = flow["name"].as_str().unwrap_or("(no name yet)");
    let transport = text("scheme");
    if flow["status"] != "finished" {
        let reason = text("reason");
        return format!("{name}: {from} -> {to} by {transport} FAILED: {reason}");
    }
    let bytes = flow["object_bytes"].as_u64().unwrap_or(0);
    let seconds = flow["duration_ns"].as_f64().unwrap_or(0.0) / 1e9 / dilation;
    let rate = if seconds > 0.0 && bytes as f64 >= LEAST_RATED_BYTES {
        format!(", {:.1} Mbit/s", bytes as f64 * 8.0 / seconds / 1e6)
    } else {
        String::new()
    };
    let size = HumanBytes(bytes);
    format!(
        "{name}: {from} -> {to} by {transport}, {size} in {}{rate}",
        time(seconds)
    )
}

/// A time with three digits or more that say something.
fn time(seconds: f64) -> String {
    match seconds {
        ..0.001 => format!("{:.1} us", seconds * 1e6),
        0.001..0.1 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{seconds:.3} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_who_what_and_how_fast() {
        let mut flow = json!({
            "role": "sender", "scheme": "ndp", "local": "10.0.0.2:61000", "peer": "10.0.0.3:7000",
            "name": "a.bin", "object_bytes": 1_000_000, "duration_ns": 80_000_000,
            "status": "finished",
        });
        assert_eq!(
            describe(&flow, 1.0),
            "a.bin: 10.0.0.2:61000 -> 10.0.0.3:7000 by ndp, 976.56 KiB in 80.00 ms, 100.0 Mbit/s"
        );
        assert!(describe(&flow, 50.0).ends_with("976.56 KiB in 1.60 ms, 5000.0 Mbit/s"));
        flow["duration_ns"] = json!(2_500_000_000_u64);
        assert!(describe(&flow, 1.0).ends_with("976.56 KiB in 2.500 s, 3.2 Mbit/s"));
        // A small object took as long as its packets were on the way, which is no rate.
        flow["object_bytes"] = json!(6_042);
        flow["duration_ns"] = json!(142_800);
        assert!(describe(&flow, 1.0).ends_with("5.90 KiB in 142.8 us"));
        flow["object_bytes"] = json!(1_000_000);
        flow["role"] = json!("receiver");
        flow["name"] = Value::Null;
        flow["status"] = json!("failed");
        flow["reason"] = json!("silence");
        assert_eq!(
            describe(&flow, 1.0),
            "(no name yet): 10.0.0.3:7000 -> 10.0.0.2:61000 by ndp FAILED: silence"
        );
    }

    #[test]
    fn a_network_is_as_fast_as_nominal_unless_a_number_says_otherwise() {
        for (text, expected) in [
            (None, 1.0),
            (Some("50"), 50.0),
            (Some("0"), 1.0),
            (Some("nan"), 1.0),
            (Some("fast"), 1.0),
        ] {
            assert_eq!(dilation(text), expected, "{text:?}");
        }
    }
}
