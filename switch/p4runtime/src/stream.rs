//! StreamChannel, on which controllers send arbitration, packets and acknowledgements of digests, and are sent
//! notices, packets, digests and idle timeouts.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::{Stream, StreamExt};
use tonic::Status;

use crate::arbitration::StreamId;
use crate::device::Event;
use crate::digests::List;
use crate::entities::idle_entry;
use crate::error::EntityError;
use crate::forwarding::Forwarding;
use crate::lock::lock;
use crate::mailbox::ERRORS_BYTES;
use crate::p4_data::encode_data;
use crate::packet_io;
use crate::proto::p4;
use crate::proto::p4::stream_error::Details;
use crate::proto::p4::stream_message_request::Update as Request;
use crate::proto::p4::stream_message_response::Update;
use crate::quote::{short, type_of};
use crate::served_device::ServedDevice;

/// How many events of a switch may wait; the switch counts what does not fit.
const EVENT_BUFFER: usize = 4096;

/// Serves what one controller sends, until its stream ends.
pub async fn serve_controller(
    host: Arc<ServedDevice>,
    id: StreamId,
    mut requests: impl Stream<Item = Result<p4::StreamMessageRequest, Status>> + Unpin,
) {
    // A broken connection ends the loop, too; then there is nobody to notify.
    let mut error = None;
    while let Some(Ok(message)) = requests.next().await {
        if let Err(status) = handle(&host, id, message).await {
            error = Some(status);
            break;
        }
    }
    host.close_stream(id, error).await;
}

/// Does what one message asks for. An error ends the stream.
pub async fn handle(
    host: &Arc<ServedDevice>,
    id: StreamId,
    message: p4::StreamMessageRequest,
) -> Result<(), Status> {
    match message.update {
        Some(Request::Arbitration(update)) => return host.arbitrate(id, &update).await,
        Some(Request::Packet(packet)) => packet_out(host, id, packet).await,
        Some(Request::DigestAck(ack)) => digest_ack(host, id, ack),
        Some(Request::Other(any)) => {
            let error = EntityError::unimplemented(format!(
                "there are no messages of type '{}' here",
                short(type_of(&any))
            ));
            let details = Details::Other(p4::StreamOtherError { other: Some(any) });
            report(host, id, error, details);
        }
        None => {
            return Err(Status::invalid_argument("a stream message without content"));
        }
    }
    Ok(())
}

async fn packet_out(host: &ServedDevice, id: StreamId, packet: p4::PacketOut) {
    let sent = match checked_packet_out(host, id, &packet) {
        Ok(frame) => host
            .on_switch(move |switch| switch.packet_out(frame))
            .await
            .map_err(|status| EntityError::new(status.code(), status.message())),
        Err(error) => Err(error),
    };
    if let Err(error) = sent {
        let details = Details::PacketOut(p4::PacketOutError {
            packet_out: Some(packet),
        });
        report(host, id, error, details);
    }
}

fn checked_packet_out(
    host: &ServedDevice,
    id: StreamId,
    packet: &p4::PacketOut,
) -> Result<Vec<u8>, EntityError> {
    require_primary(host, id, "send packets")?;
    let committed = lock(&host.configs).committed.clone();
    let forwarding = committed.ok_or_else(|| {
        EntityError::failed_precondition("no forwarding pipeline config is committed")
    })?;
    let header = forwarding.loaded.info.packet_out.as_ref();
    packet_io::packet_out_frame(header, packet, &mut lock(&forwarding.names))
}

fn digest_ack(host: &ServedDevice, id: StreamId, ack: p4::DigestListAck) {
    let check = || {
        require_primary(host, id, "acknowledge digests")?;
        if let Some(forwarding) = lock(&host.configs).active() {
            let info = &forwarding.loaded.info;
            let found = info.find(&info.digests, ack.digest_id);
            found.map_err(|e| EntityError::invalid(e.message))?;
        }
        Ok(())
    };
    match check() {
        Ok(()) => lock(&host.digests).handle_ack(ack.digest_id, ack.list_id),
        Err(error) => {
            let details = Details::DigestListAck(p4::DigestListAckError {
                digest_list_ack: Some(ack),
            });
            report(host, id, error, details);
        }
    }
}

