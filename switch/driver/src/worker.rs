//! One thread of the driver: it sleeps, reads, lets its partition of the network run, and sends.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use ebb_engine::ControlReceiver;
use ebb_engine::drive::{Late, Partition};
use ebb_packet_io::wait;
use ebb_units::{Duration, Instant};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use crate::clock::Clock;
use crate::exchange::Exchange;
use crate::inbox::Inbox;
use crate::interface::Interface;
use crate::outbox::{Interfaces, Outbox};
use crate::wake::Waker;

/// The longest sleep. Interfaces are looked after at least this often.
const MAX_SLEEP: Duration = Duration::from_secs(1);
/// How far the partition runs before the thread looks for commands again: it may lag behind for long if a packet
/// generator sends more than can be done.
const STRETCH: Duration = Duration::from_millis(1);
/// Turns of the partition after which the other threads learn how far it is.
const TURNS_PER_ROUND: usize = 64;
/// Most descriptors that are handled after one sleep.
const MAX_EVENTS: usize = 64;
/// Number that epoll reports for the waker, where it reports a [`Source`] otherwise.
const WAKE: u64 = u64::MAX;

/// A descriptor of an interface: the index of the interface in the low half, and which one it is in the high half.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Socket,
    Listener,
    /// A ring by its number, from 1.
    Ring(u32),
}

impl Source {
    /// Number that epoll reports for it at an interface.
    fn at(self, index: u32) -> u64 {
        let source = match self {
            Source::Socket => 0,
            Source::Listener => u32::MAX - 1,
            Source::Ring(number) => number,
        };
        u64::from(index) | u64::from(source) << 32
    }

    /// The source, and the index of its interface.
    fn of(number: u64) -> (Self, u32) {
        let source = match (number >> 32) as u32 {
            0 => Source::Socket,
            n if n == u32::MAX - 1 => Source::Listener,
            n => Source::Ring(n),
        };
        (source, number as u32)
    }
}

/// A thread's partition and what it needs to run it.
pub(crate) struct Worker<'a> {
    /// The nodes that this thread runs.
    partition: &'a mut Partition<Interface>,
    /// The time of the network.
    clock: Clock,
    /// Requests of other threads.
    commands: Commands,
    /// The connection to the other threads; `None` if this is the only one.
    exchange: Option<Exchange>,
    /// Files that the thread sleeps on: its waker and the sockets of its interfaces.
    epoll: Arc<OwnedFd>,
    /// Indices of the interfaces in the partition.
    interfaces: Vec<u32>,
    /// Frames that were read from the interfaces.
    inbox: Inbox,
    /// Frames that are to be sent through them.
    outbox: Outbox,
    /// Everything that came from outside before this time has been read.
    read_until: Instant,
    /// Whether more waited to be read than was read in one turn.
    more_to_read: bool,
    /// When the interfaces are to be looked after next.
    routine_due: Instant,
    /// How long what comes waits for more.
    coalesce: Duration,
    /// When the thread last woke up; kept only if it coalesces.
    awake_since: Instant,
    /// Whether an interface needs new credit, so that the thread must not sleep.
    hurry: bool,
    /// Memory for what an interface says about lateness.
    late: Late,
}

/// The requests of other threads to this one, and the waker that announces them.
pub(crate) struct Commands {
    /// The queue of requests.
    pub receiver: ControlReceiver,
    /// The waker, shared with those who send requests.
    pub waker: Arc<Waker>,
}

/// An epoll with the waker of a thread; the sockets of its interfaces are added later.
pub(crate) fn epoll_for(waker: &Waker) -> io::Result<Arc<OwnedFd>> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    add(&poll, waker.as_fd(), WAKE)?;
    Ok(Arc::new(poll))
}

/// Adds a descriptor that is reported as `data` when it becomes readable.
fn add(poll: &OwnedFd, fd: BorrowedFd<'_>, data: u64) -> io::Result<()> {
    let data = epoll::EventData::new_u64(data);
    Ok(epoll::add(poll, fd, data, epoll::EventFlags::IN)?)
}

