//! The engine: link, NIC serialiser, clock and all transports of the process, in one thread.
//!
//! ```text
//!  turn:   wake ──► application        receive ──► transports ──► events ──► application
//!          timeouts ──► transports     jobs ──► workers, results ──► transports
//!          transports ──► NIC ──► link    (one NIC: what waits, pauses, the rate)
//!  sleep:  until a frame arrives, somebody wakes us, the NIC is free or a deadline has come
//! ```
//!
//! A turn does a bounded batch of each, so that no kind of work starves the others.

use std::net::Ipv4Addr;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context;
use ebb_transport::nic::Nic;
use ebb_transport::{Event, TransportKind};
use ebb_units::{Duration, Instant};

use crate::engine::last_packets::send_last_packets;
use crate::engine::lateness::Lateness;
use crate::engine::link::{Arrived, Link};
use crate::engine::params::Params;
use crate::engine::pauses::Pauses;
use crate::engine::transports::Transports;
use crate::engine::workers::{self, Workers};
use crate::machine::clock;
use crate::machine::interface::Interface;
use crate::machine::next_hop::NextHops;
use crate::machine::signals::Signals;
use crate::machine::waker::Waker;

/// Time after which an agent that has done its work, and still lingers, says why.
const EXPLAIN_AFTER: Duration = Duration::from_millis(1000);

/// Time since the last read of the link after which the engine assumes that it has slept, or that other
/// processes had the processor: frames that wait in the socket are then read before any timer runs.
const LATE: Duration = Duration::from_millis(5);
/// The most batches of frames that are read before timers run again.
const CATCH_UP_BATCHES: u32 = 64;

/// User of the transports, which gets their events. Flow ids are unique per transport only.
pub trait Application {
    fn handle_event(
        &mut self,
        now: Instant,
        kind: TransportKind,
        event: Event,
        transports: &mut Transports,
    );

    /// [`Waker::wake`] was called since the last time. Break: the agent has done its work.
    fn handle_wake(&mut self, now: Instant, transports: &mut Transports) -> ControlFlow<()>;

    /// The time that [`next_deadline`](Self::next_deadline) says has come.
    fn handle_timeout(&mut self, now: Instant, transports: &mut Transports);

    fn next_deadline(&self) -> Option<Instant>;

    /// Notes that the effects of [`handle_wake`](Self::handle_wake) and
    /// [`handle_timeout`](Self::handle_timeout) are in force, opened ports among them: others may be notified.
    fn tell_clients(&mut self);

    /// Ends everything that is under way: a signal asks for it, or the link has failed.
    fn stop(&mut self, now: Instant, transports: &mut Transports);
}

/// Reason why an engine has ended without an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// The application has done its work.
    ByItself,
    BySignal,
}

/// Where an application runs.
pub struct Site {
    /// Its address.
    pub address: Ipv4Addr,
    /// Name of the interface.
    pub interface: String,
    pub hops: NextHops,
    /// For other threads: makes the engine call [`Application::handle_wake`].
    pub waker: Waker,
    pub lateness: Lateness,
    pub pauses: Pauses,
}

pub struct Runtime {
    transports: Transports,
    link: Link,
    nic: Nic,
    /// Pauses of the NIC by its neighbour, for reports.
    pauses: Pauses,
    /// Memory for the packet that leaves.
    packet: Vec<u8>,
    workers: Workers,
    waker: Waker,
    signals: Signals,
    /// Time for which the engine polls before it sleeps, and by which it wakes up before a deadline.
    spin: Duration,
    /// Time for which arrivals and due work may wait for more, so that one wake-up handles all of them.
    coalesce: Duration,
    /// Time at which there was last something to do.
    last_work: Instant,
    /// When the last turn began. `None`: there was nothing to do in it.
    worked_at: Option<Instant>,
    /// When the link was last looked at.
    last_receive: Instant,
    /// Batches that are still to be read before timers run again; 0: they run.
    catching_up: u32,
    /// There is more to do at once: no time to sleep.
    busy: bool,
    /// Frames wait for room in the kernel.
    stuck: bool,
    /// Time until which the NIC is busy, or a class paused, while a transport may have more to send. It
    /// is that of the last turn. `None`: the NIC was free.
    held_until: Option<Instant>,
    /// When the engine has asked to be woken. `None`: only if something happens.
    wake_due: Option<Instant>,
    lateness: Lateness,
}

