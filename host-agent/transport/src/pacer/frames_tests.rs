use ebb_units::Duration;
use ebb_wire::{Ecn, MacAddress, TcpHeader, TcpOptions};

use super::*;

const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 3);

fn us(us: u64) -> Instant {
    Instant::from_micros(us)
}

/// Every ECN-Echo associates.
fn pacer() -> FramePacer {
    let params = PacerParams {
        association_probability: 1.0,
        ..PacerParams::default()
    };
    FramePacer::new(&params, 1)
}

fn ethernet(ethertype: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    EthernetHeader {
        dst: MacAddress([2; 6]),
        src: MacAddress([4; 6]),
        ethertype,
    }
    .emit(&mut frame);
    frame
}

/// A segment of the connection between `HOST` port `port` and `PEER` port 80.
fn segment(from_host: bool, port: u16, flags: TcpFlags, payload: &[u8]) -> Vec<u8> {
    let (src, dst, source_port, destination_port) = if from_host {
        (HOST, PEER, port, 80)
    } else {
        (PEER, HOST, 80, port)
    };
    let header = TcpHeader {
        source_port,
        destination_port,
        seq: 1,
        ack: 2,
        flags,
        window: 100,
        options: TcpOptions {
            timestamps: Some((1, 2)),
            ..TcpOptions::default()
        },
    };
    let mut frame = ethernet(EthernetHeader::IPV4);
    Ipv4Header::new(src, dst, Protocol::TCP, 0, Ecn::Ect0)
        .emit(header.emitted_bytes() + payload.len(), &mut frame);
    header.emit(src, dst, payload, &mut frame);
    frame
}

fn data(port: u16, byte: u8) -> Vec<u8> {
    segment(true, port, TcpFlags::ACK, &[byte; 1448])
}

fn echo(port: u16) -> Vec<u8> {
    segment(false, port, TcpFlags::ACK | TcpFlags::ECE, &[])
}

/// Uses up the bucket, so that the next frame of flow `port` waits.
fn busy(pacer: &mut FramePacer, port: u16) {
    pacer.handle_incoming(us(0), &echo(port));
    for byte in 0..3 {
        assert_eq!(
            pacer.handle_outgoing(us(0), &data(port, byte)),
            Verdict::Held
        );
    }
    let mut frame = Vec::new();
    while pacer.poll(us(0), &mut frame) {}
    assert!(pacer.backlog_bytes() > 0);
}

#[test]
fn only_data_of_associated_flows_is_held() {
    let mut pacer = pacer();
    assert_eq!(pacer.handle_outgoing(us(0), &data(5, 0)), Verdict::Pass);
    busy(&mut pacer, 6);
    assert_eq!(pacer.handle_outgoing(us(1), &data(5, 0)), Verdict::Pass);
    assert_eq!(pacer.handle_outgoing(us(1), &data(6, 9)), Verdict::Held);
    // A pure ACK speaks of the other direction and may overtake.
    let ack = segment(true, 6, TcpFlags::ACK, &[]);
    assert_eq!(pacer.handle_outgoing(us(1), &ack), Verdict::Pass);
    let counters = pacer.counters();
    assert_eq!((counters.held_frames, counters.outgoing_frames), (4, 7));
    assert_eq!(counters.ecn_echoes, 1);
}

#[test]
fn what_ends_a_connection_does_not_overtake_its_data() {
    for flag in [TcpFlags::FIN, TcpFlags::RST] {
        let mut pacer = pacer();
        let end = |port| segment(true, port, TcpFlags::ACK | flag, &[]);
        busy(&mut pacer, 6);
        assert_eq!(pacer.handle_outgoing(us(1), &end(5)), Verdict::Pass);
        assert_eq!(pacer.handle_outgoing(us(1), &end(6)), Verdict::Held);
        let (mut frame, mut last) = (Vec::new(), Vec::new());
        while let Some(at) = pacer.next_deadline() {
            while pacer.poll(at, &mut frame) {
                last.clone_from(&frame);
            }
        }
        assert_eq!(last, end(6));
        // Nothing waits any more.
        assert_eq!(pacer.handle_outgoing(us(9_000), &end(6)), Verdict::Pass);
    }
}

#[test]
fn only_an_echo_on_an_ack_associates() {
    let mut pacer = pacer();
    let syn_ack = segment(false, 5, TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE, &[]);
    let plain = segment(false, 5, TcpFlags::ACK, &[]);
    let own = segment(true, 5, TcpFlags::ACK | TcpFlags::ECE, &[]);
    pacer.handle_incoming(us(0), &syn_ack);
    pacer.handle_incoming(us(0), &plain);
    // An echo of the host to others says nothing about its own flow.
    pacer.handle_outgoing(us(0), &own);
    assert_eq!(pacer.handle_outgoing(us(0), &data(5, 0)), Verdict::Pass);
    // An echo on data counts like one on a pure ACK.
    let with_data = segment(false, 5, TcpFlags::ACK | TcpFlags::ECE, b"x");
    pacer.handle_incoming(us(0), &with_data);
    assert_eq!(pacer.handle_outgoing(us(0), &data(5, 0)), Verdict::Held);
}

