//! The only client of a simulated host. It sends, fetches and offers the objects of a workload and
//! collects the notices. `docs/workloads.md` says when things start, `docs/agent-records.md` what
//! the notices hold.

use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::sync::Arc;

use ebb_host::{
    Error, FetchObject, HostApplication, Limits, Listen, Output, Peer, PlayedTransfer, Player,
    SendObject,
};
use ebb_transport::object::EnvelopeHeader;
use ebb_transport::{Event, FlowId, FlowRecord, Status, TransportKind};
use ebb_units::Instant;
use ebb_workload::{Action, HostId, Kind, Open, Part, Share, Transfer};

use super::arrivals::{Arrivals, Clock, Samples, Unfinished};
use super::objects::Objects;
use super::transports::Transports;
use crate::catalog::Catalog;

/// Number of the only client of a host.
const CLIENT: u64 = 1;

/// A flow that has ended, as one of its ends sees it.
#[derive(Clone)]
pub struct Ended {
    /// The transfer it belongs to, in its last state before the end; `None` if it belongs to none.
    pub open: Option<Open>,
    /// When this host began with the transfer, in nanoseconds; `None` if it did not start it.
    pub started_at_ns: Option<u64>,
    /// Header that a receiver has read from the stream; `None` at a sender, or if nothing
    /// arrived.
    pub header: Option<EnvelopeHeader>,
    /// At a receiver, whether the content is what was sent; `None` if not all of it arrived.
    pub intact: Option<bool>,
    /// Record of the transport.
    pub record: FlowRecord,
    /// It has been skipped, and this is said of it because it was so of the same transfer of an earlier round.
    pub skipped: bool,
}

/// Something that has ended.
pub enum Notice {
    /// A flow.
    Flow(Box<Ended>),
    /// A transfer that failed without a flow that could show it.
    Failed { open: Open, reason: String },
    /// A transfer of this host that will never start, because what it waits for failed.
    NotStarted(Open),
    /// The arrivals of an object that has ended.
    Arrivals { transfer: u64, arrivals: Arrivals },
}

/// The client of a host and the host's part of the workload.
pub struct Application {
    pub(super) catalog: Arc<Catalog>,
    pub(super) host: HostApplication<Objects>,
    pub(super) player: Player,
    /// Fetches that are due, and since when.
    due: Vec<(Instant, Arc<Transfer>)>,
    /// When [`act`](Self::act) has something to do; `None` if nothing is known.
    next_deadline: Option<Instant>,
    /// Whether there may be something to do at once, because something has happened since.
    touched: bool,
    samples: Samples,
    pub(super) notices: Vec<Notice>,
    /// Transfers that this host starts and that have failed, or will never start, since they were last taken.
    failed: Vec<Arc<Transfer>>,
}

impl Application {
    /// The client of the host that has the number `me` in the workload and listens from now on.
    /// Session ids are drawn from `seed`.
    pub fn new(
        catalog: Arc<Catalog>,
        (me, address): (HostId, Ipv4Addr),
        seed: u64,
        transports: &mut Transports,
    ) -> Result<Self, Error> {
        let limits = Limits {
            patience: catalog.patience,
            // Nobody forges requests, and load is what a run is to show. The only client is the workload; how
            // much of it is prepared ahead depends on how far the clock runs at a time.
            serves_per_peer: usize::MAX,
            serves: usize::MAX,
            waiting_per_peer: usize::MAX,
            waiting: usize::MAX,
            transfers_per_client: usize::MAX,
            ..Limits::CAREFUL
        };
        let objects = Objects {
            catalog: catalog.clone(),
        };
        let mut host = HostApplication::new(address, limits, seed, objects);
        for transport in catalog.transports.all() {
            let listen = Listen {
                transport,
                port: transport.service_port(),
                listening: (),
                announce: true,
                progress: false,
            };
            host.listen(CLIENT, listen, transports)?;
        }
        Ok(Application {
            player: Player::new(Share::new(me, 0), catalog.names.clone()),
            catalog,
            host,
            due: Vec::new(),
            next_deadline: None,
            touched: true,
            samples: Samples::default(),
            notices: Vec::new(),
            failed: Vec::new(),
        })
    }

