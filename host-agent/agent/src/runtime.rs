//! Drives a transport: socket, NIC serialiser and clock, in one thread.

use std::ops::ControlFlow;

use anyhow::Context;
use ebb_transport::nic::Nic;
use ebb_transport::{Event, Job, Transport};
use ebb_units::{Duration, Instant};
use ebb_wire::{EthernetHeader, Ipv4Header};

use crate::cli::CommonArgs;
use crate::clock;
use crate::interface::Interface;
use crate::kernel_rules::KernelRule;
use crate::next_hop::NextHops;
use crate::packet_socket::{PacketSocket, wake_up_on_time};
use crate::params::Params;
use crate::port_lock::PortLock;
use crate::signals::Signals;

/// Frames handled before anything is sent.
const RECEIVE_BATCH: usize = 64;
/// How long an agent that ends waits for its last packets to leave.
const LAST_PACKETS: Duration = Duration::from_millis(500);

/// What uses the transport.
pub trait Application {
    /// Break: the agent has done its work.
    fn handle_event(
        &mut self,
        now: Instant,
        event: Event,
        transport: &mut dyn Transport,
    ) -> ControlFlow<()>;

    /// SIGINT or SIGTERM.
    fn stop(&mut self, now: Instant, transport: &mut dyn Transport);
}

pub struct Runtime {
    pub transport: Box<dyn Transport>,
    interface: Interface,
    hops: NextHops,
    socket: PacketSocket,
    nic: Nic,
    signals: Signals,
    /// A frame that did not fit into the socket's buffer.
    stuck: Option<Vec<u8>>,
    /// The NIC was busy until then when the transport may have had more to send.
    held_until: Option<Instant>,
    /// Packets for which no next hop was known.
    unroutable: u64,
    _lock: PortLock,
    _rule: KernelRule,
}

impl Runtime {
    /// `port`: the port to listen on, or `None` to send from any. The order matters: the cheap
    /// checks with the clear messages come first, and nothing is changed before the port is ours.
    pub fn open(args: &CommonArgs, port: Option<u16>) -> anyhow::Result<(Self, PortLockInfo)> {
        let mut params = Params::read(args.params.as_deref())?;
        let interface = Interface::find(&args.interface)?;
        params.nic.mtu_bytes = params.nic.mtu_bytes.min(interface.mtu_bytes);
        let hops = NextHops::read(&interface)?;
        let lock = match port {
            Some(port) => PortLock::take(interface.address, port)?,
            None => PortLock::take_any(interface.address)?,
        };
        let protocol = args.scheme.protocol();
        let socket = PacketSocket::open(&interface, protocol, lock.port)?;
        let rule = if protocol == ebb_wire::Protocol::EBB {
            KernelRule::hide_receiver_driven()
        } else {
            KernelRule::hide_tcp_port(lock.port)
        }
        .context("cannot keep the kernel from answering our packets")?;
        let seed = args.protocol_seed.unwrap_or_else(rand::random);
        let transport = args.scheme.transport(interface.address, &params, seed)?;
        let signals = Signals::install().context("cannot handle signals")?;
        wake_up_on_time();
        let info = PortLockInfo {
            address: interface.address,
            port: lock.port,
        };
        let runtime = Runtime {
            transport,
            interface,
            hops,
            socket,
            nic: Nic::new(params.nic),
            signals,
            stuck: None,
            held_until: None,
            unroutable: 0,
            _lock: lock,
            _rule: rule,
        };
        Ok((runtime, info))
    }

    pub fn hops(&mut self) -> &mut NextHops {
        &mut self.hops
    }

    /// Runs until the application has done its work or a signal comes, then lets last packets out.
    pub fn run(&mut self, application: &mut dyn Application) -> anyhow::Result<()> {
        while !self.signals.asked_to_end() {
            if self.turn(application)?.is_break() {
                return self.leave(application);
            }
            self.sleep(None)?;
        }
        application.stop(clock::now(), &mut *self.transport);
        self.leave(application)
    }

    /// Answers late packets until all ended flows are forgotten.
    pub fn linger(&mut self, application: &mut dyn Application) -> anyhow::Result<()> {
        loop {
            let _ = self.turn(application)?;
            if !self.transport.is_active() || self.signals.asked_to_end() {
                return Ok(());
            }
            self.sleep(None)?;
        }
    }

    /// Sleeps until `at`. False: a signal came.
    pub fn wait_until(&mut self, at: Instant) -> anyhow::Result<bool> {
        while clock::now() < at && !self.signals.asked_to_end() {
            self.socket
                .wait(Some(at.since(clock::now())), false, &self.signals)?;
            while self.socket.receive()?.is_some() {}
        }
        Ok(!self.signals.asked_to_end())
    }

    /// Sends what still waits, for a bounded time.
    fn leave(&mut self, application: &mut dyn Application) -> anyhow::Result<()> {
        let end = clock::now() + LAST_PACKETS;
        loop {
            let _ = self.turn(application)?;
            let idle = self.stuck.is_none() && self.held_until.is_none();
            if idle || clock::now() >= end {
                break;
            }
            self.sleep(Some(end))?;
        }
        if self.unroutable > 0 {
            tracing::warn!(
                "{} packets had no known next hop and were dropped",
                self.unroutable
            );
        }
        Ok(())
    }

