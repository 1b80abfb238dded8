//! `ebb-agent bench HOST`: objects to or from one host, one after another, as fast as they go.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use ebb_transport::TransportKind;
use ebb_units::{Duration, Instant};
use serde_json::{Value, json};

use super::args::{BenchArgs, PointArgs};
use super::is_good;
use super::summary::Spread;
use crate::api::client::{Client, Waited};
use crate::api::message::{
    Ending, Event, FetchObject, Generate, Operation, Outcome, Peer, SendObject, ToClient,
};
use crate::commands::output::Output;
use crate::commands::record;
use crate::commands::session::{self, Needs};
use crate::machine::clock;

/// Duration of a bench without --seconds and --count.
const DEFAULT_SECONDS: f64 = 10.0;

/// Whether every object arrived.
pub fn run(args: &BenchArgs, host: Peer) -> anyhow::Result<bool> {
    let seconds = args.point.seconds.unwrap_or(DEFAULT_SECONDS);
    ensure!(
        seconds > 0.0 && seconds <= 86_400.0,
        "--seconds {seconds}: above 0, at most 86400"
    );
    let end = match args.point.count {
        Some(count) => End::After(count),
        None => End::At(clock::now() + Duration::from_nanos((seconds * 1e9) as u64)),
    };
    let output = Output::new(args.common.engine.json);
    let needs = Needs {
        linger: args.point.fetch.is_some(),
        flows: &[(args.common.transport, args.point.parallel)],
        ..Needs::default()
    };
    session::run(&args.common.engine, needs, |client| {
        Bench::new(client, args.common.transport, host, &args.point, end).run(&output)
    })
}

/// When no further object is begun.
#[derive(Clone, Copy)]
enum End {
    /// At this time.
    At(Instant),
    /// After this many objects of each parallel flow.
    After(u64),
}

struct Bench<'a> {
    client: Client,
    transport: TransportKind,
    host: Peer,
    args: &'a PointArgs,
    end: End,
    /// Objects that each of the parallel flows has begun.
    begun: Vec<u64>,
    /// Requests without an answer yet, each with the parallel flow that it is for.
    asked: BTreeMap<u64, usize>,
    /// Transfers under way, each with the parallel flow that it is of.
    open: BTreeMap<u64, usize>,
    result: Totals,
}

/// Outcome of the objects of all parallel flows.
#[derive(Default)]
struct Totals {
    objects: u64,
    failed: u64,
    content_bytes: u64,
    /// When the first object started, in ns of CLOCK_MONOTONIC. `None`: no object has ended.
    first_ns: Option<u64>,
    /// When the last object ended, in ns of CLOCK_MONOTONIC.
    last_ns: u64,
    /// How long each object took that arrived, in ns.
    times_ns: Vec<f64>,
    /// Sums over all flows, by their names in a record.
    counters: BTreeMap<&'static str, u64>,
    /// Address and port of the other host. `None`: no flow has ended.
    peer: Option<String>,
    /// Why the first object failed that did. `None`: none has failed.
    reason: Option<String>,
}

/// The counters of a record that say how much work and trouble there was.
const COUNTERS: [&str; 7] = [
    "packets_sent",
    "retransmitted",
    "trimmed",
    "repair_symbols",
    "timeouts",
    "ce_marks",
    "decodes",
];

impl Totals {
    fn add(&mut self, record: &Value) {
        let number = |key: &str| record[key].as_u64().unwrap_or(0);
        let started_ns = number("started_at_ns");
        self.first_ns = Some(self.first_ns.map_or(started_ns, |ns| ns.min(started_ns)));
        self.last_ns = self.last_ns.max(number("finished_at_ns"));
        for key in COUNTERS {
            *self.counters.entry(key).or_default() += number(key);
        }
        if let Some(peer) = record["peer"].as_str() {
            self.peer.get_or_insert_with(|| peer.to_owned());
        }
        if is_good(record) {
            self.objects += 1;
            self.content_bytes += number("object_bytes");
            self.times_ns.push(number("duration_ns") as f64);
        }
    }

    fn goodput_bps(&self) -> Option<f64> {
        let elapsed_ns = self.last_ns.checked_sub(self.first_ns?)?;
        (elapsed_ns > 0).then(|| self.content_bytes as f64 * 8e9 / elapsed_ns as f64)
    }
}

impl<'a> Bench<'a> {
    fn new(
        client: Client,
        transport: TransportKind,
        host: Peer,
        args: &'a PointArgs,
        end: End,
    ) -> Self {
        Bench {
            client,
            transport,
            host,
            args,
            end,
            begun: vec![0; args.parallel.into()],
            asked: BTreeMap::new(),
            open: BTreeMap::new(),
            result: Totals::default(),
        }
    }

