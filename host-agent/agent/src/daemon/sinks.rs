//! The threads that check and write what arrives, so that neither a hash nor a disk nor a reader
//! that sleeps holds up the engine. Memory is bounded: whoever falls behind has its flow paused.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ebb_host::{Key, Unusable, Update};
use ebb_transport::Objection;
use ebb_transport::object::EnvelopeError;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::mailbox::{Command, Mailbox};
use super::sink::{Progress, Sink, Target};
use crate::machine::lock::lock;
use crate::machine::waker::Waker;

/// A flow of which more bytes than this wait to be written is paused, and resumes when no more than
/// [`RESUME_BYTES`] wait.
const PAUSE_BYTES: u64 = 1 << 20;
const RESUME_BYTES: u64 = 256 << 10;
/// If more bytes than this wait to be written of all flows together, every flow that brings more is
/// paused.
const PAUSE_ALL_BYTES: u64 = 64 << 20;
/// Threads that write; each flow belongs to one of them.
const THREADS: usize = 4;
/// Period at which an idle thread polls its orders: a wake-up for every packet would cost the engine more
/// than the packet.
const NAP: Duration = Duration::from_micros(500);
/// Time after its last order for which a thread polls, before it sleeps until the engine wakes it.
const WAKEFUL: Duration = Duration::from_millis(20);
/// Most buffers that are kept for reuse by the transports.
const MAX_RETURNED: usize = 4096;

/// Bytes of a flow that wait, seen by engine and sink.
#[derive(Default)]
pub struct Backlog {
    bytes: AtomicU64,
    paused: AtomicBool,
}

/// Work of a thread.
enum Order {
    Open(Key, Arc<Backlog>, Option<Target>),
    Data(Key, Vec<u8>),
    Decide(Key, Target),
    End(Key),
    Drop(Key),
    /// Channel that is notified when all orders before this are carried out.
    Settle(SyncSender<()>),
}

/// Orders for one thread.
struct Queue {
    orders: Mutex<VecDeque<Order>>,
    /// Whether the thread has stopped polling and has to be woken.
    asleep: AtomicBool,
    /// Ends the sleep of the thread.
    bell: Waker,
}

/// Shared by all threads.
struct Shared {
    /// Bytes that wait to be written, of all flows.
    total_bytes: AtomicU64,
    /// Buffers for the transports to use again.
    returned: Mutex<Vec<Vec<u8>>>,
    mailbox: Mailbox,
}

/// The sinks of all flows, and the queues of their threads.
pub struct Sinks {
    queues: Vec<Arc<Queue>>,
    shared: Arc<Shared>,
}

impl Queue {
    fn push(&self, order: Order, urgent: bool) {
        lock(&self.orders).push_back(order);
        if urgent || self.asleep.swap(false, Ordering::SeqCst) {
            self.bell.wake();
        }
    }
}

