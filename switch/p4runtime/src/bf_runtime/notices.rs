//! The stream of a client: subscriptions, and what the data plane reports to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ebb_units::Instant;
use prost::Message;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::Sender;
use tokio::time::MissedTickBehavior;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

use super::answer::{match_key, stream, without_action};
use super::schema::{Digest, Schema};
use super::state::State;
use crate::entities;
use crate::lock::lock;
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::SetForwardingPipelineConfigResponseType as Step;
use crate::proto::bf_runtime::idle_timeout_notification::NotificationType;
use crate::proto::bf_runtime::stream_message_request::Update as Asked;
use crate::proto::bf_runtime::stream_message_response::Update as BfUpdate;
use crate::proto::bf_runtime::subscribe::Notifications;
use crate::proto::p4;
use crate::proto::p4::digest_entry::Config;
use crate::proto::p4::stream_message_response::Update;
use crate::served_device::ServedDevice;

/// How many messages may wait for a client.
pub const WAITING: usize = 256;
/// Longest time until a digest is sent, as P4 Studio's timeout of learning is by default.
const DIGEST_TIMEOUT_NS: i64 = 500_000;

/// Period at which a client that asked for it is notified of idle entries that were hit.
const IDLE_SCAN_INTERVAL: Duration = Duration::from_millis(100);
/// Entries scanned between two packets.
const SCANNED_BETWEEN_PACKETS: usize = 200;
/// Most idle entries of a client that are remembered; beyond, all are forgotten and notified once more.
const MOST_ASLEEP: usize = 1 << 16;

/// Entries that a client knows to be idle, by table and key, with the time of their last hit.
type Asleep = BTreeMap<(u32, Vec<u8>), (p4::TableEntry, Instant)>;

/// A client and what it talks to.
pub struct Client {
    pub host: Arc<ServedDevice>,
    pub schema: Arc<Schema>,
    pub state: Arc<Mutex<State>>,
    /// Steps of warm starts.
    pub starts: Receiver<Step>,
    pub updates: Sender<Result<bf::StreamMessageResponse, Status>>,
}

/// Serves a client until its stream ends.
pub async fn serve(mut client: Client, mut messages: Streaming<bf::StreamMessageRequest>) {
    let mut notices = client.host.notices();
    let mut wanted = Notifications::default();
    let mut asleep = Asleep::new();
    let mut looks = tokio::time::interval(IDLE_SCAN_INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = messages.next() => match message {
                Some(Ok(message)) => match message.update {
                    Some(Asked::Subscribe(asked)) => {
                        wanted = asked.notifications.unwrap_or_default();
                        if client.subscribe(asked).await.is_none() {
                            return;
                        }
                    }
                    Some(Asked::DigestAck(ack)) => {
                        let id = Digest::p4_id(ack.digest_id);
                        lock(&client.host.digests).handle_ack(id, ack.list_id.into());
                    }
                    None => {}
                },
                // The client has gone.
                _ => return,
            },
            _ = looks.tick(), if wanted.enable_entry_active_notifications && !asleep.is_empty() => {
                for update in client.woken(&mut asleep).await {
                    if client.send(update).await.is_none() {
                        return;
                    }
                }
            },
            step = client.starts.recv() => {
                if let Ok(step) = step {
                    let response = bf::SetForwardingPipelineConfigResponse {
                        set_forwarding_pipeline_config_response_type: step as i32,
                    };
                    let update = BfUpdate::SetForwardingPipelineConfigResponse(response);
                    if client.send(update).await.is_none() {
                        return;
                    }
                }
            },
            notice = notices.recv() => {
                let updates = match notice {
                    Ok(Update::Digest(list)) if wanted.enable_learn_notifications => client.digest(list),
                    Ok(Update::IdleTimeoutNotification(idle)) if wanted.enable_idletimeout_notifications => {
                        client.newly_idle(idle, &mut asleep).await
                    }
                    Ok(_) => Vec::new(),
                    Err(RecvError::Lagged(missed)) => {
                        tracing::debug!(missed, "a client of BF Runtime reads too slowly");
                        Vec::new()
                    }
                    Err(RecvError::Closed) => return,
                };
                for update in updates {
                    if client.send(update).await.is_none() {
                        return;
                    }
                }
            }
        }
    }
}

impl Client {
    /// None: the client has gone.
    async fn send(&self, update: BfUpdate) -> Option<()> {
        let message = bf::StreamMessageResponse {
            update: Some(update),
        };
        self.updates.send(Ok(message)).await.ok()
    }

