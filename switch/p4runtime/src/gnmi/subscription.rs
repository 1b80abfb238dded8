//! A stream of subscriptions: what a client wants to hear, and when it hears it.

use std::collections::HashSet;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::encoding::{Form, UpdateEncoder};
use super::model::{Leaf, Place, Sample, Value};
use super::path::{Origin, Pattern, Prefix, Steps};
use super::{Shared, check_paths, is_of_models, notification};
use crate::proto::gnmi as proto;
use proto::subscribe_request::Request;
use proto::subscribe_response::Response;
use proto::subscription_list::Mode;

/// Longest delay of changes, and the shortest time between two samples.
const TICK: Duration = Duration::from_millis(100);
/// Largest age of a value that is sent: subscriptions that are due at about the same time share a sample.
const STALE: Duration = Duration::from_millis(10);
/// Interval of counters for a client that leaves it to us.
const USUAL_SAMPLE: Duration = Duration::from_secs(10);
/// How many values a message has at most: 80 KB of memory or so.
const PART: usize = 64;
/// How many values a stream may have; those of 512 interfaces are 7680.
const MOST_VALUES_OF_STREAM: usize = 32 << 10;

type Sender = mpsc::Sender<Result<proto::SubscribeResponse, Status>>;

/// Conditions under which a client gets leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct When {
    /// None: when it changes.
    sample: Option<Duration>,
    /// Only values that have changed since they were sent.
    only_changes: bool,
    /// When it is sent although nothing has changed; none: never.
    heartbeat: Option<Duration>,
}

/// On demand.
const ALWAYS: When = When {
    sample: None,
    only_changes: false,
    heartbeat: None,
};
const ON_CHANGE: When = When {
    sample: None,
    only_changes: true,
    heartbeat: None,
};

/// Which leaves below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    All,
    Counters,
    Others,
}

impl Kind {
    fn has(self, leaf: &Leaf) -> bool {
        match self {
            Kind::All => true,
            Kind::Counters => leaf.is_counter(),
            Kind::Others => !leaf.is_counter(),
        }
    }
}

/// One path of a subscription.
struct SubscribedPath {
    origin: Origin,
    when: When,
    places: Vec<Place>,
    due: Instant,
    alive: Instant,
    /// Last value sent of each place, if only changes are wanted; none: nothing yet.
    sent: Vec<Option<Value>>,
}

/// All that a client subscribed to.
struct Plan<'a> {
    shared: &'a Shared,
    form: Form,
    prefix: Prefix,
    paths: Vec<SubscribedPath>,
    /// For as long as the values of the paths are kept.
    _values: OwnedSemaphorePermit,
}

/// Serves a stream until the client ends it.
pub async fn serve(
    shared: &Shared,
    mut requests: Streaming<proto::SubscribeRequest>,
    sender: &Sender,
) -> Result<(), Status> {
    let Some(first) = requests.message().await? else {
        return Ok(());
    };
    let Some(Request::Subscribe(list)) = first.request else {
        return Err(Status::invalid_argument(
            "the first message of a stream has the subscriptions",
        ));
    };
    let mode = Mode::try_from(list.mode)
        .map_err(|_| Status::invalid_argument(format!("mode {}", list.mode)))?;
    let updates_only = list.updates_only;
    let mut plan = Plan::of(shared, list, mode).await?;
    let now = Instant::now();
    plan.round(sender, now, now, !updates_only).await?;
    synced(sender).await?;
    match mode {
        Mode::Once => Ok(()),
        Mode::Poll => {
            while let Some(message) = requests.message().await? {
                if !matches!(message.request, Some(Request::Poll(_))) {
                    return Err(Status::invalid_argument("only polls may follow here"));
                }
                taken(sender).await?;
                let now = Instant::now();
                plan.round(sender, now, now, true).await?;
                synced(sender).await?;
            }
            Ok(())
        }
        Mode::Stream => {
            tokio::select! {
                end = plan.stream(sender) => end,
                message = requests.message() => match message? {
                    // The client has nothing more to say, and listens.
                    None => plan.stream(sender).await,
                    Some(_) => Err(Status::invalid_argument("no message may follow here")),
                },
            }
        }
    }
}

