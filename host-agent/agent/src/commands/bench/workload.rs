//! `ebb-agent bench --workload`: this host's share of a workload, over the local API.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, ensure};
use ebb_host::{ObjectNames, PlayedFlow, PlayedTransfer, TrafficTransports};
use ebb_transport::TransportKind;
use ebb_units::Duration;
use ebb_workload::{Action, HostId, Open, Part, Pattern, ReadMode, Schedule, Transfer, Workload};
use serde_json::{Value, json};

use super::args::{BenchArgs, WorkloadArgs};
use super::is_good;
use super::results::{Results, Times};
use super::runner::Runner;
use crate::api::client::{Client, Waited};
use crate::api::message::{
    Disposition, Ending, Event, FetchObject, Generate, Listen, Operation, Outcome, Peer, Reply,
    SendObject, ToClient,
};
use crate::commands::record;
use crate::commands::session::{self, Needs};
use crate::machine::clock;

/// A schedule may be longer than what fits into a duration: it looks again after an hour.
const LONGEST_WAIT_NS: u64 = 3_600_000_000_000;

/// Flows to one host at a time that a host's share of a workload may come to.
const MOST_FLOWS: u16 = 512;

/// Whether everything that concerns this host went well.
pub fn run(args: &BenchArgs, path: &Path) -> anyhow::Result<bool> {
    let name = args.workload.me.as_deref();
    let name = name.context("--self is missing: give the name of this host in the workload")?;
    let share = HostShare::open(args, path, "--self", name)?;
    let flows: Vec<_> = share
        .transports
        .all()
        .map(|transport| (transport, MOST_FLOWS))
        .collect();
    let needs = Needs {
        linger: true,
        gateways: true,
        own_port: false,
        flows: &flows,
    };
    session::run(&args.common.engine, needs, |client| {
        share.run(client, &args.workload)
    })
}

/// The share of a host, or of a virtual machine, that has been found possible.
pub struct HostShare {
    workload: Workload,
    schedule: Schedule,
    me: HostId,
    pub transports: TrafficTransports,
}

impl HostShare {
    /// Reads the workload; `name`: who plays this share of it, which `named_by` says.
    pub fn open(args: &BenchArgs, path: &Path, named_by: &str, name: &str) -> anyhow::Result<Self> {
        let (workload, schedule) = args.workload.file.open(path)?;
        let me = schedule.hosts().find(name).with_context(|| {
            format!("{named_by} {name}: the workload has no such host; it needs the name, e.g. h1")
        })?;
        let transports = TrafficTransports {
            default: args.common.transport,
            of_traffic: args.workload.transport_of.iter().cloned().collect(),
        };
        check(&workload, &schedule, &transports)?;
        Ok(HostShare {
            workload,
            schedule,
            me,
            transports,
        })
    }

    /// Addresses of all hosts of the workload, in their order.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        let hosts = self.schedule.hosts();
        hosts.ids().filter_map(|id| hosts.get(id).address)
    }

    /// Plays the share as a client. Whether everything went well.
    pub fn run(self, client: Client, args: &WorkloadArgs) -> anyhow::Result<bool> {
        let (schedule, me, transports) = (self.schedule, self.me, self.transports);
        Run::new(client, schedule, &self.workload, me, transports, args)?.run()
    }
}

/// Refuses a workload that is known to be impossible before anything is tried.
fn check(
    workload: &Workload,
    schedule: &Schedule,
    transports: &TrafficTransports,
) -> anyhow::Result<()> {
    for id in schedule.hosts().ids() {
        let host = schedule.hosts().get(id);
        let name = &host.name;
        ensure!(host.address.is_some(), "host {name} has no `address`");
    }
    for name in transports.of_traffic.keys() {
        ensure!(
            workload.traffic.iter().any(|traffic| traffic.name == *name),
            "--transport-of {name}: the workload has no traffic of this name"
        );
    }
    for traffic in &workload.traffic {
        let transport = transports.of(&traffic.name);
        if let Pattern::StorageRead { mode, replicas, .. } = &traffic.pattern {
            ensure!(
                *mode != ReadMode::ManyToOne || *replicas <= 1 || transport.entry().many_to_one,
                "traffic {}: {transport} has no flows from several hosts, {} have; choose mode = \"nearest\"",
                traffic.name,
                TransportKind::many_to_one_names()
            );
        }
    }
    Ok(())
}

