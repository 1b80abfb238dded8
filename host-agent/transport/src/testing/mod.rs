//! A network for tests: hosts around one trimming switch, a clock that jumps to the next event, a
//! bound on the number of steps.
//!
//! ```text
//!  host 0 ──nic──delay──┐            ┌── port 0: control queue + data queue ──delay── host 0
//!  host 1 ──nic──delay──┤ fate, route├── port 1 ...
//! ```

mod switch;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{EbbHeader, Ecn, Ipv4Header, Protocol};

use crate::nic::{NicParams, Serialiser};
use crate::object::GeneratedSource;
use crate::object::ObjectSource;
use crate::record::{FlowRecord, Role, Status};
use crate::{
    DscpParams, Event, ExpectRequest, FlowId, GroupRequest, HostConfig, JobResult, Part,
    SendRequest, Transport,
};
pub(crate) use switch::{Port, PortParams};

pub(crate) const PORT: u16 = 7000;
/// The session id of the many-to-one session.
pub(crate) const SESSION: u32 = 0x5eed;
const MAX_STEPS: u64 = 3_000_000;

/// Fate of a packet on its way to its output queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Drop,
    Trim,
    /// Trimmed, and the header turned round to its sender.
    Return,
    Duplicate,
    /// Overtaken by whatever is sent in this time.
    Late(Duration),
}

impl Fate {
    /// This fate if the condition holds, else none.
    pub(crate) fn when(self, holds: bool) -> Fate {
        if holds { self } else { Fate::Pass }
    }
}

pub(crate) type FateOf = Box<dyn FnMut(u64, &EbbHeader) -> Fate>;

/// Host and header to fate.
pub(crate) type FateOfCopy = Box<dyn FnMut(usize, &EbbHeader) -> Fate>;

struct Host {
    transport: Box<dyn Transport>,
    nic: Serialiser,
    /// A packet may wait for the NIC.
    wake_at: Option<Instant>,
    unplugged: bool,
}

/// Where a packet arrives.
enum Arrival {
    Switch(Vec<u8>),
    Queue(usize, Vec<u8>),
    Host(usize, Vec<u8>),
    Job(usize, Box<JobResult>),
}

pub(crate) struct Network {
    pub now: Instant,
    hosts: Vec<Host>,
    pub ports: Vec<Port>,
    delay: Duration,
    arrivals: BTreeMap<(Instant, u64), Arrival>,
    sequence: u64,
    steps: u64,
    /// Decides about the n-th packet (from 0) that reaches the switch.
    pub fate: FateOf,
    packets: u64,
    /// Every header that reached the switch, before its fate, with the time.
    pub log: Vec<(Instant, Ipv4Addr, EbbHeader)>,
    pub delivered: BTreeMap<(usize, FlowId), Vec<u8>>,
    pub records: Vec<(usize, FlowId, FlowRecord)>,
    /// Members of multicast groups.
    pub groups: BTreeMap<Ipv4Addr, Vec<usize>>,
    /// Decides about each copy of a packet that is on its way to the port of a host.
    pub fate_to: FateOfCopy,
    pub detached: Vec<(FlowId, SocketAddrV4)>,
    /// At which host, of which flow, who.
    pub heard: Vec<(usize, FlowId, Ipv4Addr)>,
    /// How long the job with this result takes.
    pub job_takes: Box<dyn FnMut(&JobResult) -> Duration>,
    pub jobs: u64,
    /// Whoever receives objects finds all of them wrong.
    pub refuse_content: bool,
    /// Only this host does.
    pub refuse_content_at: Option<usize>,
}

pub(crate) fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 2 + host as u8)
}

