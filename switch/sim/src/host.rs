//! A simulated host: its transport, the serialiser of its link, and the flows it is to start.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use ebb_engine::simulation::Host;
use ebb_transport::nic::{Nic, NicParams};
use ebb_transport::object::ObjectSource;
use ebb_transport::{Event, FlowId, FlowRecord, SendRequest, Transport};
use ebb_units::{Duration, Instant};
use ebb_wire::{EthernetHeader, MacAddress};

/// Where all hosts listen.
pub const PORT: u16 = 7000;
/// A transport that asks to be woken at a time that has passed, and then does nothing, must not
/// stop the clock.
const SHORTEST_SLEEP: Duration = Duration::from_nanos(1);

/// A flow to be started.
#[derive(Clone, Debug)]
pub struct Start {
    pub id: u64,
    pub at: Instant,
    pub to: Ipv4Addr,
    pub bytes: u64,
    pub priority: u8,
}

/// A flow that has ended, at one of its ends.
pub struct Ended {
    /// Only the sender knows it.
    pub id: Option<u64>,
    pub record: FlowRecord,
}

pub struct SimHost {
    name: String,
    mac: MacAddress,
    gateway: MacAddress,
    transport: Box<dyn Transport + Send>,
    nic: Nic,
    /// Earliest first.
    starts: VecDeque<Start>,
    open: BTreeMap<FlowId, u64>,
    ended: Vec<Ended>,
    packet: Vec<u8>,
    wake: Option<Instant>,
}

/// How a host is attached.
#[derive(Clone, Debug)]
pub struct Identity {
    pub name: String,
    pub mac: MacAddress,
    pub gateway: MacAddress,
}

impl SimHost {
    /// `starts`: in the order of their time.
    pub fn new(
        identity: Identity,
        mut transport: Box<dyn Transport + Send>,
        nic: NicParams,
        starts: VecDeque<Start>,
    ) -> anyhow::Result<Self> {
        transport.listen(PORT)?;
        let wake = starts.front().map(|start| start.at);
        Ok(SimHost {
            name: identity.name,
            mac: identity.mac,
            gateway: identity.gateway,
            transport,
            // Nobody wakes up late here.
            nic: Nic::new(NicParams {
                catch_up_packets: 0,
                ..nic
            }),
            starts,
            open: BTreeMap::new(),
            ended: Vec::new(),
            packet: Vec::new(),
            wake,
        })
    }

    pub fn ended(&self) -> &[Ended] {
        &self.ended
    }

    /// Flows that have started here and not ended, and those that have yet to start.
    pub fn unfinished(&self) -> usize {
        self.open.len() + self.starts.len()
    }

    fn start_flows(&mut self, now: Instant) {
        while self.starts.front().is_some_and(|start| start.at <= now)
            && let Some(start) = self.starts.pop_front()
        {
            let request = SendRequest {
                to: SocketAddrV4::new(start.to, PORT),
                source_port: None,
                source: Arc::new(Blank(start.bytes)),
                priority: start.priority,
                part: None,
            };
            match self.transport.send(now, request) {
                Ok(flow) => {
                    self.open.insert(flow, start.id);
                }
                Err(error) => tracing::error!("{}: flow {}: {error}", self.name, start.id),
            }
        }
    }

    fn take_events(&mut self, now: Instant) {
        while let Some(job) = self.transport.poll_job() {
            // Jobs take no virtual time: a host codes blocks while others arrive or leave.
            self.transport.handle_job(now, job.run());
        }
        while let Some(event) = self.transport.poll_event() {
            match event {
                Event::Delivered { bytes, .. } => self.transport.recycle(bytes),
                Event::Finished { flow, record } | Event::Failed { flow, record } => {
                    let id = self.open.remove(&flow);
                    self.ended.push(Ended { id, record });
                }
                Event::Opened { .. } | Event::Heard { .. } | Event::Detached { .. } => {}
            }
        }
    }

    /// When to be woken. `held`: the transport may have more to send, and the link is busy.
    fn plan(&mut self, now: Instant, held: bool) {
        let start = self.starts.front().map(|start| start.at);
        let deadline = self.transport.next_deadline();
        let wake = if held {
            // What is due already waits for the link.
            let later = deadline.filter(|at| *at > now);
            later.into_iter().chain([self.nic.free_at()]).min()
        } else {
            deadline.map(|at| at.max(now + SHORTEST_SLEEP))
        };
        self.wake = wake.into_iter().chain(start).min();
    }
}

impl Host for SimHost {
    fn name(&self) -> &str {
        &self.name
    }

    fn receive(&mut self, now: Instant, frame: Vec<u8>) {
        let Ok(frame) = EthernetHeader::parse(&frame) else {
            return;
        };
        if frame.header.dst == self.mac || frame.header.dst.is_group() {
            self.transport.handle_packet(now, frame.payload);
            self.take_events(now);
        }
    }

    fn wake(&mut self, now: Instant) {
        self.start_flows(now);
        self.transport.handle_timeout(now);
        self.take_events(now);
    }

    fn next_wake(&self) -> Option<Instant> {
        self.wake
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        if !self.nic.is_free(now) {
            self.plan(now, true);
            return None;
        }
        if self
            .transport
            .poll_transmit(now, &mut self.packet)
            .is_none()
        {
            self.nic.idle(now);
            // Sending can end a flow.
            self.take_events(now);
            self.plan(now, false);
            return None;
        }
        let last_bit = self.nic.send(now, self.packet.len());
        let header = EthernetHeader {
            dst: self.gateway,
            src: self.mac,
            ethertype: EthernetHeader::IPV4,
        };
        let mut frame = Vec::with_capacity(EthernetHeader::BYTES + self.packet.len());
        header.emit(&mut frame);
        frame.extend_from_slice(&self.packet);
        Some((last_bit, frame))
    }
}

/// An object of zeros: what it contains is of no interest to the network.
struct Blank(u64);

impl ObjectSource for Blank {
    fn len(&self) -> u64 {
        self.0
    }

    fn read_at(&self, _: u64, buf: &mut [u8]) -> io::Result<()> {
        buf.fill(0);
        Ok(())
    }
}