struct Run<'a> {
    client: Client,
    runner: Runner,
    results: Results,
    args: &'a WorkloadArgs,
    me: HostId,
    transports: TrafficTransports,
    link_rate_bps: f64,
    /// The time of CLOCK_MONOTONIC that the schedule calls 0, in ns.
    epoch_ns: u64,
    /// Requests without an answer yet, and what each is for.
    asked: BTreeMap<u64, Asked>,
    /// Times of the transfers of this host, by number in the workload, from the first flow of each that
    /// has begun or ended until the transfer ends.
    times: BTreeMap<u64, Times>,
    /// Another host has reported that it runs another workload.
    warned: bool,
}

#[derive(Clone, Copy)]
enum Asked {
    /// That the transfer with this number in the workload starts.
    Start(u64),
    /// That others may fetch the object of this transfer.
    Offer(u64),
    Withdraw,
}

impl<'a> Run<'a> {
    fn new(
        mut client: Client,
        schedule: Schedule,
        workload: &Workload,
        me: HostId,
        transports: TrafficTransports,
        args: &'a WorkloadArgs,
    ) -> anyhow::Result<Self> {
        let host = schedule.hosts().get(me);
        ensure!(
            client.greeting["address"] == json!(host.address),
            "--self {}: it has {} in the list of hosts, but here is {}",
            host.name,
            json!(host.address),
            client.greeting["address"]
        );
        let mut local = Vec::new();
        for transport in transports.all() {
            let listen = Listen {
                overwrite: false,
                transport,
                port: None,
                into: Disposition::Discard,
                announce: true,
                progress: false,
            };
            let listening = client.call(Operation::Listen(listen), None)?;
            local.push(listening["local"].clone());
        }
        let epoch_ns = args.start_at_ns.context("--start-at-ns is missing")?;
        let fingerprint = workload.fingerprint();
        let ready = json!({
            "scheme": transports.default,
            "local": local[0],
            "host": host.name,
            "workload": format!("{fingerprint:016x}"),
        });
        record::print("ready", [ready]);
        Ok(Self {
            client,
            runner: Runner::new(
                schedule,
                ObjectNames::new(fingerprint),
                me,
                epoch_ns,
                args.lead_ns,
            ),
            results: Results::default(),
            args,
            me,
            transports,
            link_rate_bps: workload.link_rate_bps,
            epoch_ns,
            asked: BTreeMap::new(),
            times: BTreeMap::new(),
            warned: false,
        })
    }

    fn run(mut self) -> anyhow::Result<bool> {
        let stopped = loop {
            let now_ns = clock::now().as_nanos();
            while let Some(action) = self.runner.poll_action(now_ns) {
                self.act(action)?;
            }
            self.not_started();
            let gives_up = self.runner.gives_up_at_ns(self.args.patience_ns);
            if self.runner.is_done() || gives_up.is_some_and(|at_ns| at_ns <= now_ns) {
                break false;
            }
            let deadline = self.runner.next_deadline_ns().into_iter().chain(gives_up);
            let patience = deadline.min().map(|at_ns| {
                let left_ns = at_ns.saturating_sub(now_ns);
                Duration::from_nanos(left_ns.min(LONGEST_WAIT_NS))
            });
            match self.client.wait(patience)? {
                Waited::Message(ToClient::Event(event)) => self.event(event),
                Waited::Message(ToClient::Reply(reply)) => self.reply(reply),
                Waited::TimedOut => {}
                Waited::Ended => break true,
            }
        };
        self.finish(stopped);
        Ok(!stopped && self.results.is_good())
    }