impl Sinks {
    pub fn start(mailbox: Mailbox) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            total_bytes: AtomicU64::new(0),
            returned: Mutex::new(Vec::with_capacity(MAX_RETURNED)),
            mailbox,
        });
        let mut queues = Vec::new();
        for index in 0..THREADS {
            let queue = Arc::new(Queue {
                orders: Mutex::new(VecDeque::new()),
                asleep: AtomicBool::new(false),
                bell: Waker::new()?,
            });
            queues.push(queue.clone());
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(format!("sink-{index}"))
                .spawn(move || Worker::new(shared).run(&queue))?;
        }
        Ok(Sinks { queues, shared })
    }

    /// Opens the sink of a flow. Without a target the flow is paused until the application decides.
    pub fn open(&self, sink: Key, target: Option<Target>) -> Arc<Backlog> {
        let backlog = Arc::<Backlog>::default();
        backlog.paused.store(target.is_none(), Ordering::SeqCst);
        self.order(sink, Order::Open(sink, backlog.clone(), target));
        backlog
    }

    /// Hands over the next bytes of the stream. True: the flow is to be paused.
    pub fn push(&self, sink: Key, backlog: &Backlog, bytes: Vec<u8>) -> bool {
        let n = bytes.len() as u64;
        let own = backlog.bytes.fetch_add(n, Ordering::SeqCst) + n;
        let total = self.shared.total_bytes.fetch_add(n, Ordering::SeqCst) + n;
        self.order(sink, Order::Data(sink, bytes));
        let full = own > PAUSE_BYTES || total > PAUSE_ALL_BYTES;
        if !full || backlog.paused.swap(true, Ordering::SeqCst) {
            return false;
        }
        // The sink may have written it all before it could see that it has to report.
        !(backlog.bytes.load(Ordering::SeqCst) <= RESUME_BYTES
            && backlog.paused.swap(false, Ordering::SeqCst))
    }

    pub fn decide(&self, sink: Key, target: Target) {
        self.urgent(sink, Order::Decide(sink, target));
    }

    /// The stream has ended: [`Update::Done`] or [`Update::Failed`] follows.
    pub fn end(&self, sink: Key) {
        self.urgent(sink, Order::End(sink));
    }

    /// The flow has failed: nothing of it stays.
    pub fn drop_sink(&self, sink: Key) {
        self.urgent(sink, Order::Drop(sink));
    }

    /// Waits until all orders are carried out, but not for a disk or a reader that is stuck: a
    /// process that ends before its flows are dropped leaves their temporary files.
    pub fn settle(&self, patience: Duration) {
        let (done, all_done) = std::sync::mpsc::sync_channel(THREADS);
        for queue in &self.queues {
            queue.push(Order::Settle(done.clone()), true);
        }
        let end = Instant::now() + patience;
        for _ in &self.queues {
            let left = end.saturating_duration_since(Instant::now());
            if all_done.recv_timeout(left).is_err() {
                tracing::warn!("a file is not written: its disk or its reader is stuck");
                return;
            }
        }
    }

    /// Bytes that wait to be written, of all flows.
    pub fn backlog_bytes(&self) -> u64 {
        self.shared.total_bytes.load(Ordering::Relaxed)
    }

    /// Buffers that are done with; `out` is emptied first.
    pub fn take_returned(&self, out: &mut Vec<Vec<u8>>) {
        out.clear();
        std::mem::swap(out, &mut *lock(&self.shared.returned));
    }

    fn order(&self, sink: Key, order: Order) {
        self.queue(sink).push(order, false);
    }

    fn urgent(&self, sink: Key, order: Order) {
        self.queue(sink).push(order, true);
    }

    fn queue(&self, sink: Key) -> &Queue {
        &self.queues[sink.1.0 as usize % THREADS]
    }
}

struct Open {
    sink: Sink,
    backlog: Arc<Backlog>,
    blocked: bool,
}

/// A thread that writes. Nothing waits for it, so that a write that hangs does not keep the process from ending.
struct Worker {
    shared: Arc<Shared>,
    open: BTreeMap<Key, Open>,
    orders: VecDeque<Order>,
    /// Sinks with bytes that are not written yet.
    touched: Vec<Key>,
    last_work: Instant,
}

impl Worker {
    fn new(shared: Arc<Shared>) -> Self {
        Worker {
            shared,
            open: BTreeMap::new(),
            orders: VecDeque::new(),
            touched: Vec::new(),
            last_work: Instant::now(),
        }
    }

    fn run(mut self, queue: &Queue) {
        loop {
            std::mem::swap(&mut self.orders, &mut *lock(&queue.orders));
            if self.orders.is_empty() {
                self.sleep(queue);
                continue;
            }
            self.last_work = Instant::now();
            while let Some(order) = self.orders.pop_front() {
                self.follow(order);
            }
            while let Some(id) = self.touched.pop() {
                self.write(id);
            }
        }
    }

    fn follow(&mut self, order: Order) {
        match order {
            Order::Open(id, backlog, target) => {
                let open = Open {
                    sink: Sink::new(target),
                    backlog,
                    blocked: false,
                };
                self.open.insert(id, open);
            }
            Order::Data(id, bytes) => {
                let Some(open) = self.open.get_mut(&id) else {
                    self.release(None, bytes);
                    return;
                };
                let n = bytes.len() as u64;
                match open.sink.push(bytes) {
                    Ok(()) => self.touch(id),
                    Err(error) => {
                        subtract(&self.shared.total_bytes, n);
                        self.fail(id, &error);
                    }
                }
            }
            Order::Decide(id, target) => {
                if let Some(open) = self.open.get_mut(&id) {
                    open.sink.decide(target);
                    self.touch(id);
                }
            }
            Order::End(id) => self.end(id),
            Order::Drop(id) => self.close(id),
            Order::Settle(done) => {
                let _ = done.send(());
            }
        }
    }

    fn touch(&mut self, id: Key) {
        if self.touched.last() != Some(&id) {
            self.touched.push(id);
        }
    }