impl<'a> Plan<'a> {
    async fn of(
        shared: &'a Shared,
        mut list: proto::SubscriptionList,
        mode: Mode,
    ) -> Result<Self, Status> {
        check_paths(list.subscription.len())?;
        if list.subscription.is_empty() {
            return Err(Status::invalid_argument("there is no subscription"));
        }
        let form = Form::of_subscription(list.encoding)?;
        let prefix = Prefix::read(list.prefix.as_ref())?;
        let models = std::mem::take(&mut list.use_models);
        let wanted = wanted(list, &prefix, mode)?;
        // Equal subscriptions are one.
        let mut known = HashSet::new();
        let wanted = wanted.iter().filter(|want| known.insert(*want));
        let _turn = shared.looking_up.lock().await;
        let (mut paths, mut steps) = (Vec::new(), Steps::default());
        let mut left = MOST_VALUES_OF_STREAM;
        for (pattern, origin, kind, when) in wanted {
            let found = pattern.find(&shared.interfaces, &mut steps)?;
            let places = found.into_iter().map(|found| found.place);
            let is_wanted =
                |place: &Place| kind.has(place.leaf()) && is_of_models(place.leaf(), &models);
            let places: Vec<Place> = places.filter(is_wanted).collect();
            if *kind != Kind::All && places.is_empty() {
                continue;
            }
            left = left.checked_sub(places.len()).ok_or_else(|| {
                Status::resource_exhausted(format!(
                    "more than {MOST_VALUES_OF_STREAM} values in one stream"
                ))
            })?;
            paths.push(SubscribedPath::new(places, *origin, *when));
            // Others wait no longer than one path takes.
            tokio::task::yield_now().await;
        }
        let values = shared.reserve(MOST_VALUES_OF_STREAM - left)?;
        Ok(Self {
            shared,
            form,
            prefix,
            paths,
            _values: values,
        })
    }

    /// Tells what is due, for ever.
    async fn stream(&mut self, sender: &Sender) -> Result<(), Status> {
        // As Stratum does, which clients rely on that take rounds of samples one by one.
        let all_samples = self.paths.iter().all(|path| path.when.sample.is_some());
        let start = Instant::now();
        for path in &mut self.paths {
            path.begin(start);
        }
        loop {
            let Some(next) = self.paths.iter().map(SubscribedPath::next).min() else {
                // Nothing is wanted; the client ends the stream.
                return std::future::pending().await;
            };
            tokio::time::sleep_until(next).await;
            // A client that reads slowly gets fewer samples, not a burst of old ones.
            taken(sender).await?;
            let now = Instant::now();
            self.round(sender, now, now - STALE, true).await?;
            if all_samples {
                synced(sender).await?;
            }
        }
    }

    /// Sends the values of the paths that are due at `now`, of a sample that was taken at `since` or later; with
    /// `sends` false they only count as sent.
    async fn round(
        &mut self,
        sender: &Sender,
        now: Instant,
        since: Instant,
        sends: bool,
    ) -> Result<(), Status> {
        let sample = self.shared.sample(since).await?;
        for path in &mut self.paths {
            let news = path.news(now, &sample);
            if news.is_empty() || !sends {
                continue;
            }
            let encoder = UpdateEncoder {
                form: self.form,
                interfaces: &self.shared.interfaces,
                sample: &sample,
            };
            for part in news.chunks(PART) {
                taken(sender).await?;
                let update = encoder.leaves(part, path.origin);
                let notification = notification(sample.at_ns, &self.prefix, update);
                send(sender, Response::Update(notification)).await?;
            }
        }
        Ok(())
    }
}

/// Leaves that a client subscribes to and when, in the order in which it names them.
fn wanted(
    list: proto::SubscriptionList,
    prefix: &Prefix,
    mode: Mode,
) -> Result<Vec<(Pattern, Origin, Kind, When)>, Status> {
    let mut wanted = Vec::new();
    for subscription in list.subscription {
        let (pattern, origin) = match &subscription.path {
            Some(path) => prefix.pattern(path)?,
            None => prefix.pattern(&proto::Path::default())?,
        };
        if !pattern.is_of_model() {
            return Err(Status::unimplemented(
                "no switch has anything at a path that does not begin with /interfaces",
            ));
        }
        for (kind, when) in whens(&subscription, mode)? {
            wanted.push((pattern.clone(), origin, kind, when));
        }
    }
    Ok(wanted)
}

