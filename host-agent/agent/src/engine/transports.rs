//! The transports of the process: their ports, what arrives for whom, and whose turn it is to send.

use std::net::Ipv4Addr;

use anyhow::Context;
use ebb_host::{Engine, Ports};
use ebb_transport::nic::DscpSet;
use ebb_transport::{Event, Selector, Transport, TransportKind, TxInfo};
use ebb_units::{Duration, Instant};
use ebb_wire::Protocol;

use crate::engine::params::Params;
use crate::machine::kernel_rules::KernelRule;
use crate::machine::port_lock::{PortLock, PortRange};

/// Source ports that a command asks for; it gets a block of them.
pub const FEW_SOURCE_PORTS: u16 = 1;

/// Source ports of a transport that the host application opens.
const SOURCE_PORTS: u16 = 64;

/// How often it is looked whether a port that is to be given back is still in use.
const GIVE_BACK_INTERVAL: Duration = Duration::from_millis(100);

/// Packets of this process: the ones that a transport selects by one of its ports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OurPackets {
    pub selector: Selector,
    pub ports: PortRange,
}

/// The transports of this process, which are opened as they are asked for.
pub struct Transports {
    address: Ipv4Addr,
    params: Params,
    /// Each transport has a seed of its own that is made of this one.
    seed: u64,
    slots: Vec<Slot>,
    /// Whose turn it is, an index into `slots`.
    turn: usize,
    /// Whether the filter of the socket has changed since it was read.
    changed: bool,
    /// Ports that are not listened on any more, and are given back when nothing uses them.
    closing: Vec<(TransportKind, u16)>,
    /// When it is looked next whether those are still in use.
    look_at: Instant,
    /// Whether the application confirms itself what arrived whole: [`Transport::hold_confirmations`].
    holds: bool,
    /// Whether the address is also one of the kernel, which our ports are hidden from then.
    of_kernel: bool,
}

/// A transport and its ports.
struct Slot {
    kind: TransportKind,
    transport: Box<dyn Transport + Send>,
    /// [`Transport::selectors`].
    selectors: Vec<Selector>,
    /// The first one has the source ports, the others are for services.
    ports: Vec<PortLock>,
    /// The rules that hide the ports from the kernel, one for each element of `ports`. None: they need
    /// not be hidden.
    rules: Vec<Option<KernelRule>>,
    /// The packet that leaves when this transport's turn comes. With one transport it is taken the moment it
    /// leaves; of several, each must show its own, so that control packets go first. `None`: it is not
    /// asked for yet, or there is none.
    head: Option<TxInfo>,
    /// The bytes of that packet.
    packet: Vec<u8>,
    /// The transport had nothing to send in this turn.
    dry: bool,
}

impl Transports {
    pub fn new(address: Ipv4Addr, params: Params, seed: u64) -> Self {
        Transports {
            address,
            params,
            seed,
            slots: Vec::new(),
            turn: 0,
            changed: false,
            closing: Vec::new(),
            look_at: Instant::ZERO,
            holds: false,
            of_kernel: true,
        }
    }

    /// The transports of a virtual machine, whose address the kernel does not have.
    pub fn of_vm(address: Ipv4Addr, params: Params, seed: u64) -> Self {
        Transports {
            of_kernel: false,
            ..Transports::new(address, params, seed)
        }
    }

    /// Has the application confirm what arrived whole, for all transports.
    pub fn hold_confirmations(&mut self) {
        self.holds = true;
        for slot in &mut self.slots {
            slot.transport.hold_confirmations();
        }
    }

    /// Makes sure that `kind` runs here. `source_ports`: how many flows to one port of one peer
    /// there can be at a time; counts only the first time.
    pub fn open(&mut self, kind: TransportKind, source_ports: u16) -> anyhow::Result<()> {
        if self.find(kind).is_some() {
            return Ok(());
        }
        let lock = PortLock::take_sources(self.address, kind.protocol(), source_ports)?;
        let rule = self.hide(kind, lock.range)?;
        let transport = kind.transport(
            self.address,
            &self.params.suite(),
            (lock.range.first, lock.range.last),
            self.seed.wrapping_add(kind.entry().seed()),
        );
        let mut transport = transport.map_err(anyhow::Error::msg)?;
        if self.holds {
            transport.hold_confirmations();
        }
        self.slots.push(Slot {
            kind,
            selectors: transport.selectors(),
            transport,
            ports: vec![lock],
            rules: vec![rule],
            head: None,
            packet: Vec::new(),
            dry: false,
        });
        self.changed = true;
        Ok(())
    }

