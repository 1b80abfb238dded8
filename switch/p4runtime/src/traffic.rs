//! The traffic-manager service of one device.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ebb_printable::printable_lines;
use ebb_traffic_manager::{
    Count, DelayBucket, DelaySummary, PortStatistics, QueueStatistics, TrafficManagerConfig,
};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior};
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use crate::device::{Lateness, Switch};
use crate::proto::tm;
use crate::proto::tm::traffic_manager_server::TrafficManager;
use crate::samples::{Pace, Samples};
use crate::served_device::ServedDevice;

/// The shortest time between two samples of a client.
const MIN_INTERVAL: Duration = Duration::from_millis(1);
/// Greatest age of a sample that a stream sends, so that streams that are due at about the same time share one.
const STALE: Duration = Duration::from_millis(10);
/// Most streams of statistics that a device serves at once. A live view has one.
const MOST_STREAMS: usize = 16;

pub struct Service {
    shared: Arc<Shared>,
    streams: Arc<Semaphore>,
}

/// State of all calls.
struct Shared {
    served: Arc<ServedDevice>,
    pace: Arc<Pace>,
    samples: Samples<tm::Stats>,
    /// Held by a call that reads the switch for itself instead of sharing a sample: such calls take turns, so that many
    /// of them do not delay the samples.
    own_look: tokio::sync::Mutex<()>,
}

impl Service {
    pub fn new(served: Arc<ServedDevice>, pace: Arc<Pace>) -> Self {
        let samples = Samples::default();
        Self {
            shared: Arc::new(Shared {
                served,
                pace,
                samples,
                own_look: tokio::sync::Mutex::default(),
            }),
            streams: Arc::new(Semaphore::new(MOST_STREAMS)),
        }
    }
}

impl Shared {
    /// Statistics sampled at `since` or later, and the time of the sample.
    async fn sample(&self, since: Instant) -> Result<(Instant, Arc<tm::Stats>), Status> {
        let take = async || {
            let device = &*self.served.device;
            self.pace.sample(device, |switch| statistics(switch)).await
        };
        self.samples.since(since, take).await
    }

    /// Sends a sample per interval until the client goes.
    async fn stream(
        &self,
        interval: Duration,
        sender: &mpsc::Sender<Result<tm::Stats, Status>>,
    ) -> Result<(), Status> {
        let mut ticks = tokio::time::interval(interval);
        // A client that reads too slowly gets fewer samples, not a burst of old ones.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut last: Option<Instant> = None;
        loop {
            ticks.tick().await;
            // No sample is taken before the client has read the last one.
            let Ok(room) = sender.reserve().await else {
                return Ok(());
            };
            // A client gets no sample twice.
            let fresh = Instant::now() - STALE.min(interval / 2);
            let later = last.map(|last| last + Duration::from_nanos(1));
            let since = later.map_or(fresh, |later| later.max(fresh));
            let (taken_at, stats) = self.sample(since).await?;
            last = Some(taken_at);
            room.send(Ok((*stats).clone()));
        }
    }
}

#[tonic::async_trait]
impl TrafficManager for Service {
    type StreamStatsStream = Pin<Box<dyn Stream<Item = Result<tm::Stats, Status>> + Send>>;

    async fn get_config(
        &self,
        request: Request<tm::GetConfigRequest>,
    ) -> Result<Response<tm::GetConfigResponse>, Status> {
        self.shared
            .served
            .check_device(request.into_inner().device_id)?;
        let device = &*self.shared.served.device;
        let config = |switch: &mut dyn Switch| switch.traffic_config().clone();
        let _turn = self.shared.own_look.lock().await;
        let config = self.shared.pace.sample(device, config).await?;
        let config = serde_json::to_string_pretty(&config)
            .map_err(|e| Status::internal(format!("the configuration as JSON: {e}")))?;
        Ok(Response::new(tm::GetConfigResponse { config }))
    }

    async fn set_config(
        &self,
        request: Request<tm::SetConfigRequest>,
    ) -> Result<Response<tm::SetConfigResponse>, Status> {
        let request = request.into_inner();
        self.shared.served.check_device(request.device_id)?;
        let config = parse_config(&request.config)?;
        self.shared
            .served
            .on_switch(|switch| switch.set_traffic_config(config))
            .await?
            .map_err(|e| Status::invalid_argument(printable_lines(&e.to_string())))?;
        Ok(Response::new(tm::SetConfigResponse {}))
    }

    async fn get_stats(
        &self,
        request: Request<tm::GetStatsRequest>,
    ) -> Result<Response<tm::Stats>, Status> {
        let request = request.into_inner();
        self.shared.served.check_device(request.device_id)?;
        if !request.reset {
            let (_, stats) = self.shared.sample(Instant::now()).await?;
            return Ok(Response::new((*stats).clone()));
        }
        let device = &*self.shared.served.device;
        let read = |switch: &mut dyn Switch| {
            let stats = statistics(switch);
            switch.reset_traffic_statistics();
            stats
        };
        let _turn = self.shared.own_look.lock().await;
        Ok(Response::new(self.shared.pace.sample(device, read).await?))
    }