    fn write(&mut self, id: Key) {
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        let (shared, backlog) = (&self.shared, &open.backlog);
        let result = open
            .sink
            .write(&mut |buffer| release(shared, Some(backlog), buffer));
        match result {
            Ok(progress) => {
                open.blocked = progress == Progress::Blocked;
                let low = backlog.bytes.load(Ordering::SeqCst) <= RESUME_BYTES;
                let decided = progress != Progress::Undecided;
                if decided && low && backlog.paused.swap(false, Ordering::SeqCst) {
                    self.notify(id, Update::Drained);
                }
                self.finish_if_complete(id);
            }
            Err(error) => {
                let error = error.context("cannot write the content");
                self.fail(id, &error);
            }
        }
    }

    fn end(&mut self, id: Key) {
        // Bytes that arrived before the end are written first.
        if self.touched.contains(&id) {
            self.touched.retain(|touched| *touched != id);
            self.write(id);
        }
        let Some(open) = self.open.get_mut(&id) else {
            return;
        };
        match open.sink.end() {
            Err(error) => self.fail(id, &error),
            Ok(()) => self.finish_if_complete(id),
        }
    }

    fn finish_if_complete(&mut self, id: Key) {
        if self
            .open
            .get(&id)
            .is_some_and(|open| open.sink.is_complete())
        {
            let update = match self.keep(id) {
                Ok(()) => Update::Done,
                Err(error) => Update::Failed(unusable(&error)),
            };
            self.notify(id, update);
        }
    }

    fn keep(&mut self, id: Key) -> anyhow::Result<()> {
        match self.open.remove(&id) {
            Some(open) => open.sink.keep(),
            None => Ok(()),
        }
    }

    fn fail(&mut self, id: Key, error: &anyhow::Error) {
        self.close(id);
        self.notify(id, Update::Failed(unusable(error)));
    }

    fn close(&mut self, id: Key) {
        if let Some(open) = self.open.remove(&id) {
            for buffer in open.sink.into_buffers() {
                self.release(None, buffer);
            }
        }
    }

    fn release(&self, backlog: Option<&Backlog>, buffer: Vec<u8>) {
        release(&self.shared, backlog, buffer);
    }

    fn notify(&self, id: Key, update: Update) {
        self.shared.mailbox.send(Command::Sink { sink: id, update });
    }

    /// Sleeps until there are orders or a stream takes more.
    fn sleep(&mut self, queue: &Queue) {
        let wakeful = self.last_work.elapsed() < WAKEFUL;
        if !wakeful {
            queue.asleep.store(true, Ordering::SeqCst);
            if !lock(&queue.orders).is_empty() {
                queue.asleep.store(false, Ordering::SeqCst);
                return;
            }
        }
        let blocked: Vec<Key> = self
            .open
            .iter()
            .filter(|(_, open)| open.blocked)
            .map(|(id, _)| *id)
            .collect();
        let streams = blocked.iter().filter_map(|id| self.open[id].sink.stream());
        let mut polled = vec![PollFd::new(&queue.bell, PollFlags::IN)];
        let stream = |fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT);
        polled.extend(streams.map(stream));
        let nap = Timespec {
            tv_sec: 0,
            tv_nsec: NAP.as_nanos() as _,
        };
        // An error is an interrupting signal: all sinks with work are looked at again.
        let _ = rustix::event::poll(&mut polled, wakeful.then_some(&nap));
        let ready: Vec<bool> = polled
            .iter()
            .map(|polled| !polled.revents().is_empty())
            .collect();
        drop(polled);
        if ready[0] {
            queue.bell.drain();
            queue.bell.take();
        }
        for (id, _) in blocked.iter().zip(&ready[1..]).filter(|(_, ready)| **ready) {
            self.last_work = Instant::now();
            self.write(*id);
        }
    }
}

fn release(shared: &Shared, backlog: Option<&Backlog>, buffer: Vec<u8>) {
    let n = buffer.len() as u64;
    if let Some(backlog) = backlog {
        subtract(&backlog.bytes, n);
    }
    subtract(&shared.total_bytes, n);
    let mut returned = lock(&shared.returned);
    if returned.len() < MAX_RETURNED {
        returned.push(buffer);
    }
}

/// Error of a sink: its full text here, and one of a few kinds for the sender.
fn unusable(error: &anyhow::Error) -> Unusable {
    let known = error.chain().find_map(|cause| {
        let known = cause
            .downcast_ref::<Unusable>()
            .map(|known| known.objection);
        let wrong = cause.is::<EnvelopeError>();
        known.or(wrong.then_some(Some(Objection::WrongContent)))
    });
    Unusable {
        reason: format!("{error:#}"),
        objection: known.flatten(),
    }
}

fn subtract(counter: &AtomicU64, n: u64) {
    counter.fetch_sub(n, Ordering::SeqCst);
}
