//! Arriving packets, handed over together.

use std::net::Ipv4Addr;

use ebb_wire::{TcpFlags, TcpHeader, TcpOptions};
use proptest::prelude::*;

use super::*;

const HERE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// A segment of TCP from 10.0.0.9.
#[derive(Clone, Debug)]
struct Segment {
    port: u16,
    seq: u32,
    payload: Vec<u8>,
    flags: TcpFlags,
    ecn: Ecn,
    id: u16,
    timestamps: Option<(u32, u32)>,
}

impl Segment {
    fn new(seq: u32, bytes: usize) -> Self {
        Segment {
            port: 50_000,
            seq,
            payload: (0..bytes).map(|at| (seq as usize + at) as u8).collect(),
            flags: TcpFlags::ACK,
            ecn: Ecn::Ect0,
            id: 0,
            timestamps: Some((seq, 7)),
        }
    }

    fn packet(&self) -> Vec<u8> {
        let from = Ipv4Addr::new(10, 0, 0, 9);
        let header = TcpHeader {
            source_port: self.port,
            destination_port: 7004,
            seq: self.seq,
            ack: 99,
            flags: self.flags,
            window: 1000,
            options: TcpOptions {
                timestamps: self.timestamps,
                ..Default::default()
            },
        };
        let mut packet = Vec::new();
        let ip = Ipv4Header {
            id: self.id,
            ..Ipv4Header::new(from, HERE, Protocol::TCP, 10, self.ecn)
        };
        ip.emit(header.emitted_bytes() + self.payload.len(), &mut packet);
        header.emit(from, HERE, &self.payload, &mut packet);
        packet
    }

    fn parse(packet: &[u8]) -> Self {
        let ip = Ipv4Header::parse(packet).unwrap();
        let tcp = TcpHeader::parse(ip.payload, ip.header.src, ip.header.dst).unwrap();
        Segment {
            port: tcp.header.source_port,
            seq: tcp.header.seq,
            payload: tcp.payload.to_vec(),
            flags: tcp.header.flags,
            ecn: ip.header.ecn,
            id: ip.header.id,
            timestamps: tcp.header.options.timestamps,
        }
    }
}

fn nic(packets: u32) -> Nic {
    Nic::new(NicParams {
        coalesce_packets: packets,
        coalesce_ns: 50_000,
        ..params()
    })
}

/// The packets that the host sees, all in one batch.
fn seen(segments: &[Segment]) -> Vec<Segment> {
    let mut nic = nic(segments.len() as u32 + 1);
    for segment in segments {
        nic.receive(us(100), &segment.packet(), |_| panic!("too early"));
    }
    let mut seen = Vec::new();
    nic.release(us(150), |packet| seen.push(Segment::parse(packet)));
    seen
}

fn train(count: u32, bytes: u32) -> Vec<Segment> {
    let segments = (0..count).map(|n| Segment::new(n * bytes, bytes as usize));
    segments.collect()
}

#[test]
fn without_coalescing_a_packet_is_handed_over_at_once() {
    for packets in [0, 1] {
        let mut nic = nic(packets);
        let mut count = 0;
        nic.receive(us(1), &[1, 2, 3], |packet| {
            assert_eq!(packet, [1, 2, 3]);
            count += 1;
        });
        assert_eq!((count, nic.next_delivery()), (1, None));
    }
}

#[test]
fn the_first_packet_waits_for_the_time_and_no_longer() {
    let mut nic = nic(8);
    let mut seen = 0;
    nic.receive(us(100), &[1], |_| panic!("too early"));
    nic.receive(us(149), &[2], |_| panic!("too early"));
    assert_eq!(nic.next_delivery(), Some(us(150)));
    nic.release(ns(149_999), |_| panic!("too early"));
    nic.release(us(150), |_| seen += 1);
    assert_eq!((seen, nic.next_delivery()), (2, None));
    // The next one has the whole time again.
    nic.receive(us(160), &[3], |_| panic!("too early"));
    assert_eq!(nic.next_delivery(), Some(us(210)));
}

#[test]
fn as_many_as_are_counted_do_not_wait() {
    let mut nic = nic(3);
    let mut seen = Vec::new();
    for mark in 1..=7u8 {
        nic.receive(us(100), &[mark], |packet| seen.push(packet[0]));
    }
    assert_eq!(seen, [1, 2, 3, 4, 5, 6]);
    assert_eq!(nic.next_delivery(), Some(us(150)));
}

#[test]
fn segments_that_follow_each_other_are_one() {
    let seen = seen(&train(40, 1460));
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].payload.len(), 40 * 1460);
    let whole: Vec<u8> = train(40, 1460)
        .into_iter()
        .flat_map(|s| s.payload)
        .collect();
    assert_eq!(seen[0].payload, whole);
    // Sequence number and time stamps are those of the first one.
    assert_eq!((seen[0].seq, seen[0].timestamps), (0, Some((0, 7))));
}

#[test]
fn an_ipv4_packet_has_64_kb() {
    let seen = seen(&train(50, 1460));
    let lengths: Vec<_> = seen.iter().map(|segment| segment.payload.len()).collect();
    assert_eq!(lengths, [44 * 1460, 6 * 1460]);
}