    fn act(&mut self, action: Action) -> anyhow::Result<()> {
        let (operation, asked) = match action {
            Action::Send { transfer, at_ns } => {
                let transport = self.transports.of(&transfer.traffic);
                let send = SendObject {
                    transport,
                    to: self.addresses(&transfer.destinations),
                    name: self.name(transfer.id),
                    generate: Some(generate(&transfer)),
                    priority: transfer.priority,
                    connection: transfer.connection,
                    group: None,
                    // A transport without groups has a flow to each.
                    unicast: !transport.entry().groups,
                    start_at_ns: Some(at_ns),
                    progress: false,
                };
                (Operation::Send(send), Asked::Start(transfer.id))
            }
            Action::Fetch { transfer } => {
                let asked_at_ns = clock::now().as_nanos();
                let times = Times {
                    started_at_ns: asked_at_ns,
                    finished_at_ns: asked_at_ns,
                };
                self.times.insert(transfer.id, times);
                let fetch = FetchObject {
                    transport: self.transports.of(&transfer.traffic),
                    name: self.name(transfer.id),
                    from: self.addresses(&transfer.sources),
                    priority: transfer.priority,
                    connection: transfer.connection,
                    timeout_ms: Some(self.args.patience_ns / 1_000_000),
                    overwrite: false,
                    progress: false,
                };
                (Operation::Fetch(fetch), Asked::Start(transfer.id))
            }
            Action::Offer { transfer } => {
                let name = self.name(transfer.id);
                let generate = Some(generate(&transfer));
                (
                    Operation::Offer { name, generate },
                    Asked::Offer(transfer.id),
                )
            }
            Action::Withdraw { id } => {
                let name = self.name(id);
                (Operation::Withdraw { name }, Asked::Withdraw)
            }
        };
        let request = self.client.submit(operation)?;
        self.asked.insert(request, asked);
        Ok(())
    }

    fn name(&self, id: u64) -> String {
        self.runner.player.names.of(id)
    }

    fn addresses(&self, ids: &[HostId]) -> Vec<Peer> {
        let hosts = self.runner.schedule().hosts();
        let addresses = ids.iter().filter_map(|&id| hosts.get(id).address);
        addresses
            .map(|address| Peer {
                address,
                port: None,
            })
            .collect()
    }

    fn reply(&mut self, reply: Reply) {
        let asked = self.asked.remove(&reply.id);
        match (asked, reply.result) {
            (Some(Asked::Start(id)), Outcome::Ok(value)) => {
                if let Some(transfer) = value["transfer"].as_u64() {
                    self.runner.player.handle_started(transfer, id);
                }
            }
            (Some(Asked::Start(id) | Asked::Offer(id)), Outcome::Error(error)) => {
                let now_ns = clock::now().as_nanos();
                let player = &mut self.runner.player;
                let ended = player.handle_failed(now_ns, id, error.to_string());
                self.transfer_ended(now_ns, ended);
            }
            (Some(Asked::Withdraw), Outcome::Error(error)) => {
                tracing::debug!("withdraw: {error}");
            }
            _ => {}
        }
    }

    fn event(&mut self, event: Event) {
        let now_ns = clock::now().as_nanos();
        let player = &mut self.runner.player;
        match event {
            Event::Incoming { name, .. } => player.handle_incoming(now_ns, &name),
            Event::Flow { transfer, record } => self.flow(now_ns, transfer, record),
            Event::End { transfer, ending } => {
                let failure = match ending {
                    Ending::Finished => None,
                    Ending::Failed(reason) => Some(reason),
                };
                let ended = player.handle_end(now_ns, transfer, failure);
                self.transfer_ended(now_ns, ended);
            }
            Event::Progress { .. } => {}
        }
    }

