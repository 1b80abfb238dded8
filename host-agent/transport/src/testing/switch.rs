//! The output port of NDP's switch: a short data queue, a control queue, weighted round robin.

use std::collections::VecDeque;

use ebb_units::{BitRate, Instant};
use ebb_wire::checksum::internet_checksum;
use ebb_wire::{EbbFlags, EbbHeader, Ipv4Header};

use crate::DscpParams;
use crate::nic::NicParams;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PortParams {
    pub rate: BitRate,
    /// The class of the data queue; all others are in the control queue.
    pub data_dscp: u8,
    /// NDP, section 3: eight packets.
    pub data_packets: usize,
    pub control_packets: usize,
    /// Control packets served per data packet when both wait.
    pub control_weight: u32,
    /// A packet that does not fit is trimmed; else dropped.
    pub trimming: bool,
    /// Trimmed headers that do not fit either are turned round; else dropped.
    pub return_to_sender: bool,
}

impl Default for PortParams {
    fn default() -> Self {
        PortParams {
            rate: BitRate::from_mbps(1000),
            data_dscp: DscpParams::default().trimmable,
            data_packets: 8,
            control_packets: 1000,
            control_weight: 10,
            trimming: true,
            return_to_sender: false,
        }
    }
}

pub(crate) struct Port {
    params: PortParams,
    control: VecDeque<Vec<u8>>,
    data: VecDeque<Vec<u8>>,
    control_served: u32,
    free_at: Instant,
    pub trims: u64,
    pub returns: u64,
    pub drops: u64,
}

impl Port {
    pub fn new(params: PortParams) -> Self {
        Port {
            params,
            control: VecDeque::new(),
            data: VecDeque::new(),
            control_served: 0,
            free_at: Instant::ZERO,
            trims: 0,
            returns: 0,
            drops: 0,
        }
    }

    /// A packet that is to go back to its sender is returned.
    #[must_use]
    pub fn enqueue(&mut self, now: Instant, packet: Vec<u8>) -> Option<Vec<u8>> {
        if self.control.is_empty() && self.data.is_empty() {
            self.free_at = self.free_at.max(now);
        }
        let dscp = packet[1] >> 2;
        if dscp != self.params.data_dscp {
            return self.enqueue_control(packet);
        } else if self.data.len() < self.params.data_packets {
            self.data.push_back(packet);
        } else if self.params.trimming {
            self.trims += 1;
            return self.enqueue_control(trim(&packet));
        } else {
            self.drops += 1;
        }
        None
    }

    fn enqueue_control(&mut self, packet: Vec<u8>) -> Option<Vec<u8>> {
        if self.control.len() < self.params.control_packets {
            self.control.push_back(packet);
            return None;
        }
        let returned = self.params.return_to_sender.then(|| turn_round(&packet));
        match returned.flatten() {
            Some(returned) => {
                self.returns += 1;
                Some(returned)
            }
            None => {
                self.drops += 1;
                None
            }
        }
    }

    pub fn next_departure(&self) -> Option<Instant> {
        (!self.control.is_empty() || !self.data.is_empty()).then_some(self.free_at)
    }

    /// The packet whose transmission starts now, and when its last bit is out.
    pub fn depart(&mut self, now: Instant) -> Option<(Instant, Vec<u8>)> {
        if self.next_departure()? > now {
            return None;
        }
        let data_turn = self.control_served >= self.params.control_weight;
        let packet = if self.control.is_empty() || (data_turn && !self.data.is_empty()) {
            self.control_served = 0;
            self.data.pop_front()?
        } else {
            self.control_served += u32::from(!self.data.is_empty());
            self.control.pop_front()?
        };
        self.free_at += self
            .params
            .rate
            .time_for(NicParams::default().frame_bytes(packet.len()));
        Some((self.free_at, packet))
    }
}

/// Cuts the payload, as docs/wire-format.md says, at the smallest useful size.
pub(crate) fn trim(packet: &[u8]) -> Vec<u8> {
    let ip = Ipv4Header::parse(packet).expect("hosts send valid IPv4");
    let mut header = ip.payload[..EbbHeader::BYTES].to_vec();
    header[1] |= EbbFlags::TRIMMED.0;
    let dscp = DscpParams::default().trimmed;
    write(Ipv4Header { dscp, ..ip.header }, header)
}

/// Sends a trimmed header back, as docs/wire-format.md says. `None`: it is none, or was already.
pub(crate) fn turn_round(packet: &[u8]) -> Option<Vec<u8>> {
    let ip = Ipv4Header::parse(packet).expect("hosts send valid IPv4");
    let mut header = ip.payload[..EbbHeader::BYTES].to_vec();
    let flags = EbbFlags(header[1]);
    if !flags.contains(EbbFlags::TRIMMED)
        || flags.contains(EbbFlags::RETURNED)
        || flags.contains(EbbFlags::MULTICAST)
    {
        return None;
    }
    header[1] |= EbbFlags::RETURNED.0;
    let swapped = Ipv4Header {
        src: ip.header.dst,
        dst: ip.header.src,
        ..ip.header
    };
    Some(write(swapped, header))
}

fn write(ip: Ipv4Header, mut header: Vec<u8>) -> Vec<u8> {
    header[26..28].fill(0);
    let checksum = internet_checksum(&header);
    header[26..28].copy_from_slice(&checksum.to_be_bytes());
    let mut out = Vec::new();
    ip.emit(header.len(), &mut out);
    out.extend_from_slice(&header);
    out
}