    /// Makes sure that `kind` runs here and accepts flows to `port`.
    pub fn listen(&mut self, kind: TransportKind, port: u16) -> anyhow::Result<()> {
        if self.slots.iter().all(|slot| !slot.owns(kind, port)) {
            // Before anything else: this is what most often fails.
            let lock = PortLock::take(self.address, port)?;
            self.open(kind, FEW_SOURCE_PORTS)?;
            let rule = self.hide(kind, lock.range)?;
            let index = self.find(kind).context("just opened")?;
            self.slots[index].ports.push(lock);
            self.slots[index].rules.push(rule);
            self.changed = true;
        }
        let index = self.find(kind).context("owns a port")?;
        self.closing.retain(|closing| *closing != (kind, port));
        Ok(self.slots[index].transport.listen(port)?)
    }

    /// Accepts no more flows to `port`. A port of its own (not one of the source ports) is free for
    /// others when the last flow to it has ended and answers no more late packets.
    pub fn unlisten(&mut self, now: Instant, kind: TransportKind, port: u16) {
        let Some(index) = self.find(kind) else {
            return;
        };
        self.slots[index].transport.unlisten(port);
        let is_own = self.slots[index].own_port(port).is_some();
        if is_own && !self.closing.contains(&(kind, port)) {
            self.closing.push((kind, port));
            self.look_at = now;
            self.give_back(now);
        }
    }

    fn give_back(&mut self, now: Instant) {
        if self.closing.is_empty() || now < self.look_at {
            return;
        }
        self.look_at = now + GIVE_BACK_INTERVAL;
        for (kind, port) in std::mem::take(&mut self.closing) {
            let slot = self.slots.iter_mut().find(|slot| slot.kind == kind);
            let Some(slot) = slot else { continue };
            if slot.transport.uses_port(port) {
                self.closing.push((kind, port));
            } else if let Some(index) = slot.own_port(port) {
                // As long as the rule is there, the port is ours.
                slot.rules.remove(index);
                slot.ports.remove(index);
                self.changed = true;
            }
        }
    }

    /// The transport of `kind`, if it is open.
    pub fn get(&mut self, kind: TransportKind) -> Option<&mut (dyn Transport + Send + 'static)> {
        let index = self.find(kind)?;
        Some(&mut *self.slots[index].transport)
    }

    /// All transports that are open.
    pub fn iter_mut(
        &mut self,
    ) -> impl Iterator<Item = (TransportKind, &mut (dyn Transport + Send + 'static))> {
        self.slots
            .iter_mut()
            .map(|slot| (slot.kind, &mut *slot.transport))
    }

    /// Events of the flows of all transports.
    pub fn poll_event(&mut self) -> Option<(TransportKind, Event)> {
        let mut slots = self.slots.iter_mut();
        slots.find_map(|slot| Some((slot.kind, slot.transport.poll_event()?)))
    }

    /// True while a flow is open or an ended one still answers late packets.
    pub fn is_active(&self) -> bool {
        self.slots.iter().any(|slot| slot.transport.is_active())
    }

    /// Filter of the socket, if it has changed since the last call.
    pub fn take_changed_selectors(&mut self) -> Option<Vec<OurPackets>> {
        let changed = std::mem::take(&mut self.changed);
        changed.then(|| self.slots.iter().flat_map(Slot::packets).collect())
    }

    /// A complete IPv4 packet arrived: it goes to the transport that selects it. A selector with a
    /// condition knows more of the packet than one of another transport without.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        let selections = self.slots.iter_mut().filter_map(|slot| {
            let has_condition = slot.selects(packet)?.condition.is_some();
            Some((has_condition, slot))
        });
        let owner = selections.min_by_key(|(has_condition, _)| !has_condition);
        if let Some((_, slot)) = owner {
            slot.transport.handle_packet(now, packet);
        }
    }

    pub fn handle_timeout(&mut self, now: Instant) {
        for slot in &mut self.slots {
            if slot.transport.next_deadline().is_some_and(|at| at <= now) {
                slot.transport.handle_timeout(now);
            }
        }
        self.give_back(now);
    }

    pub fn deadlines(&self) -> impl Iterator<Item = Instant> {
        let look_at = (!self.closing.is_empty()).then_some(self.look_at);
        let slots = self.slots.iter();
        slots
            .filter_map(|slot| slot.transport.next_deadline())
            .chain(look_at)
    }

    /// To be called when something happened, before the first
    /// [`poll_transmit`](Self::poll_transmit) after it: who had nothing to send may have now.
    pub fn begin_transmit(&mut self) {
        for slot in &mut self.slots {
            slot.dry = false;
        }
    }

    /// The next packet to leave, written over `packet`: in the order of
    /// [`Urgency`](ebb_transport::Urgency), transports in turn. Of
    /// `wanted` classes; but a packet that a transport has shown may be of a class that has been stopped
    /// since, and waits in the NIC then.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        wanted: DscpSet,
        packet: &mut Vec<u8>,
    ) -> Option<TxInfo> {
        for slot in &mut self.slots {
            if slot.head.is_none() && !slot.dry {
                let transport = &mut slot.transport;
                slot.head = transport.poll_transmit_of(now, wanted, &mut slot.packet);
                slot.dry = slot.head.is_none();
            }
        }
        let count = self.slots.len();
        let in_turn = (0..count).map(|step| (self.turn + step) % count);
        let scavenger = self.params.dscp.scavenger;
        let heads = in_turn.filter_map(|index| {
            let slot = &self.slots[index];
            Some((slot.head?.urgency(&slot.packet, scavenger), index))
        });
        // Among equals, the first one in turn.
        let (_, index) = heads.min_by_key(|(urgency, _)| *urgency)?;
        self.turn = index + 1;
        let slot = &mut self.slots[index];
        std::mem::swap(packet, &mut slot.packet);
        slot.head.take()
    }

    fn hide(&self, kind: TransportKind, ports: PortRange) -> anyhow::Result<Option<KernelRule>> {
        let (protocol, slots) = (kind.protocol(), self.slots.iter());
        // One rule hides all receiver-driven packets, and it stays.
        let is_hidden = protocol == Protocol::EBB
            && slots
                .filter(|slot| slot.kind.protocol() == protocol)
                .any(|slot| slot.rules.iter().any(Option::is_some));
        (self.of_kernel && !is_hidden)
            .then(|| hide(kind, ports))
            .transpose()
    }

    fn find(&self, kind: TransportKind) -> Option<usize> {
        self.slots.iter().position(|slot| slot.kind == kind)
    }
}

