//! What the agent of a host does, without its machine: it sends, fetches and serves the objects of a
//! workload over a transport, and tells what became of them. `docs/agent-records.md` has what is
//! told, `docs/workloads.md` when things start.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use std::sync::Arc;

use ebb_transport::{
    Event, FlowId, FlowRecord, GroupRequest, Part as SenderPart, SendRequest, Status, StreamHead,
    Transport, group_address,
};
use ebb_units::Instant;
use ebb_workload::{Action, HostId, Kind, Open, Share, Transfer};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::arrivals::Arrivals;
use super::fetching::Fetching;
use crate::catalog::Catalog;

/// A flow that has ended, at one of its ends.
pub struct Ended {
    /// The transfer it belongs to, as it was before that.
    pub open: Option<Open>,
    /// When this host began with the transfer.
    pub started_at_ns: Option<u64>,
    pub object: Option<Object>,
    /// Receiver: whether the content is what was sent; `None` if not all arrived.
    pub intact: Option<bool>,
    pub record: FlowRecord,
}

/// What a receiver learns from the beginning of a stream.
#[derive(Clone, Debug)]
pub struct Object {
    pub name: String,
    pub content_bytes: u64,
}

/// What there is to tell.
pub enum Told {
    Flow(Box<Ended>),
    /// A transfer that failed without a flow that could tell it.
    Failed {
        open: Open,
        reason: String,
    },
    /// How an object has come that has ended.
    Arrivals {
        transfer: u64,
        arrivals: Arrivals,
    },
}

pub struct Application {
    pub(super) catalog: Arc<Catalog>,
    pub(super) share: Share,
    /// Sends whose time has not come, by time and transfer.
    starts: BTreeMap<(Instant, u64), Arc<Transfer>>,
    pub(super) flows: BTreeMap<FlowId, Flow>,
    sends: BTreeMap<u64, Sending>,
    pub(super) fetches: BTreeMap<u64, Fetching>,
    /// Ports that answers come to, and the fetches that wait there.
    pub(super) reply_ports: BTreeMap<u16, u64>,
    pub(super) last_reply_port: u16,
    /// When which fetch is given up unless something has arrived.
    pub(super) patience: BTreeSet<(Instant, u64)>,
    /// Fetches that were due when the host was told of them, and since when.
    due: Vec<(Instant, Arc<Transfer>)>,
    /// What others may fetch.
    pub(super) offers: BTreeMap<u64, Arc<Transfer>>,
    pub(super) told: Vec<Told>,
    pub(super) rng: SmallRng,
}

/// A flow that is open.
pub(super) enum Flow {
    /// An object on its way from here.
    Outgoing {
        transfer: u64,
        object: Object,
    },
    /// A request of ours.
    Request {
        transfer: u64,
        server: SocketAddrV4,
    },
    /// Our answer that there is no object.
    Refusal,
    Incoming(Box<Incoming>),
}

pub(super) struct Incoming {
    pub peer: SocketAddrV4,
    pub local_port: u16,
    pub stage: Stage,
    pub arrivals: Arrivals,
}

pub(super) enum Stage {
    /// The first bytes, which do not say yet what it is.
    Head(Vec<u8>),
    Object(Receiving),
    Request(ebb_transport::FetchRequest),
    Refusal(ebb_transport::Refusal),
}

pub(super) struct Receiving {
    pub object: Object,
    /// `None`: of another run.
    pub transfer: Option<u64>,
    pub received: u64,
    pub intact: bool,
}

/// A transfer that this host sends. It ends with the last of its flows.
struct Sending {
    started: Instant,
    flows: BTreeSet<FlowId>,
    /// The first thing that went wrong.
    failure: Option<String>,
}

