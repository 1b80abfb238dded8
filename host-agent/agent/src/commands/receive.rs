//! `ebb-agent recv` and `ebb-agent run`.

use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::{Context, bail};
use clap::Args;
use ebb_transport::TransportKind;

use crate::api::client::Client;
use crate::api::message::{Disposition, Event, Listen, Operation};
use crate::api::socket::{Address, Listener};
use crate::commands::args::{CommonArgs, DirectoryArgs, EngineArgs};
use crate::commands::output::Output;
use crate::commands::session::{self, Needs};
use crate::daemon::{Lifetime, accept_all};
use crate::machine::files::{self, open_directory, remove_leftovers};

#[derive(Args, Debug)]
pub struct RecvArgs {
    #[command(flatten)]
    pub common: CommonArgs,
    /// Port to listen on; by default the transport's service port
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    #[command(flatten)]
    pub directories: DirectoryArgs,
    /// End after this many flows, finished or failed; exit code 1 if one failed
    #[arg(long)]
    pub count: Option<u64>,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub engine: EngineArgs,
    #[command(flatten)]
    pub directories: DirectoryArgs,
}

/// The directories that a receiver writes to and serves from.
struct Directories {
    /// Where objects go that arrive. `None`: their hashes are checked, and they are thrown away.
    receive: Option<OwnedFd>,
    overwrite: bool,
    /// Objects that others may fetch. `None`: none.
    serve: Option<OwnedFd>,
}

impl Directories {
    fn open(args: &DirectoryArgs) -> anyhow::Result<Self> {
        if let Some(dir) = &args.dir {
            // A path that exists and is no directory is reported by the next line.
            let _ = std::fs::create_dir_all(dir);
            open_directory(dir)?;
            remove_leftovers(dir)
                .with_context(|| format!("cannot look through {}", dir.display()))?;
        }
        let open = |path: &Option<std::path::PathBuf>| path.as_deref().map(open_directory);
        Ok(Directories {
            receive: open(&args.dir).transpose()?,
            overwrite: args.overwrite,
            serve: open(&args.serve).transpose()?,
        })
    }
}

/// Serves until a signal or, with `--count`, until that many flows have ended. With `--count`:
/// whether all were good.
pub fn run(args: &RecvArgs) -> anyhow::Result<bool> {
    let directories = Directories::open(&args.directories)?;
    let output = Output::new(args.common.engine.json);
    let transport = args.common.transport;
    let port = args.port.unwrap_or(transport.service_port());
    let needs = Needs {
        linger: args.count.is_some(),
        gateways: true,
        own_port: port != transport.service_port(),
        ..Needs::default()
    };
    session::run(&args.common.engine, needs, |mut client| {
        serve(&mut client, &directories)?;
        listen(&mut client, transport, Some(port), &directories, &output)?;
        receive(&mut client, args.count, &output)
    })
}

/// The daemon of a host.
pub fn run_daemon(args: &RunArgs) -> anyhow::Result<bool> {
    // Clients have one each, and so do the sources and targets of their transfers.
    files::allow_many();
    let directories = Directories::open(&args.directories)?;
    let output = Output::new(args.engine.json);
    let listener = bind(&args.engine)?;
    let mut runtime = session::open(&args.engine)?;
    session::open_all(&mut runtime)?;
    let address = runtime.address();
    let accept = |service: &crate::daemon::Service| {
        let mailbox = service.mailbox();
        // Ends with the process, as its socket does.
        std::thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept_all(&listener, &mailbox))
            .context("cannot start a thread")?;
        Ok(())
    };
    let ending = session::Ending::of(&runtime);
    let result = session::serve(runtime, Lifetime::Daemon, false, accept, |mut client| {
        serve(&mut client, &directories)?;
        for transport in TransportKind::ALL {
            if directories.receive.is_some() {
                listen(&mut client, transport, None, &directories, &output)?;
            } else {
                output.ready(
                    transport,
                    SocketAddrV4::new(address, transport.service_port()),
                );
            }
        }
        receive(&mut client, None, &output)
    });
    ending.print(&args.engine);
    result
}

fn bind(args: &EngineArgs) -> anyhow::Result<Listener> {
    let address = Address::new(args.socket.as_deref());
    match Listener::bind(address.clone()) {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            bail!("a daemon runs at {address} already; stop it, or choose another --socket")
        }
        Err(error) => Err(error).with_context(|| format!("cannot listen at {address}")),
    }
}

fn serve(client: &mut Client, directories: &Directories) -> anyhow::Result<()> {
    if let Some(directory) = &directories.serve {
        let operation = Operation::Serve {};
        client.call(operation, Some(directory.as_fd()))?;
    }
    Ok(())
}

fn listen(
    client: &mut Client,
    transport: TransportKind,
    port: Option<u16>,
    directories: &Directories,
    output: &Output,
) -> anyhow::Result<()> {
    let directory = directories.receive.as_ref();
    let listen = Listen {
        transport,
        port,
        into: directory.map_or(Disposition::Discard, |_| Disposition::Directory),
        overwrite: directories.overwrite,
        announce: false,
        progress: output.wants_progress(),
    };
    let answer = client.call(Operation::Listen(listen), directory.map(AsFd::as_fd))?;
    let local = answer["local"]
        .as_str()
        .and_then(|local| local.parse().ok());
    output.ready(
        transport,
        local.context("the daemon does not say where it listens")?,
    );
    Ok(())
}

fn receive(client: &mut Client, count: Option<u64>, output: &Output) -> anyhow::Result<bool> {
    let (mut ended, mut failed) = (0, 0);
    while count.is_none_or(|count| ended < count) {
        let Some(event) = client.next_event()? else {
            break;
        };
        match event {
            Event::Flow { record, .. } => {
                output.end();
                output.flow(&record);
                ended += 1;
                failed += u64::from(record["status"] != "finished");
            }
            Event::Progress {
                done_bytes,
                total_bytes,
                ..
            } => output.progress("receiving", done_bytes, total_bytes),
            Event::Incoming { .. } | Event::End { .. } => {}
        }
    }
    Ok(count.is_none_or(|count| ended >= count && failed == 0))
}
