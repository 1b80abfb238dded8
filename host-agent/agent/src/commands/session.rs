//! A command is a client of the API: of the daemon of its host if one runs there, else of an engine
//! in its own process.

use anyhow::Context;
use ebb_transport::TransportKind;
use serde_json::json;

use crate::api::client::Client;
use crate::api::socket::{Address, Connection};
use crate::commands::args::EngineArgs;
use crate::commands::record;
use crate::daemon::{Lifetime, Service, serve_own};
use crate::engine::hypervisor::HypervisorRuntime;
use crate::engine::lateness::Lateness;
use crate::engine::params;
use crate::engine::pauses::Pauses;
use crate::engine::runtime::{Ended, Runtime};
use crate::machine::interface::Interface;
use crate::machine::port_lock::PortLock;

/// Settings of an engine that a command starts itself.
#[derive(Clone, Copy, Default)]
pub struct Needs<'a> {
    /// Whether it answers late packets of others before it ends, as one that received something does.
    pub linger: bool,
    /// Whether others begin flows to it: then it has to know the way to its gateways.
    pub gateways: bool,
    /// Whether it listens on a port that the daemon would not listen on for it.
    pub own_port: bool,
    /// Transports, and how many flows of each to one host there may be at a time. Of others no more than a
    /// block of source ports allows.
    pub flows: &'a [(TransportKind, u16)],
}