impl Application {
    pub fn new(catalog: Arc<Catalog>, me: HostId, seed: u64) -> Self {
        Application {
            catalog,
            share: Share::new(me, 0),
            starts: BTreeMap::new(),
            flows: BTreeMap::new(),
            sends: BTreeMap::new(),
            fetches: BTreeMap::new(),
            reply_ports: BTreeMap::new(),
            last_reply_port: 0,
            patience: BTreeSet::new(),
            due: Vec::new(),
            offers: BTreeMap::new(),
            told: Vec::new(),
            rng: SmallRng::seed_from_u64(seed),
        }
    }

    /// Tells it of a transfer that concerns it, before its time.
    pub fn add(&mut self, now: Instant, transfer: Arc<Transfer>) {
        self.share.add(transfer);
        let mut due = Vec::new();
        self.plan(now, |transfer| due.push((now, transfer)));
        self.due.append(&mut due);
    }

    pub fn take_told(&mut self) -> Vec<Told> {
        std::mem::take(&mut self.told)
    }

    /// Transfers that this host has started, or is to start, and what it sends because others have
    /// asked for it. Of the named parts of the workload only the former; what they serve may still
    /// wait for its confirmation.
    pub fn unfinished(&self, traffic: &[String]) -> usize {
        let serves = self.flows.values().filter(|flow| match flow {
            Flow::Outgoing { transfer, .. } => !self.sends.contains_key(transfer),
            _ => false,
        });
        if traffic.is_empty() {
            return self.share.to_end() + serves.count();
        }
        let open = self.share.iter().filter(|open| {
            open.part == ebb_workload::Part::Start
                && traffic.iter().any(|name| **name == *open.transfer.traffic)
        });
        open.count()
    }

    /// Transfers that this host has started, or is to start, and that have not ended.
    pub fn to_end(&self) -> usize {
        self.share.to_end()
    }

    /// Transfers that this host starts and that have not ended, and those that never start.
    pub fn rest(&self) -> (impl Iterator<Item = &Open>, impl Iterator<Item = &Open>) {
        let open = self.share.iter();
        let ours = open.filter(|open| open.part == ebb_workload::Part::Start);
        (ours, self.share.not_started().iter())
    }