/// A packet, as anybody may make it up.
pub(crate) fn ebb_packet(
    src: Ipv4Addr,
    dst: Ipv4Addr,
    dscp: u8,
    header: &EbbHeader,
    payload: &[u8],
) -> Vec<u8> {
    let mut packet = Vec::new();
    Ipv4Header::new(src, dst, Protocol::EBB, dscp, Ecn::NotEct)
        .emit(EbbHeader::BYTES + payload.len(), &mut packet);
    header.emit(payload, &mut packet);
    packet
}

impl Network {
    /// 1 Gbit/s links of 10 us, as in the papers.
    pub fn new<T: Transport + 'static>(
        hosts: usize,
        port: PortParams,
        make: impl Fn(HostConfig) -> T,
    ) -> Self {
        let nic = NicParams {
            catch_up_packets: 0,
            ..NicParams::default()
        };
        let hosts: Vec<Host> = (0..hosts)
            .map(|i| {
                let seed = 1 + i as u64;
                let dscp = DscpParams::default();
                let mut transport = make(HostConfig {
                    address: address(i),
                    nic,
                    dscp,
                    source_ports: crate::EPHEMERAL_PORTS,
                    seed,
                });
                transport.listen(PORT).unwrap();
                Host {
                    transport: Box::new(transport),
                    nic: Serialiser::new(nic),
                    wake_at: None,
                    unplugged: false,
                }
            })
            .collect();
        Network {
            now: Instant::from_micros(1),
            ports: hosts.iter().map(|_| Port::new(port)).collect(),
            hosts,
            delay: Duration::from_micros(10),
            arrivals: BTreeMap::new(),
            sequence: 0,
            steps: 0,
            fate: Box::new(|_, _| Fate::Pass),
            packets: 0,
            log: Vec::new(),
            delivered: BTreeMap::new(),
            records: Vec::new(),
            groups: BTreeMap::new(),
            fate_to: Box::new(|_, _| Fate::Pass),
            detached: Vec::new(),
            heard: Vec::new(),
            job_takes: Box::new(|_| Duration::ZERO),
            jobs: 0,
            refuse_content: false,
            refuse_content_at: None,
        }
    }

    /// Starts to send `bytes` generated bytes.
    pub fn send(&mut self, from: usize, to: usize, bytes: u64) -> FlowId {
        self.send_with_priority(from, to, bytes, 0)
    }

    pub fn send_with_priority(
        &mut self,
        from: usize,
        to: usize,
        bytes: u64,
        priority: u8,
    ) -> FlowId {
        self.send_request(
            from,
            SendRequest {
                to: SocketAddrV4::new(address(to), PORT),
                source_port: None,
                source: Arc::new(GeneratedSource { seed: bytes, bytes }),
                priority,
                part: None,
                via: crate::Via::Any,
            },
        )
    }

    pub fn send_source(
        &mut self,
        from: usize,
        to: SocketAddrV4,
        source: Arc<dyn ObjectSource>,
    ) -> FlowId {
        let request = SendRequest {
            to,
            source_port: None,
            source,
            priority: 0,
            part: None,
            via: crate::Via::Any,
        };
        self.send_request(from, request)
    }

    pub fn send_request(&mut self, from: usize, request: SendRequest) -> FlowId {
        let flow = self.hosts[from].transport.send(self.now, request).unwrap();
        self.serve_host(from);
        flow
    }

    /// Starts to send `bytes` generated bytes from host 0 to all others at once.
    pub fn send_to_all(&mut self, bytes: u64) -> FlowId {
        let members: Vec<usize> = (1..self.hosts.len()).collect();
        self.send_to(&members, bytes)
    }

    /// The same to some.
    pub fn send_to(&mut self, members: &[usize], bytes: u64) -> FlowId {
        self.send_to_with_priority(members, bytes, 0)
    }

    pub fn send_to_with_priority(&mut self, members: &[usize], bytes: u64, priority: u8) -> FlowId {
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 0, 0, 1), PORT);
        let request = GroupRequest {
            group,
            receivers: members.iter().map(|&i| address(i)).collect(),
            source_port: None,
            source: Arc::new(GeneratedSource { seed: bytes, bytes }),
            priority,
        };
        self.groups.insert(*group.ip(), members.to_vec());
        let flow = self.hosts[0]
            .transport
            .send_group(self.now, request)
            .unwrap();
        self.serve_host(0);
        flow
    }

    /// Host `to` gets `bytes` generated bytes from all of `senders` at once. Its flow comes back.
    pub fn fetch(&mut self, to: usize, senders: &[usize], bytes: u64) -> FlowId {
        let flow = self.expect(to, senders);
        for index in 0..senders.len() {
            self.send_part(to, senders, index, bytes);
        }
        flow
    }

    /// The first half of that: `to` waits.
    pub fn expect(&mut self, to: usize, senders: &[usize]) -> FlowId {
        let request = ExpectRequest {
            port: PORT,
            session: SESSION,
            senders: senders.iter().map(|&i| address(i)).collect(),
        };
        let flow = self.hosts[to].transport.expect(self.now, request).unwrap();
        self.delivered.insert((to, flow), Vec::new());
        self.serve_host(to);
        flow
    }

    /// The second: one of the senders begins.
    pub fn send_part(&mut self, to: usize, senders: &[usize], index: usize, bytes: u64) {
        let request = SendRequest {
            to: SocketAddrV4::new(address(to), PORT),
            source_port: None,
            source: Arc::new(GeneratedSource { seed: bytes, bytes }),
            priority: 0,
            part: Some(Part {
                session: SESSION,
                sender: index as u8,
                senders: senders.len() as u8,
            }),
            via: crate::Via::Any,
        };
        let from = senders[index];
        self.hosts[from].transport.send(self.now, request).unwrap();
        self.serve_host(from);
    }

    /// From now on nothing reaches or leaves the host.
    pub fn unplug(&mut self, host: usize) {
        self.hosts[host].unplugged = true;
    }

    pub fn transport(&mut self, host: usize) -> &mut dyn Transport {
        &mut *self.hosts[host].transport
    }

    /// Tells a host something, and lets it act on it.
    pub fn tell(&mut self, host: usize, what: impl FnOnce(&mut dyn Transport, Instant)) {
        what(&mut *self.hosts[host].transport, self.now);
        self.serve_host(host);
    }

    /// Hands a packet to a host out of the blue.
    pub fn inject(&mut self, host: usize, packet: &[u8]) {
        self.hosts[host].transport.handle_packet(self.now, packet);
        self.serve_host(host);
    }

    /// Runs until nothing more happens.
    pub fn run(&mut self) {
        while self.step(Instant::FAR_FUTURE) {}
    }

    pub fn run_until(&mut self, end: Instant) {
        while self.step(end) {}
        self.now = self.now.max(end);
    }

    fn step(&mut self, end: Instant) -> bool {
        let arrival = self.arrivals.keys().next().map(|(at, _)| *at);
        let port = self.ports.iter().filter_map(Port::next_departure).min();
        let host = self
            .hosts
            .iter()
            .filter_map(|h| h.next_event(self.now))
            .min();
        let Some(next) = [arrival, port, host]
            .into_iter()
            .flatten()
            .min()
            .filter(|t| *t <= end)
        else {
            return false;
        };
        self.steps += 1;
        if self.steps > MAX_STEPS {
            self.report_livelock();
        }
        self.now = self.now.max(next);
        while let Some(entry) = self.arrivals.first_entry()
            && entry.key().0 <= self.now
        {
            match entry.remove() {
                Arrival::Switch(packet) => self.switch(packet),
                Arrival::Queue(i, packet) => self.enqueue_at(i, packet),
                Arrival::Job(i, result) => {
                    self.hosts[i].transport.handle_job(self.now, *result);
                    self.serve_host(i);
                }
                Arrival::Host(i, packet) => {
                    if !self.hosts[i].unplugged {
                        self.hosts[i].transport.handle_packet(self.now, &packet);
                        self.serve_host(i);
                    }
                }
            }
        }
        for i in 0..self.ports.len() {
            while let Some((out_at, packet)) = self.ports[i].depart(self.now) {
                self.schedule(out_at + self.delay, Arrival::Host(i, packet));
            }
        }
        for i in 0..self.hosts.len() {
            if self.hosts[i]
                .next_event(self.now)
                .is_some_and(|at| at <= self.now)
            {
                self.hosts[i].wake_at = None;
                self.hosts[i].transport.handle_timeout(self.now);
                self.serve_host(i);
            }
        }
        true
    }

    fn schedule(&mut self, at: Instant, arrival: Arrival) {
        self.arrivals.insert((at, self.sequence), arrival);
        self.sequence += 1;
    }

    fn serve_host(&mut self, i: usize) {
        let host = &mut self.hosts[i];
        while let Some(job) = host.transport.poll_job() {
            let result = job.run();
            let takes = (self.job_takes)(&result);
            self.jobs += 1;
            if takes == Duration::ZERO {
                host.transport.handle_job(self.now, result);
            } else {
                let entry = (self.now + takes, self.sequence);
                self.sequence += 1;
                self.arrivals
                    .insert(entry, Arrival::Job(i, Box::new(result)));
            }
        }
        while let Some(event) = host.transport.poll_event() {
            match event {
                Event::Opened { flow, .. } => {
                    self.delivered.insert((i, flow), Vec::new());
                }
                Event::Heard { flow, peer } => self.heard.push((i, flow, peer)),
                Event::Detached {
                    straggler, peer, ..
                } => {
                    self.detached.push((straggler, peer));
                }
                Event::Delivered { flow, bytes } => {
                    self.delivered
                        .get_mut(&(i, flow))
                        .unwrap()
                        .extend_from_slice(&bytes);
                }
                Event::Finished { flow, record } | Event::Failed { flow, record } => {
                    let refuses = self.refuse_content || self.refuse_content_at == Some(i);
                    if refuses && record.role == Role::Receiver {
                        host.transport.abort(self.now, flow, "wrong hash");
                    }
                    self.records.push((i, flow, record));
                }
            }
        }
        let mut sent = Vec::new();
        let mut packet = Vec::new();
        while host.nic.is_free(self.now) {
            if host
                .transport
                .poll_transmit(self.now, &mut packet)
                .is_none()
            {
                break;
            }
            let out_at = host.nic.send(self.now, packet.len());
            host.wake_at = Some(out_at);
            if !host.unplugged {
                sent.push((out_at + self.delay, packet.clone()));
            }
        }
        for (at, packet) in sent {
            self.schedule(at, Arrival::Switch(packet));
        }
    }

    fn switch(&mut self, packet: Vec<u8>) {
        let ip = Ipv4Header::parse(&packet).expect("hosts send valid IPv4");
        let trimmed = ip.header.dscp == DscpParams::default().trimmed;
        let header = EbbHeader::parse(ip.payload, trimmed)
            .expect("hosts send valid packets")
            .header;
        self.log.push((self.now, ip.header.src, header));
        let fate = (self.fate)(self.packets, &header);
        self.packets += 1;
        let dst = ip.header.dst;
        let ports: Vec<usize> = match self.groups.get(&dst) {
            Some(members) => members.clone(),
            None => (0..self.hosts.len())
                .filter(|&i| address(i) == dst)
                .collect(),
        };
        for port in ports {
            let fate = match (self.fate_to)(port, &header) {
                Fate::Pass => fate,
                of_copy => of_copy,
            };
            self.enqueue(port, packet.clone(), fate);
        }
    }

    fn enqueue(&mut self, port: usize, packet: Vec<u8>, fate: Fate) {
        match fate {
            Fate::Pass => self.enqueue_at(port, packet),
            Fate::Drop => {}
            Fate::Trim => self.enqueue_at(port, switch::trim(&packet)),
            Fate::Return => {
                let returned = switch::turn_round(&switch::trim(&packet));
                self.back_to_sender(returned.expect("this is no packet that goes back"));
            }
            Fate::Duplicate => {
                self.enqueue_at(port, packet.clone());
                self.enqueue_at(port, packet);
            }
            Fate::Late(by) => self.schedule(self.now + by, Arrival::Queue(port, packet)),
        }
    }

    fn enqueue_at(&mut self, port: usize, packet: Vec<u8>) {
        if let Some(returned) = self.ports[port].enqueue(self.now, packet) {
            self.back_to_sender(returned);
        }
    }

    fn back_to_sender(&mut self, packet: Vec<u8>) {
        let dst = Ipv4Header::parse(&packet).expect("as above").header.dst;
        if let Some(port) = (0..self.hosts.len()).find(|&i| address(i) == dst) {
            // It is not turned round twice.
            let _ = self.ports[port].enqueue(self.now, packet);
        }
    }

    fn report_livelock(&self) -> ! {
        let last = self.log.iter().rev().take(20).rev();
        let packets: Vec<String> = last
            .map(|(at, src, h)| {
                format!(
                    "{at:?} {src} {:?} {:?} b{} s{} p{}",
                    h.packet_type, h.flags, h.block, h.symbol, h.pull
                )
            })
            .collect();
        panic!(
            "livelock: {MAX_STEPS} steps, now {:?}, {} records, last packets:\n{}",
            self.now,
            self.records.len(),
            packets.join("\n")
        );
    }

    /// The record of a flow that must have ended well, and of whose bytes all arrived.
    pub fn finished(&self, role: Role, sender: usize, receiver: usize) -> FlowRecord {
        let (here, peer) = match role {
            Role::Sender => (sender, receiver),
            Role::Receiver => (receiver, sender),
        };
        let (_, flow, record) = self
            .records
            .iter()
            .find(|(i, _, r)| *i == here && r.role == role && *r.peer.ip() == address(peer))
            .unwrap_or_else(|| {
                panic!(
                    "no {role:?} record of {sender} -> {receiver}: {:#?}",
                    self.records
                )
            });
        assert_eq!(record.status, Status::Finished);
        if role == Role::Receiver {
            let got = &self.delivered[&(here, *flow)];
            let mut want = vec![0; record.stream_bytes as usize];
            let source = GeneratedSource {
                seed: record.stream_bytes,
                bytes: record.stream_bytes,
            };
            source.read_at(0, &mut want).unwrap();
            assert!(*got == want, "the bytes of {sender} -> {receiver} differ");
        }
        record.clone()
    }

    /// The record of a group's flow at its sender.
    pub fn group_record(&self) -> FlowRecord {
        let mut records = self.records.iter().map(|(_, _, record)| record);
        records
            .find(|record| record.group.is_some())
            .unwrap()
            .clone()
    }

    /// Records of these hosts about what host 0 sent; all of them have the right bytes.
    pub fn receivers(&self, hosts: std::ops::Range<usize>) -> Vec<FlowRecord> {
        hosts
            .map(|host| self.finished(Role::Receiver, 0, host))
            .collect()
    }

    /// Both records, checked.
    pub fn pair(&self, sender: usize, receiver: usize) -> (FlowRecord, FlowRecord) {
        (
            self.finished(Role::Sender, sender, receiver),
            self.finished(Role::Receiver, sender, receiver),
        )
    }
}

impl Host {
    fn next_event(&self, now: Instant) -> Option<Instant> {
        let deadline = self.transport.next_deadline();
        match self.wake_at {
            // A deadline in the past waits for the NIC.
            Some(wake) => Some(deadline.filter(|d| *d > now).map_or(wake, |d| d.min(wake))),
            None => deadline,
        }
    }
}
