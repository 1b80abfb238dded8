//! Two hosts of one TCP for tests of whole endpoints: a wire that loses, delays and repeats packets,
//! a clock that jumps, a bound on the number of steps.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_units::{Duration, Instant};
use ebb_wire::{Ipv4Header, TcpHeader};

use super::testing::Fate;
use super::{Algorithm, Segment, TcpEndpoint, TcpParams};
use crate::nic::NicParams;
use crate::object::{GeneratedSource, ObjectSource};
use crate::receiver_driven::{DscpParams, EPHEMERAL_PORTS, HostConfig};
use crate::record::{FlowRecord, Status};
use crate::transport::{Event, FlowId, SendRequest, Transport, Via};

pub(crate) const PORT: u16 = 7000;
const ONE_WAY: Duration = Duration::from_micros(20);
const MAX_STEPS: usize = 400_000;

pub(crate) fn address(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 2 + host as u8)
}

/// Decides about the n-th packet, which a host sent.
pub(crate) type FateOf = Box<dyn FnMut(u64, usize, &Segment<'_>) -> Fate>;

/// An object that a host got.
#[derive(Debug, Default)]
pub(crate) struct Got {
    pub(crate) local: Option<SocketAddrV4>,
    pub(crate) peer: Option<SocketAddrV4>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) record: Option<FlowRecord>,
}

pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) hosts: [TcpEndpoint; 2],
    arrivals: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    sent: u64,
    pub(crate) fate: FateOf,
    /// Segments as they left, with the host that sent them.
    pub(crate) log: Vec<(Instant, usize, Segment<'static>)>,
    /// Records of the objects that each host has sent.
    pub(crate) ended: BTreeMap<(usize, FlowId), FlowRecord>,
    pub(crate) got: BTreeMap<(usize, FlowId), Got>,
    pub(crate) heard: Vec<(usize, FlowId)>,
    /// Whether hosts confirm received objects at once.
    pub(crate) confirms: bool,
    /// Hosts that have lost power: they receive and send nothing.
    pub(crate) dead: [bool; 2],
}

/// The bytes of the object that was made with `seed`.
pub(crate) fn content(seed: u64, bytes: u64) -> Vec<u8> {
    let mut content = vec![0; bytes as usize];
    GeneratedSource { seed, bytes }
        .read_at(0, &mut content)
        .unwrap();
    content
}

pub(crate) fn endpoint(host: usize, algorithm: Algorithm, params: TcpParams) -> TcpEndpoint {
    let config = HostConfig {
        address: address(host),
        nic: NicParams::default(),
        dscp: DscpParams::default(),
        source_ports: EPHEMERAL_PORTS,
        seed: 1 + host as u64,
    };
    let mut endpoint = TcpEndpoint::new(config, "test", algorithm, params, None).unwrap();
    endpoint.listen(PORT).unwrap();
    endpoint.hold_confirmations();
    endpoint
}

impl Pair {
    pub(crate) fn new(algorithm: Algorithm, params: &TcpParams) -> Self {
        Pair {
            now: Instant::from_micros(1_000_000),
            hosts: [0, 1].map(|host| endpoint(host, algorithm.clone(), params.clone())),
            arrivals: BTreeMap::new(),
            sent: 0,
            fate: Box::new(|_, _, _| Fate::Pass),
            log: Vec::new(),
            ended: BTreeMap::new(),
            got: BTreeMap::new(),
            heard: Vec::new(),
            confirms: true,
            dead: [false; 2],
        }
    }

    pub(crate) fn request(&self, from: usize, seed: u64, bytes: u64, via: Via) -> SendRequest {
        SendRequest {
            to: SocketAddrV4::new(address(1 - from), PORT),
            source_port: None,
            source: Arc::new(GeneratedSource { seed, bytes }),
            priority: 0,
            part: None,
            via,
        }
    }

    pub(crate) fn send(&mut self, from: usize, seed: u64, bytes: u64, via: Via) -> FlowId {
        let request = self.request(from, seed, bytes, via);
        let flow = self.hosts[from].send(self.now, request).unwrap();
        self.settle(from);
        flow
    }

    pub(crate) fn tell(&mut self, host: usize, what: impl FnOnce(&mut TcpEndpoint, Instant)) {
        what(&mut self.hosts[host], self.now);
        self.settle(host);
    }

    /// Hands a host a packet that the other one has not sent.
    pub(crate) fn inject(&mut self, host: usize, packet: &[u8]) {
        self.hosts[host].handle_packet(self.now, packet);
        self.settle(host);
    }