    /// Takes a transfer that concerns this host, before it starts.
    pub fn add(&mut self, now: Instant, transfer: Arc<Transfer>, transports: &mut Transports) {
        self.player.share.add(transfer);
        self.plan(now, transports);
        self.note_deadline();
    }

    /// The notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// The transfers of this host that have failed since the last call, or will never start.
    pub fn take_failed(&mut self) -> Vec<Arc<Transfer>> {
        std::mem::take(&mut self.failed)
    }

    /// A transfer to this host has failed, or will never start, at the host that starts it.
    pub fn handle_failed_elsewhere(&mut self, now: Instant, id: u64) {
        self.player
            .share
            .handle_failed_elsewhere(now.as_nanos(), id);
        self.give_up();
        self.note_deadline();
    }

    /// Whether a transfer that this host starts waits for another one.
    pub fn is_waiting(&self, id: u64) -> bool {
        let open = self.player.share.open(id);
        open.is_some_and(|open| open.part == Part::Start && open.offered_at_ns.is_none())
    }

    /// Takes a transfer off that waits for another one.
    pub fn take_off(&mut self, id: u64) {
        self.player.share.take_off(id);
        self.note_deadline();
    }

    /// Transfers that this host has started, or is to start, and what it sends because others have
    /// asked for it. Of the named parts of the workload only the former; what they serve may still
    /// wait for its confirmation.
    pub fn unfinished(&self, traffic: &[String]) -> usize {
        if traffic.is_empty() {
            return self.player.share.to_end() + self.host.serving();
        }
        let open = self.player.share.iter().filter(|open| {
            open.part == Part::Start && traffic.iter().any(|name| **name == *open.transfer.traffic)
        });
        open.count()
    }

    /// How many transfers this host has started, or is to start, that have not ended.
    pub fn to_end(&self) -> usize {
        self.player.share.to_end()
    }

    /// The transfers that this host starts and that have not ended.
    pub fn rest(&self) -> impl Iterator<Item = &Open> {
        let open = self.player.share.iter();
        open.filter(|open| open.part == Part::Start)
    }