/// Does `work` as a client of the daemon, or of an engine that ends with it.
pub fn run<Work>(args: &EngineArgs, needs: Needs<'_>, work: Work) -> anyhow::Result<bool>
where
    Work: FnOnce(Client) -> anyhow::Result<bool> + Send,
{
    match connect(args, needs)? {
        Some(client) => work(client),
        None => run_alone(args, needs, work),
    }
}

/// Connects to the daemon of this host, which has to be there.
pub fn daemon(args: &EngineArgs) -> anyhow::Result<Client> {
    let client = connect(args, Needs::default())?;
    client.context(
        "no daemon runs on this host, or it has another interface or other parameters; start one: \
         ebb-agent run",
    )
}

/// Connects to the daemon, if it is there and has the interface and the parameters asked for.
fn connect(args: &EngineArgs, needs: Needs<'_>) -> anyhow::Result<Option<Client>> {
    let own = args.params.is_some()
        || args.protocol_seed.is_some()
        || args.ring.is_some()
        || needs.own_port;
    if own && args.socket.is_none() {
        return Ok(None);
    }
    let address = Address::new(args.socket.as_deref());
    let connection = match Connection::connect(&address) {
        Ok(connection) => connection,
        Err(_) if args.socket.is_none() => return Ok(None),
        Err(error) => {
            return Err(error).with_context(|| {
                format!("no daemon answers at {address}; start one: ebb-agent run --socket PATH")
            });
        }
    };
    let mut client = Client::open(connection)?;
    let other = args
        .interface
        .as_ref()
        .is_some_and(|interface| client.greeting["interface"] != interface.as_str());
    if other && args.socket.is_some() {
        anyhow::bail!(
            "the daemon at {address} is on {}",
            client.greeting["interface"]
        );
    }
    if other {
        return Ok(None);
    }
    // An engine of this process, which there is not now, would handle signals itself.
    client.end_on_signals()?;
    Ok(Some(client))
}

fn run_alone<Work>(args: &EngineArgs, needs: Needs<'_>, work: Work) -> anyhow::Result<bool>
where
    Work: FnOnce(Client) -> anyhow::Result<bool> + Send,
{
    let mut runtime = open(args)?;
    for &(transport, flows) in needs.flows {
        runtime.transports().open(transport, flows)?;
    }
    if needs.gateways {
        runtime.hops().resolve_gateways()?;
    }
    let ending = Ending::of(&runtime);
    let result = serve(runtime, Lifetime::Client, needs.linger, |_| Ok(()), work);
    ending.print(args);
    result
}

/// Report of an engine that has ended.
pub struct Ending {
    lateness: Lateness,
    pauses: Pauses,
}

impl Ending {
    pub fn of(runtime: &Runtime) -> Self {
        let (lateness, pauses) = (runtime.lateness(), runtime.pauses());
        Ending { lateness, pauses }
    }

    /// Prints as the last line the lateness of the engine, with `--lateness`, and the pauses of the
    /// NIC, if it obeys PFC.
    pub fn print(&self, args: &EngineArgs) {
        let nic = self.pauses.to_json();
        if args.lateness || nic.is_some() {
            let nic = nic.map(|nic| json!({"nic": nic}));
            let lateness = json!({"lateness": self.lateness.to_json()});
            record::print("end", [lateness].into_iter().chain(nic));
        }
    }
}

/// An engine for the interface that was asked for.
pub fn open(args: &EngineArgs) -> anyhow::Result<Runtime> {
    let params = params::read(args.params.as_deref())?;
    let interface = match &args.interface {
        Some(interface) => interface.clone(),
        None => Interface::only()?,
    };
    Runtime::open(&interface, params, args.protocol_seed, args.ring.as_deref())
}

/// Runs the engine in this thread, `work` as a client in another, and `with` before both.
pub fn serve<Work>(
    mut runtime: Runtime,
    lifetime: Lifetime,
    linger: bool,
    with: impl FnOnce(&Service) -> anyhow::Result<()>,
    work: Work,
) -> anyhow::Result<bool>
where
    Work: FnOnce(Client) -> anyhow::Result<bool> + Send,
{
    let (site, transports) = (runtime.site(), runtime.transports());
    let service = Service::start(site, transports, lifetime);
    let mut service = service.context("cannot start threads")?;
    with(&service)?;
    let (ours, theirs) = Connection::pair().context("cannot create a socket")?;
    serve_own(theirs, &service.mailbox()).context("cannot start threads")?;
    std::thread::scope(|scope| {
        let client = scope.spawn(move || work(Client::open(ours)?));
        let ran = runtime.run(&mut service).and_then(|ended| {
            if !linger || ended == Ended::BySignal {
                return Ok(());
            }
            runtime.linger(&mut service, || {
                eprintln!(
                    "stays for a while to answer late packets of the other side; Ctrl-C ends that"
                );
            })
        });
        // The client gets the notices that are left, and then an end.
        drop(service);
        let worked = match client.join() {
            Ok(worked) => worked,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        ran.and(worked)
    })
}

/// Runs the engine of a host with virtual machines in this thread, and for each of them a client in
/// another: `works`, in the order of the VMs. True: all went well.
pub fn serve_vms<Work>(runtime: &mut HypervisorRuntime, works: Vec<Work>) -> anyhow::Result<bool>
where
    Work: FnOnce(Client) -> anyhow::Result<bool> + Send,
{
    let mut services = Vec::new();
    let mut connections = Vec::new();
    for (site, transports) in runtime.sites() {
        let service = Service::start(site, transports, Lifetime::Client);
        let service = service.context("cannot start threads")?;
        let (ours, theirs) = Connection::pair().context("cannot create a socket")?;
        serve_own(theirs, &service.mailbox()).context("cannot start threads")?;
        services.push(service);
        connections.push(ours);
    }
    std::thread::scope(|scope| {
        let clients: Vec<_> = connections
            .into_iter()
            .zip(works)
            .map(|(ours, work)| scope.spawn(move || work(Client::open(ours)?)))
            .collect();
        let ran = runtime.run(&mut services);
        // The clients get the notices that are left, and then an end.
        drop(services);
        let mut good = true;
        for client in clients {
            match client.join() {
                Ok(worked) => good &= worked?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        ran.map(|()| good)
    })
}

/// No transport of a daemon takes more source ports.
const MAX_SOURCE_PORTS: u16 = 2048;

/// Source ports of a transport of a daemon: as many flows can it have to one port of one host.
fn daemon_source_ports(transport: TransportKind) -> u16 {
    let protocol = transport.protocol();
    let alike = TransportKind::ALL
        .iter()
        .filter(|s| s.protocol() == protocol);
    PortLock::share(protocol, alike.count()).min(MAX_SOURCE_PORTS)
}

/// Opens all transports, so that requests find this host.
pub fn open_all(runtime: &mut Runtime) -> anyhow::Result<()> {
    for transport in TransportKind::ALL {
        let source_ports = daemon_source_ports(transport);
        runtime.transports().open(transport, source_ports)?;
        runtime
            .transports()
            .listen(transport, transport.service_port())?;
    }
    Ok(())
}
