//! Threads for the jobs of the transports, so that decoding hides behind reception.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};

use ebb_transport::{DecodeResult, FlowId, Job};
use ebb_units::Duration;

use crate::clock;
use crate::waker::Waker;
use ebb_transport::Scheme;

/// Jobs that nobody has begun, oldest first.
#[derive(Default)]
struct Queue {
    jobs: VecDeque<(Scheme, Job)>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    /// A worker that panicked did so outside the lock: the queue is whole.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The threads and what they have done. Dropping it lets them end after the job they are at.
pub struct Workers {
    shared: Arc<Shared>,
    results: mpsc::Receiver<(Scheme, DecodeResult)>,
}

impl Workers {
    /// Starts `threads` of them; each result wakes the engine.
    pub fn start(threads: usize, waker: &Waker) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (sender, results) = mpsc::channel();
        for index in 0..threads.max(1) {
            let (shared, sender, waker) = (shared.clone(), sender.clone(), waker.clone());
            std::thread::Builder::new()
                .name(format!("decode-{index}"))
                .spawn(move || work(&shared, &sender, &waker))?;
        }
        Ok(Workers { shared, results })
    }

    pub fn submit(&self, scheme: Scheme, job: Job) {
        self.shared.lock().jobs.push_back((scheme, job));
        self.shared.changed.notify_one();
    }

    /// The next result, in the order in which the jobs ended.
    pub fn poll_result(&self) -> Option<(Scheme, DecodeResult)> {
        self.results.try_recv().ok()
    }

    /// The flow has ended: nobody wants what was not begun.
    pub fn forget(&self, scheme: Scheme, flow: FlowId) {
        self.shared
            .lock()
            .jobs
            .retain(|(of, job)| *of != scheme || job.flow() != flow);
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        queue.jobs.clear();
        self.shared.changed.notify_all();
    }
}

fn work(shared: &Shared, results: &mpsc::Sender<(Scheme, DecodeResult)>, waker: &Waker) {
    loop {
        let mut queue = shared.lock();
        let (scheme, job) = loop {
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
        if results.send((scheme, run(job))).is_err() {
            return;
        }
        waker.wake();
    }
}

fn run(job: Job) -> DecodeResult {
    let before = clock::thread_cpu_ns();
    let mut result = match job {
        Job::Decode(job) => job.run(),
    };
    result.cpu_time = Duration::from_nanos(clock::thread_cpu_ns() - before);
    result
}