impl<'a> Worker<'a> {
    /// A worker for a partition; `exchange` is `None` if no other thread runs.
    pub(crate) fn new(
        partition: &'a mut Partition<Interface>,
        clock: Clock,
        commands: Commands,
        epoll: Arc<OwnedFd>,
        mut exchange: Option<Exchange>,
    ) -> io::Result<Self> {
        let mut interfaces = Vec::new();
        for (index, interface) in partition.hosts() {
            let socket = interface.line().socket().as_fd();
            add(&epoll, socket, Source::Socket.at(index))?;
            if let Some(listener) = interface.listener() {
                add(&epoll, listener.as_fd(), Source::Listener.at(index))?;
            }
            interfaces.push(index);
        }
        if let Some(exchange) = &mut exchange {
            exchange.set_lookahead(partition);
        }
        Ok(Self {
            partition,
            clock,
            commands,
            exchange,
            epoll,
            interfaces,
            inbox: Inbox::new(),
            outbox: Outbox::default(),
            read_until: Instant::ZERO,
            more_to_read: false,
            routine_due: Instant::ZERO,
            coalesce: Duration::ZERO,
            awake_since: Instant::ZERO,
            hurry: false,
            late: Late::default(),
        })
    }

    /// Lets what comes wait this long for more of it.
    pub(crate) fn coalesce(&mut self, coalesce: Duration) {
        self.coalesce = coalesce;
    }

    /// Starts a thread that sends larger numbers of frames for this one, after calling `prepare`.
    pub(crate) fn send_apart(
        &mut self,
        name: String,
        prepare: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let waker = self.commands.waker.clone();
        self.outbox.send_apart(name, self.clock, waker, prepare)
    }

    /// Runs until a command says stop, then sends what is left and drops what cannot be sent.
    pub(crate) fn run(&mut self) -> io::Result<()> {
        let result = self.take_turns();
        let (outbox, interfaces) = self.outgoing();
        outbox.finish(interfaces);
        for index in &self.interfaces {
            if let Some(interface) = self.partition.host_mut(*index) {
                interface.abandon();
            }
        }
        self.settle(true)?;
        result
    }

    /// The outbox, and the interfaces it sends through.
    fn outgoing(&mut self) -> (&mut Outbox, Interfaces<'_>) {
        let interfaces = Interfaces {
            partition: self.partition,
            places: &self.interfaces,
            memory: &mut self.inbox.memory,
            clock: self.clock,
        };
        (&mut self.outbox, interfaces)
    }

    /// Takes turns until a command says stop.
    fn take_turns(&mut self) -> io::Result<()> {
        ebb_packet_io::wake_up_on_time();
        loop {
            self.gather()?;
            self.sleep()?;
            if !self.lags() {
                self.read();
            }
            self.advance();
            let stop = self.obey();
            self.relieve()?;
            if let Some(exchange) = &mut self.exchange {
                exchange.post(self.partition, self.read_until);
            }
            self.partition.exchange_frames(&mut self.inbox.memory);
            let (outbox, interfaces) = self.outgoing();
            outbox.send(interfaces);
            self.partition.exchange_frames(&mut self.inbox.memory);
            self.settle(false)?;
            if stop {
                return Ok(());
            }
        }
    }

    /// Waits for more of what comes and of what is due, unless there is more already, or the partition lags behind
    /// what was read: then threads wait for each other.
    fn gather(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let rest = (self.awake_since + self.coalesce).since(now);
        let busy = self.more_to_read || self.partition.ran_until() < self.read_until;
        if !rest.is_zero() && !busy {
            wait(&mut [], Some(rest.into()))?;
        }
        Ok(())
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        let next = self.partition.next_event().unwrap_or(Instant::FAR_FUTURE);
        let mut patience = next.since(now);
        // Before the others know that this thread sleeps: until then they wait for what it has read.
        let frames_wait = self.want_wake_ups();
        if self.hurry || frames_wait {
            patience = Duration::ZERO;
        } else if let Some(exchange) = &mut self.exchange {
            let partition = &mut *self.partition;
            patience = exchange.patience(partition, self.read_until, self.clock, patience);
        }
        if !patience.is_zero() {
            self.partition.flush_captures();
        }
        let mut events = [const { MaybeUninit::uninit() }; MAX_EVENTS];
        let events = self.wait_for_events(patience.min(MAX_SLEEP), &mut events)?;
        if !self.coalesce.is_zero() {
            self.awake_since = self.clock.now();
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.wake_up(self.partition, self.read_until);
        }
        self.note_events(events)
    }

