//! A device as its clients see it: its forwarding config, who is primary, and their open streams.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::{MutexGuard, Notify, broadcast};
use tokio_stream::Stream;
use tonic::Status;

use crate::answer::Waiting;
use crate::arbitration::{Arbiter, Arbitration, Notice, StreamId, unknown_device};
use crate::device::{Device, Switch, call};
use crate::digests::Digests;
use crate::entities::Context;
use crate::forwarding::{Configs, Forwarding};
use crate::lock::lock;
use crate::mailbox::{Mailbox, OF_CONTROLLER, Outgoing, Refused};
use crate::programs::Programs;
use crate::proto::p4::stream_message_response::Update;
use crate::proto::p4::{PacketIn, StreamMessageResponse, Uint128};
use crate::role::Rights;

/// Most notifications that wait for a client of BF Runtime; one that is slower misses the oldest.
const NOTICES: usize = 1024;
/// Most open streams of a device, with those that have no role yet.
const MAX_STREAMS: usize = 1024;

/// A device, its state that is not of the data plane, and its clients.
pub struct ServedDevice {
    pub device: Arc<dyn Device>,
    pub programs: Arc<Programs>,
    pub configs: Mutex<Configs>,
    pub digests: Mutex<Digests>,
    /// Wakes the task that sends lists of digests: one may be due earlier now.
    pub digests_configured: Notify,
    /// Answers to reads that their clients have not fetched yet.
    pub answers: Arc<Waiting>,
    /// Held by everything that changes the device, and by a change of primary: the writes of the old
    /// primary end before the new one is notified.
    pub gate: tokio::sync::Mutex<()>,
    /// Held by the one read that waits for the gate or has it.
    pub reading: tokio::sync::Mutex<()>,
    arbiter: Mutex<Arbiter>,
    streams: Mutex<Streams>,
    /// Digests and idle timeouts for clients that take part in no arbitration. Its buffer, 200 KB,
    /// is allocated with the first such client.
    notices: OnceLock<broadcast::Sender<Update>>,
}

#[derive(Default)]
struct Streams {
    open: HashMap<StreamId, Mailbox<StreamMessageResponse>>,
    last: StreamId,
    /// The server is stopping: no new streams.
    closed: bool,
}

impl ServedDevice {
    pub fn new(
        device: Arc<dyn Device>,
        programs: Arc<Programs>,
        arbitration: Arbitration,
    ) -> Arc<Self> {
        Arc::new(Self {
            arbiter: Mutex::new(Arbiter::new(device.id(), arbitration)),
            device,
            programs,
            configs: Mutex::default(),
            digests: Mutex::default(),
            digests_configured: Notify::default(),
            answers: Arc::default(),
            gate: tokio::sync::Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            streams: Mutex::default(),
            notices: OnceLock::new(),
        })
    }

    pub fn check_device(&self, id: u64) -> Result<(), Status> {
        match id == self.device.id() {
            true => Ok(()),
            false => Err(unknown_device(id, self.device.id())),
        }
    }

    /// Rights of the primary of a role, for a request that claims to come from it.
    fn check_primary(&self, role: &str, election: Option<&Uint128>) -> Result<Rights, Status> {
        let arbiter = lock(&self.arbiter);
        arbiter.check_primary(role, election)?;
        Ok(arbiter.rights(role))
    }

    /// Waits until the device may be changed by the primary of a role. Other clients are refused at once, so
    /// that their requests hold no memory while they wait.
    pub async fn enter(
        &self,
        role: &str,
        election: Option<&Uint128>,
    ) -> Result<(MutexGuard<'_, ()>, Rights), Status> {
        self.check_primary(role, election)?;
        let gate = self.gate.lock().await;
        // There may be another primary now.
        Ok((gate, self.check_primary(role, election)?))
    }

    /// Rights of a role, for requests that need no primary.
    pub fn rights(&self, role: &str) -> Rights {
        lock(&self.arbiter).rights(role)
    }

    pub fn active(&self) -> Result<Arc<Forwarding>, Status> {
        lock(&self.configs).active().ok_or_else(|| {
            Status::failed_precondition(format!(
                "device {} has no forwarding pipeline config; use SetForwardingPipelineConfig first",
                self.device.id()
            ))
        })
    }

    /// Whether reads and writes still refer to this config.
    pub fn is_active(&self, forwarding: &Arc<Forwarding>) -> bool {
        let active = lock(&self.configs).active();
        active.is_some_and(|active| Arc::ptr_eq(&active, forwarding))
    }

