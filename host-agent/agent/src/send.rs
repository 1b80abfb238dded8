//! `ebb-agent send`.

use std::ops::ControlFlow;
use std::sync::Arc;

use anyhow::Context;
use ebb_transport::object::{Envelope, EnvelopeHeader, GeneratedSource, ObjectSource};
use ebb_transport::{Event, FlowId, SendRequest, Transport};
use ebb_units::Instant;

use crate::cli::SendArgs;
use crate::clock;
use crate::objects::FileSource;
use crate::record::{has_failed, print_flow};
use crate::runtime::{Application, Runtime};

struct Sender {
    flow: Option<FlowId>,
    envelope: EnvelopeHeader,
    good: bool,
}

/// Whether the object arrived.
pub fn run(args: &SendArgs) -> anyhow::Result<bool> {
    let source = Arc::new(open(args)?);
    let (mut runtime, own) = Runtime::open(&args.common, None)?;
    runtime.hops().resolve(*args.to.ip())?;
    if let Some(start) = args.start_at_ns
        && !runtime.wait_until(Instant::from_nanos(start))?
    {
        anyhow::bail!("stopped by a signal before the time to start");
    }
    let mut sender = Sender {
        flow: None,
        envelope: source.header().clone(),
        good: false,
    };
    let request = SendRequest {
        to: args.to,
        source_port: Some(own.port),
        source,
    };
    sender.flow = Some(runtime.transport.send(clock::now(), request)?);
    runtime.run(&mut sender)?;
    Ok(sender.good)
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
    fn handle_event(&mut self, _: Instant, event: Event, _: &mut dyn Transport) -> ControlFlow<()> {
        let (Event::Finished { flow, record } | Event::Failed { flow, record }) = event else {
            return ControlFlow::Continue(());
        };
        if self.flow != Some(flow) {
            return ControlFlow::Continue(());
        }
        print_flow(Some(&self.envelope), None, &record);
        self.good = !has_failed(&record);
        ControlFlow::Break(())
    }

    fn stop(&mut self, now: Instant, transport: &mut dyn Transport) {
        if let Some(flow) = self.flow {
            transport.abort(now, flow, "the sending agent was stopped");
        }
    }
}
