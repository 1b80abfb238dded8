//! Threads for the jobs of the transports, so that coding hides behind reception and sending.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError, mpsc};

use ebb_transport::{FlowId, Job, JobResult, Role, TransportKind};
use ebb_units::Duration;

use crate::machine::clock;
use crate::machine::lock::lock;
use crate::machine::waker::Waker;

/// The largest block whose encoder takes the engine no longer than a batch of packets, 0.2 ms.
const SMALL_BLOCK_BYTES: usize = 256 << 10;

/// Jobs that nobody has begun, oldest first.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<(TransportKind, Job)>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

/// Outcome of a job: its result, or the flow whose job panicked. A peer chose what was to be
/// decoded; whatever it found in the codec shall cost it this flow, and us no thread.
pub type Done = Result<JobResult, FlowId>;

/// The threads and what they have done. Dropping it lets them end after the job they are at.
pub struct Workers {
    threads: usize,
    shared: Arc<Shared>,
    results: mpsc::Receiver<(TransportKind, Done)>,
}

impl Workers {
    /// Starts `threads` of them; each result wakes the engine.
    pub fn start(threads: usize, waker: &Waker) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (sender, results) = mpsc::channel();
        for index in 0..threads.max(1) {
            let (shared, sender, waker) = (shared.clone(), sender.clone(), waker.clone());
            std::thread::Builder::new()
                .name(format!("codec-{index}"))
                .spawn(move || work(&shared, &sender, &waker))?;
        }
        Ok(Workers {
            threads,
            shared,
            results,
        })
    }

    /// Whether a job is better done by them than by the caller. Encoders of small blocks are not if
    /// there is one thread only, which on two processors competes with the engine
    /// (docs/bench.md).
    pub fn are_worth(&self, job: &Job) -> bool {
        match job.role() {
            Role::Sender => self.threads > 1 || job.bytes() > SMALL_BLOCK_BYTES,
            Role::Receiver => true,
        }
    }

    pub fn submit(&self, kind: TransportKind, job: Job) {
        lock(&self.shared.queue).jobs.push_back((kind, job));
        self.shared.changed.notify_one();
    }

    /// The next result, in the order in which the jobs ended.
    pub fn poll_result(&self) -> Option<(TransportKind, Done)> {
        self.results.try_recv().ok()
    }

    /// The flow has ended: nobody wants what was not begun.
    pub fn forget(&self, kind: TransportKind, flow: FlowId) {
        lock(&self.shared.queue)
            .jobs
            .retain(|(of, job)| *of != kind || job.flow() != flow);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared.queue);
        queue.closed = true;
        queue.jobs.clear();
        self.shared.changed.notify_all();
    }
}

fn work(shared: &Shared, results: &mpsc::Sender<(TransportKind, Done)>, waker: &Waker) {
    loop {
        let mut queue = lock(&shared.queue);
        let (kind, job) = loop {
            if queue.closed {
                return;
            }
            if let Some(next) = queue.jobs.pop_front() {
                break next;
            }
            queue = shared
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        };
        drop(queue);
        let flow = job.flow();
        if results.send((kind, guard(flow, || run(job)))).is_err() {
            return;
        }
        waker.wake();
    }
}

fn guard<T>(flow: FlowId, work: impl FnOnce() -> T) -> Result<T, FlowId> {
    // State that a panic leaves half done is dropped with the job.
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| flow)
}

/// Does a job on this thread, and measures its processor time.
pub fn run(job: Job) -> JobResult {
    let before = clock::thread_cpu_ns();
    let mut result = job.run();
    result.cpu_time = Duration::from_nanos(clock::thread_cpu_ns() - before);
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_costs_the_flow_and_not_the_thread() {
        let flow = FlowId(7);
        assert_eq!(guard(flow, || 5), Ok(5));
        assert_eq!(guard(flow, || -> i32 { panic!("on purpose") }), Err(flow));
    }
}