#[test]
fn what_is_not_tcp_passes() {
    let mut pacer = pacer();
    pacer.handle_incoming(us(0), &echo(6));
    let mut fragment = data(6, 0);
    fragment[20] = 0x20;
    let mut udp = data(6, 0);
    udp[23] = 17;
    let mut short = data(6, 0);
    short.truncate(40);
    for frame in [
        vec![],
        vec![0; 13],
        ethernet(0x0806),
        ethernet(0x86dd),
        ethernet(EthernetHeader::IPV4),
        fragment,
        udp,
        short,
    ] {
        assert_eq!(pacer.handle_outgoing(us(0), &frame), Verdict::Pass);
        pacer.handle_incoming(us(0), &frame);
    }
    assert_eq!(pacer.counters().held_frames, 0);
}

#[test]
fn a_host_that_offloads_checksums_is_paced_too() {
    let mut pacer = pacer();
    pacer.handle_incoming(us(0), &echo(6));
    let mut frame = data(6, 0);
    frame[14 + 20 + 16] ^= 0xff;
    assert_eq!(pacer.handle_outgoing(us(0), &frame), Verdict::Held);
}

#[test]
fn frames_come_out_unchanged_in_order_and_a_full_fifo_drops() {
    let mut pacer = pacer();
    pacer.handle_incoming(us(0), &echo(6));
    let mut held = Vec::new();
    let mut dropped = 0;
    for byte in 0..100 {
        match pacer.handle_outgoing(us(0), &data(6, byte)) {
            Verdict::Held => held.push(data(6, byte)),
            Verdict::Dropped => dropped += 1,
            Verdict::Pass => panic!("associated"),
        }
    }
    // Two leave at once, 128000 / 1500 fit behind them.
    assert_eq!((held.len(), dropped), (87, 13));
    assert_eq!(pacer.counters().dropped_frames, 13);
    let (mut frame, mut out) = (Vec::new(), Vec::new());
    while let Some(at) = pacer.next_deadline() {
        while pacer.poll(at, &mut frame) {
            out.push(frame.clone());
        }
    }
    assert!(out == held);
    assert!(!pacer.poll(us(1_000_000), &mut frame), "nothing is left");
}

/// A host that sends 100 Mbit/s in clumps of `clump` full frames back to back: by how many us the
/// gaps between departures miss the ideal 120 us in the second of two seconds (median, p99), and the
/// mean gap.
fn spacing(clump: u64) -> (f64, f64, f64) {
    let mut pacer = pacer();
    let gap = Duration::from_micros(120);
    let mut departures = Vec::new();
    let mut frame = Vec::new();
    let mut now = us(0);
    while now < us(2_000_000) {
        pacer.handle_incoming(now, &echo(6));
        for byte in 0..clump {
            let verdict = pacer.handle_outgoing(now, &data(6, byte as u8));
            assert_eq!(verdict, Verdict::Held);
        }
        now += gap * clump;
        while let Some(at) = pacer.next_deadline().filter(|at| *at < now) {
            while pacer.poll(at, &mut frame) {
                departures.push(at);
            }
        }
    }
    let settled = &departures[departures.len() / 2..];
    let gaps = settled.windows(2).map(|pair| pair[1].since(pair[0]));
    let gaps: Vec<f64> = gaps.map(|gap| gap.as_secs_f64() * 1e6).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let mut off: Vec<f64> = gaps.iter().map(|gap| (gap - 120.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    (off[off.len() / 2], off[off.len() * 99 / 100], mean)
}

/// Packets that arrive in clumps leave spread, as far as the rate's memory of T_r / eta = 0.5 ms can tell
/// a clump from a change of rate, and but for the two packets that the bucket holds. In the long run
/// nothing is lost of the rate.
#[test]
fn clumps_leave_spread() {
    let (median, p99, mean) = spacing(1);
    assert!(
        median < 1.0 && p99 < 10.0,
        "even stays even: {median} {p99}"
    );
    assert!((mean - 120.0).abs() < 0.1, "{mean}");
    // Back to back is 120 off; the first two of four leave so, by the bucket.
    let (median, _, mean) = spacing(4);
    assert!(median < 40.0, "{median}");
    assert!((mean - 120.0).abs() < 0.1, "{mean}");
}