    /// Does everything that can be done now.
    fn turn(&mut self, application: &mut dyn Application) -> anyhow::Result<ControlFlow<()>> {
        self.receive()?;
        self.transport.handle_timeout(clock::now());
        while let Some(job) = self.transport.poll_job() {
            let result = run_job(job);
            self.transport.handle_job(clock::now(), result);
        }
        let before = self.tell(application);
        self.transmit()?;
        // Sending can end a flow: its object cannot be read any more.
        let after = self.tell(application);
        Ok(if before.is_break() { before } else { after })
    }

    /// Hands all events to the application.
    fn tell(&mut self, application: &mut dyn Application) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        while let Some(event) = self.transport.poll_event() {
            if application
                .handle_event(clock::now(), event, &mut *self.transport)
                .is_break()
            {
                flow = ControlFlow::Break(());
            }
        }
        flow
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        for _ in 0..RECEIVE_BATCH {
            let frame = self
                .socket
                .receive()
                .with_context(|| format!("cannot receive on `{}`", self.interface.name))?;
            let Some(frame) = frame else { break };
            let Ok(frame) = EthernetHeader::parse(frame) else {
                continue;
            };
            if frame.header.dst != self.interface.mac && !frame.header.dst.is_group() {
                continue;
            }
            if let Ok(ip) = Ipv4Header::parse(frame.payload) {
                self.hops.learn(ip.header.src, frame.header.src);
            }
            self.transport.handle_packet(clock::now(), frame.payload);
        }
        Ok(())
    }

    fn transmit(&mut self) -> anyhow::Result<()> {
        self.held_until = None;
        if let Some(frame) = self.stuck.take()
            && !self.send(&frame)?
        {
            self.stuck = Some(frame);
            return Ok(());
        }
        let mut packet = Vec::new();
        loop {
            let now = clock::now();
            if !self.nic.is_free(now) {
                self.held_until = Some(self.nic.free_at());
                return Ok(());
            }
            if self.transport.poll_transmit(now, &mut packet).is_none() {
                self.nic.idle(now);
                return Ok(());
            }
            self.nic.send(now, packet.len());
            let Some(frame) = self.frame(&packet) else {
                self.unroutable += 1;
                continue;
            };
            if !self.send(&frame)? {
                self.stuck = Some(frame);
                return Ok(());
            }
        }
    }

    fn send(&self, frame: &[u8]) -> anyhow::Result<bool> {
        self.socket
            .send(frame)
            .with_context(|| format!("cannot send on `{}`; is it still up?", self.interface.name))
    }

    /// Puts the Ethernet header before a packet.
    fn frame(&self, packet: &[u8]) -> Option<Vec<u8>> {
        let destination = Ipv4Header::parse(packet).ok()?.header.dst;
        let header = EthernetHeader {
            dst: self.hops.mac(destination)?,
            src: self.interface.mac,
            ethertype: EthernetHeader::IPV4,
        };
        let mut frame = Vec::with_capacity(EthernetHeader::BYTES + packet.len());
        header.emit(&mut frame);
        frame.extend_from_slice(packet);
        Some(frame)
    }

    /// Sleeps until something can be done, at the latest at `end`.
    fn sleep(&self, end: Option<Instant>) -> anyhow::Result<()> {
        let now = clock::now();
        let wake = wake_at(now, self.transport.next_deadline(), self.held_until);
        let wake = wake.into_iter().chain(end).min();
        let patience = wake.map(|wake| wake.since(now));
        self.socket
            .wait(patience, self.stuck.is_some(), &self.signals)
            .context("cannot sleep")
    }
}

/// When there is something to do. `held_until` counts even if it has passed meanwhile: nothing else
/// may ever wake up an agent that has more to send and waits for no answer.
fn wake_at(
    now: Instant,
    deadline: Option<Instant>,
    held_until: Option<Instant>,
) -> Option<Instant> {
    match held_until {
        None => deadline,
        // What is due already waits for the NIC.
        Some(free) => Some(
            deadline
                .filter(|at| *at > now)
                .map_or(free, |at| at.min(free)),
        ),
    }
}

/// What [`Runtime::open`] found out.
#[derive(Clone, Copy, Debug)]
pub struct PortLockInfo {
    pub address: std::net::Ipv4Addr,
    pub port: u16,
}

fn run_job(job: Job) -> ebb_transport::DecodeResult {
    let Job::Decode(job) = job;
    let before = clock::thread_cpu_ns();
    let mut result = job.run();
    result.cpu_time = Duration::from_nanos(clock::thread_cpu_ns() - before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    #[test]
    fn a_nic_that_became_free_meanwhile_still_wakes() {
        assert_eq!(wake_at(at(10), None, Some(at(9))), Some(at(9)));
        assert_eq!(wake_at(at(10), Some(at(500)), Some(at(9))), Some(at(9)));
    }

    #[test]
    fn what_is_due_waits_for_the_nic_and_what_is_not_does_not() {
        assert_eq!(wake_at(at(10), Some(at(5)), Some(at(20))), Some(at(20)));
        assert_eq!(wake_at(at(10), Some(at(15)), Some(at(20))), Some(at(15)));
    }

    #[test]
    fn without_anything_to_send_only_the_deadline_wakes() {
        assert_eq!(wake_at(at(10), Some(at(5)), None), Some(at(5)));
        assert_eq!(wake_at(at(10), None, None), None);
    }
}