#[test]
fn flows_are_merged_each_for_itself() {
    let mut segments = train(6, 100);
    for segment in segments.iter_mut().step_by(2) {
        segment.port = 1;
        segment.seq /= 2;
    }
    for segment in segments.iter_mut().skip(1).step_by(2) {
        segment.seq = (segment.seq - 100) / 2;
    }
    let seen = seen(&segments);
    let ports: Vec<_> = seen.iter().map(|s| (s.port, s.payload.len())).collect();
    assert_eq!(ports, [(1, 300), (50_000, 300)]);
}

#[test]
fn what_differs_or_is_missing_ends_a_segment() {
    let lengths = |change: &dyn Fn(&mut Vec<Segment>)| {
        let mut segments = train(6, 100);
        change(&mut segments);
        let seen = seen(&segments);
        seen.iter().map(|s| s.payload.len()).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&|_| ()), [600]);
    assert_eq!(lengths(&|s| s[2].ecn = Ecn::Ce), [200, 100, 300]);
    assert_eq!(lengths(&|s| s[2].id = 9), [200, 100, 300]);
    assert_eq!(lengths(&|s| drop(s.remove(2))), [200, 300]);
    assert_eq!(lengths(&|s| s.swap(2, 3)), [200, 100, 100, 200]);
    assert_eq!(
        lengths(&|s| s[1].flags = TcpFlags::ACK | TcpFlags::ECE),
        [100, 100, 400]
    );
    assert_eq!(
        lengths(&|s| s[2].flags = TcpFlags::ACK | TcpFlags::PSH),
        [300, 300]
    );
    assert_eq!(
        lengths(&|s| s[2].flags = TcpFlags::ACK | TcpFlags::CWR),
        [200, 100, 300]
    );
    assert_eq!(lengths(&|s| s[2].timestamps = None), [200, 100, 300]);
    assert_eq!(lengths(&|s| s.truncate(1)), [100]);
}

#[test]
fn the_last_segment_of_a_stream_ends_the_merged_one() {
    let mut segments = train(3, 100);
    segments[2].flags = TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN;
    let seen = seen(&segments);
    assert_eq!(seen.len(), 1);
    assert!(seen[0].flags.contains(TcpFlags::FIN) && seen[0].flags.contains(TcpFlags::PSH));
}

#[test]
fn acknowledgments_are_handed_over_one_by_one_and_overtake_nothing() {
    let mut segments = train(4, 100);
    segments.insert(2, Segment::new(200, 0));
    let seen = seen(&segments);
    let lengths: Vec<_> = seen.iter().map(|s| s.payload.len()).collect();
    assert_eq!(lengths, [200, 0, 200]);
}

/// Options that we do not know must not be lost, and what is damaged is not ours to mend.
#[test]
fn what_is_not_understood_is_handed_over_as_it_came() {
    let whole = Segment::new(0, 100).packet();
    let mut damaged = Segment::new(100, 100).packet();
    *damaged.last_mut().unwrap() ^= 1;
    let mut nic = nic(10);
    let all = [&whole[..], &damaged, b"", b"\x45", &whole[..30]];
    for packet in all {
        nic.receive(us(1), packet, |_| panic!("too early"));
    }
    let mut seen = Vec::new();
    nic.release(us(60), |packet| seen.push(packet.to_vec()));
    assert_eq!(seen, all);
}

proptest! {
    /// Whatever is merged, the bytes of a flow stay what they were, in their order.
    #[test]
    fn no_byte_is_lost_or_moved(
        pieces in prop::collection::vec(
            (0u16..3, 0usize..1460, any::<bool>(), any::<bool>(), any::<bool>()),
            1..100,
        ),
        batch in 1u32..40,
    ) {
        let mut next = [0u32; 3];
        let segments: Vec<Segment> = pieces
            .into_iter()
            .map(|(port, bytes, ce, push, gap)| {
                let seq = &mut next[usize::from(port)];
                *seq += u32::from(gap);
                let mut segment = Segment::new(*seq, bytes);
                *seq += bytes as u32;
                segment.port = port;
                segment.ecn = if ce { Ecn::Ce } else { Ecn::Ect0 };
                segment.flags = segment.flags | TcpFlags::PSH.when(push && bytes > 0);
                segment
            })
            .collect();
        let mut nic = nic(batch);
        let mut seen = Vec::new();
        for segment in &segments {
            nic.receive(us(1), &segment.packet(), |packet| seen.push(Segment::parse(packet)));
        }
        nic.release(us(100), |packet| seen.push(Segment::parse(packet)));
        let bytes = |segments: &[Segment], port| {
            let of_flow = segments.iter().filter(|segment| segment.port == port);
            of_flow
                .flat_map(|s| {
                    let marked = s.ecn == Ecn::Ce;
                    let numbered = s.payload.iter().enumerate();
                    numbered.map(move |(at, byte)| (s.seq + at as u32, *byte, marked))
                })
                .collect::<Vec<_>>()
        };
        for port in 0..3 {
            prop_assert_eq!(bytes(&seen, port), bytes(&segments, port));
        }
        let empty = |segments: &[Segment]| segments.iter().filter(|s| s.payload.is_empty()).count();
        prop_assert_eq!(empty(&seen), empty(&segments));
    }
}
