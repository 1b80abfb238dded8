mod arriving;
mod leaving;
mod pauses;

use ebb_units::{Duration, Instant};
use ebb_wire::{Ecn, EthernetHeader, Ipv4Header, MacAddress, PfcFrame, Protocol};

use crate::{ClassEntry, Classes, Nic, NicParams};

const NEIGHBOUR: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
/// A packet that takes 12 us at 1 Gbit/s, with its Ethernet header.
const FULL: usize = 1486;

fn us(us: u64) -> Instant {
    Instant::from_micros(us)
}

fn ns(ns: u64) -> Instant {
    Instant::from_nanos(ns)
}

/// DSCP 8 c is of class c.
fn classes() -> Classes {
    let entries: Vec<_> = (0..8)
        .map(|queue| ClassEntry {
            dscp: 8 * queue,
            queue,
        })
        .collect();
    Classes::new(&entries).unwrap()
}

fn params() -> NicParams {
    NicParams {
        catch_up_packets: 0,
        classes: classes(),
        pfc: true,
        ..NicParams::default()
    }
}

/// An IPv4 packet of a class; its last byte is `mark`.
fn packet(class: u8, bytes: usize, mark: u8) -> Vec<u8> {
    let (a, b) = ([10, 0, 0, 2].into(), [10, 0, 0, 3].into());
    let mut packet = Vec::new();
    let header = Ipv4Header::new(a, b, Protocol(253), 8 * class, Ecn::NotEct);
    header.emit(bytes - Ipv4Header::BYTES, &mut packet);
    packet.resize(bytes, mark);
    packet
}

fn class_of(packet: &[u8]) -> u8 {
    packet[1] >> 2 >> 3
}

/// The neighbour sends a PFC frame that stops the classes of a mask for this many quanta.
fn pause(nic: &mut Nic, now: Instant, mask: u8, quanta: u16) {
    control(nic, now, &frame(mask, quanta)).unwrap();
}

fn frame(mask: u8, quanta: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    PfcFrame::of_classes(mask, quanta).emit(NEIGHBOUR, &mut bytes);
    bytes
}

fn control(nic: &mut Nic, now: Instant, bytes: &[u8]) -> Result<(), ebb_wire::ParseError> {
    nic.handle_control(now, &EthernetHeader::parse(bytes).unwrap())
}

/// When each class of a host that always has full packets of `busy` classes starts to send in
/// `[now, end)`.
fn starts(nic: &mut Nic, mut now: Instant, end: Instant, busy: &[u8]) -> Vec<(u8, Instant)> {
    let (mut sent, mut memory, mut turn) = (Vec::new(), Vec::new(), 0);
    while now < end {
        while let Some(class) = next_of(nic, now, busy, &mut turn) {
            nic.push(&mut packet(class, FULL, 0));
        }
        match nic.poll(now, &mut memory) {
            Some(_) => sent.push((class_of(&memory), now)),
            None => match nic.next_start(now) {
                Some(at) => now = at,
                None => break,
            },
        }
    }
    sent
}

/// The class in turn of which the NIC takes a packet.
fn next_of(nic: &mut Nic, now: Instant, busy: &[u8], turn: &mut usize) -> Option<u8> {
    let wanted = nic.wants(now);
    let in_turn = (0..busy.len()).map(|step| busy[(*turn + step) % busy.len()]);
    let class = in_turn.clone().find(|class| wanted.contains(8 * class))?;
    *turn += 1;
    Some(class)
}

fn frames(count: u64) -> Duration {
    Duration::from_micros(12) * count
}
