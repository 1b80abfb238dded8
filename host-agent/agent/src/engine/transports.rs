//! The transports of the process: their ports, what arrives for whom, and whose turn it is to send.

use std::net::Ipv4Addr;

use anyhow::Context;
use ebb_host::{Engine, Ports};
use ebb_transport::nic::DscpSet;
use ebb_transport::{Event, Hears, PacketKind, Scheme, Transport, TxInfo};
use ebb_units::{Duration, Instant};
use ebb_wire::{EbbFlags, Ipv4Header, Protocol};

use crate::engine::params::Params;
use crate::machine::kernel_rules::KernelRule;
use crate::machine::port_lock::{PortLock, PortRange};

/// Source ports that a command asks for; it gets a block of them.
pub const FEW_SOURCE_PORTS: u16 = 1;

/// Source ports of a scheme that the host application opens.
const SOURCE_PORTS: u16 = 64;

/// How often it is looked whether a port that is to be given back is still in use.
const GIVE_BACK_INTERVAL: Duration = Duration::from_millis(100);

/// What the packets of one of our port ranges look like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selector {
    pub protocol: Protocol,
    pub ports: PortRange,
    /// What switches may tell about the packets that leave from them is for us too.
    pub hears: Hears,
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
    /// What the socket must let through has changed since somebody asked for it.
    changed: bool,
    /// Ports that are not listened on any more, and are given back when nothing uses them.
    closing: Vec<(Scheme, u16)>,
    /// When it is looked next whether those are still in use.
    look_at: Instant,
    /// Whether the application confirms itself what arrived whole: [`Transport::hold_confirmations`].
    holds: bool,
}

