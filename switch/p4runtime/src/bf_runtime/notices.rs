//! The stream of a client: subscriptions, and what the data plane tells it.

use std::sync::{Arc, Mutex};

use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::Sender;
use tokio_stream::StreamExt;
use tonic::{Status, Streaming};

use super::answer::match_key;
use super::schema::{Digest, Schema};
use super::state::State;
use crate::bytes;
use crate::lock::lock;
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::Value;
use crate::proto::bf_runtime::idle_timeout_notification::NotificationType;
use crate::proto::bf_runtime::stream_message_request::Update as Asked;
use crate::proto::bf_runtime::stream_message_response::Update as Told;
use crate::proto::bf_runtime::subscribe::Notifications;
use crate::proto::p4;
use crate::proto::p4::digest_entry::Config;
use crate::proto::p4::stream_message_response::Update;
use crate::served_device::ServedDevice;

/// How many messages may wait for a client.
pub const WAITING: usize = 256;
/// Digests are told of after this time at the latest, as P4 Studio's timeout of learning is by default.
const DIGEST_TIMEOUT_NS: i64 = 500_000;

/// A client and what it talks to.
pub struct Client {
    pub host: Arc<ServedDevice>,
    pub schema: Arc<Schema>,
    pub state: Arc<Mutex<State>>,
    pub told: Sender<Result<bf::StreamMessageResponse, Status>>,
}

/// Serves a client until its stream ends.
pub async fn serve(client: Client, mut messages: Streaming<bf::StreamMessageRequest>) {
    let mut notices = client.host.notices();
    let mut wanted = Notifications::default();
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
            notice = notices.recv() => {
                let told = match notice {
                    Ok(Update::Digest(list)) if wanted.enable_learn_notifications => client.digest(list),
                    Ok(Update::IdleTimeoutNotification(idle)) if wanted.enable_idletimeout_notifications => {
                        client.idle(idle)
                    }
                    Ok(_) => Vec::new(),
                    Err(RecvError::Lagged(missed)) => {
                        tracing::debug!(missed, "a client of BF Runtime reads too slowly");
                        Vec::new()
                    }
                    Err(RecvError::Closed) => return,
                };
                for update in told {
                    if client.tell(update).await.is_none() {
                        return;
                    }
                }
            }
        }
    }
}

impl Client {
    /// None: the client has gone.
    async fn tell(&self, update: Told) -> Option<()> {
        let message = bf::StreamMessageResponse {
            update: Some(update),
        };
        self.told.send(Ok(message)).await.ok()
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
        self.tell(Told::Subscribe(bf::Subscribe {
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

    fn digest(&self, list: p4::DigestList) -> Vec<Told> {
        let Some(digest) = self.schema.digest(list.digest_id) else {
            return Vec::new();
        };
        let data = list.data.into_iter().map(|data| learned(digest, data));
        vec![Told::Digest(bf::DigestList {
            digest_id: digest.id,
            list_id: list.list_id as u32,
            data: data.collect(),
            target: Some(bf::TargetDevice::default()),
        })]
    }

    fn idle(&self, idle: p4::IdleTimeoutNotification) -> Vec<Told> {
        let state = lock(&self.state);
        let entries = idle.table_entry.iter().filter_map(|entry| {
            let table = self.schema.match_table(entry.table_id)?;
            state.tells_idle(table.id).then(|| bf::TableEntry {
                table_id: table.id,
                key: Some(match_key(table, entry)),
                ..bf::TableEntry::default()
            })
        });
        let told = entries.map(|entry| {
            Told::IdleTimeoutNotification(bf::IdleTimeoutNotification {
                target: Some(bf::TargetDevice::default()),
                table_entry: Some(entry),
                r#type: NotificationType::EntryIdle as i32,
            })
        });
        told.collect()
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
        bf::DataField {
            field_id: field.id,
            value: Some(Value::Stream(bytes::padded(&value, field.width()))),
        }
    });
    bf::TableData {
        action_id: 0,
        fields: fields.collect(),
    }
}
