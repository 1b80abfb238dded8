//! The other VMs of a tenant, for a pacer between an unmodified VM and its link: messages about the
//! hose go to the pacers of these.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use ebb_units::{BitRate, Instant};
use ebb_wire::{EthernetHeader, HoseMessage, Ipv4Header, MacAddress};

use super::coordination::{Coordination, CoordinationParams};
use super::pacer::VmPacer;

/// Where the destination of an IPv4 packet is, in a frame without tags.
const IPV4_DESTINATION: std::ops::Range<usize> = 30..34;

/// Who a frame is for: one peer of the tenant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Peer {
    Address(Ipv4Addr),
    /// All that is not IPv4.
    Station([u8; 6]),
}

impl Peer {
    /// None: too short for an Ethernet frame.
    pub(super) fn of(frame: &[u8]) -> Option<Peer> {
        let ethernet = EthernetHeader::parse(frame).ok()?.header;
        let address = frame.get(IPV4_DESTINATION);
        match address.and_then(|octets| octets.first_chunk::<4>()) {
            Some(octets) if ethernet.ethertype == EthernetHeader::IPV4 => {
                Some(Peer::Address(Ipv4Addr::from(*octets)))
            }
            _ => Some(Peer::Station(ethernet.dst.0)),
        }
    }
}

/// The peers of a VM.
#[derive(Debug)]
pub struct Peers {
    address: Ipv4Addr,
    /// Next hop to each of the tenant's other VMs. None: no frame has gone there or come from there.
    hops: BTreeMap<Ipv4Addr, Option<MacAddress>>,
    hose: Coordination<Peer>,
}

impl Peers {
    /// The peers of the VM with this address. `rate`: what all of them together may send to it: B less
    /// the messages. Packets of others than these are no messages.
    pub fn new(
        address: Ipv4Addr,
        peers: impl IntoIterator<Item = Ipv4Addr>,
        rate: BitRate,
        params: CoordinationParams,
    ) -> Self {
        Peers {
            address,
            hops: peers.into_iter().map(|peer| (peer, None)).collect(),
            hose: Coordination::new(rate, params),
        }
    }

    /// When [`poll`](Self::poll) has something to say.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.hose.next_deadline()
    }

    /// The VM sends a frame. Its rate to a peer; none: it goes to somebody else.
    pub(super) fn handle_outgoing(
        &mut self,
        now: Instant,
        to: Peer,
        header: &EthernetHeader,
    ) -> Option<BitRate> {
        let Peer::Address(address) = to else {
            return None;
        };
        *self.hops.get_mut(&address)? = Some(header.dst);
        Some(self.hose.handle_packet(now, to))
    }

    /// Takes a message from a frame of the network. False: it is none.
    pub(super) fn handle_incoming<P>(
        &mut self,
        now: Instant,
        frame: &[u8],
        pacer: &mut VmPacer<Option<Peer>, P>,
    ) -> bool {
        let Some((from, station, message)) = self.message(frame) else {
            return false;
        };
        if let Some(hop) = self.hops.get_mut(&from) {
            *hop = Some(station);
            let from = Peer::Address(from);
            self.hose.handle_message(now, from, message, pacer);
        }
        true
    }

    /// The message in a frame for this VM, with its sender and the station that it came from.
    fn message(&self, frame: &[u8]) -> Option<(Ipv4Addr, MacAddress, HoseMessage)> {
        let ethernet = EthernetHeader::parse(frame).ok()?;
        if ethernet.header.ethertype != EthernetHeader::IPV4 {
            return None;
        }
        let packet = Ipv4Header::parse(ethernet.payload).ok()?;
        let ours =
            packet.header.protocol == HoseMessage::PROTOCOL && packet.header.dst == self.address;
        let message = HoseMessage::parse(packet.payload).ok().filter(|_| ours)?;
        Some((packet.header.src, ethernet.header.src, message))
    }

    /// Frames with the messages that are due by `now`.
    pub(super) fn poll<P>(
        &mut self,
        now: Instant,
        station: MacAddress,
        pacer: &mut VmPacer<Option<Peer>, P>,
    ) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        if self.hose.next_deadline().is_none_or(|at| at > now) {
            return frames;
        }
        let (address, hops) = (self.address, &self.hops);
        self.hose.poll(now, pacer, |to, message| {
            if let Peer::Address(peer) = to
                && let Some(Some(hop)) = hops.get(&peer)
            {
                let mut frame = Vec::new();
                message.emit((address, peer), (station, *hop), 0, &mut frame);
                frames.push(frame);
            }
        });
        frames
    }
}