impl Runtime {
    /// Opens the engine on `interface`, without any transport yet. `seed` is that of session ids
    /// and path entropy; `None`: a random one. `ring`: the socket from which the switch gives out rings; `None`: no
    /// ring is used.
    pub fn open(
        interface: &str,
        mut params: Params,
        seed: Option<u64>,
        ring: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let interface = Interface::find(interface)?;
        let address = interface.address;
        params.nic.mtu_bytes = params.nic.mtu_bytes.min(interface.mtu_bytes);
        let hops = NextHops::read(&interface)?;
        let link = Link::open(interface, hops, &params, ring)?;
        let waker = Waker::new().context("cannot create a pipe")?;
        let signals = Signals::install(&waker).context("cannot handle signals")?;
        let workers = Workers::start(params.engine.worker_threads(), &waker)
            .context("cannot start the worker threads")?;
        // After the start of the workers, which would inherit real-time scheduling.
        params.engine.prepare_thread()?;
        let seed = seed.unwrap_or_else(rand::random);
        Ok(Runtime {
            pauses: Pauses::new(params.nic.pfc),
            nic: Nic::new(params.nic),
            packet: Vec::new(),
            spin: Duration::from_micros(params.engine.spin_microseconds.into()),
            coalesce: Duration::from_micros(params.engine.coalesce_microseconds.into()),
            transports: Transports::new(address, params, seed),
            link,
            workers,
            waker,
            signals,
            last_work: clock::now(),
            worked_at: None,
            last_receive: clock::now(),
            catching_up: 0,
            busy: false,
            stuck: false,
            held_until: None,
            wake_due: None,
            lateness: Lateness::new(),
        })
    }

    pub fn transports(&mut self) -> &mut Transports {
        &mut self.transports
    }

    /// The way to other hosts. Other threads use it too, which may wait for an answer while the engine
    /// may not.
    pub fn hops(&self) -> NextHops {
        self.link.hops().clone()
    }

    /// Lateness of this engine; the value that is returned stays up to date.
    pub fn lateness(&self) -> Lateness {
        self.lateness.clone()
    }

    /// Pauses of the NIC by its neighbour; the value that is returned stays up to date.
    pub fn pauses(&self) -> Pauses {
        self.pauses.clone()
    }

    pub fn address(&self) -> Ipv4Addr {
        self.link.address()
    }

    /// Sockets and clock of an application on this engine.
    pub fn site(&self) -> Site {
        Site {
            address: self.link.address(),
            interface: self.link.interface().to_owned(),
            hops: self.hops(),
            waker: self.waker.clone(),
            lateness: self.lateness(),
            pauses: self.pauses(),
        }
    }