    /// Has the rings wake this thread with their next frames; true: there are frames already.
    fn want_wake_ups(&mut self) -> bool {
        let mut any = false;
        for index in &self.interfaces {
            if let Some(interface) = self.partition.host_mut(*index) {
                interface.want_wake_up();
                any |= interface.has_rings();
            }
        }
        if !any {
            return false;
        }
        // A process publishes frames and then looks whether it is to wake somebody.
        fence(Ordering::SeqCst);
        self.interfaces.iter().any(|index| {
            let interface = self.partition.host_mut(*index);
            interface.is_some_and(|interface| interface.ring_has_frames())
        })
    }

    /// Waits for events. Those that do not fit into `events` are reported the next time.
    fn wait_for_events<'e>(
        &self,
        patience: Duration,
        events: &'e mut [MaybeUninit<epoll::Event>],
    ) -> io::Result<&'e [epoll::Event]> {
        let patience = std::time::Duration::from(patience);
        let timeout = Timespec {
            tv_sec: patience.as_secs() as i64,
            tv_nsec: patience.subsec_nanos().into(),
        };
        match epoll::wait(&self.epoll, events, Some(&timeout)) {
            Ok((events, _)) => Ok(events),
            Err(Errno::INTR) => Ok(&[]),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes events on to the waker and the interfaces.
    fn note_events(&mut self, events: &[epoll::Event]) -> io::Result<()> {
        for event in events {
            if event.data.u64() == WAKE {
                self.commands.waker.acknowledge();
                continue;
            }
            let (source, index) = Source::of(event.data.u64());
            let Some(interface) = self.partition.host_mut(index) else {
                continue;
            };
            match source {
                Source::Socket => {}
                Source::Listener => {
                    if let Some((number, ring)) = interface.accept(self.clock.now()) {
                        add(&self.epoll, ring, Source::Ring(number).at(index))?;
                    }
                    continue;
                }
                // Closing its descriptor takes it from epoll.
                Source::Ring(number) => {
                    interface.note_ring(number);
                    continue;
                }
            }
            let (flags, failure) = (event.flags, epoll::EventFlags::ERR | epoll::EventFlags::HUP);
            interface.note_events(
                flags.contains(epoll::EventFlags::IN),
                flags.contains(epoll::EventFlags::OUT),
                flags.intersects(failure),
            );
            if !interface.line().is_present() {
                // It would be reported for ever.
                epoll::delete(&self.epoll, interface.line().socket().as_fd())?;
            }
        }
        Ok(())
    }

    /// Reads what has arrived from outside.
    fn read(&mut self) {
        let now = self.clock.now();
        let realtime = self.clock.realtime();
        let mut read_until = now;
        self.partition.exchange_frames(&mut self.inbox.memory);
        for index in &self.interfaces {
            let Some(interface) = self.partition.host_mut(*index) else {
                continue;
            };
            let until = interface.read(now, realtime, &mut self.inbox);
            read_until = read_until.min(until);
            for (at, frame) in self.inbox.frames.drain(..) {
                self.partition.inject(*index, at, frame);
            }
        }
        self.partition.exchange_frames(&mut self.inbox.memory);
        self.more_to_read = read_until < now;
        // The clock of the frames may be stepped back, but time must not.
        self.read_until = self.read_until.max(read_until);
    }

    /// Runs the partition as far as is allowed: not beyond what was read here, nor beyond the limit
    /// that the other threads set.
    fn advance(&mut self) {
        let Some(exchange) = &mut self.exchange else {
            let next = self.partition.next_event().unwrap_or(self.read_until);
            return self.partition.run(self.read_until.min(next + STRETCH));
        };
        exchange.take(self.partition);
        let limit = exchange.limit(self.partition, self.read_until, self.clock);
        let horizon = self.read_until.min(limit);
        self.partition.run_some(horizon, TURNS_PER_ROUND);
    }

    /// Whether something is still to be done that happened before `read_until`. What comes in the meantime waits in
    /// the kernel and in rings, which have bounds, as network cards have.
    fn lags(&self) -> bool {
        let next = self.partition.next_event();
        next.is_some_and(|next| next < self.read_until)
    }

    /// The time at which commands of other threads take effect. A partition with nothing to do
    /// gets no limit up to which it may run, but its time advances as well.
    fn now(&self) -> Instant {
        match self.lags() {
            true => self.partition.ran_until(),
            false => self.read_until,
        }
    }

    /// Does what other threads ask for; true if one of them asks for the end.
    fn obey(&mut self) -> bool {
        let mut stop = false;
        let mut any = false;
        while let Some(command) = self.commands.receiver.next() {
            any = true;
            let now = self.now();
            stop |= !self.partition.obey(command, now);
        }
        if any && self.partition.take_delays_changed() {
            self.partition.measure();
            if let Some(exchange) = &mut self.exchange {
                exchange.set_lookahead(self.partition);
            }
        }
        stop
    }

    /// Sends what interfaces now take that took no more before, and gives their ports new credit.
    /// This comes before the report to the other threads, because it creates events.
    fn relieve(&mut self) -> io::Result<()> {
        let now = self.now();
        for place in 0..self.interfaces.len() {
            let index = self.interfaces[place];
            let pressed = |interface: &mut Interface| interface.is_pressed();
            if !self.partition.host_mut(index).is_some_and(pressed) {
                continue;
            }
            let memory = &mut self.inbox.memory;
            self.partition.exchange_frames(memory);
            let interface = self.partition.host_mut(index);
            let credit = interface.and_then(|it| it.relieve(memory, self.clock));
            self.partition.exchange_frames(memory);
            if let Some(credit) = credit {
                self.wait_for_room(index)?;
                self.partition.set_credit(index, now, credit);
            }
        }
        Ok(())
    }

    /// Takes note of what became of frames at the interfaces: what was dropped, how late they were,
    /// and which interfaces take no more. About every second, or if this is the `last` time, the
    /// interfaces themselves are looked after.
    fn settle(&mut self, last: bool) -> io::Result<()> {
        let routine = self.read_until >= self.routine_due || last;
        if routine {
            self.routine_due = self.read_until + MAX_SLEEP;
        }
        self.hurry = false;
        for place in 0..self.interfaces.len() {
            let index = self.interfaces[place];
            if routine {
                self.look_after(index)?;
            }
            let Some(interface) = self.partition.host_mut(index) else {
                continue;
            };
            interface.exchange_late(&mut self.late);
            self.hurry |= interface.wants_credit();
            let (blocked, drops) = (interface.is_blocked(), interface.take_drops());
            self.partition.note_lateness(index, &self.late);
            self.late.clear();
            for dropped in drops {
                self.partition
                    .count_drop(index, dropped.reason, dropped.packets, dropped.bytes);
            }
            if blocked {
                self.wait_for_room(index)?;
                let now = self.partition.ran_until();
                self.partition.set_credit(index, now, Some(0));
            }
        }
        Ok(())
    }

    /// Looks after an interface: counts what the kernel dropped, and opens the interface anew if it
    /// has come back.
    fn look_after(&mut self, index: u32) -> io::Result<()> {
        let Some(interface) = self.partition.host_mut(index) else {
            return Ok(());
        };
        interface.read_kernel_drops();
        interface.review_credit();
        let before = interface.line().clone();
        if interface.reopen() {
            // The old socket is of no use, but others may still have it open. Mostly epoll reported
            // its end before.
            let _ = epoll::delete(&self.epoll, before.socket().as_fd());
            let socket = interface.line().socket().as_fd();
            add(&self.epoll, socket, Source::Socket.at(index))?;
        }
        Ok(())
    }

    /// Has epoll report room at an interface that has none, and no more at one that has some.
    fn wait_for_room(&mut self, index: u32) -> io::Result<()> {
        let Some(interface) = self.partition.host_mut(index) else {
            return Ok(());
        };
        let Some(waits) = interface.take_waits_for_room() else {
            return Ok(());
        };
        if !interface.line().is_present() {
            return Ok(());
        }
        let flags = match waits {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        let socket = interface.line().socket().as_fd();
        let data = epoll::EventData::new_u64(Source::Socket.at(index));
        Ok(epoll::modify(&self.epoll, socket, data, flags)?)
    }

    /// How many frames of other threads came when their time of arrival had already passed.
    pub(crate) fn late(&self) -> u64 {
        self.exchange.as_ref().map_or(0, Exchange::late)
    }
}
