//! `ebb-agent send`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::Context;
use ebb_transport::object::{Envelope, EnvelopeHeader, GeneratedSource, ObjectSource};
use ebb_transport::{Event, FlowId, GroupRequest, SendRequest, Transport};
use ebb_units::Instant;

use crate::cli::SendArgs;
use crate::clock;
use crate::objects::FileSource;
use crate::params::Params;
use crate::record::{has_failed, print_flow};
use crate::runtime::{Application, Runtime};
use crate::transports::{FEW_SOURCE_PORTS, Transports};
use ebb_transport::Scheme;

struct Sender {
    scheme: Scheme,
    /// One; those of detached stragglers besides.
    open: BTreeSet<FlowId>,
    envelope: EnvelopeHeader,
    good: bool,
}

/// Whether the object arrived, at all receivers.
pub fn run(args: &SendArgs) -> anyhow::Result<bool> {
    let source = Arc::new(open(args)?);
    let common = &args.common;
    let params = Params::read(common.params.as_deref())?;
    let mut runtime = Runtime::open(&common.interface, params, common.protocol_seed)?;
    let scheme = common.scheme;
    runtime.transports().open(scheme, FEW_SOURCE_PORTS)?;
    if args.receivers.is_empty() {
        runtime.hops().resolve(*args.to.ip())?;
    }
    for &receiver in &args.receivers {
        runtime.hops().resolve(receiver)?;
    }
    if let Some(start) = args.start_at_ns
        && !runtime.wait_until(Instant::from_nanos(start))?
    {
        anyhow::bail!("stopped by a signal before the time to start");
    }
    let mut sender = Sender {
        scheme,
        open: BTreeSet::new(),
        envelope: source.header().clone(),
        good: true,
    };
    // One that is hidden from the kernel.
    let source_port = runtime.transports().source_ports(scheme).map(|r| r.first);
    let transport = runtime.transports().get(scheme).context("just opened")?;
    let flow = if args.receivers.is_empty() {
        let to = args.to;
        let request = SendRequest {
            to,
            source_port,
            source,
            priority: 0,
            part: None,
        };
        transport.send(clock::now(), request)?
    } else {
        let request = GroupRequest {
            group: args.to,
            receivers: args.receivers.clone(),
            source_port,
            source,
        };
        transport.send_group(clock::now(), request)?
    };
    sender.open.insert(flow);
    runtime.run(&mut sender)?;
    Ok(sender.good && sender.open.is_empty())
}

fn open(args: &SendArgs) -> anyhow::Result<Envelope> {
    let (content, name): (Arc<dyn ObjectSource>, String) = match (&args.file, args.generate) {
        (Some(path), _) => {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            (Arc::new(FileSource::open(path)?), name.unwrap_or_default())
        }
        (None, Some(bytes)) => {
            let name = format!("generated-{bytes}-{}.bin", args.seed);
            (
                Arc::new(GeneratedSource {
                    seed: args.seed,
                    bytes,
                }),
                name,
            )
        }
        (None, None) => anyhow::bail!("nothing to send: give --file or --generate"),
    };
    let name = args.name.clone().unwrap_or(name);
    Envelope::new(&name, content).context("cannot send this object")
}

impl Application for Sender {
    fn handle_event(
        &mut self,
        _: Instant,
        _: Scheme,
        event: Event,
        _: &mut dyn Transport,
    ) -> ControlFlow<()> {
        match event {
            Event::Detached {
                flow, straggler, ..
            } if self.open.contains(&flow) => {
                self.open.insert(straggler);
            }
            Event::Finished { flow, record } | Event::Failed { flow, record }
                if self.open.remove(&flow) =>
            {
                print_flow(Some(&self.envelope), None, &record);
                self.good &= !has_failed(&record);
            }
            _ => {}
        }
        if self.open.is_empty() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn stop(&mut self, now: Instant, transports: &mut Transports) {
        let Some(transport) = transports.get(self.scheme) else {
            return;
        };
        for &flow in &self.open {
            transport.abort(now, flow, "the sending agent was stopped");
        }
    }
}
