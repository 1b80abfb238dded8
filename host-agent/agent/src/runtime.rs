//! The engine: sockets, NIC serialiser, clock and all transports of the process, in one thread.

use std::net::Ipv4Addr;
use std::ops::ControlFlow;

use anyhow::Context;
use ebb_transport::nic::Nic;
use ebb_transport::{Event, Transport};
use ebb_units::{Duration, Instant};
use ebb_wire::{EthernetHeader, Ipv4Header};

use crate::clock;
use crate::interface::Interface;
use crate::next_hop::NextHops;
use crate::packet_socket::{PacketSocket, wake_up_on_time};
use crate::params::Params;
use crate::signals::Signals;
use crate::transports::Transports;
use crate::waker::Waker;
use crate::workers::Workers;
use ebb_transport::Scheme;

/// Frames handled before anything is sent, and the other way round.
const BATCH_FRAMES: usize = 64;
/// How long an agent that ends waits for its last packets to leave.
const LAST_PACKETS: Duration = Duration::from_millis(500);

/// What uses the transports. Flow ids are unique per scheme only.
pub trait Application {
    /// Break: the agent has done its work.
    fn handle_event(
        &mut self,
        now: Instant,
        scheme: Scheme,
        event: Event,
        transport: &mut dyn Transport,
    ) -> ControlFlow<()>;

    /// Somebody called [`Waker::wake`] since the last time.
    fn handle_wake(&mut self, _now: Instant, _transports: &mut Transports) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// SIGINT or SIGTERM.
    fn stop(&mut self, now: Instant, transports: &mut Transports);
}

pub struct Runtime {
    transports: Transports,
    interface: Interface,
    hops: NextHops,
    socket: PacketSocket,
    nic: Nic,
    workers: Workers,
    waker: Waker,
    signals: Signals,
    /// The frame on its way out.
    frame: Vec<u8>,
    /// `frame` did not fit into the socket's buffer.
    stuck: bool,
    /// The NIC was busy until then when a transport may have had more to send.
    held_until: Option<Instant>,
    /// A batch ended before its source did: no time to sleep.
    busy: bool,
    /// Packets for which no next hop was known.
    unroutable: u64,
}

impl Runtime {
    /// Opens the engine on `interface`, without any transport yet. `seed` is that of session ids
    /// and path entropy; `None`: drawn by chance.
    pub fn open(interface: &str, mut params: Params, seed: Option<u64>) -> anyhow::Result<Self> {
        let interface = Interface::find(interface)?;
        params.nic.mtu_bytes = params.nic.mtu_bytes.min(interface.mtu_bytes);
        let hops = NextHops::read(&interface)?;
        let socket = PacketSocket::open(&interface)?;
        let waker = Waker::new().context("cannot create an eventfd")?;
        let signals = Signals::install(waker.clone()).context("cannot handle signals")?;
        let workers = Workers::start(params.engine.worker_threads(), &waker)
            .context("cannot start the worker threads")?;
        wake_up_on_time();
        let nic = Nic::new(params.nic);
        let seed = seed.unwrap_or_else(rand::random);
        Ok(Runtime {
            transports: Transports::new(interface.address, params, seed),
            interface,
            hops,
            socket,
            nic,
            workers,
            waker,
            signals,
            frame: Vec::new(),
            stuck: false,
            held_until: None,
            busy: false,
            unroutable: 0,
        })
    }

    /// For other threads: makes the engine call [`Application::handle_wake`].
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    pub fn transports(&mut self) -> &mut Transports {
        &mut self.transports
    }

    /// Also for other threads, which may wait for an answer while the engine may not.
    pub fn hops(&self) -> NextHops {
        self.hops.clone()
    }

    pub fn address(&self) -> Ipv4Addr {
        self.interface.address
    }

    /// Runs until the application has done its work or a signal comes, then lets last packets out.
    pub fn run(&mut self, application: &mut dyn Application) -> anyhow::Result<()> {
        while !self.signals.asked_to_end() {
            if self.turn(application)?.is_break() {
                return self.leave(application);
            }
            self.sleep(None)?;
        }
        application.stop(clock::now(), &mut self.transports);
        self.leave(application)
    }