    /// Runs `f` in the thread of the switch.
    pub async fn on_switch<R: Send + 'static>(
        &self,
        f: impl FnOnce(&mut dyn Switch) -> R + Send + 'static,
    ) -> Result<R, Status> {
        call(&*self.device, f).await
    }

    /// Runs `f` on the pipeline of a config, as soon as this is called.
    pub fn on<R, F>(
        &self,
        forwarding: &Arc<Forwarding>,
        f: F,
    ) -> impl Future<Output = Result<R, Status>> + Send + use<R, F>
    where
        R: Send + 'static,
        F: FnOnce(&mut Context) -> R + Send + 'static,
    {
        let forwarding = forwarding.clone();
        let done = call(&*self.device, move |switch| forwarding.with(switch, f));
        async move { done.await? }
    }

    /// Puts a verified config into the switch, with the state of `old` if there is one to keep.
    pub async fn commit(
        &self,
        forwarding: Arc<Forwarding>,
        old: Option<Arc<Forwarding>>,
    ) -> Result<(), Status> {
        let new = forwarding.clone();
        let installed = self.on_switch(move |switch| {
            // A program that the switch would refuse must not have taken anything over.
            new.check(switch)?;
            if let Some(old) = old {
                new.take_over(&old, switch)?;
            }
            new.install(switch)
        });
        installed
            .await?
            .map_err(crate::error::EntityError::into_status)?;
        let mut configs = lock(&self.configs);
        configs.committed = Some(forwarding);
        configs.saved = None;
        lock(&self.digests).clear();
        Ok(())
    }

    /// DigestEntries of this config were written: they hold from now on, if it is in force.
    pub fn configure_digests(&self, forwarding: &Arc<Forwarding>) {
        let committed = lock(&self.configs).committed.clone();
        if committed.is_some_and(|c| Arc::ptr_eq(&c, forwarding)) {
            let wanted = lock(&forwarding.store).digests.clone();
            lock(&self.digests).configure(&wanted);
            self.digests_configured.notify_one();
        }
    }

    /// Opens a StreamChannel: its id, and what is to be sent on it.
    pub fn open_stream(
        &self,
    ) -> Result<
        (
            StreamId,
            impl Stream<Item = Outgoing> + Send + Unpin + use<>,
        ),
        Status,
    > {
        let (mailbox, messages) = Mailbox::new(OF_CONTROLLER);
        let mut streams = lock(&self.streams);
        if streams.open.len() >= MAX_STREAMS {
            return Err(Status::resource_exhausted(format!(
                "device {} has {MAX_STREAMS} open streams, which is the limit",
                self.device.id()
            )));
        }
        streams.last += 1;
        let id = streams.last;
        if !streams.closed {
            streams.open.insert(id, mailbox);
        }
        Ok((id, messages))
    }

    /// Ends the stream, if it is still there, with an error or without.
    pub async fn close_stream(&self, id: StreamId, error: Option<Status>) {
        let mailbox = lock(&self.streams).open.remove(&id);
        if let (Some(mailbox), Some(error)) = (mailbox, error) {
            mailbox.fail(error);
        }
        let _gate = self.gate.lock().await;
        let notices = lock(&self.arbiter).disconnect(id);
        self.notify(notices);
    }

    /// Ends all streams, because the server is stopping.
    pub fn close_all(&self) {
        let mut streams = lock(&self.streams);
        streams.closed = true;
        streams.open.clear();
    }

    /// Runs `restart`, which makes the switch as it was at its start, and forgets everyone who was
    /// connected and everything they installed.
    pub async fn restart(
        &self,
        restart: impl Future<Output = Result<(), Status>>,
    ) -> Result<(), Status> {
        let _gate = self.gate.lock().await;
        restart.await?;
        *lock(&self.configs) = Configs::default();
        *lock(&self.digests) = Digests::default();
        lock(&self.arbiter).forget_all();
        for (_, mailbox) in lock(&self.streams).open.drain() {
            mailbox.fail(Status::unavailable("the switch was restarted"));
        }
        Ok(())
    }

    pub async fn arbitrate(
        &self,
        stream: StreamId,
        update: &crate::proto::p4::MasterArbitrationUpdate,
    ) -> Result<(), Status> {
        let _gate = self.gate.lock().await;
        let notices = lock(&self.arbiter).update(stream, update)?;
        self.notify(notices);
        Ok(())
    }

    pub fn is_primary(&self, stream: StreamId) -> bool {
        lock(&self.arbiter).is_primary(stream)
    }

    fn notify(&self, notices: Vec<Notice>) {
        for (stream, notice) in notices {
            if !self.send(stream, Update::Arbitration(notice)) {
                lock(&self.streams).open.remove(&stream);
            }
        }
    }

    /// The digests and idle timeouts of this device from now on.
    pub fn notices(&self) -> broadcast::Receiver<Update> {
        let notices = self.notices.get_or_init(|| broadcast::Sender::new(NOTICES));
        notices.subscribe()
    }

    /// Sends a message to the primary of every role that has something to do with an object of the P4Info.
    pub fn send_about(&self, id: u32, update: Update) {
        let primaries = lock(&self.arbiter).primaries(|config| config.has(id));
        for stream in primaries {
            self.send(stream, update.clone());
        }
        if let Some(notices) = self.notices.get() {
            // Nobody may be listening any more.
            let _ = notices.send(update);
        }
    }

    /// Sends a packet to the primary of every role that wants it.
    pub fn send_packet(&self, packet: PacketIn) {
        let primaries = lock(&self.arbiter).primaries(|config| config.wants(&packet));
        for stream in primaries {
            self.send(stream, Update::Packet(packet.clone()));
        }
    }

    /// Sends a message on a stream. False: the stream is gone, or its mailbox full.
    pub fn send(&self, stream: StreamId, update: Update) -> bool {
        let streams = lock(&self.streams);
        let Some(mailbox) = streams.open.get(&stream) else {
            return false;
        };
        let is_error = matches!(update, Update::Error(_));
        let message = StreamMessageResponse {
            update: Some(update),
        };
        let sent = match is_error {
            true => mailbox.try_send_error(message),
            false => mailbox.try_send(message),
        };
        if sent == Err(Refused::Full) {
            tracing::debug!(
                stream,
                "a controller reads too slowly; a message was dropped"
            );
        }
        sent.is_ok()
    }
}