    /// When [`act`](Self::act) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let start = self.starts.first_key_value().map(|((at, _), _)| *at);
        let patience = self.patience.first().map(|(at, _)| *at);
        let fetch = self.share.next_deadline_ns().map(Instant::from_nanos);
        let due = self.due.first().map(|(at, _)| *at);
        [start, patience, fetch, due].into_iter().flatten().min()
    }

    /// Starts what is due.
    pub fn act(&mut self, now: Instant, transport: &mut dyn Transport) {
        let due = std::mem::take(&mut self.due).into_iter();
        let mut fetches: Vec<_> = due.map(|(_, transfer)| transfer).collect();
        self.plan(now, |transfer| fetches.push(transfer));
        for transfer in fetches {
            self.fetch(now, &transfer, transport);
        }
        while let Some(entry) = self.starts.first_entry()
            && entry.key().0 <= now
        {
            let transfer = entry.remove();
            self.send(now, &transfer, transport);
        }
        while let Some(&(at, id)) = self.patience.first()
            && at <= now
        {
            self.patience.pop_first();
            self.patience_ended(now, id, transport);
        }
    }

    /// Takes over what the share of this host says is to be done.
    fn plan(&mut self, now: Instant, mut fetch: impl FnMut(Arc<Transfer>)) {
        while let Some(action) = self.share.poll_action(now.as_nanos()) {
            match action {
                Action::Send { transfer, at_ns } => {
                    let key = (Instant::from_nanos(at_ns), transfer.id);
                    self.starts.insert(key, transfer);
                }
                Action::Fetch { transfer } => fetch(transfer),
                Action::Offer { transfer } => {
                    self.offers.insert(transfer.id, transfer);
                }
                Action::Withdraw { id } => {
                    self.offers.remove(&id);
                }
            }
        }
    }

    fn send(&mut self, now: Instant, transfer: &Transfer, transport: &mut dyn Transport) {
        let sending = Sending {
            started: now,
            flows: BTreeSet::new(),
            failure: None,
        };
        self.sends.insert(transfer.id, sending);
        if let Err(reason) = self.start_flows(now, transfer, transport) {
            let started = self.sends.remove(&transfer.id);
            for flow in started.into_iter().flat_map(|sending| sending.flows) {
                transport.abort(now, flow, "another flow of the transfer cannot start");
            }
            self.fail(now, transfer.id, reason);
        }
    }

    fn start_flows(
        &mut self,
        now: Instant,
        transfer: &Transfer,
        transport: &mut dyn Transport,
    ) -> Result<(), String> {
        let source = self.catalog.stream(transfer).map_err(|e| e.to_string())?;
        let priority = transfer.priority;
        let to = &transfer.destinations;
        if self.catalog.is_grouped(transfer) {
            let request = GroupRequest {
                group: self.catalog.group(to),
                receivers: self.catalog.addresses_of(to),
                source_port: None,
                source,
                priority,
            };
            let flow = transport.send_group(now, request);
            self.sending(transfer, flow.map_err(|e| e.to_string())?);
            return Ok(());
        }
        for &host in to {
            let request = SendRequest {
                to: self.catalog.service(host),
                source_port: None,
                source: source.clone(),
                priority,
                part: None,
            };
            let flow = transport.send(now, request);
            self.sending(transfer, flow.map_err(|e| e.to_string())?);
        }
        Ok(())
    }

    fn sending(&mut self, transfer: &Transfer, flow: FlowId) {
        if let Some(sending) = self.sends.get_mut(&transfer.id) {
            sending.flows.insert(flow);
        }
        self.outgoing(transfer, flow);
    }

    fn outgoing(&mut self, transfer: &Transfer, flow: FlowId) {
        let object = Object {
            name: self.catalog.name(transfer.id),
            content_bytes: transfer.bytes,
        };
        let transfer = transfer.id;
        self.flows.insert(flow, Flow::Outgoing { transfer, object });
    }

    /// Sends an object because another host has asked for it.
    pub(super) fn serve(
        &mut self,
        now: Instant,
        transfer: &Transfer,
        to: SocketAddrV4,
        (priority, part): (u8, Option<SenderPart>),
        transport: &mut dyn Transport,
    ) -> Result<(), String> {
        let request = SendRequest {
            to,
            source_port: None,
            source: self.catalog.stream(transfer).map_err(|e| e.to_string())?,
            priority,
            part,
        };
        let flow = transport.send(now, request).map_err(|e| e.to_string())?;
        self.outgoing(transfer, flow);
        Ok(())
    }

    pub fn handle_event(&mut self, now: Instant, event: Event, transport: &mut dyn Transport) {
        match event {
            Event::Opened { flow, local, peer } => {
                let incoming = Incoming {
                    peer,
                    local_port: local.port(),
                    stage: Stage::Head(Vec::new()),
                    arrivals: Arrivals::default(),
                };
                self.flows.insert(flow, Flow::Incoming(Box::new(incoming)));
                self.fetch_opened(flow, local.port());
            }
            Event::Delivered { flow, bytes } => {
                self.delivered(now, flow, &bytes, transport);
                transport.recycle(bytes);
            }
            Event::Finished { flow, record } => self.flow_ended(now, flow, record, transport),
            Event::Failed { flow, record } => self.flow_ended(now, flow, record, transport),
            Event::Detached {
                flow, straggler, ..
            } => self.detached(flow, straggler),
            Event::Heard { .. } => {}
        }
    }

    /// A straggler goes on alone, as one more flow of the transfer.
    fn detached(&mut self, flow: FlowId, straggler: FlowId) {
        let Some(Flow::Outgoing { transfer, object }) = self.flows.get(&flow) else {
            return;
        };
        let (transfer, object) = (*transfer, object.clone());
        if let Some(sending) = self.sends.get_mut(&transfer) {
            sending.flows.insert(straggler);
        }
        self.flows
            .insert(straggler, Flow::Outgoing { transfer, object });
    }

    fn delivered(
        &mut self,
        now: Instant,
        flow: FlowId,
        bytes: &[u8],
        transport: &mut dyn Transport,
    ) {
        let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&flow) else {
            return;
        };
        match &mut incoming.stage {
            Stage::Object(object) => object.take(bytes, &self.catalog),
            Stage::Head(head) => {
                // Mostly it comes with the first bytes, which then need not be copied.
                let before = std::mem::take(head);
                let mut all = Cow::Borrowed(bytes);
                if !before.is_empty() {
                    all = Cow::Owned([&before, bytes].concat());
                }
                match StreamHead::read(&all) {
                    Ok(None) => *head = all.into_owned(),
                    Ok(Some(StreamHead::Object(header))) => {
                        let content = &all[header.head_bytes()..];
                        let object = Object {
                            name: header.name,
                            content_bytes: header.content_bytes,
                        };
                        self.object_begins(now, flow, object, content, transport);
                    }
                    Ok(Some(StreamHead::Request(request))) => {
                        incoming.stage = Stage::Request(request);
                    }
                    Ok(Some(StreamHead::Refusal(refusal))) => {
                        incoming.stage = Stage::Refusal(refusal);
                    }
                    Err(error) => transport.abort(now, flow, &error.to_string()),
                }
            }
            Stage::Request(_) | Stage::Refusal(_) => {
                transport.abort(now, flow, "the stream goes on after its end");
            }
        }
    }

    fn object_begins(
        &mut self,
        now: Instant,
        flow: FlowId,
        object: Object,
        content: &[u8],
        transport: &mut dyn Transport,
    ) {
        let Some(Flow::Incoming(incoming)) = self.flows.get_mut(&flow) else {
            return;
        };
        let transfer = self.catalog.transfer_of(&object.name);
        let port = incoming.local_port;
        let mut receiving = Receiving {
            object,
            transfer,
            received: 0,
            intact: true,
        };
        receiving.take(content, &self.catalog);
        incoming.stage = Stage::Object(receiving);
        if port != self.catalog.scheme.service_port()
            && let Err(reason) = self.fetch_begins(port, transfer)
        {
            transport.abort(now, flow, reason);
        } else if let Some(id) = transfer {
            self.share.handle_begun(now.as_nanos(), id);
        }
    }

    fn flow_ended(
        &mut self,
        now: Instant,
        flow: FlowId,
        record: FlowRecord,
        transport: &mut dyn Transport,
    ) {
        match self.flows.remove(&flow) {
            None | Some(Flow::Refusal) => {}
            Some(Flow::Outgoing { transfer, object }) => {
                self.outgoing_ended(now, flow, transfer, object, record);
            }
            Some(Flow::Request { transfer, server }) => {
                self.request_ended(now, transfer, flow, server, &record, transport);
            }
            Some(Flow::Incoming(incoming)) => {
                self.incoming_ended(now, flow, *incoming, record, transport);
            }
        }
    }

    fn outgoing_ended(
        &mut self,
        now: Instant,
        flow: FlowId,
        transfer: u64,
        object: Object,
        record: FlowRecord,
    ) {
        let status = record.status.clone();
        let finished = status == Status::Finished;
        let sending = self.sends.get_mut(&transfer);
        let started = sending.as_ref().map(|sending| sending.started);
        let mut ended = Some(finished);
        if let Some(sending) = sending {
            sending.flows.remove(&flow);
            if let Status::Failed(reason) = status {
                sending.failure.get_or_insert(reason);
            }
            let done = sending.flows.is_empty();
            ended = done.then_some(sending.failure.is_none());
        }
        self.tell_flow(transfer, started, Some(object), None, record);
        if let Some(good) = ended {
            self.sends.remove(&transfer);
            self.share.handle_end(now.as_nanos(), transfer, good);
        }
    }

    fn incoming_ended(
        &mut self,
        now: Instant,
        flow: FlowId,
        incoming: Incoming,
        mut record: FlowRecord,
        transport: &mut dyn Transport,
    ) {
        let finished = record.status == Status::Finished;
        let Incoming {
            peer,
            local_port,
            stage,
            arrivals,
        } = incoming;
        match stage {
            Stage::Request(request) if finished => self.requested(now, request, peer, transport),
            Stage::Refusal(refusal) if finished => {
                self.fetch_refused(now, local_port, flow, peer, &refusal, transport);
            }
            Stage::Request(_) | Stage::Refusal(_) => {
                self.fetch_flow_ended(now, local_port, flow, record, None, transport);
            }
            Stage::Head(_) => {
                if finished {
                    let reason = "the stream ended before it said what it is";
                    record.status = Status::Failed(reason.to_owned());
                }
                self.fetch_flow_ended(now, local_port, flow, record, None, transport);
            }
            Stage::Object(object) => {
                if finished && !object.is_right() {
                    let reason = "the content differs from what was sent";
                    transport.abort(now, flow, reason);
                    record.status = Status::Failed(reason.to_owned());
                }
                self.tell_arrivals(object.transfer, arrivals);
                if local_port != self.catalog.scheme.service_port() {
                    let object = Some((object, finished));
                    self.fetch_flow_ended(now, local_port, flow, record, object, transport);
                    return;
                }
                let (transfer, intact) = (object.transfer, finished.then(|| object.is_right()));
                let good = record.status == Status::Finished;
                let id = transfer.unwrap_or(u64::MAX);
                self.tell_flow(id, None, Some(object.object), intact, record);
                self.share.handle_end(now.as_nanos(), id, good);
            }
        }
    }

    /// Notes what became of a flow. Before the end of its transfer.
    pub(super) fn tell_flow(
        &mut self,
        transfer: u64,
        started: Option<Instant>,
        object: Option<Object>,
        intact: Option<bool>,
        record: FlowRecord,
    ) {
        let ended = Ended {
            open: self.share.open(transfer).cloned(),
            started_at_ns: started.map(Instant::as_nanos),
            object,
            intact,
            record,
        };
        self.told.push(Told::Flow(Box::new(ended)));
    }

    /// Ends a transfer of this host that no flow tells of.
    pub(super) fn fail(&mut self, now: Instant, transfer: u64, reason: String) {
        if let Some(open) = self.share.handle_end(now.as_nanos(), transfer, false) {
            self.told.push(Told::Failed { open, reason });
        }
    }
}

