//! A hypervisor whose VMs are guaranteed nothing: pauses by the neighbour, and packets that are left
//! as they are.

use std::sync::Arc;

use ebb_nic::{ClassEntry, Classes, NicParams};
use ebb_units::{Duration, Instant};
use ebb_wire::{Ecn, EthernetHeader, Ipv4Header, MacAddress, PfcFrame, Protocol};

use super::*;

const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const GATEWAY: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
/// The DSCP of class 6.
const URGENT: u8 = 34;

/// Notes nothing.
struct Nowhere;

impl Departures for Nowhere {
    fn note(&self, _from: std::net::Ipv4Addr, _identification: u16, _at: Instant) {}

    fn at(&self, _from: std::net::Ipv4Addr, _identification: u16) -> Option<Instant> {
        None
    }
}

/// A VM without a guarantee behind 1 Gbit/s.
fn hypervisor(pfc: bool, marks: bool) -> Hypervisor {
    let classes = [ClassEntry {
        dscp: URGENT,
        queue: 6,
    }];
    let nic = NicParams {
        rate_bps: 1_000_000_000,
        frame_overhead_bytes: 24,
        pfc,
        classes: Classes::new(&classes).unwrap(),
        ..NicParams::default()
    };
    let hose = CoordinationParams {
        period: Duration::from_millis(1),
        delay: Duration::from_millis(1),
    };
    let params = HypervisorParams {
        batch: Duration::from_micros(50),
        hose,
        marks,
    };
    let guest = Guest {
        address: [10, 0, 0, 1].into(),
        dscp: 0,
        guarantee: None,
    };
    Hypervisor::new((MAC, GATEWAY), nic, params, &[guest], Arc::new(Nowhere))
}

fn frame(dscp: u8, identification: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    EthernetHeader {
        dst: GATEWAY,
        src: MAC,
        ethertype: EthernetHeader::IPV4,
    }
    .emit(&mut frame);
    let ends = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
    let header = Ipv4Header::new(ends.0, ends.1, Protocol::TCP, dscp, Ecn::NotEct);
    Ipv4Header {
        id: identification,
        ..header
    }
    .emit(100, &mut frame);
    frame.resize(frame.len() + 100, 7);
    frame
}

/// The neighbour stops the classes of a mask for so many quanta, of 512 ns each.
fn stop(hypervisor: &mut Hypervisor, now: Instant, mask: u8, quanta: u16) {
    let mut bytes = Vec::new();
    PfcFrame::of_classes(mask, quanta).emit(GATEWAY, &mut bytes);
    let frame = EthernetHeader::parse(&bytes).unwrap();
    hypervisor.handle_control(now, &frame).unwrap();
}

#[test]
fn frames_of_a_class_that_is_stopped_wait_and_others_pass_them() {
    let mut hypervisor = hypervisor(true, false);
    let start = Instant::from_micros(100);
    stop(&mut hypervisor, start, 1, 1_000);
    for dscp in [0, 0, URGENT] {
        hypervisor.send(start, 0, frame(dscp, 9));
    }
    let (end, sent) = hypervisor.poll_transmit(start).expect("class 6 is open");
    assert_eq!(sent, frame(URGENT, 9));
    assert_eq!(hypervisor.poll_transmit(end), None);
    let resumes = start + Duration::from_nanos(512_000);
    assert_eq!(hypervisor.next_deadline(), Some(resumes));
    assert_eq!(
        hypervisor.poll_transmit(resumes - Duration::from_nanos(1)),
        None
    );
    assert!(hypervisor.poll_transmit(resumes).is_some());
    // The neighbour may let it resume earlier.
    let next = hypervisor.next_deadline().expect("the link is free again");
    stop(&mut hypervisor, next, 1, 1_000);
    assert_eq!(hypervisor.poll_transmit(next), None);
    stop(&mut hypervisor, next, 1, 0);
    assert!(hypervisor.poll_transmit(next).is_some());
    assert_eq!(hypervisor.next_deadline(), None);
}

#[test]
fn an_interface_without_pfc_is_not_stopped() {
    let mut hypervisor = hypervisor(false, false);
    stop(&mut hypervisor, Instant::ZERO, 1, 1_000);
    hypervisor.send(Instant::ZERO, 0, frame(0, 9));
    assert!(hypervisor.poll_transmit(Instant::ZERO).is_some());
}

#[test]
fn packets_are_numbered_only_where_their_transport_does_not_do_it() {
    for marks in [false, true] {
        let mut hypervisor = hypervisor(false, marks);
        hypervisor.send(Instant::ZERO, 0, frame(URGENT, 9));
        let (_, sent) = hypervisor.poll_transmit(Instant::ZERO).expect("a frame");
        let expected = if marks { frame(0, 0) } else { frame(URGENT, 9) };
        assert_eq!(sent, expected);
    }
}