    /// Answers late packets until all ended flows are forgotten.
    pub fn linger(&mut self, application: &mut dyn Application) -> anyhow::Result<()> {
        loop {
            let _ = self.turn(application)?;
            if !self.transports.is_active() || self.signals.asked_to_end() {
                return Ok(());
            }
            self.sleep(None)?;
        }
    }

    /// Sleeps until `at`. False: a signal came.
    pub fn wait_until(&mut self, at: Instant) -> anyhow::Result<bool> {
        self.filter()?;
        while clock::now() < at && !self.signals.asked_to_end() {
            self.waker.take();
            self.socket
                .wait(Some(at.since(clock::now())), false, &self.waker)?;
            while self.socket.receive()?.is_some() {}
        }
        // Whoever woke us meanwhile wants to be heard later.
        self.waker.wake();
        Ok(!self.signals.asked_to_end())
    }

    /// Sends what still waits, for a bounded time.
    fn leave(&mut self, application: &mut dyn Application) -> anyhow::Result<()> {
        let end = clock::now() + LAST_PACKETS;
        loop {
            let _ = self.turn(application)?;
            let idle = !self.busy && !self.stuck && self.held_until.is_none();
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

    /// Does what can be done now, a bounded batch of it.
    fn turn(&mut self, application: &mut dyn Application) -> anyhow::Result<ControlFlow<()>> {
        self.busy = false;
        let mut flow = ControlFlow::Continue(());
        if self.waker.take() {
            flow = application.handle_wake(clock::now(), &mut self.transports);
        }
        self.filter()?;
        self.receive()?;
        self.transports.handle_timeout(clock::now());
        self.work();
        let before = self.tell(application);
        self.transmit()?;
        // Sending can end a flow: its object cannot be read any more.
        let after = self.tell(application);
        if before.is_break() || after.is_break() {
            flow = ControlFlow::Break(());
        }
        Ok(flow)
    }

    /// Lets through what the transports that were opened meanwhile wait for.
    fn filter(&mut self) -> anyhow::Result<()> {
        match self.transports.take_changed_selectors() {
            Some(selectors) => self.socket.filter(&selectors),
            None => Ok(()),
        }
    }

    /// Hands jobs out and results back.
    fn work(&mut self) {
        for (scheme, transport) in self.transports.iter_mut() {
            while let Some(job) = transport.poll_job() {
                self.workers.submit(scheme, job);
            }
        }
        while let Some((scheme, result)) = self.workers.poll_result() {
            if let Some(transport) = self.transports.get(scheme) {
                transport.handle_job(clock::now(), result);
            }
        }
    }

    /// Hands all events to the application.
    fn tell(&mut self, application: &mut dyn Application) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        for (scheme, transport) in self.transports.iter_mut() {
            while let Some(event) = transport.poll_event() {
                if let Event::Finished { flow, .. } | Event::Failed { flow, .. } = &event {
                    self.workers.forget(scheme, *flow);
                }
                if application
                    .handle_event(clock::now(), scheme, event, transport)
                    .is_break()
                {
                    flow = ControlFlow::Break(());
                }
            }
        }
        flow
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        for _ in 0..BATCH_FRAMES {
            let frame = self
                .socket
                .receive()
                .with_context(|| format!("cannot receive on `{}`", self.interface.name))?;
            let Some(frame) = frame else { return Ok(()) };
            let Ok(frame) = EthernetHeader::parse(frame) else {
                continue;
            };
            if frame.header.dst != self.interface.mac && !frame.header.dst.is_group() {
                continue;
            }
            if let Ok(ip) = Ipv4Header::parse(frame.payload) {
                self.hops.learn(ip.header.src, frame.header.src);
            }
            self.transports.handle_packet(clock::now(), frame.payload);
        }
        self.busy = true;
        Ok(())
    }

    fn transmit(&mut self) -> anyhow::Result<()> {
        self.held_until = None;
        if self.stuck && !self.send()? {
            return Ok(());
        }
        for _ in 0..BATCH_FRAMES {
            let now = clock::now();
            if !self.nic.is_free(now) {
                self.held_until = Some(self.nic.free_at());
                return Ok(());
            }
            let Some((_, packet)) = self.transports.poll_transmit(now) else {
                self.nic.idle(now);
                return Ok(());
            };
            self.nic.send(now, packet.len());
            let routed = frame(&mut self.frame, packet, &self.hops, self.interface.mac);
            if routed.is_none() {
                self.unroutable += 1;
                continue;
            }
            if !self.send()? {
                return Ok(());
            }
        }
        self.busy = true;
        Ok(())
    }

    /// Sends `frame`. False: there is no room for it.
    fn send(&mut self) -> anyhow::Result<bool> {
        let sent = self.socket.send(&self.frame).with_context(|| {
            format!("cannot send on `{}`; is it still up?", self.interface.name)
        })?;
        self.stuck = !sent;
        Ok(sent)
    }

    /// Sleeps until something can be done, at the latest at `end`.
    fn sleep(&self, end: Option<Instant>) -> anyhow::Result<()> {
        if self.busy {
            return Ok(());
        }
        let now = clock::now();
        let blocked = self.stuck || self.held_until.is_some();
        let deadlines = self.transports.deadlines();
        let wake = wake_at(now, deadlines, blocked, self.held_until);
        let wake = wake.into_iter().chain(end).min();
        let patience = wake.map(|wake| wake.since(now));
        self.socket
            .wait(patience, self.stuck, &self.waker)
            .context("cannot sleep")
    }
}

/// Writes the frame of a packet. `None`: nobody knows where to send it.
fn frame(
    frame: &mut Vec<u8>,
    packet: &[u8],
    hops: &NextHops,
    src: ebb_wire::MacAddress,
) -> Option<()> {
    let destination = Ipv4Header::parse(packet).ok()?.header.dst;
    let header = EthernetHeader {
        dst: hops.mac(destination)?,
        src,
        ethertype: EthernetHeader::IPV4,
    };
    frame.clear();
    header.emit(frame);
    frame.extend_from_slice(packet);
    Some(())
}

/// When there is something to do. What is due already waits for the NIC if that is `blocked`.
/// `held_until` counts even if it has passed meanwhile: nothing else may ever wake up an agent that
/// has more to send and waits for no answer.
fn wake_at(
    now: Instant,
    deadlines: impl Iterator<Item = Instant>,
    blocked: bool,
    held_until: Option<Instant>,
) -> Option<Instant> {
    deadlines
        .filter(|at| !blocked || *at > now)
        .chain(held_until)
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(us: u64) -> Instant {
        Instant::from_micros(us)
    }

    fn wake(deadlines: &[u64], held_until: Option<u64>) -> Option<Instant> {
        let deadlines = deadlines.iter().map(|&us| at(us));
        wake_at(at(10), deadlines, held_until.is_some(), held_until.map(at))
    }

    #[test]
    fn a_nic_that_became_free_meanwhile_still_wakes() {
        assert_eq!(wake(&[], Some(9)), Some(at(9)));
        assert_eq!(wake(&[500], Some(9)), Some(at(9)));
    }

    #[test]
    fn what_is_due_waits_for_the_nic_and_what_is_not_does_not() {
        assert_eq!(wake(&[5], Some(20)), Some(at(20)));
        assert_eq!(wake(&[5, 15], Some(20)), Some(at(15)));
    }

    #[test]
    fn without_anything_to_send_only_the_deadlines_wake() {
        assert_eq!(wake(&[7, 5], None), Some(at(5)));
        assert_eq!(wake(&[], None), None);
    }

    #[test]
    fn a_full_socket_does_not_let_what_is_due_spin() {
        let due = [at(5)].into_iter();
        assert_eq!(wake_at(at(10), due, true, None), None);
    }
}
