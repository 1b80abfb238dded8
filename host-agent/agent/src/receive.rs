//! `ebb-agent recv`.

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::ops::ControlFlow;
use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use ebb_transport::{Event, FlowId, FlowRecord, Status, Transport};
use ebb_units::Instant;

use crate::cli::RecvArgs;
use crate::objects::{Sink, remove_leftovers};
use crate::params::Params;
use crate::record::{has_failed, print_flow, print_ready};
use crate::runtime::{Application, Runtime};
use crate::transports::Transports;
use ebb_transport::Scheme;

struct Receiver {
    scheme: Scheme,
    dir: Option<PathBuf>,
    sinks: BTreeMap<FlowId, Sink>,
    ended: u64,
    failed: u64,
    count: Option<u64>,
    stopping: bool,
}

/// Serves until a signal or, with `--count`, until that many flows have ended. With `--count`:
/// whether all were good.
pub fn run(args: &RecvArgs) -> anyhow::Result<bool> {
    if let Some(dir) = &args.dir {
        let shown = dir.display();
        let metadata = std::fs::metadata(dir)
            .with_context(|| format!("cannot use the directory {shown}; create it first"))?;
        anyhow::ensure!(metadata.is_dir(), "{shown} is not a directory");
        remove_leftovers(dir).with_context(|| format!("cannot look through {shown}"))?;
    }
    let common = &args.common;
    let params = Params::read(common.params.as_deref())?;
    let mut runtime = Runtime::open(&common.interface, params, common.protocol_seed)?;
    runtime.hops().resolve_gateways()?;
    runtime.transports().listen(common.scheme, args.port)?;
    let scheme = args.common.scheme.to_possible_value();
    print_ready(
        scheme.as_ref().map_or("", |value| value.get_name()),
        SocketAddrV4::new(runtime.address(), args.port),
    );
    let mut receiver = Receiver {
        scheme: common.scheme,
        dir: args.dir.clone(),
        sinks: BTreeMap::new(),
        ended: 0,
        failed: 0,
        count: args.count,
        stopping: false,
    };
    runtime.run(&mut receiver)?;
    if receiver.count.is_some_and(|count| receiver.ended >= count) {
        runtime.linger(&mut receiver)?;
    }
    Ok(receiver
        .count
        .is_none_or(|count| receiver.ended >= count && receiver.failed == 0))
}

impl Receiver {
    fn end(&mut self, flow: FlowId, record: &FlowRecord, sha256_ok: Option<bool>) {
        let sink = self.sinks.remove(&flow);
        print_flow(sink.as_ref().and_then(Sink::envelope), sha256_ok, record);
        self.ended += 1;
        self.failed += u64::from(has_failed(record));
    }

    /// Everything was delivered; whether it is right is for the hash to say.
    fn finish(
        &mut self,
        now: Instant,
        flow: FlowId,
        mut record: FlowRecord,
        transport: &mut dyn Transport,
    ) {
        let Some(sink) = self.sinks.remove(&flow) else {
            return;
        };
        let envelope = sink.envelope().cloned();
        let result = sink.finish();
        if let Err(error) = &result {
            let reason = format!("{error:#}");
            transport.abort(now, flow, &reason);
            record.status = Status::Failed(reason);
        }
        print_flow(envelope.as_ref(), Some(result.is_ok()), &record);
        self.ended += 1;
        self.failed += u64::from(result.is_err());
    }
}

impl Application for Receiver {
    fn handle_event(
        &mut self,
        now: Instant,
        _: Scheme,
        event: Event,
        transport: &mut dyn Transport,
    ) -> ControlFlow<()> {
        match event {
            Event::Opened { flow, peer, .. } => {
                let unique = format!("{}-{}-{}", peer.ip(), std::process::id(), flow.0);
                self.sinks.insert(flow, Sink::new(self.dir.clone(), unique));
            }
            Event::Delivered { flow, bytes } => {
                let written = self
                    .sinks
                    .get_mut(&flow)
                    .map_or(Ok(()), |sink| sink.write(&bytes));
                if let Err(error) = written {
                    transport.abort(now, flow, &format!("{error:#}"));
                }
            }
            Event::Finished { flow, record } => self.finish(now, flow, record, transport),
            Event::Failed { flow, record } => self.end(flow, &record, None),
            // Only of flows that we send.
            Event::Detached { .. } => {}
        }
        match self.count {
            Some(count) if self.ended >= count && !self.stopping => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }

    fn stop(&mut self, now: Instant, transports: &mut Transports) {
        self.stopping = true;
        let Some(transport) = transports.get(self.scheme) else {
            return;
        };
        for flow in self.sinks.keys() {
            transport.abort(now, *flow, "the receiving agent was stopped");
        }
    }
}
