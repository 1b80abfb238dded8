//! Packets at a constant rate from host to host, and counts of those that arrive: `docs/agent.md`.
//!
//! ```text
//!  schedule ──► sender ──► interface or ring ──► fabric ──► interface or ring ──► sink: a tally per stream
//! ```
//!
//! One process per host does both, and wakes at most once per lateness budget: while packets come, it
//! does not wait for the next one but reads them at intervals.

mod args;
mod packet;
mod receiver;
mod schedule;
mod sender;
mod stream;

use std::net::SocketAddrV4;

use anyhow::Context;
use ebb_packet_io::{
    Filter, MAX_FRAME_BYTES, PacketIo, PacketSocket, PortOffset, ReceiveBuffers, ReceiveRing,
    SocketOptions,
};
use ebb_units::{Duration, Instant};
use ebb_wire::EthernetHeader;
use serde_json::json;

pub use args::{LoadArgs, SinkArgs};

use crate::commands::output::Output;
use crate::engine::frame_paths::FramePaths;
use crate::machine::clock;
use crate::machine::interface::Interface;
use crate::machine::kernel_rules::KernelRule;
use crate::machine::next_hop::NextHops;
use crate::machine::port_lock::{PortLock, PortRange};
use crate::machine::signals::Signals;
use crate::machine::waker::Waker;
use args::ReceiveArgs;
use packet::Path;
use receiver::{Peer, Receiver};
use sender::Sender;
use stream::StreamCounts;

/// Room for half a second of full frames at 100 Mbit/s, for a process that waits for the CPU.
const RING_BYTES: usize = 8 << 20;

/// `ebb-agent load`.
pub fn run(args: &LoadArgs) -> anyhow::Result<bool> {
    let host = LoadSocket::open(&args.receive)?;
    let hops = NextHops::read(&host.interface)?;
    let to = args.host.with_port(args::PORT);
    hops.resolve(*to.ip())?;
    let mac = hops.mac(*to.ip()).context("the next hop is not known")?;
    let path = Path {
        ethernet: EthernetHeader {
            dst: mac,
            src: host.interface.mac,
            ethertype: EthernetHeader::IPV4,
        },
        source: host.interface.address,
        to,
        dscp: args.dscp,
    };
    if args.packet_bytes > host.interface.mtu_bytes {
        anyhow::bail!(
            "--packet-bytes {} is more than the MTU of `{}`, {}",
            args.packet_bytes,
            host.interface.name,
            host.interface.mtu_bytes
        );
    }
    let start = args.start_at_ns.map_or(clock::now(), Instant::from_nanos);
    host.run(Some(Sender::new(args, &path, start)), None, &args.receive)
}

/// `ebb-agent sink`.
pub fn run_sink(args: &SinkArgs) -> anyhow::Result<bool> {
    LoadSocket::open(&args.receive)?.run(None, args.count, &args.receive)
}

/// Interface, port and sockets of a load, for a sender or a sink.
struct LoadSocket {
    interface: Interface,
    local: SocketAddrV4,
    paths: FramePaths,
    /// Held until the end; the rule, which comes first, is dropped before the lock.
    _rule: KernelRule,
    _port: PortLock,
}

impl LoadSocket {
    fn open(args: &ReceiveArgs) -> anyhow::Result<Self> {
        let name = match &args.interface {
            Some(name) => name.clone(),
            None => Interface::only()?,
        };
        let interface = Interface::find(&name)?;
        let port = PortLock::take(interface.address, args.port)?;
        // The kernel would answer every packet with ICMP, as it knows nobody who listens.
        let rule = KernelRule::hide_udp_ports(PortRange::one(args.port))?;
        let filter = Filter::new()
            .or(packet::UDP.0, PortOffset::UDP, args.port..=args.port)
            .keeping(packet::HEADERS_BYTES);
        let options = SocketOptions {
            filter: Some(filter.clone()),
            timestamps: true,
            bypass_qdisc: true,
            ..SocketOptions::default()
        };
        let socket = PacketSocket::open(&name, &options)
            .with_context(|| format!("cannot open a packet socket on `{name}`"))?;
        let ring = ReceiveRing::map(&socket, RING_BYTES).context("no receive ring")?;
        let buffers = ReceiveBuffers::new(1, MAX_FRAME_BYTES);
        let socket = PacketIo::new(socket, Some(ring), buffers);
        let mut paths = FramePaths::open(socket, args.ring.as_deref())?;
        paths
            .set_filter(&filter)
            .context("cannot filter what arrives")?;
        Ok(LoadSocket {
            local: SocketAddrV4::new(interface.address, args.port),
            interface,
            paths,
            _port: port,
            _rule: rule,
        })
    }

