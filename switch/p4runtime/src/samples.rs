//! Samples of switches (statistics, interfaces) that any client may request at any rate. Packets come first: clients
//! that ask at about the same time share a sample, and all samples of a server together take the threads of its
//! switches a tenth of the time at most.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::Status;

use crate::device::{Device, Switch, call};

/// Pause after a sample, in times that it took.
const REST: u32 = 9;
/// Longest pause. A sample that took longer than a ninth of it is taken to have waited for a processor itself.
const LONGEST_REST: Duration = Duration::from_millis(200);

/// Time of the next sample, for all switches of a server: one thread may run them all.
pub struct Pace {
    free_at: Arc<Mutex<Instant>>,
    /// Whether packets wait while a sample is taken.
    packets_wait: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(true)
    }
}

impl Pace {
    /// Without packets that wait there is no pause between two samples.
    pub fn new(packets_wait: bool) -> Self {
        Self {
            free_at: Arc::new(Mutex::new(Instant::now())),
            packets_wait,
        }
    }

    /// Takes a sample of the switch when it is this caller's turn.
    pub async fn sample<R: Send + 'static>(
        &self,
        device: &dyn Device,
        take: impl FnOnce(&mut dyn Switch) -> R + Send + 'static,
    ) -> Result<R, Status> {
        let packets_wait = self.packets_wait;
        let mut free_at = self.free_at.clone().lock_owned().await;
        tokio::time::sleep_until(*free_at).await;
        let taken = call(device, move |switch| {
            let began = std::time::Instant::now();
            (take(switch), began.elapsed())
        });
        // A sample that has begun is waited for, though the client may have gone: clients that come and go have a
        // turn, too.
        let turn = tokio::spawn(async move {
            let (result, took) = taken.await?;
            if packets_wait {
                *free_at = Instant::now() + rest(took);
            }
            Ok(result)
        });
        let done = turn.await;
        done.map_err(|e| Status::internal(format!("a sample of the switch failed: {e}")))?
    }
}

fn rest(took: Duration) -> Duration {
    took.saturating_mul(REST).min(LONGEST_REST)
}

/// Samples of one device, of which the last is there for all who want one that is as new.
pub struct Samples<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Samples<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Samples<T> {
    /// One that was taken at that time or later, the last or a new one, and when it was.
    pub async fn since(
        &self,
        since: Instant,
        take: impl AsyncFnOnce() -> Result<T, Status>,
    ) -> Result<(Instant, Arc<T>), Status> {
        let mut last = self.0.lock().await;
        if let Some(last) = &*last
            && last.0 >= since
        {
            return Ok(last.clone());
        }
        let taken = (Instant::now(), Arc::new(take().await?));
        *last = Some(taken.clone());
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::mpsc;

    use super::*;
    use crate::device::{Event, Job};
    use crate::lock::lock;
    use crate::plain::Plain;

    #[tokio::test]
    async fn after_a_sample_there_is_none_for_nine_times_as_long() {
        let (pace, switch) = (Pace::default(), Plain::new(1));
        let took = Duration::from_millis(5);
        let sampled = pace.sample(&switch, move |_| std::thread::sleep(took));
        sampled.await.unwrap();
        let after = Instant::now();
        pace.sample(&Plain::new(2), |_| ()).await.unwrap();
        assert!(after.elapsed() >= 8 * took, "{:?}", after.elapsed());
    }

    #[tokio::test]
    async fn where_no_packet_waits_the_next_sample_follows_at_once() {
        let (pace, switch) = (Pace::new(false), Plain::new(1));
        for _ in 0..3 {
            let sampled = pace.sample(&switch, |_| std::thread::sleep(Duration::from_millis(5)));
            sampled.await.unwrap();
            assert!(*pace.free_at.lock().await <= Instant::now());
        }
    }

    /// A switch that executes commands later.
    #[derive(Default)]
    struct Busy(std::sync::Mutex<Vec<Job>>);

    impl Device for Busy {
        fn id(&self) -> u64 {
            1
        }
        fn submit(&self, job: Job) {
            lock(&self.0).push(job);
        }
        fn subscribe(&self, _: mpsc::Sender<Event>) {}
    }

    #[tokio::test]
    async fn clients_that_come_and_go_do_not_fill_the_queue_of_a_switch() {
        let (pace, busy) = (Pace::default(), Busy::default());
        for _ in 0..100 {
            let sampled = pace.sample(&busy, |_| ());
            let gone = tokio::time::timeout(Duration::from_millis(1), sampled);
            assert!(gone.await.is_err());
        }
        let waiting = std::mem::take(&mut *lock(&busy.0));
        assert_eq!(waiting.len(), 1);
        // When it has been done, there is a next one.
        waiting
            .into_iter()
            .for_each(|job| Plain::new(1).submit(job));
        let sampled = pace.sample(&busy, |_| ());
        let waits = tokio::time::timeout(Duration::from_millis(100), sampled);
        assert!(waits.await.is_err());
        assert_eq!(lock(&busy.0).len(), 1);
    }

    #[tokio::test]
    async fn a_sample_is_there_for_all_for_whom_it_is_new_enough() {
        let (samples, taken) = (Samples::default(), AtomicUsize::new(0));
        let take = async || Ok(taken.fetch_add(1, Ordering::Relaxed));
        let start = Instant::now();
        let (mut at, mut number) = samples.since(start, take).await.unwrap();
        for _ in 0..3 {
            let again = samples.since(at, take).await.unwrap();
            assert_eq!(again, (at, number.clone()));
        }
        // Who has had one wants a later one.
        for next in 1..4 {
            let after = at + Duration::from_nanos(1);
            (at, number) = samples.since(after, take).await.unwrap();
            assert_eq!(*number, next);
        }
    }
}