fn require_primary(host: &ServedDevice, id: StreamId, what: &str) -> Result<(), EntityError> {
    match host.is_primary(id) {
        true => Ok(()),
        false => Err(EntityError::permission_denied(format!(
            "only the primary may {what}; this controller is not the primary"
        ))),
    }
}

fn report(host: &ServedDevice, id: StreamId, error: EntityError, details: Details) {
    let mut error = p4::StreamError {
        canonical_code: error.code as i32,
        message: error.message,
        details: Some(details),
        ..Default::default()
    };
    if error.encoded_len() > ERRORS_BYTES / 2 {
        // A message of this size is no packet that a switch could send.
        error.details = None;
    }
    host.send(id, Update::Error(error));
}

/// Brings what the data plane says to the controllers, for as long as the device is there.
pub async fn serve_events(host: Arc<ServedDevice>) {
    let (sender, mut events) = mpsc::channel(EVENT_BUFFER);
    host.device.subscribe(sender);
    loop {
        let deadline = lock(&host.digests).next_deadline();
        let wait = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            event = events.recv() => match event {
                Some(event) => handle_event(&host, event).await,
                None => return,
            },
            () = wait => {}
            () = host.digests_configured.notified() => {}
        }
        send_digest_lists(&host);
    }
}

pub async fn handle_event(host: &ServedDevice, event: Event) {
    let Some(forwarding) = lock(&host.configs).committed.clone() else {
        return;
    };
    match event {
        Event::PacketIn(frame) => {
            let header = forwarding.loaded.info.packet_in.as_ref();
            let packet = packet_io::packet_in(header, &frame, &lock(&forwarding.names));
            match packet {
                Some(packet) => host.send_packet(packet),
                None => tracing::warn!(
                    bytes = frame.len(),
                    "a frame for the controller is shorter than the header packet_in; dropped"
                ),
            }
        }
        Event::Digest(digest) => {
            let Some(id) = forwarding.loaded.digests.get(&digest.digest) else {
                return;
            };
            // Without a DigestEntry nobody wants to know.
            let config = lock(&forwarding.store).digests.get(id).copied();
            if let Some(config) = config {
                lock(&host.digests).handle_digest(Instant::now(), *id, config, digest.values);
            }
        }
        Event::Idle { table, entry } => {
            let found = host
                .on_switch(move |switch| {
                    forwarding.with(switch, |ctx| idle_entry(ctx, table, entry))
                })
                .await;
            if let Ok(Ok(Some(entry))) = found {
                let id = entry.table_id;
                let notification = p4::IdleTimeoutNotification {
                    table_entry: vec![entry],
                    timestamp: since_epoch_ns(),
                };
                host.send_about(id, Update::IdleTimeoutNotification(notification));
            }
        }
    }
}

/// Sends the lists of digests that are due.
pub fn send_digest_lists(host: &ServedDevice) {
    let committed = lock(&host.configs).committed.clone();
    let Some(forwarding) = committed else { return };
    loop {
        let list = lock(&host.digests).poll_list(Instant::now());
        let Some(list) = list else { return };
        let id = list.digest_id;
        host.send_about(id, Update::Digest(digest_list(&forwarding, list)));
    }
}

fn digest_list(forwarding: &Forwarding, list: List) -> p4::DigestList {
    let info = &forwarding.loaded.info;
    let digest = info.digests.get(&list.digest_id);
    let spec = digest.and_then(|d| d.type_spec.as_ref());
    let data = list.items.into_iter();
    p4::DigestList {
        digest_id: list.digest_id,
        list_id: list.list_id,
        data: data.map(|v| encode_data(spec, &info.types, v)).collect(),
        timestamp: since_epoch_ns(),
    }
}

/// The time of notifications, in ns: the wall clock, as the spec wants it, whatever clock the switch has.
fn since_epoch_ns() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |d| d.as_nanos() as i64)
}