/// The paths that a subscription is: two if the client leaves it to us when values of one kind or the other are sent.
fn whens(subscription: &proto::Subscription, mode: Mode) -> Result<Vec<(Kind, When)>, Status> {
    if mode != Mode::Stream {
        return Ok(vec![(Kind::All, ALWAYS)]);
    }
    let heartbeat = subscription.heartbeat_interval;
    let heartbeat = (heartbeat > 0)
        .then(|| interval("heartbeat_interval", heartbeat))
        .transpose()?;
    let on_change = When {
        heartbeat,
        ..ON_CHANGE
    };
    match proto::SubscriptionMode::try_from(subscription.mode) {
        Ok(proto::SubscriptionMode::Sample) => {
            let sample = interval("sample_interval", subscription.sample_interval)?;
            let only_changes = subscription.suppress_redundant;
            let when = When {
                sample: Some(sample),
                only_changes,
                // Whatever comes with each sample needs none.
                heartbeat: heartbeat.filter(|_| only_changes),
            };
            Ok(vec![(Kind::All, when)])
        }
        Ok(proto::SubscriptionMode::OnChange) => Ok(vec![(Kind::All, on_change)]),
        Ok(proto::SubscriptionMode::TargetDefined) => {
            let sampled = When {
                sample: Some(USUAL_SAMPLE),
                only_changes: subscription.suppress_redundant,
                heartbeat: heartbeat.filter(|_| subscription.suppress_redundant),
            };
            Ok(vec![(Kind::Others, on_change), (Kind::Counters, sampled)])
        }
        Err(_) => {
            let mode = subscription.mode;
            Err(Status::invalid_argument(format!(
                "subscription mode {mode}"
            )))
        }
    }
}

/// 0 stands for the shortest interval that there is (gNMI Specification 3.5.1.5.2).
fn interval(what: &str, ns: u64) -> Result<Duration, Status> {
    match Duration::from_nanos(ns) {
        Duration::ZERO => Ok(TICK),
        interval if interval < TICK => Err(Status::invalid_argument(format!(
            "{what} {ns}; allowed: {} ns and above, and 0 for the shortest",
            TICK.as_nanos()
        ))),
        interval => Ok(interval),
    }
}

impl SubscribedPath {
    /// Due at once.
    fn new(places: Vec<Place>, origin: Origin, when: When) -> Self {
        let now = Instant::now();
        let sent = match when.only_changes {
            true => vec![None; places.len()],
            false => Vec::new(),
        };
        Self {
            origin,
            when,
            places,
            due: now,
            alive: now,
            sent,
        }
    }

    /// All current values have been sent; from now on the paths of the client hold.
    fn begin(&mut self, now: Instant) {
        self.due = now + self.when.sample.unwrap_or(TICK);
        self.alive = now + self.when.heartbeat.unwrap_or_default();
    }

    /// When there is something to do.
    fn next(&self) -> Instant {
        match self.when.heartbeat {
            Some(_) => self.due.min(self.alive),
            None => self.due,
        }
    }

    /// The places that are to be sent now, which then count as sent.
    fn news(&mut self, now: Instant, sample: &Sample) -> Vec<Place> {
        let is_due = self.due <= now;
        let is_alive = self.when.heartbeat.is_some() && self.alive <= now;
        if is_alive {
            self.alive = now + self.when.heartbeat.unwrap_or_default();
        }
        if is_due && self.when != ALWAYS {
            self.due = now + self.when.sample.unwrap_or(TICK);
        }
        if !is_due && !is_alive {
            return Vec::new();
        }
        let there = |place: &Place| sample.value(*place).is_some();
        if !self.when.only_changes {
            return self.places.iter().copied().filter(there).collect();
        }
        let mut news = Vec::new();
        for (place, sent) in self.places.iter().zip(&mut self.sent) {
            let value = sample.value(*place);
            if value.is_some() && (value != *sent || is_alive) {
                news.push(*place);
                *sent = value;
            }
        }
        news
    }
}

async fn synced(sender: &Sender) -> Result<(), Status> {
    send(sender, Response::SyncResponse(true)).await
}

/// Waits until the client has taken what was sent last.
async fn taken(sender: &Sender) -> Result<(), Status> {
    let room = sender.reserve().await;
    room.map(drop).map_err(|_| gone())
}

async fn send(sender: &Sender, response: Response) -> Result<(), Status> {
    let message = proto::SubscribeResponse {
        response: Some(response),
        ..proto::SubscribeResponse::default()
    };
    sender.send(Ok(message)).await.map_err(|_| gone())
}