    fn run(mut self, output: &Output) -> anyhow::Result<bool> {
        // Processor time is known only if the engine runs in this process.
        let in_process = self.client.greeting["pid"] == std::process::id();
        let cpu_before_ns = clock::process_cpu_ns();
        let began = clock::now();
        for slot in 0..self.begun.len() {
            self.begin(slot)?;
        }
        let mut stopped = false;
        while !self.asked.is_empty() || !self.open.is_empty() {
            match self.client.wait(None)? {
                Waited::Message(ToClient::Reply(reply)) => {
                    let slot = self.asked.remove(&reply.id);
                    match (slot, reply.result) {
                        (Some(slot), Outcome::Ok(value)) => {
                            let transfer = value["transfer"].as_u64();
                            let transfer = transfer.context("the daemon gave no number")?;
                            self.open.insert(transfer, slot);
                        }
                        // A transfer that cannot begin now cannot later either.
                        (Some(_), Outcome::Error(error)) => return Err(error.into()),
                        (None, _) => {}
                    }
                }
                Waited::Message(ToClient::Event(event)) => self.event(event, output)?,
                Waited::TimedOut => {}
                Waited::Ended => {
                    stopped = true;
                    break;
                }
            }
        }
        let cpu_ns = clock::process_cpu_ns() - cpu_before_ns;
        let elapsed_ns = clock::now().since(began).as_nanos();
        let cores = in_process.then(|| cpu_ns as f64 / elapsed_ns as f64);
        self.show(output, cores, stopped);
        Ok(!stopped && self.result.failed == 0)
    }

    /// Starts the next object of one of the parallel flows, unless it is time to end.
    fn begin(&mut self, slot: usize) -> anyhow::Result<()> {
        let is_over = match self.end {
            End::At(at) => clock::now() >= at,
            End::After(count) => self.begun[slot] >= count,
        };
        if is_over {
            return Ok(());
        }
        let number = self.begun[slot];
        self.begun[slot] += 1;
        let operation = match &self.args.fetch {
            Some(name) => Operation::Fetch(FetchObject {
                transport: self.transport,
                name: name.clone(),
                from: vec![self.host],
                priority: self.args.priority,
                connection: None,
                timeout_ms: None,
                overwrite: false,
                progress: false,
            }),
            None => Operation::Send(SendObject {
                transport: self.transport,
                to: vec![self.host],
                name: format!("bench-{slot}-{number}.bin"),
                // The same content again and again, so that it is hashed once.
                generate: Some(Generate {
                    bytes: self.args.bytes,
                    seed: 0,
                }),
                priority: self.args.priority,
                connection: None,
                group: None,
                unicast: false,
                start_at_ns: None,
                progress: false,
            }),
        };
        let request = self.client.submit(operation)?;
        self.asked.insert(request, slot);
        Ok(())
    }

    fn event(&mut self, event: Event, output: &Output) -> anyhow::Result<()> {
        match event {
            Event::Flow { record, .. } => {
                self.result.add(&record);
                if output.is_json() {
                    output.flow(&record);
                }
            }
            Event::End { transfer, ending } => {
                let Some(slot) = self.open.remove(&transfer) else {
                    return Ok(());
                };
                match ending {
                    Ending::Finished => self.begin(slot)?,
                    // Its flow begins nothing more; the others continue.
                    Ending::Failed(reason) => {
                        self.result.failed += 1;
                        self.result.reason.get_or_insert(reason);
                    }
                }
            }
            Event::Incoming { .. } | Event::Progress { .. } => {}
        }
        Ok(())
    }

    fn show(&self, output: &Output, cores: Option<f64>, stopped: bool) {
        let result = &self.result;
        let mut times_ns = result.times_ns.clone();
        let times = Spread::of(&mut times_ns);
        let elapsed_ns = result.last_ns - result.first_ns.unwrap_or(result.last_ns);
        if output.is_json() {
            let bench = json!({
                "scheme": self.transport,
                "peer": result.peer,
                "direction": if self.args.fetch.is_some() { "fetch" } else { "send" },
                "parallel": self.args.parallel,
                "objects": result.objects,
                "failed": result.failed,
                "reason": result.reason,
                "stopped": stopped,
                "content_bytes": result.content_bytes,
                "elapsed_ns": elapsed_ns,
                "goodput_bps": result.goodput_bps(),
                "fct": times.map(|times| times.to_json("_ns")),
                "counters": result.counters,
                "cpu_cores": cores,
            });
            record::print("bench", [bench]);
            return;
        }
        let seconds = elapsed_ns as f64 / 1e9;
        let objects = result.objects;
        let megabytes = result.content_bytes as f64 / 1e6;
        let peer = result.peer.as_deref().unwrap_or("?");
        output.text(&format!(
            "{} with {peer}, {} at a time",
            self.transport, self.args.parallel
        ));
        if let Some(goodput_bps) = result.goodput_bps() {
            output.text(&format!(
                "  goodput     {:.1} Mbit/s: {objects} objects, {megabytes:.1} MB in {seconds:.2} s",
                goodput_bps / 1e6
            ));
        }
        if let Some(times) = times {
            output.text(&format!(
                "  completion  mean {:.3} ms, p50 {:.3}, p90 {:.3}, p99 {:.3}, max {:.3}",
                times.mean / 1e6,
                times.p50 / 1e6,
                times.p90 / 1e6,
                times.p99 / 1e6,
                times.max / 1e6
            ));
        }
        let counters: Vec<String> = result
            .counters
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(name, count)| format!("{} {count}", name.replace('_', " ")))
            .collect();
        output.text(&format!("  packets     {}", counters.join(", ")));
        if let Some(cores) = cores {
            output.text(&format!("  processor   {cores:.2} cores, this process"));
        }
        if let Some(reason) = &result.reason {
            output.text(&format!("  FAILED      {} flows: {reason}", result.failed));
        }
    }
}
