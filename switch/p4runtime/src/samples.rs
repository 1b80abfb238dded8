//! Looks at switches that any client may ask for, as often as it likes: statistics and interfaces. Packets come
//! first: clients that ask at about the same time share a sample, and all looks of a server together take the threads
//! of its switches a tenth of the time at most.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::Status;

use crate::device::{Device, Switch, call};

/// How many times as long as a look took there is none after it.
const REST: u32 = 9;

/// When the next look may be, for all switches of a server: one thread may run them all.
pub struct Pace(Arc<Mutex<Instant>>);

impl Default for Pace {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Pace {
    /// Looks at the switch when it is this caller's turn.
    pub async fn look<R: Send + 'static>(
        &self,
        device: &dyn Device,
        look: impl FnOnce(&mut dyn Switch) -> R + Send + 'static,
    ) -> Result<R, Status> {
        let mut free_at = self.0.clone().lock_owned().await;
        tokio::time::sleep_until(*free_at).await;
        let looked = call(device, move |switch| {
            let began = std::time::Instant::now();
            (look(switch), began.elapsed())
        });
        // What has begun is waited for, though the client may have gone: clients that come and go have a turn, too.
        let turn = tokio::spawn(async move {
            let (result, took) = looked.await?;
            *free_at = Instant::now() + rest(took);
            Ok(result)
        });
        let done = turn.await;
        done.map_err(|e| Status::internal(format!("a look at the switch failed: {e}")))?
    }
}

fn rest(took: Duration) -> Duration {
    took.saturating_mul(REST)
}

/// Samples of one device, of which the last is there for all who want one that is as new.
pub struct Samples<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Samples<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Samples<T> {
    /// One that was taken at that time or later: the last, or a new one.
    pub async fn since(
        &self,
        since: Instant,
        take: impl AsyncFnOnce() -> Result<T, Status>,
    ) -> Result<Arc<T>, Status> {
        let mut last = self.0.lock().await;
        if let Some((at, sample)) = &*last
            && *at >= since
        {
            return Ok(sample.clone());
        }
        let at = Instant::now();
        let sample = Arc::new(take().await?);
        *last = Some((at, sample.clone()));
        Ok(sample)
    }
}