impl Engine for Transports {
    fn transport(&mut self, kind: TransportKind) -> Option<&mut dyn Transport> {
        self.get(kind)
            .map(|transport| transport as &mut dyn Transport)
    }

    fn open(&mut self, kind: TransportKind) -> Result<(), String> {
        Transports::open(self, kind, SOURCE_PORTS).map_err(|error| format!("{error:#}"))
    }

    fn listen(&mut self, kind: TransportKind, port: u16) -> Result<(), String> {
        Transports::listen(self, kind, port).map_err(|error| format!("{error:#}"))
    }

    fn unlisten(&mut self, now: Instant, kind: TransportKind, port: u16) {
        Transports::unlisten(self, now, kind, port);
    }

    /// Only the ports of this process are hidden from the kernel. Answers to a request come to one
    /// of those that flows leave from, as nobody else will listen there.
    fn ports(&self, kind: TransportKind) -> Option<Ports> {
        let range = self.slots[self.find(kind)?].ports[0].range;
        let ports = (range.first, range.last);
        Some(Ports {
            sources: Some(ports),
            replies: ports,
        })
    }
}

impl Slot {
    fn has(&self, port: u16) -> bool {
        self.ports.iter().any(|lock| lock.range.contains(port))
    }

    /// The place of a port that is not one of the source ports, in `ports` and in `rules`.
    fn own_port(&self, port: u16) -> Option<usize> {
        let mut services = self.ports.iter().skip(1);
        let index = services.position(|lock| lock.range == PortRange::one(port))?;
        Some(index + 1)
    }

    fn owns(&self, kind: TransportKind, port: u16) -> bool {
        self.kind == kind && self.has(port)
    }

    fn packets(&self) -> impl Iterator<Item = OurPackets> {
        let of = |ports| {
            let selectors = self.selectors.iter();
            selectors.map(move |&selector| OurPackets { selector, ports })
        };
        self.ports.iter().flat_map(move |lock| of(lock.range))
    }

    /// The selector by which a packet belongs to the transport. None: it does not.
    fn selects(&self, packet: &[u8]) -> Option<&Selector> {
        let selector = self.selectors.iter().find(|s| s.matches(packet))?;
        let port = selector.port(packet)?;
        self.has(port).then_some(selector)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // As long as a rule is there, the ports are ours.
        self.rules.clear();
    }
}

fn hide(kind: TransportKind, ports: PortRange) -> anyhow::Result<KernelRule> {
    if kind.protocol() == Protocol::EBB {
        KernelRule::hide_receiver_driven()
    } else {
        KernelRule::hide_tcp_ports(ports)
    }
    .context("cannot keep the kernel from answering our packets")
}

#[cfg(test)]
#[path = "transports_tests.rs"]
mod tests;