    fn run(
        mut self,
        mut sender: Option<Sender>,
        count: Option<u64>,
        args: &ReceiveArgs,
    ) -> anyhow::Result<bool> {
        let lateness = Duration::from_micros(args.lateness_us.into());
        let output = Output::new(args.json);
        let waker = Waker::new().context("cannot create a pipe")?;
        let signals = Signals::install(&waker).context("cannot handle signals")?;
        let mut receiver = Receiver::new(self.interface.mac);
        ebb_packet_io::wake_up_on_time();
        output.report("ready", [json!({"local": self.local})], || {
            format!("receiving on {}", self.local)
        });
        let cpu_before_ns = clock::process_cpu_ns();
        let mut wakeups = 0_u64;
        loop {
            let now = clock::now();
            if let Some(sender) = &mut sender {
                sender.turn(now, &mut self.paths)?;
            }
            let received = receiver.receive(&mut self.paths)?;
            receiver.end_streams(now, |peer, counts| report_stream(&output, peer, counts));
            let over = match (&sender, count) {
                (Some(sender), _) => sender.is_over(now),
                (None, Some(count)) => receiver.ended() >= count,
                (None, None) => false,
            };
            if over || signals.asked_to_end() {
                break;
            }
            let deadline = sender.as_ref().and_then(Sender::next_deadline);
            let deadline = deadline.into_iter().chain(receiver.next_deadline()).min();
            self.sleep(now, deadline, received, lateness, &waker)?;
            wakeups += 1;
        }
        receiver.end_all(|peer, counts| report_stream(&output, peer, counts));
        let cpu_ns = clock::process_cpu_ns() - cpu_before_ns;
        let kernel_drops = self.paths.take_drops();
        if let Some(sender) = &sender {
            output.report("load", [sender.to_json()], || sender.to_text());
        }
        let end = json!({
            "cpu_ns": cpu_ns,
            "wakeups": wakeups,
            "kernel_drops": kernel_drops,
            "ignored": receiver.ignored(),
        });
        output.report("end", [end], || {
            format!(
                "processor {:.3} s, {wakeups} wake-ups, \
                 {kernel_drops} frames that did not fit into the socket's buffer",
                cpu_ns as f64 / 1e9
            )
        });
        Ok(true)
    }

    /// Sleeps until something is due or arrives; while packets come, only until it is time to look for
    /// more of them.
    fn sleep(
        &mut self,
        now: Instant,
        deadline: Option<Instant>,
        received: bool,
        lateness: Duration,
        waker: &Waker,
    ) -> anyhow::Result<()> {
        let patience = deadline.map(|deadline| deadline.since(now));
        let coalesced = received && !lateness.is_zero();
        let slept = match coalesced {
            true => waker.wait(patience.map_or(lateness, |patience| patience.min(lateness))),
            false if patience == Some(Duration::ZERO) => Ok(()),
            false => self.paths.wait(patience.map(Into::into), false, waker),
        };
        slept.context("cannot sleep")
    }
}

/// Reports a stream that has ended.
fn report_stream(output: &Output, peer: &Peer, counts: &StreamCounts) {
    let stream = json!({
        "direction": "received",
        "peer": peer.address,
        "stream": peer.stream,
    });
    let seconds = counts.elapsed_ns() as f64 / 1e9;
    output.report("load", [stream, counts.to_json()], || {
        format!(
            "received {} packets of {} in {seconds:.2} s ({:.1} Mbit/s), {} lost, {} reordered, \
             {} trimmed, {} twice; delay {:.3} ms, at most {:.3}",
            counts.received,
            peer.address,
            counts.bytes as f64 * 8e-6 / seconds.max(1e-9),
            counts.lost(),
            counts.reordered,
            counts.trimmed,
            counts.duplicates,
            counts.mean_delay_ns() / 1e6,
            counts.max_delay_ns() as f64 / 1e6,
        )
    });
}