    /// Acknowledges a subscription, and has digests sent if they are asked for.
    async fn subscribe(&self, asked: bf::Subscribe) -> Option<()> {
        let checked = self.host.check_device(asked.device_id.into());
        let learns = asked
            .notifications
            .unwrap_or_default()
            .enable_learn_notifications;
        if learns && checked.is_ok() {
            self.learn().await;
        }
        let status = checked.err();
        let status = status.map_or_else(bf::Status::default, |refused| bf::Status {
            code: refused.code() as i32,
            message: refused.message().to_owned(),
        });
        self.send(BfUpdate::Subscribe(bf::Subscribe {
            status: Some(status),
            ..asked
        }))
        .await
    }

    /// Digests that no controller has configured are sent at once, and again whenever they come again.
    async fn learn(&self) {
        let Ok(forwarding) = self.host.active() else {
            return;
        };
        let wanted: Vec<u32> = self.schema.digests().collect();
        let configured = self.host.on(&forwarding, move |ctx| {
            for id in wanted {
                ctx.store.digests.entry(id).or_insert(Config {
                    max_timeout_ns: DIGEST_TIMEOUT_NS,
                    ..Config::default()
                });
            }
        });
        if configured.await.is_ok() {
            self.host.configure_digests(&forwarding);
        }
    }

    fn digest(&self, list: p4::DigestList) -> Vec<BfUpdate> {
        let Some(digest) = self.schema.digest(list.digest_id) else {
            return Vec::new();
        };
        let data = list.data.into_iter().map(|data| learned(digest, data));
        vec![BfUpdate::Digest(bf::DigestList {
            digest_id: digest.id,
            list_id: list.list_id as u32,
            data: data.collect(),
            target: Some(bf::TargetDevice::default()),
        })]
    }

    /// Tells of entries that have become idle. P4Runtime tells of them again and again.
    async fn newly_idle(
        &self,
        mut idle: p4::IdleTimeoutNotification,
        asleep: &mut Asleep,
    ) -> Vec<BfUpdate> {
        let hits = self.last_hits(idle.table_entry.clone()).await;
        if asleep.len() > MOST_ASLEEP {
            asleep.clear();
        }
        let mut hits = hits.into_iter();
        idle.table_entry.retain(|entry| {
            let hit = hits.next().flatten();
            let key = (entry.table_id, entry.encode_to_vec());
            hit.is_some_and(|hit| {
                asleep
                    .insert(key, (entry.clone(), hit))
                    .is_none_or(|(_, of)| of != hit)
            })
        });
        self.idle(&idle)
    }

    /// Tells of idle entries that were hit since, and forgets those and the ones that are gone.
    async fn woken(&self, asleep: &mut Asleep) -> Vec<BfUpdate> {
        let entries: Vec<_> = asleep.values().map(|(entry, _)| entry.clone()).collect();
        let mut hits = self.last_hits(entries).await.into_iter();
        let mut woken = Vec::new();
        asleep.retain(|_, (entry, at)| match hits.next().flatten() {
            Some(hit) if hit == *at => true,
            Some(_) => {
                woken.extend(self.of_state(entry, NotificationType::EntryActive));
                false
            }
            None => false,
        });
        woken
    }

    /// When entries were last hit; none: they are not there.
    async fn last_hits(&self, entries: Vec<p4::TableEntry>) -> Vec<Option<Instant>> {
        let Ok(forwarding) = self.host.active() else {
            return Vec::new();
        };
        let mut all = Vec::with_capacity(entries.len());
        for some in entries.chunks(SCANNED_BETWEEN_PACKETS) {
            let some = some.to_vec();
            let hits = self.host.on(&forwarding, move |ctx| -> Vec<_> {
                let hits = some
                    .iter()
                    .map(|entry| entities::last_hit(ctx, entry).ok()?);
                hits.collect()
            });
            let Ok(hits) = hits.await else {
                return all;
            };
            all.extend(hits);
        }
        all
    }

    fn idle(&self, idle: &p4::IdleTimeoutNotification) -> Vec<BfUpdate> {
        let entries = idle.table_entry.iter();
        entries
            .filter_map(|entry| self.of_state(entry, NotificationType::EntryIdle))
            .collect()
    }

    /// The message that an entry is idle or not; none: its table tells of no entries.
    fn of_state(&self, entry: &p4::TableEntry, state: NotificationType) -> Option<BfUpdate> {
        let table = self.schema.match_table(entry.table_id)?;
        let notification = bf::IdleTimeoutNotification {
            target: Some(bf::TargetDevice::default()),
            table_entry: Some(bf::TableEntry {
                table_id: table.id,
                key: Some(match_key(table, entry)),
                ..bf::TableEntry::default()
            }),
            r#type: state as i32,
        };
        lock(&self.state)
            .tells_idle(table.id)
            .then_some(BfUpdate::IdleTimeoutNotification(notification))
    }
}

