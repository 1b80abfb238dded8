//! `ebb-agent send`.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, anyhow};

use crate::api::client::Client;
use crate::api::message::{self, Ending, Event, Generate, Host, Operation};
use crate::cli::SendArgs;
use crate::output::Output;
use crate::session::{self, Needs};

/// Whether the object arrived, at all receivers.
pub fn run(args: &SendArgs) -> anyhow::Result<bool> {
    let (file, name, hosts) = open(args)?;
    let request = message::Send {
        scheme: args.common.scheme,
        to: hosts,
        name: args.name.clone().unwrap_or(name),
        generate: args.generate.map(|bytes| Generate {
            bytes,
            seed: args.seed,
        }),
        priority: args.priority,
        group: args.group,
        unicast: args.unicast,
        start_at_ns: args.start_at_ns,
        progress: false,
    };
    let output = Output::new(args.common.engine.json);
    session::run(&args.common.engine, Needs::default(), |client| {
        send(client, request, file.as_ref(), &output)
    })
}

/// The file if there is one, the name of the object, and the receivers.
fn open(args: &SendArgs) -> anyhow::Result<(Option<File>, String, Vec<Host>)> {
    let (file, name, hosts) = match (args.generate, args.operands.split_first()) {
        (Some(bytes), _) => {
            let name = format!("generated-{bytes}-{}.bin", args.seed);
            (None, name, &args.operands[..])
        }
        (None, Some((path, hosts))) => {
            let path = Path::new(path);
            let name = path.file_name().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            (Some(open_file(path)?), name, hosts)
        }
        (None, None) => anyhow::bail!("nothing to send: give FILE or --generate"),
    };
    anyhow::ensure!(
        !hosts.is_empty(),
        "no receiver: ebb-agent send FILE HOST..., HOST is IP or IP:PORT"
    );
    let hosts: Result<Vec<Host>, String> = hosts.iter().map(|host| host.parse()).collect();
    Ok((file, name, hosts.map_err(|error| anyhow!(error))?))
}

fn open_file(path: &Path) -> anyhow::Result<File> {
    let shown = path.display();
    // Opening a FIFO would wait for a writer.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .with_context(|| format!("cannot open {shown}"))?;
    let metadata = file
        .metadata()
        .with_context(|| format!("cannot read {shown}"))?;
    anyhow::ensure!(metadata.is_file(), "{shown} is not a regular file");
    Ok(file)
}

fn send(
    mut client: Client,
    mut request: message::Send,
    file: Option<&File>,
    output: &Output,
) -> anyhow::Result<bool> {
    let name = request.name.clone();
    request.progress = output.wants_progress();
    client.call(Operation::Send(request), file.map(AsFd::as_fd))?;
    follow(&mut client, &name, output)
}

/// Shows the only transfer of this client until it has ended; whether that was good.
pub fn follow(client: &mut Client, name: &str, output: &Output) -> anyhow::Result<bool> {
    let mut flows = 0;
    while let Some(event) = client.next_event()? {
        match event {
            Event::Flow { record, .. } => {
                flows += 1;
                output.flow(&record);
            }
            Event::Progress {
                done_bytes,
                total_bytes,
                ..
            } => output.progress(name, done_bytes, total_bytes),
            Event::End { ending, .. } => {
                output.end();
                // The record of a flow has its reason; a fetch may end without a flow.
                if let (Ending::Failed(reason), 0) = (&ending, flows) {
                    output.failed(name, reason);
                }
                return Ok(ending == Ending::Finished);
            }
            Event::Incoming { .. } => {}
        }
    }
    Ok(false)
}
