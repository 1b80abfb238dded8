//! A stream of subscriptions: what a client wants to hear, and when it hears it.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tonic::{Status, Streaming};

use super::interfaces::{Leaf, Value, is_counter};
use super::path::Path;
use super::{Form, check_paths, read_path, tree};
use crate::host::Host;
use crate::proto::gnmi as proto;
use proto::subscribe_request::Request;
use proto::subscribe_response::Response;
use proto::subscription_list::Mode;

/// How soon changes are told, and the shortest time between two samples; shorter ones are taken as this.
const TICK: Duration = Duration::from_millis(100);
/// How often counters are told to a client that leaves it to us.
const USUAL_SAMPLE: Duration = Duration::from_secs(10);

type Sender = mpsc::Sender<Result<proto::SubscribeResponse, Status>>;

/// One path of a subscription.
struct Wish {
    pattern: Path,
    /// None: told when it changes.
    sample: Option<Duration>,
    /// Only what has changed since it was told.
    only_changes: bool,
    /// When it is told although nothing has changed; none: never.
    heartbeat: Option<Duration>,
    due: Instant,
    alive: Instant,
    told: BTreeMap<Path, Value>,
}

/// Serves a stream until the client ends it.
pub async fn serve(
    host: &Host,
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
    check_paths(list.subscription.len())?;
    let form = Form::of(list.encoding)?;
    let mut wishes = wishes(&list)?;
    round(host, form, &mut wishes, sender, !list.updates_only, |_| {
        true
    })
    .await?;
    synced(sender).await?;
    match Mode::try_from(list.mode) {
        Ok(Mode::Once) => Ok(()),
        Ok(Mode::Poll) => {
            while let Some(message) = requests.message().await? {
                if !matches!(message.request, Some(Request::Poll(_))) {
                    return Err(Status::invalid_argument("only polls may follow here"));
                }
                round(host, form, &mut wishes, sender, true, |_| true).await?;
                synced(sender).await?;
            }
            Ok(())
        }
        Ok(Mode::Stream) => {
            tokio::select! {
                end = stream(host, form, &mut wishes, sender) => end,
                message = requests.message() => match message? {
                    // The client has nothing more to say, and listens.
                    None => stream(host, form, &mut wishes, sender).await,
                    Some(_) => Err(Status::invalid_argument("no message may follow here")),
                },
            }
        }
        Err(_) => Err(Status::invalid_argument(format!("mode {}", list.mode))),
    }
}

fn wishes(list: &proto::SubscriptionList) -> Result<Vec<Wish>, Status> {
    let now = Instant::now();
    let wish = |subscription: &proto::Subscription| {
        let path = subscription.path.clone().unwrap_or_default();
        let pattern = read_path(list.prefix.as_ref(), &path)?;
        let interval = |ns: u64| Duration::from_nanos(ns).max(TICK);
        let sample = match proto::SubscriptionMode::try_from(subscription.mode) {
            Ok(proto::SubscriptionMode::Sample) => Some(interval(subscription.sample_interval)),
            Ok(proto::SubscriptionMode::OnChange) => None,
            Ok(proto::SubscriptionMode::TargetDefined) => {
                is_counter(&pattern).then_some(USUAL_SAMPLE)
            }
            Err(_) => {
                let mode = subscription.mode;
                return Err(Status::invalid_argument(format!(
                    "subscription mode {mode}"
                )));
            }
        };
        let heartbeat = subscription.heartbeat_interval;
        Ok(Wish {
            pattern,
            sample,
            only_changes: sample.is_none() || subscription.suppress_redundant,
            heartbeat: (heartbeat > 0).then(|| interval(heartbeat)),
            due: now,
            alive: now,
            told: BTreeMap::new(),
        })
    };
    list.subscription.iter().map(wish).collect()
}

/// Tells what is due, for ever.
async fn stream(
    host: &Host,
    form: Form,
    wishes: &mut [Wish],
    sender: &Sender,
) -> Result<(), Status> {
    // As Stratum does, which clients rely on that take rounds of samples one by one.
    let all_samples = wishes.iter().all(|wish| wish.sample.is_some());
    let start = Instant::now();
    for wish in &mut *wishes {
        wish.due = start + wish.sample.unwrap_or(TICK);
        wish.alive = start + wish.heartbeat.unwrap_or_default();
    }
    loop {
        let Some(next) = wishes.iter().map(|wish| wish.due).min() else {
            // Nothing is wanted; the client ends the stream.
            return std::future::pending().await;
        };
        tokio::time::sleep_until(next).await;
        let now = Instant::now();
        round(host, form, wishes, sender, true, |wish| wish.due <= now).await?;
        if all_samples {
            synced(sender).await?;
        }
        for wish in wishes.iter_mut().filter(|wish| wish.due <= now) {
            // Counted from now: a client that reads slowly gets fewer samples, not a burst of old ones.
            wish.due = now + wish.sample.unwrap_or(TICK);
        }
    }
}

/// Tells the values of the wishes that are due; with `is_told` false they only count as told.
async fn round(
    host: &Host,
    form: Form,
    wishes: &mut [Wish],
    sender: &Sender,
    is_told: bool,
    is_due: impl Fn(&Wish) -> bool,
) -> Result<(), Status> {
    let tree = tree(host).await?;
    for wish in wishes.iter_mut().filter(|wish| is_due(wish)) {
        let found = wish.news(&tree);
        if found.is_empty() || !is_told {
            continue;
        }
        let notification = form.notification(found.into_iter());
        send(sender, Response::Update(notification)).await?;
    }
    Ok(())
}

impl Wish {
    /// The values that are to be told now, which then count as told.
    fn news<'a>(&mut self, tree: &'a [Leaf]) -> Vec<&'a Leaf> {
        let now = Instant::now();
        let is_alive = self.heartbeat.is_some_and(|_| self.alive <= now);
        if let (true, Some(heartbeat)) = (is_alive, self.heartbeat) {
            self.alive = now + heartbeat;
        }
        let mut news = Vec::new();
        for leaf in tree.iter().filter(|leaf| self.pattern.matches(&leaf.path)) {
            let is_new = self.told.get(&leaf.path) != Some(&leaf.value);
            if is_new && self.only_changes {
                self.told.insert(leaf.path.clone(), leaf.value.clone());
            }
            if is_new || !self.only_changes || is_alive {
                news.push(leaf);
            }
        }
        news
    }
}

async fn synced(sender: &Sender) -> Result<(), Status> {
    send(sender, Response::SyncResponse(true)).await
}

async fn send(sender: &Sender, response: Response) -> Result<(), Status> {
    let message = proto::SubscribeResponse {
        response: Some(response),
        ..proto::SubscribeResponse::default()
    };
    let sent = sender.send(Ok(message)).await;
    sent.map_err(|_| Status::cancelled("the client has gone"))
}