    /// Runs until the application has done its work or a signal comes, then lets last packets out.
    /// An error is a fatal one of the link; the application is stopped first.
    pub fn run(&mut self, application: &mut dyn Application) -> anyhow::Result<Ended> {
        loop {
            if self.signals.asked_to_end() {
                application.stop(clock::now(), &mut self.transports);
                self.leave(application)?;
                return Ok(Ended::BySignal);
            }
            match self.turn(application) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => {
                    self.leave(application)?;
                    return Ok(Ended::ByItself);
                }
                Err(error) => {
                    application.stop(clock::now(), &mut self.transports);
                    self.pass_events(application);
                    return Err(error);
                }
            }
            self.sleep(application.next_deadline())?;
        }
    }

    /// Answers late packets until all ended flows are forgotten, or a signal comes. Calls `explain` if that
    /// takes longer than people expect.
    pub fn linger(
        &mut self,
        application: &mut dyn Application,
        explain: impl FnOnce(),
    ) -> anyhow::Result<()> {
        let mut explain = Some((clock::now() + EXPLAIN_AFTER, explain));
        for (_, transport) in self.transports.iter_mut() {
            transport.leave(clock::now());
        }
        loop {
            let _ = self.turn(application)?;
            if !self.transports.is_active() || self.signals.asked_to_end() {
                return Ok(());
            }
            if let Some((_, explain)) = explain.take_if(|(at, _)| clock::now() >= *at) {
                explain();
            }
            let due = explain.as_ref().map(|(at, _)| *at);
            self.sleep(application.next_deadline().into_iter().chain(due).min())?;
        }
    }

    /// Sends what still waits, for a bounded time.
    fn leave(&mut self, application: &mut dyn Application) -> anyhow::Result<()> {
        send_last_packets(|end| {
            let _ = self.turn(application)?;
            let idle = !self.busy && !self.stuck && self.held_until.is_none();
            if !idle {
                let due = application.next_deadline().into_iter();
                self.sleep(due.chain([end]).min())?;
            }
            Ok(idle)
        })?;
        let lost = self.link.take_counters();
        if lost.unroutable > 0 {
            tracing::warn!(
                "{} packets had no known next hop and were dropped",
                lost.unroutable
            );
        }
        tracing::debug!("the link: {lost:?}");
        Ok(())
    }

    /// Does a bounded batch of everything that can be done now.
    fn turn(&mut self, application: &mut dyn Application) -> anyhow::Result<ControlFlow<()>> {
        self.busy = false;
        let mut flow = ControlFlow::Continue(());
        if self.waker.take() {
            flow = application.handle_wake(clock::now(), &mut self.transports);
        }
        let now = clock::now();
        if application.next_deadline().is_some_and(|at| at <= now) {
            application.handle_timeout(now, &mut self.transports);
        }
        if let Some(selectors) = self.transports.take_changed_selectors() {
            self.link.filter(&selectors)?;
        }
        application.tell_clients();
        self.receive()?;
        // Jobs before anything else is done with what has arrived, results before anything leaves.
        self.submit();
        self.take_results();
        self.pass_events(application);
        self.transmit()?;
        self.submit();
        // Sending can end a flow: its object cannot be read any more.
        self.pass_events(application);
        Ok(flow)
    }

    /// Hands the jobs of transports to the workers, or does them here where that is quicker.
    fn submit(&mut self) {
        for (kind, transport) in self.transports.iter_mut() {
            while let Some(job) = transport.poll_job() {
                if self.workers.are_worth(&job) {
                    self.workers.submit(kind, job);
                } else {
                    transport.handle_job(clock::now(), workers::run(job));
                }
            }
        }
    }

    /// Hands the results of jobs to the transports.
    fn take_results(&mut self) {
        while let Some((kind, result)) = self.workers.poll_result() {
            let Some(transport) = self.transports.get(kind) else {
                continue;
            };
            match result {
                Ok(result) => transport.handle_job(clock::now(), result),
                Err(flow) => transport.abort(clock::now(), flow, "the codec panicked"),
            }
        }
    }

    /// Hands all events to the application.
    fn pass_events(&mut self, application: &mut dyn Application) {
        while let Some((kind, event)) = self.transports.poll_event() {
            if let Event::Finished { flow, .. } | Event::Failed { flow, .. } = &event {
                self.workers.forget(kind, *flow);
            }
            application.handle_event(clock::now(), kind, event, &mut self.transports);
        }
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let now = clock::now();
        if now > self.last_receive + LATE {
            self.catching_up = CATCH_UP_BATCHES;
        }
        self.last_receive = now;
        self.lateness.woke(self.wake_due.take(), now);
        self.worked_at = None;
        let (transports, nic, mut any) = (&mut self.transports, &mut self.nic, false);
        let more = self.link.receive(now, |arrived| {
            any = true;
            match arrived {
                Arrived::Packet { bytes, .. } => nic.receive(now, bytes, |packet| {
                    transports.handle_packet(now, packet);
                }),
                Arrived::Control(frame) => {
                    if let Err(error) = nic.handle_control(now, frame) {
                        tracing::debug!("refused a MAC control frame: {error}");
                    }
                }
            }
        })?;
        nic.release(now, |packet| transports.handle_packet(now, packet));
        self.busy |= more;
        if any {
            self.last_work = now;
            self.worked_at = Some(now);
        }
        // To a timer, a frame that has not been read is silence of the peer: frames that arrived while
        // this process had no processor are read first.
        self.catching_up = match more {
            true => self.catching_up.saturating_sub(1),
            false => 0,
        };
        if self.catching_up == 0 {
            // With the time of the read: frames that have arrived since are still unread.
            self.transports.handle_timeout(now);
        }
        Ok(())
    }

    fn transmit(&mut self) -> anyhow::Result<()> {
        let held_until = self.held_until.take();
        // Packets that waited for room go first.
        self.stuck = !self.link.flush(clock::now())?;
        if self.stuck {
            return Ok(());
        }
        self.transports.begin_transmit();
        let (mut sent, mut more) = (0, false);
        let now = loop {
            let now = clock::now();
            if self.link.is_full() {
                more = true;
                break now;
            }
            self.fill(now);
            if self.nic.poll(now, &mut self.packet).is_none() {
                self.held_until = self.nic.next_start(now);
                break now;
            }
            if sent == 0 {
                self.lateness.left(held_until, now);
            }
            self.link.push(now, &self.packet);
            sent += 1;
        };
        self.pauses.update(now, &mut self.nic);
        if sent > 0 {
            self.last_work = now;
            // Counted from the beginning of this turn.
            self.worked_at = Some(self.last_receive);
            self.stuck = !self.link.flush(now)?;
            self.busy |= more && !self.stuck;
        }
        Ok(())
    }

    /// Gives the NIC packets of the transports as long as it takes any.
    fn fill(&mut self, now: Instant) {
        loop {
            let wanted = self.nic.wants(now);
            if wanted.is_empty() {
                return;
            }
            let packet = &mut self.packet;
            if self.transports.poll_transmit(now, wanted, packet).is_none() {
                return;
            }
            self.nic.push(packet);
        }
    }

    /// Sleeps until something can be done, at the latest until `end`.
    fn sleep(&mut self, end: Option<Instant>) -> anyhow::Result<()> {
        let now = clock::now();
        if self.busy || now < self.last_work + self.spin {
            return Ok(());
        }
        if let Some(worked_at) = self.worked_at
            && !self.coalesce.is_zero()
        {
            // Sleeps without watching the link: frames that arrive meanwhile are for the next turn.
            let rest = (worked_at + self.coalesce).since(now);
            self.wake_due = Some(worked_at + self.coalesce);
            return match rest.is_zero() {
                true => Ok(()),
                false => self.waker.wait(rest).context("cannot sleep"),
            };
        }
        let blocked = self.stuck || self.held_until.is_some();
        let deadlines = self.transports.deadlines();
        let wake = wake_at(now, deadlines, blocked, self.held_until);
        let wake = wake
            .into_iter()
            .chain(self.link.next_deadline())
            .chain(self.nic.next_delivery())
            .chain(end)
            .min();
        self.wake_due = wake;
        let patience = wake.map(|wake| wake.since(now).saturating_sub(self.spin));
        if patience == Some(Duration::ZERO) {
            return Ok(());
        }
        self.link
            .wait(patience, &self.waker)
            .context("cannot sleep")
    }
}

/// Earliest time at which there is something to do. While the NIC is `blocked`, deadlines that have passed do not
/// count: they wait for it. `held_until` counts even if it has passed meanwhile: nothing else may ever wake up an
/// agent that has more to send and waits for no answer.
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