    /// When [`act`](Self::act) has something to do; `None` if nothing is known.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline
    }

    /// Takes note that something has happened, and when something is due now.
    fn note_deadline(&mut self) {
        self.touched = true;
        let fetch = self.player.share.next_deadline_ns();
        let fetch = fetch.map(Instant::from_nanos);
        let due = self.due.first().map(|(at, _)| *at);
        self.next_deadline = Instant::earliest([self.host.next_deadline(), fetch, due]);
    }

    /// Starts what is due at `now`. True if there may have been anything.
    pub fn act(&mut self, now: Instant, transports: &mut Transports) -> bool {
        let is_due = self.next_deadline.is_some_and(|at| at <= now);
        if !is_due && !self.touched {
            return false;
        }
        self.touched = false;
        let mut any = self.plan(now, transports);
        for (_, transfer) in std::mem::take(&mut self.due) {
            self.fetch(now, &transfer, transports);
        }
        self.host.handle_timeout(now, transports);
        any |= self.take_outputs(now);
        self.note_deadline();
        self.touched = any || is_due;
        true
    }

    /// Does what this host's share of the workload asks for. What must be fetched is due now. True if there was
    /// anything.
    fn plan(&mut self, now: Instant, transports: &mut Transports) -> bool {
        let mut any = false;
        while let Some(action) = self.player.share.poll_action(now.as_nanos()) {
            any = true;
            match action {
                Action::Send { transfer, at_ns } => self.send(now, transfer, at_ns, transports),
                Action::Fetch { transfer } => self.due.push((now, transfer)),
                Action::Offer { transfer } => self.offer(now, transfer, transports),
                Action::Withdraw { id } => {
                    let name = self.player.names.of(id);
                    if let Err(error) = self.host.withdraw(CLIENT, &name) {
                        tracing::debug!("withdraw: {error}");
                    }
                }
            }
        }
        self.take_outputs(now) || any
    }

    /// Starts to send a transfer at its time.
    fn send(
        &mut self,
        now: Instant,
        transfer: Arc<Transfer>,
        at_ns: u64,
        transports: &mut Transports,
    ) {
        let (id, transport) = (transfer.id, self.catalog.transports.of(&transfer.traffic));
        let send = SendObject {
            transport,
            to: self.catalog.peers(&transfer.destinations),
            name: self.player.names.of(id),
            priority: transfer.priority,
            connection: transfer.connection,
            group: None,
            unicast: !self.catalog.is_grouped(&transfer),
            start_at: Some(Instant::from_nanos(at_ns)),
            progress: false,
        };
        let sent = self
            .host
            .send(now, (CLIENT, id), send, transfer, transports);
        self.fail_unless(now, id, sent);
    }

    /// Starts to fetch a transfer.
    fn fetch(&mut self, now: Instant, transfer: &Transfer, transports: &mut Transports) {
        let (id, transport) = (transfer.id, self.catalog.transports.of(&transfer.traffic));
        let fetch = FetchObject {
            transport,
            name: self.player.names.of(id),
            from: self.catalog.peers(&transfer.sources),
            priority: transfer.priority,
            connection: transfer.connection,
            patience: None,
            progress: false,
        };
        let asked = self.host.fetch(now, (CLIENT, id), fetch, (), transports);
        self.fail_unless(now, id, asked);
        self.take_outputs(now);
    }

    /// Offers the object of a transfer to hosts that will fetch it.
    fn offer(&mut self, now: Instant, transfer: Arc<Transfer>, transports: &mut Transports) {
        let id = transfer.id;
        let name = self.player.names.of(id);
        let offered = self
            .host
            .offer(now, (CLIENT, id), name, transfer, transports);
        self.fail_unless(now, id, offered);
    }

    /// Passes an event of a transport on.
    pub fn handle_event(
        &mut self,
        now: Instant,
        transport: TransportKind,
        event: Event,
        transports: &mut Transports,
    ) {
        let ended = match &event {
            Event::Finished { flow, .. } | Event::Failed { flow, .. } => Some(*flow),
            _ => None,
        };
        self.host.handle_event(now, transport, event, transports);
        self.take_outputs(now);
        if let Some(flow) = ended {
            self.samples.remove((transport, flow));
        }
        // Transfers that waited for this start now, not when the host is next woken.
        self.plan(now, transports);
        self.note_deadline();
    }

    /// Takes the samples of arrivals that are due. To be called before anything happens at `now`.
    pub fn sample(&mut self, now: Instant, clock: &mut Clock, transports: &Transports) {
        let open = self.host.incoming_objects();
        let open = open.map(|object| (object.transport, object.flow));
        self.samples.take(open, now, clock, transports);
    }

    /// Objects of which a part has arrived.
    pub fn incomplete<'a>(
        &'a self,
        transports: &'a Transports,
    ) -> impl Iterator<Item = Unfinished<'a>> {
        self.host.incoming_objects().filter_map(move |object| {
            let transfer = self.player.names.transfer(&object.header?.name)?;
            let (transport, flow) = (object.transport, object.flow);
            Some(Unfinished {
                open: Cow::Borrowed(self.player.share.open(transfer)?),
                peer: object.peer,
                arrived_bytes: transports.progress(transport, flow)?.arrived_bytes,
                arrivals: self.samples.of((transport, flow)),
            })
        })
    }

    /// Processes the outputs of the host logic. True if there were any.
    fn take_outputs(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some(output) = self.host.poll_output() {
            any = true;
            match output {
                Output::Reply {
                    request, result, ..
                } => match result {
                    Ok(Some(transfer)) => self.player.handle_started(transfer, request),
                    Ok(None) => {}
                    Err(error) => self.fail_unless(now, request, Err(error)),
                },
                Output::Notice { notice, .. } => self.take_notice(now.as_nanos(), notice),
            }
        }
        self.give_up();
        any
    }

    /// Takes note of transfers that will never start. Others report what they were to send.
    fn give_up(&mut self) {
        for open in self.player.share.take_not_started() {
            if open.part == Part::Start {
                self.failed.push(open.transfer.clone());
                self.notices.push(Notice::NotStarted(open));
            }
        }
    }

    /// Processes a notice of the host logic.
    fn take_notice(&mut self, now_ns: u64, notice: ebb_host::Notice) {
        match notice {
            ebb_host::Notice::Incoming { header, .. } => {
                self.player.handle_incoming(now_ns, &header.name);
            }
            ebb_host::Notice::Flow {
                transfer,
                flow,
                started,
                header,
                sha256_ok,
                record,
            } => {
                let name = header.as_ref().map(|header| &*header.name);
                if let Ok(transport) = record.transport.parse() {
                    self.tell_arrivals((transport, flow), name);
                }
                let good = record.status == Status::Finished;
                let played = self.player.handle_flow(now_ns, transfer, name, good);
                let ended = Ended {
                    open: played.open,
                    started_at_ns: started.map(Instant::as_nanos),
                    header,
                    intact: sha256_ok,
                    record: *record,
                    skipped: false,
                };
                self.notices.push(Notice::Flow(Box::new(ended)));
            }
            ebb_host::Notice::End { transfer, failure } => {
                let ended = self.player.handle_end(now_ns, transfer, failure);
                self.tell_end(ended);
            }
            ebb_host::Notice::Progress { .. } => {}
        }
    }

    /// Adds the arrivals of an object whose flow has ended to the notices.
    fn tell_arrivals(&mut self, flow: (TransportKind, FlowId), name: Option<&str>) {
        if let Some(transfer) = name.and_then(|name| self.player.names.transfer(name))
            && let Some(arrivals) = self.samples.remove(flow)
        {
            self.notices.push(Notice::Arrivals { transfer, arrivals });
        }
    }

    /// Adds a transfer that failed to the notices, unless a flow shows the failure.
    fn tell_end(&mut self, ended: Option<PlayedTransfer>) {
        let Some(PlayedTransfer {
            open,
            good,
            unreported,
        }) = ended
        else {
            return;
        };
        if !good {
            self.failed.push(open.transfer.clone());
        }
        if let Some(reason) = unreported {
            self.notices.push(Notice::Failed { open, reason });
        }
    }

    /// Ends a transfer that could not be started.
    fn fail_unless(&mut self, now: Instant, id: u64, result: Result<(), Error>) {
        if let Err(error) = result {
            let ended = self.player.handle_failed(now.as_nanos(), id, error.message);
            self.tell_end(ended);
            self.give_up();
        }
    }
}

impl Catalog {
    /// Whether a transfer goes to a multicast group: one to several hosts does if its transport is
    /// SCDP or Trevi. With other transports each host gets a flow of its own, as with `ebb-agent send
    /// --unicast`.
    pub fn is_grouped(&self, transfer: &Transfer) -> bool {
        self.transports.of(&transfer.traffic).entry().groups
            && transfer.kind == Kind::SendOneToMany
            && transfer.destinations.len() > 1
    }

    /// The hosts with these numbers, as peers.
    fn peers(&self, hosts: &[HostId]) -> Vec<Peer> {
        let addresses = hosts.iter().map(|host| self.addresses[host.index()]);
        addresses.map(Peer::from).collect()
    }
}