    async fn stream_stats(
        &self,
        request: Request<tm::StreamStatsRequest>,
    ) -> Result<Response<Self::StreamStatsStream>, Status> {
        let request = request.into_inner();
        self.shared.served.check_device(request.device_id)?;
        let interval = Duration::from_nanos(request.interval_ns);
        if interval < MIN_INTERVAL {
            return Err(Status::out_of_range(format!(
                "interval_ns {}; allowed: {} and above",
                request.interval_ns,
                MIN_INTERVAL.as_nanos()
            )));
        }
        let permit = self.streams.clone().try_acquire_owned();
        let permit = permit.map_err(|_| {
            Status::resource_exhausted(format!(
                "{MOST_STREAMS} streams of statistics of this switch at once; end one of them first"
            ))
        })?;
        let (sender, receiver) = mpsc::channel(1);
        let shared = self.shared.clone();
        tokio::spawn(async move {
            let end = tokio::select! {
                end = shared.stream(interval, &sender) => end,
                () = sender.closed() => Ok(()),
            };
            drop(permit);
            if let Err(status) = end {
                // The client may have gone meanwhile.
                let _ = sender.send(Err(status)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// A configuration that begins as JSON is read as such, any other as TOML.
fn parse_config(text: &str) -> Result<TrafficManagerConfig, Status> {
    let parsed = match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).map_err(|e| e.to_string()),
        false => toml::from_str(text).map_err(|e| e.to_string()),
    };
    parsed.map_err(|e| {
        let problem = printable_lines(e.trim_end());
        Status::invalid_argument(format!("traffic manager configuration: {problem}"))
    })
}

fn statistics(switch: &mut dyn Switch) -> tm::Stats {
    tm::Stats {
        time_ns: switch.now().as_nanos(),
        ports: switch.traffic_statistics().iter().map(port).collect(),
        drops: switch.other_drops().into_iter().map(other_drops).collect(),
        lateness: Some(lateness(&switch.lateness())),
    }
}

fn lateness(lateness: &Lateness) -> tm::Lateness {
    let summary = |summary: &DelaySummary| tm::DelaySummary {
        count: summary.count,
        p99_ns: summary.p99_ns,
        p999_ns: summary.p999_ns,
        max_ns: summary.max_ns,
    };
    tm::Lateness {
        wakeups: Some(summary(&lateness.wakeups)),
        departures: Some(summary(&lateness.departures)),
    }
}

fn other_drops((port, reason, dropped): (u16, String, Count)) -> tm::OtherDrops {
    tm::OtherDrops {
        port: port.into(),
        reason,
        count: count(dropped),
    }
}

fn port(port: &PortStatistics) -> tm::PortStats {
    tm::PortStats {
        port: port.port.into(),
        profile: port.profile.clone(),
        transmitted: count(port.transmitted),
        busy_ns: port.busy_ns,
        queues: port.queues.iter().map(queue).collect(),
        control: count(port.control),
        control_received: count(port.control_received),
    }
}

fn queue(queue: &QueueStatistics) -> tm::QueueStats {
    let drops = queue.dropped.iter().map(|(reason, dropped)| tm::Drops {
        reason: reason.to_string(),
        count: count(*dropped),
    });
    tm::QueueStats {
        queue: queue.queue.into(),
        enqueued: count(queue.enqueued),
        dequeued: count(queue.dequeued),
        deflected: count(queue.deflected),
        drops: drops.collect(),
        egress_dropped: count(queue.egress_dropped),
        pruned: count(queue.pruned),
        transmitted: count(queue.transmitted),
        ecn_ce: count(queue.ecn_ce),
        depth_packets: queue.depth_packets,
        depth_bytes: queue.depth_bytes,
        max_depth_packets: queue.max_depth_packets,
        max_depth_bytes: queue.max_depth_bytes,
        average_depth_packets: queue.average_depth_packets,
        average_depth_bytes: queue.average_depth_bytes,
        arrival_depth_packets: queue.arrival_depth_packets,
        arrival_depth_bytes: queue.arrival_depth_bytes,
        average_delay_ns: queue.average_delay_ns,
        max_delay_ns: queue.max_delay_ns,
        delays: delays(&queue.delays),
        pauses_sent: queue.pauses_sent,
        pauses_received: queue.pauses_received,
        pauses_expired: queue.pauses_expired,
        pause_storms: queue.pause_storms,
        paused_ns: queue.paused_ns,
        ingress_depth: count(queue.ingress_depth),
    }
}

fn delays(buckets: &[DelayBucket]) -> Option<tm::DelayBuckets> {
    Some(tm::DelayBuckets {
        from_ns: buckets.iter().map(|bucket| bucket.from_ns).collect(),
        below_ns: buckets.iter().map(|bucket| bucket.below_ns).collect(),
        packets: buckets.iter().map(|bucket| bucket.packets).collect(),
    })
}

fn count(count: Count) -> Option<tm::Count> {
    Some(tm::Count {
        packets: count.packets,
        bytes: count.bytes,
    })
}