impl Receiving {
    fn take(&mut self, bytes: &[u8], catalog: &Catalog) {
        if let Some(transfer) = self.transfer {
            self.intact &= catalog.is_intact(transfer, self.received, bytes);
        }
        self.received += bytes.len() as u64;
    }

    pub(super) fn is_right(&self) -> bool {
        self.intact && self.received == self.object.content_bytes
    }
}

impl Catalog {
    /// Whether a transfer goes to a multicast group: as with `ebb-agent`, to several hosts if the
    /// scheme can. Of another scheme each host gets a flow of its own (`ebb-agent send --unicast`).
    pub fn is_grouped(&self, transfer: &Transfer) -> bool {
        self.scheme == ebb_transport::Scheme::Scdp
            && transfer.kind == Kind::SendOneToMany
            && transfer.destinations.len() > 1
    }

    pub fn addresses_of(&self, hosts: &[HostId]) -> Vec<std::net::Ipv4Addr> {
        let hosts = hosts.iter();
        hosts.map(|host| self.addresses[host.index()]).collect()
    }

    /// Address and port of the group of these receivers.
    pub fn group(&self, receivers: &[HostId]) -> SocketAddrV4 {
        let address = group_address(self.addresses_of(receivers));
        SocketAddrV4::new(address, self.scheme.service_port())
    }
}
