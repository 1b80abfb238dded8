//! `ebb-agent fetch`.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use clap::Args;

use crate::api::message::{self, Operation, Peer};
use crate::commands::args::CommonArgs;
use crate::commands::output::Output;
use crate::commands::send::follow;
use crate::commands::session::{self, Needs};
use crate::machine::files::{Existing, Temporary, open_directory};

#[derive(Args, Debug)]
pub struct FetchArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Name of the object at the server
    pub name: String,
    /// The server, IP or IP:PORT; from several at once with scdp or trevi
    #[arg(long, value_name = "HOST", num_args = 1.., required = true)]
    pub from: Vec<Peer>,
    /// File to write or replace, `-` for stdout; by default a new one of the object's name
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file of the object's name
    #[arg(long, conflicts_with = "output")]
    pub overwrite: bool,
    /// 0 (normal) to 7 (most urgent)
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=7))]
    pub priority: u8,
    /// Number of the connection to the host, with `tcp.connections` = "open"; by default any
    #[arg(long, value_name = "N")]
    pub connection: Option<u32>,
    /// Seconds until the first byte has arrived
    #[arg(long, default_value_t = 60.0)]
    pub timeout: f64,
}

/// Where the content of the object goes.
enum Destination {
    Stdout,
    /// A file of the object's name in this directory.
    Directory(OwnedFd),
    /// A file of this name, when it is complete.
    File(Temporary, String),
}

/// Whether the object is here.
pub fn run(args: &FetchArgs) -> anyhow::Result<bool> {
    ensure!(
        args.timeout >= 0.0 && args.timeout <= 86_400.0,
        "--timeout {}: seconds from 0 to 86400",
        args.timeout
    );
    let mut destination = destination(args.output.as_deref())?;
    let json = args.common.engine.json;
    let output = match destination {
        Destination::Stdout => Output::on_stderr(json),
        _ => Output::new(json),
    };
    let request = message::FetchObject {
        transport: args.common.transport,
        name: args.name.clone(),
        from: args.from.clone(),
        priority: args.priority,
        connection: args.connection,
        timeout_ms: Some((args.timeout * 1000.0) as u64),
        overwrite: args.overwrite,
        progress: output.wants_progress(),
    };
    let descriptor = match &mut destination {
        Destination::Stdout => std::io::stdout().as_fd().try_clone_to_owned(),
        Destination::Directory(directory) => directory.try_clone(),
        Destination::File(temporary, _) => temporary.file().as_fd().try_clone_to_owned(),
    }
    .context("cannot use the output")?;
    let needs = Needs {
        linger: true,
        ..Needs::default()
    };
    let good = session::run(&args.common.engine, needs, |mut client| {
        client.call(Operation::Fetch(request), Some(descriptor.as_fd()))?;
        drop(descriptor);
        follow(&mut client, &args.name, &output)
    })?;
    if good && let Destination::File(temporary, name) = destination {
        temporary.keep(&name, Existing::Replace)?;
    }
    Ok(good)
}

fn destination(output: Option<&Path>) -> anyhow::Result<Destination> {
    let Some(path) = output else {
        return Ok(Destination::Directory(open_directory(Path::new("."))?));
    };
    if path == Path::new("-") {
        return Ok(Destination::Stdout);
    }
    let name = path
        .file_name()
        .with_context(|| format!("{} names no file", path.display()))?
        .to_string_lossy()
        .into_owned();
    let parent = path.parent().filter(|parent| *parent != Path::new(""));
    let directory = Arc::new(open_directory(parent.unwrap_or(Path::new(".")))?);
    let unique = format!("fetch-{}", std::process::id());
    let temporary = Temporary::create(directory, &unique)?;
    Ok(Destination::File(temporary, name))
}