    /// A flow has ended. Transfers that this host started end with [`Event::End`].
    fn flow(&mut self, now_ns: u64, daemon_transfer: u64, record: Value) {
        let good = is_good(&record);
        let name = record["name"].as_str();
        let player = &mut self.runner.player;
        let PlayedFlow { open, ended } = player.handle_flow(now_ns, daemon_transfer, name, good);
        self.warn_of_another_run(&record);
        let transfer = open.as_ref().map(|open| {
            let ends_at_ns = record["finished_at_ns"].as_u64();
            let starts_at_ns = record["started_at_ns"].as_u64();
            if let (Part::Start, Some(started), Some(finished)) =
                (open.part, starts_at_ns, ends_at_ns)
            {
                let times = self.times.entry(open.transfer.id).or_insert(Times {
                    started_at_ns: started,
                    finished_at_ns: finished,
                });
                times.finished_at_ns = times.finished_at_ns.max(finished);
            }
            let times = self.times.get(&open.transfer.id);
            let started_at_ns = times.map(|times| times.started_at_ns);
            json!(open.fields(started_at_ns, ends_at_ns.filter(|_| good)))
        });
        record::print("flow", transfer.into_iter().chain([record]));
        if let Some(open) = open.filter(|_| ended) {
            self.results.ended(&open, good, now_ns, None);
        }
    }

    /// Hosts that do not run the same schedule would wait for each other in vain.
    fn warn_of_another_run(&mut self, record: &Value) {
        let is_of_a_run = |name: &str| {
            let digits = name.strip_prefix('w').and_then(|rest| rest.split_once('-'));
            digits.is_some_and(|(digits, _)| u64::from_str_radix(digits, 16).is_ok())
        };
        let name = record["name"].as_str().unwrap_or_default();
        if is_of_a_run(name) && self.runner.player.names.transfer(name).is_none() && !self.warned {
            self.warned = true;
            tracing::warn!(
                "{} runs another workload than this host (`{name}` is none of it): give all hosts \
                 the same files, --seed and --duration-ns",
                record["peer"]
            );
        }
    }

    /// A transfer has ended that this host started, or was to start.
    fn transfer_ended(&mut self, now_ns: u64, ended: Option<PlayedTransfer>) {
        let Some(PlayedTransfer {
            open,
            good,
            unreported,
        }) = ended
        else {
            return;
        };
        let times = self.times.remove(&open.transfer.id);
        if let Some(reason) = unreported {
            self.print_transfer(&open, "failed", &reason);
        }
        self.results.ended(&open, good, now_ns, times);
    }

    /// Tells of transfers that will never start.
    fn not_started(&mut self) {
        for open in self.runner.player.share.take_not_started() {
            self.print_transfer(&open, "not-started", &open.not_started());
            self.results.not_started(&open);
        }
    }

    fn print_transfer(&self, open: &Open, status: &str, reason: &str) {
        let status = json!({"status": status, "reason": reason});
        record::print("transfer", [json!(open.fields(None, None)), status]);
    }

    fn finish(&mut self, stopped: bool) {
        self.not_started();
        let open = self.runner.player.share.take_rest();
        for open in &open {
            self.print_transfer(open, "unfinished", &open.unfinished());
        }
        self.results.rest(&open);
        let host = json!({
            "host": self.runner.schedule().hosts().get(self.me).name,
            "scheme": self.transports.default,
            "stopped": stopped,
        });
        let base_rtt_ns = self.args.base_rtt_ns;
        let summary = self
            .results
            .summary(self.link_rate_bps, base_rtt_ns, self.epoch_ns);
        record::print("summary", [host, summary]);
    }
}

/// The same bytes at every host that has them.
fn generate(transfer: &Transfer) -> Generate {
    Generate {
        bytes: transfer.bytes,
        seed: transfer.id,
    }
}