/// The fields of a digest.
fn learned(digest: &Digest, data: p4::P4Data) -> bf::TableData {
    use p4::p4_data::Data;
    let members = match data.data {
        Some(Data::Struct(of)) => of.members,
        Some(Data::Tuple(of)) => of.members,
        Some(Data::Header(of)) => {
            let strings = of.bitstrings.into_iter().map(Data::Bitstring);
            strings
                .map(|data| p4::P4Data { data: Some(data) })
                .collect()
        }
        data => vec![p4::P4Data { data }],
    };
    let fields = digest.fields.iter().zip(members);
    let fields = fields.map(|(field, member)| {
        let value = match member.data {
            Some(Data::Bitstring(value) | Data::EnumValue(value)) => value,
            Some(Data::Bool(value)) => vec![u8::from(value)],
            _ => Vec::new(),
        };
        stream(field, &value)
    });
    without_action(fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arbitration::Arbitration;
    use crate::bf_runtime::chip::Chip;
    use crate::fixture;
    use crate::plain::Plain;
    use crate::programs::Programs;
    use crate::proto::bf_runtime::idle_table::IdleTableMode;
    use crate::proto::bf_runtime::table_attribute::Attribute;

    /// The only table of `entities.p4` with idle timeouts is `bridge`.
    fn client() -> (Client, u32) {
        let text = fixture::compiled("entities").bf_rt;
        let schema = Schema::parse("entities", text.to_string().into()).unwrap();
        let mut tables = text["tables"].as_array().unwrap().iter();
        let timed = tables.find(|table| {
            let mut attributes = table["attributes"].as_array().unwrap().iter();
            attributes.any(|of| of == "IdleTimeout")
        });
        let id = timed.unwrap()["id"].as_u64().unwrap();
        let programs = Arc::new(Programs::new(true));
        let (updates, _) = tokio::sync::mpsc::channel(1);
        let client = Client {
            host: ServedDevice::new(Arc::new(Plain::new(0)), programs, Arbitration::Required),
            schema: Arc::new(schema),
            state: Arc::new(Mutex::new(State::new(Chip::new(Vec::new())))),
            starts: tokio::sync::broadcast::channel(1).1,
            updates,
        };
        (client, u32::try_from(id).unwrap())
    }

    #[test]
    fn an_idle_entry_is_told_of_with_its_key_unless_that_is_turned_off() {
        let (client, table_id) = client();
        let exact = |value: &[u8]| p4::FieldMatch {
            field_id: 1,
            field_match_type: Some(p4::field_match::FieldMatchType::Exact(
                p4::field_match::Exact {
                    value: value.to_vec(),
                },
            )),
        };
        let idle = p4::IdleTimeoutNotification {
            table_entry: vec![
                p4::TableEntry {
                    table_id,
                    r#match: vec![exact(&[5])],
                    ..p4::TableEntry::default()
                },
                // The schema has no such table.
                p4::TableEntry::default(),
            ],
            ..p4::IdleTimeoutNotification::default()
        };
        let updates = client.idle(&idle);
        let [BfUpdate::IdleTimeoutNotification(notified)] = &updates[..] else {
            panic!("{updates:?}");
        };
        assert_eq!(notified.r#type(), NotificationType::EntryIdle);
        let entry = notified.table_entry.as_ref().unwrap();
        assert_eq!(entry.table_id, table_id);
        assert_eq!(entry.key.as_ref().unwrap().fields[0].field_id, 1);
        let table = client.schema.table(table_id).unwrap();
        let set = |enable, mode: IdleTableMode| {
            let idle = bf::IdleTable {
                enable,
                idle_table_mode: mode as i32,
                ..bf::IdleTable::default()
            };
            let attribute = bf::TableAttribute {
                table_id,
                attribute: Some(Attribute::IdleTable(idle)),
            };
            let mut state = lock(&client.state);
            state.set_attribute(table, &attribute, 0xffff).unwrap();
        };
        set(false, IdleTableMode::IdleTableNotifyMode);
        assert!(client.idle(&idle).is_empty());
        // The client asks for idle entries itself.
        set(true, IdleTableMode::IdleTablePollMode);
        assert!(client.idle(&idle).is_empty());
        set(true, IdleTableMode::IdleTableNotifyMode);
        assert_eq!(client.idle(&idle).len(), 1);
    }
}