/// A transport and its ports.
struct Slot {
    scheme: Scheme,
    transport: Box<dyn Transport + Send>,
    /// What switches may tell it.
    hears: Hears,
    /// The first one has the source ports, the others are for services.
    ports: Vec<PortLock>,
    /// The rules that hide the ports from the kernel, one for each element of `ports`.
    rules: Vec<KernelRule>,
    /// The packet that leaves when this scheme's turn comes. With one scheme it is taken the moment it
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
        }
    }

    /// Has the application confirm what arrived whole, for all transports.
    pub fn hold_confirmations(&mut self) {
        self.holds = true;
        for slot in &mut self.slots {
            slot.transport.hold_confirmations();
        }
    }

    /// Makes sure that `scheme` runs here. `source_ports`: how many flows to one port of one peer
    /// there can be at a time; counts only the first time.
    pub fn open(&mut self, scheme: Scheme, source_ports: u16) -> anyhow::Result<()> {
        if self.find(scheme).is_some() {
            return Ok(());
        }
        let lock = PortLock::take_sources(self.address, scheme.protocol(), source_ports)?;
        let rule = hide(scheme, lock.range)?;
        let transport = scheme.transport(
            self.address,
            &self.params.suite(),
            (lock.range.first, lock.range.last),
            self.seed.wrapping_add(scheme.entry().seed()),
        );
        let mut transport = transport.map_err(anyhow::Error::msg)?;
        if self.holds {
            transport.hold_confirmations();
        }
        self.slots.push(Slot {
            scheme,
            hears: transport.hears(),
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

    /// Makes sure that `scheme` runs here and accepts flows to `port`.
    pub fn listen(&mut self, scheme: Scheme, port: u16) -> anyhow::Result<()> {
        if self.slots.iter().all(|slot| !slot.owns(scheme, port)) {
            // Before anything else: this is what most often fails.
            let lock = PortLock::take(self.address, port)?;
            self.open(scheme, FEW_SOURCE_PORTS)?;
            let rule = hide(scheme, lock.range)?;
            let index = self.find(scheme).context("just opened")?;
            self.slots[index].ports.push(lock);
            self.slots[index].rules.push(rule);
            self.changed = true;
        }
        let index = self.find(scheme).context("owns a port")?;
        self.closing.retain(|closing| *closing != (scheme, port));
        Ok(self.slots[index].transport.listen(port)?)
    }

    /// Accepts no more flows to `port`. A port of its own (not one of the source ports) is free for
    /// others when the last flow to it has ended and answers no more late packets.
    pub fn unlisten(&mut self, now: Instant, scheme: Scheme, port: u16) {
        let Some(index) = self.find(scheme) else {
            return;
        };
        self.slots[index].transport.unlisten(port);
        let is_own = self.slots[index].own_port(port).is_some();
        if is_own && !self.closing.contains(&(scheme, port)) {
            self.closing.push((scheme, port));
            self.look_at = now;
            self.give_back(now);
        }
    }

    fn give_back(&mut self, now: Instant) {
        if self.closing.is_empty() || now < self.look_at {
            return;
        }
        self.look_at = now + GIVE_BACK_INTERVAL;
        for (scheme, port) in std::mem::take(&mut self.closing) {
            let slot = self.slots.iter_mut().find(|slot| slot.scheme == scheme);
            let Some(slot) = slot else { continue };
            if slot.transport.uses_port(port) {
                self.closing.push((scheme, port));
            } else if let Some(index) = slot.own_port(port) {
                // As long as the rule is there, the port is ours.
                slot.rules.remove(index);
                slot.ports.remove(index);
                self.changed = true;
            }
        }
    }

    /// The transport of `scheme`, if it is open.
    pub fn get(&mut self, scheme: Scheme) -> Option<&mut (dyn Transport + Send + 'static)> {
        let index = self.find(scheme)?;
        Some(&mut *self.slots[index].transport)
    }

    /// All transports that are open.
    pub fn iter_mut(
        &mut self,
    ) -> impl Iterator<Item = (Scheme, &mut (dyn Transport + Send + 'static))> {
        self.slots
            .iter_mut()
            .map(|slot| (slot.scheme, &mut *slot.transport))
    }

    /// What has happened to the flows of any transport.
    pub fn poll_event(&mut self) -> Option<(Scheme, Event)> {
        let mut slots = self.slots.iter_mut();
        slots.find_map(|slot| Some((slot.scheme, slot.transport.poll_event()?)))
    }

    /// True while a flow is open or an ended one still answers late packets.
    pub fn is_active(&self) -> bool {
        self.slots.iter().any(|slot| slot.transport.is_active())
    }

    /// What the socket must let through, if that has changed since the last call.
    pub fn take_changed_selectors(&mut self) -> Option<Vec<Selector>> {
        std::mem::take(&mut self.changed).then(|| {
            let of = |slot: &Slot| {
                let protocol = slot.scheme.protocol();
                let ranges = slot.ports.iter().map(|lock| lock.range);
                let hears = slot.hears;
                ranges
                    .map(|ports| Selector {
                        protocol,
                        ports,
                        hears,
                    })
                    .collect::<Vec<_>>()
            };
            self.slots.iter().flat_map(of).collect()
        })
    }

    /// A complete IPv4 packet arrived: it goes to whoever owns its destination port, or its source
    /// port if a switch returned it.
    pub fn handle_packet(&mut self, now: Instant, packet: &[u8]) {
        if let Some(slot) = self.slots.iter_mut().find(|slot| slot.is_told(packet)) {
            slot.transport.handle_packet(now, packet);
            return;
        }
        let Some((mut protocol, port)) = our_port(packet) else {
            return;
        };
        if protocol == Protocol::ICMP {
            // About what a TCP of ours has sent; no other lets such messages through.
            protocol = Protocol::TCP;
        }
        let owner = |slot: &&mut Slot| slot.scheme.protocol() == protocol && slot.has(port);
        if let Some(slot) = self.slots.iter_mut().find(owner) {
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

    /// The next packet to leave, written over `packet`: control before data, schemes in turn. Of
    /// `wanted` classes; but a packet that a scheme has shown may be of a class that has been stopped
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
        let in_turn = |step| (self.turn + step) % count;
        let is_control = |&index: &usize| {
            let head = self.slots[index].head;
            head.is_some_and(|info| info.kind == PacketKind::Control)
        };
        let has_any = |&index: &usize| self.slots[index].head.is_some();
        let index = (0..count)
            .map(in_turn)
            .find(is_control)
            .or_else(|| (0..count).map(in_turn).find(has_any))?;
        self.turn = index + 1;
        let slot = &mut self.slots[index];
        std::mem::swap(packet, &mut slot.packet);
        slot.head.take()
    }

    fn find(&self, scheme: Scheme) -> Option<usize> {
        self.slots.iter().position(|slot| slot.scheme == scheme)
    }
}

impl Engine for Transports {
    fn transport(&mut self, scheme: Scheme) -> Option<&mut dyn Transport> {
        self.get(scheme)
            .map(|transport| transport as &mut dyn Transport)
    }

    fn open(&mut self, scheme: Scheme) -> Result<(), String> {
        Transports::open(self, scheme, SOURCE_PORTS).map_err(|error| format!("{error:#}"))
    }

    fn listen(&mut self, scheme: Scheme, port: u16) -> Result<(), String> {
        Transports::listen(self, scheme, port).map_err(|error| format!("{error:#}"))
    }

    fn unlisten(&mut self, now: Instant, scheme: Scheme, port: u16) {
        Transports::unlisten(self, now, scheme, port);
    }

    /// Only the ports of this process are hidden from the kernel. Answers to a request come to one
    /// of those that flows leave from, as nobody else will listen there.
    fn ports(&self, scheme: Scheme) -> Option<Ports> {
        let range = self.slots[self.find(scheme)?].ports[0].range;
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

    fn owns(&self, scheme: Scheme, port: u16) -> bool {
        self.scheme == scheme && self.has(port)
    }

    /// The packet is a switch's word that something was dropped that it had sent.
    fn is_told(&self, packet: &[u8]) -> bool {
        let port = self
            .hears
            .drops
            .and_then(|dscp| notified_port(packet, dscp));
        port.is_some_and(|port| self.has(port))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // As long as a rule is there, the ports are ours.
        self.rules.clear();
    }
}

fn hide(scheme: Scheme, ports: PortRange) -> anyhow::Result<KernelRule> {
    if scheme.protocol() == Protocol::EBB {
        KernelRule::hide_receiver_driven()
    } else {
        KernelRule::hide_tcp_ports(ports)
    }
    .context("cannot keep the kernel from answering our packets")
}

/// Protocol and the port that is ours, as far as they can be told without trusting the packet.
fn our_port(packet: &[u8]) -> Option<(Protocol, u16)> {
    let protocol = Protocol(*packet.get(9)?);
    let header = packet.get(usize::from(packet[0] & 0xf) * 4..)?;
    let is_returned = protocol == Protocol::EBB
        && EbbFlags(*header.get(EBB_FLAGS_AT)?).contains(EbbFlags::RETURNED);
    let at = match is_returned {
        true => EBB_SOURCE_PORT_AT,
        false => destination_port_at(protocol),
    };
    let port = header.get(at..at + 2)?;
    Some((protocol, u16::from_be_bytes([port[0], port[1]])))
}

/// The source port of a TCP packet in the class `dscp` of notifications: whose drop it tells of.
fn notified_port(packet: &[u8], dscp: u8) -> Option<u16> {
    let is_one = packet.get(1)? >> 2 == dscp && Protocol(*packet.get(9)?) == Protocol::TCP;
    let header = packet.get(usize::from(packet[0] & 0xf) * 4..)?;
    let port = header.first_chunk().filter(|_| is_one)?;
    Some(u16::from_be_bytes(*port))
}

/// Offsets in the header behind IPv4, for packets that a switch returned: their addresses are
/// swapped, their ports are not (`docs/wire-format.md`).
pub const EBB_FLAGS_AT: usize = 1;
pub const EBB_SOURCE_PORT_AT: usize = 4;

/// Offset of the source port that a message of ICMP quotes, behind the message's header and the quoted
/// IPv4 header. What leaves here has no options there.
pub const QUOTED_PORT_AT: usize = 8 + Ipv4Header::BYTES;

/// Offset of the port that is ours in the header behind IPv4: of the destination, or the quoted source.
pub fn destination_port_at(protocol: Protocol) -> usize {
    match protocol {
        Protocol::EBB => 6,
        Protocol::ICMP => QUOTED_PORT_AT,
        _ => 2,
    }
}

#[cfg(test)]
#[path = "transports_tests.rs"]
mod turn_tests;

#[cfg(test)]
mod tests {
    use super::*;

    /// From port 61000 to port 7000, behind an IPv4 header of 24 bytes.
    fn packet(protocol: u8, flags: u8) -> Vec<u8> {
        let mut packet = vec![0; 24 + 48];
        packet[0] = 0x46;
        packet[9] = protocol;
        packet[24 + 1] = flags;
        let ports = if protocol == 253 { 24 + 4 } else { 24 };
        packet[ports..ports + 2].copy_from_slice(&61000u16.to_be_bytes());
        packet[ports + 2..ports + 4].copy_from_slice(&7000u16.to_be_bytes());
        packet
    }

    #[test]
    fn a_notification_is_for_the_source_port_of_what_was_dropped() {
        let mut dropped = packet(6, 0);
        assert_eq!(notified_port(&dropped, 56), None, "of another class");
        dropped[1] = 56 << 2;
        assert_eq!(notified_port(&dropped, 56), Some(61000));
        assert_eq!(notified_port(&dropped[..25], 56), None);
        assert_eq!(notified_port(&dropped[..1], 56), None);
        dropped[9] = 253;
        assert_eq!(notified_port(&dropped, 56), None, "only TCP is told of");
    }

    #[test]
    fn a_message_is_for_the_source_port_that_it_quotes() {
        let mut message = packet(1, 0);
        message[24 + 28..24 + 30].copy_from_slice(&61001u16.to_be_bytes());
        assert_eq!(our_port(&message), Some((Protocol::ICMP, 61001)));
        assert_eq!(our_port(&message[..24 + 29]), None);
    }

    #[test]
    fn a_returned_packet_is_for_its_source_port() {
        let port = |packet: &[u8]| our_port(packet).map(|(_, port)| port);
        assert_eq!(port(&packet(253, 0x04)), Some(7000));
        assert_eq!(port(&packet(253, 0x84)), Some(61000));
        assert_eq!(port(&packet(6, 0xff)), Some(7000));
        assert_eq!(port(&packet(253, 0x84)[..24 + 5]), None);
        assert_eq!(port(&packet(253, 0)[..24 + 1]), None);
    }
}