    fn settle(&mut self, host: usize) {
        if self.dead[host] {
            return;
        }
        self.hosts[host].handle_timeout(self.now);
        while let Some(event) = self.hosts[host].poll_event() {
            self.note(host, event);
        }
        let mut packet = Vec::new();
        while self.hosts[host]
            .poll_transmit(self.now, &mut packet)
            .is_some()
        {
            let ip = Ipv4Header::parse(&packet).unwrap();
            let tcp = TcpHeader::parse(ip.payload, ip.header.src, ip.header.dst).unwrap();
            let segment = Segment::from_wire(tcp, &ip.header).into_owned();
            let fate = (self.fate)(self.sent, host, &segment);
            self.log.push((self.now, host, segment));
            let delay = match fate {
                Fate::Drop => None,
                Fate::Late(by) => Some(ONE_WAY + by),
                _ => Some(ONE_WAY),
            };
            let copies = if fate == Fate::Duplicate { 2 } else { 1 };
            for _ in 0..copies {
                self.sent += 1;
                if let Some(delay) = delay {
                    let at = (self.now + delay, self.sent);
                    self.arrivals.insert(at, (1 - host, packet.clone()));
                }
            }
        }
        while let Some(event) = self.hosts[host].poll_event() {
            self.note(host, event);
        }
    }

    fn note(&mut self, host: usize, event: Event) {
        match event {
            Event::Opened { flow, local, peer } => {
                let got = Got {
                    local: Some(local),
                    peer: Some(peer),
                    ..Got::default()
                };
                assert!(self.got.insert((host, flow), got).is_none());
            }
            Event::Heard { flow, .. } => self.heard.push((host, flow)),
            Event::Delivered { flow, bytes } => {
                let got = self.got.get_mut(&(host, flow)).expect("opened");
                got.bytes.extend(&*bytes);
                self.hosts[host].recycle(bytes);
            }
            Event::Finished { flow, record } | Event::Failed { flow, record } => {
                match self.got.get_mut(&(host, flow)) {
                    Some(got) => {
                        let is_whole = record.status == Status::Finished;
                        let before = got.record.replace(record);
                        assert!(before.is_none_or(|record| record.status == Status::Finished));
                        if is_whole && self.confirms {
                            self.tell(host, |host, now| host.confirm(now, flow));
                        }
                    }
                    None => assert!(self.ended.insert((host, flow), record).is_none()),
                }
            }
            Event::Detached { .. } => panic!("TCP has no groups"),
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let limit = self.now + time;
        for _ in 0..MAX_STEPS {
            let alive = (0..2).filter(|host| !self.dead[*host]);
            let deadlines = alive.filter_map(|host| self.hosts[host].next_deadline());
            let arrival = self.arrivals.first_key_value().map(|(&(at, _), _)| at);
            let next = deadlines.chain(arrival).min().map(|at| at.max(self.now));
            let Some(at) = next.filter(|at| *at <= limit) else {
                self.now = limit;
                return;
            };
            self.now = at;
            while let Some(entry) = self.arrivals.first_entry().filter(|e| e.key().0 <= at) {
                let (host, packet) = entry.remove();
                if !self.dead[host] {
                    self.hosts[host].handle_packet(at, &packet);
                    self.settle(host);
                }
            }
            (0..2).for_each(|host| self.settle(host));
        }
        panic!("no end at {:?}", self.now);
    }

    /// Result of an object that a host sent. None: it has not ended.
    pub(crate) fn status(&self, host: usize, flow: FlowId) -> Option<&Status> {
        self.ended.get(&(host, flow)).map(|record| &record.status)
    }

    /// Complete objects at the host, in the order in which they began.
    pub(crate) fn contents(&self, host: usize) -> Vec<&[u8]> {
        let all = self.got.iter().filter(|((at, _), _)| *at == host);
        let whole = all.filter(|(_, got)| {
            let record = got.record.as_ref();
            record.is_some_and(|record| record.status == Status::Finished)
        });
        whole.map(|(_, got)| &got.bytes[..]).collect()
    }

    /// Connections that a host has.
    pub(crate) fn connections(&self, host: usize) -> usize {
        self.hosts[host].flows.len()
    }

    /// SYNs that began connections so far.
    pub(crate) fn opened(&self) -> usize {
        let mut seen = std::collections::BTreeSet::new();
        for (_, host, segment) in &self.log {
            if segment.flags.syn && segment.ack.is_none() {
                seen.insert((*host, segment.seq));
            }
        }
        seen.len()
    }
}