fn gone() -> Status {
    Status::cancelled("the client has gone")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tonic::Code;

    use super::*;
    use crate::arbitration::Arbitration;
    use crate::device::{Device, Event, Job, PortState};
    use crate::gnmi::model::{Interfaces, LEAVES};
    use crate::gnmi::{LEAST_VALUES, MOST_STREAMS, MOST_VALUES, Service};
    use crate::plain::Plain;
    use crate::programs::Programs;
    use crate::served_device::ServedDevice;

    const PORTS: u16 = 512;

    struct Large(Plain);

    impl Device for Large {
        fn id(&self) -> u64 {
            1
        }
        fn port_names(&self) -> Vec<(u16, String)> {
            (0..PORTS)
                .map(|port| (port, format!("eth{port}")))
                .collect()
        }
        fn submit(&self, job: Job) {
            self.0.submit(job);
        }
        fn subscribe(&self, _: mpsc::Sender<Event>) {}
    }

    fn service(devices: usize) -> Service {
        let served = ServedDevice::new(
            Arc::new(Large(Plain::new(1))),
            Arc::new(Programs::new(true)),
            Arbitration::Required,
        );
        Service::new(served, Arc::default(), devices)
    }

    /// Subscriptions to all values, by as many different patterns.
    fn everything(times: usize) -> proto::SubscriptionList {
        let patterns: [&[&str]; 5] = [
            &[],
            &["interfaces"],
            &["interfaces", "interface"],
            &["..."],
            &["*"],
        ];
        let subscription = |elems: &[&str]| {
            let elem = |name: &&str| proto::PathElem {
                name: (*name).into(),
                ..proto::PathElem::default()
            };
            let path = proto::Path {
                elem: elems.iter().map(elem).collect(),
                ..proto::Path::default()
            };
            proto::Subscription {
                path: Some(path),
                mode: proto::SubscriptionMode::OnChange.into(),
                ..proto::Subscription::default()
            }
        };
        proto::SubscriptionList {
            subscription: patterns[..times].iter().map(|p| subscription(p)).collect(),
            ..proto::SubscriptionList::default()
        }
    }

    #[tokio::test]
    async fn what_is_kept_for_clients_has_a_sum_and_is_given_back() {
        let service = service(1);
        let shared = &*service.shared;
        let plan = |times| Plan::of(shared, everything(times), Mode::Stream);
        let code = |plan: Result<Plan, Status>| plan.err().map(|status| status.code());
        let whole = usize::from(PORTS) * LEAVES.len();
        let mut open = Vec::new();
        for _ in 0..MOST_VALUES / (4 * whole) {
            open.push(plan(4).await.unwrap_or_else(|status| panic!("{status}")));
        }
        let kept: usize = open
            .iter()
            .flat_map(|p| &p.paths)
            .map(|w| w.sent.len())
            .sum();
        assert_eq!(kept, MOST_VALUES - shared.values.available_permits());
        assert_eq!(code(plan(4).await), Some(Code::ResourceExhausted));
        drop(open.pop());
        assert_eq!(code(plan(4).await), None);
        // A single stream may not have all of it.
        assert_eq!(code(plan(5).await), Some(Code::ResourceExhausted));
        drop(open);
        assert_eq!(shared.values.available_permits(), MOST_VALUES);
    }

    #[tokio::test]
    async fn equal_subscriptions_are_one() {
        let service = service(1);
        let mut list = everything(1);
        list.subscription = vec![list.subscription[0].clone(); 1024];
        let plan = Plan::of(&service.shared, list, Mode::Stream).await;
        let plan = plan.unwrap_or_else(|status| panic!("{status}"));
        assert_eq!(plan.paths.len(), 1);
    }

    #[test]
    fn many_devices_share_what_one_would_have() {
        assert_eq!(service(1).most_streams, MOST_STREAMS);
        let one_of_many = service(320);
        assert_eq!(one_of_many.most_streams, 8);
        assert_eq!(one_of_many.shared.values.available_permits(), LEAST_VALUES);
    }

    #[test]
    fn what_has_not_changed_is_told_with_the_heartbeat_only() {
        let one = Interfaces::new(vec![(1, "eth1".into())]);
        let sample = |is_up| {
            let state = PortState {
                port: 1,
                is_up,
                ..PortState::default()
            };
            one.sample(0, &[state])
        };
        let places = (0..LEAVES.len() as u8).map(|leaf| Place { interface: 0, leaf });
        let second = Duration::from_secs(1);
        let when = When {
            heartbeat: Some(second),
            ..ON_CHANGE
        };
        let mut path = SubscribedPath::new(places.collect(), Origin::default(), when);
        let start = Instant::now();
        let mut sent = |at, is_up| path.news(at, &sample(is_up)).len();
        assert_eq!(sent(start, true), LEAVES.len());
        assert_eq!(sent(start + TICK, true), 0, "nothing has changed");
        path.begin(start);
        let mut sent = |at, is_up| path.news(at, &sample(is_up)).len();
        assert_eq!(sent(start + TICK / 2, false), 0, "not due");
        assert_eq!(sent(start + TICK, false), 1);
        assert_eq!(sent(start + second - TICK / 2, false), 0);
        assert_eq!(sent(start + second, false), LEAVES.len());
        assert_eq!(sent(start + second + TICK, false), 0);
    }
}
