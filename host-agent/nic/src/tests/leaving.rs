//! In which order packets leave, and how many wait.

use super::*;
use crate::QueueKind;

fn fifo(packets: u32, bytes: u32) -> NicParams {
    NicParams {
        queue: QueueKind::Fifo,
        queue_packets: packets,
        queue_bytes: bytes,
        ..params()
    }
}

/// Pushes packets of a class, marked one after the other, while the NIC takes them.
fn fill(nic: &mut Nic, now: Instant, class: u8) -> u8 {
    let mut count = 0;
    while nic.wants(now).contains(8 * class) {
        nic.push(&mut packet(class, FULL, count));
        count += 1;
    }
    count
}

#[test]
fn a_fifo_takes_packets_ahead_of_time_and_keeps_their_order() {
    let mut nic = Nic::new(fifo(5, 0));
    assert_eq!(fill(&mut nic, us(100), 0), 5);
    let mut memory = Vec::new();
    for n in 0..5 {
        let now = us(100) + frames(n);
        assert_eq!(nic.poll(now, &mut memory), Some(now + frames(1)));
        assert_eq!(memory[FULL - 1], n as u8);
        assert_eq!(nic.poll(now, &mut memory), None, "the link is busy");
    }
    assert!(!nic.has_backlog());
    assert_eq!(nic.next_start(us(200)), None);
}

#[test]
fn a_fifo_of_bytes_has_room_for_whole_packets() {
    // Packets may have 1500 bytes: a third one of 1486 has no room in 4400.
    assert_eq!(fill(&mut Nic::new(fifo(0, 4400)), us(0), 0), 2);
    assert_eq!(fill(&mut Nic::new(fifo(0, 4472)), us(0), 0), 3);
    assert_eq!(fill(&mut Nic::new(fifo(2, 1_000_000)), us(0), 0), 2);
}

#[test]
fn a_fifo_keeps_the_order_over_its_classes_and_a_stopped_one_is_overtaken() {
    let mut nic = Nic::new(fifo(10, 0));
    for (class, mark) in [(2, 0), (0, 1), (2, 2), (0, 3)] {
        nic.push(&mut packet(class, FULL, mark));
    }
    let mut memory = Vec::new();
    let mut next = |nic: &mut Nic, at: Instant| {
        let end = nic.poll(at, &mut memory)?;
        Some((memory[FULL - 1], end))
    };
    assert_eq!(next(&mut nic, us(100)), Some((0, us(112))));
    pause(&mut nic, us(105), 0b100, 100);
    assert_eq!(next(&mut nic, us(112)), Some((1, us(124))));
    assert_eq!(next(&mut nic, us(124)), Some((3, us(136))));
    assert_eq!(next(&mut nic, us(136)), None);
    assert!(nic.has_backlog());
    assert_eq!(nic.next_start(us(136)), Some(ns(156_200)));
    assert_eq!(next(&mut nic, ns(156_200)), Some((2, ns(168_200))));
}

#[test]
fn a_stopped_class_fills_its_own_room_only() {
    let mut nic = Nic::new(fifo(3, 0));
    pause(&mut nic, us(100), 0b1, 0xffff);
    assert_eq!(fill(&mut nic, us(100), 0), 3);
    assert_eq!(fill(&mut nic, us(100), 1), 3);
    assert!(nic.wants(us(100)).contains(16));
}

#[test]
fn a_round_robin_asks_for_a_packet_when_the_link_is_free() {
    let mut nic = Nic::new(params());
    assert_eq!(fill(&mut nic, us(100), 0), 1);
    let mut memory = Vec::new();
    assert_eq!(nic.poll(us(100), &mut memory), Some(us(112)));
    assert!(nic.wants(ns(111_999)).is_empty());
    assert_eq!(nic.next_start(ns(111_999)), Some(us(112)));
    assert!(!nic.wants(us(112)).is_empty());
}

#[test]
fn parameters_that_make_no_sense_are_refused_with_their_key() {
    let refused = |params: NicParams| params.validate().unwrap_err();
    let of = |json: &str| serde_json::from_str::<NicParams>(json).map_err(|e| e.to_string());
    assert!(refused(fifo(0, 0)).contains("nic.queue_packets"));
    assert!(refused(fifo(0, 1000)).contains("nic.queue_bytes is 1000"));
    let unlimited = NicParams {
        rate_bps: 0,
        ..params()
    };
    assert!(refused(unlimited).contains("nic.pfc needs nic.rate_bps"));
    let for_ever = NicParams {
        coalesce_packets: 8,
        coalesce_ns: 0,
        ..params()
    };
    assert!(refused(for_ever).contains("coalesce_ns"));
    let many = NicParams {
        coalesce_packets: 1_000_000,
        ..params()
    };
    assert!(refused(many).contains("at most 1024"));
    assert!(
        of(r#"{"queue": "lifo"}"#)
            .unwrap_err()
            .contains("round-robin")
    );
    let unknown = of(r#"{"burst": 3}"#).unwrap_err();
    assert!(unknown.contains("burst") && unknown.contains("coalesce_packets"));
    let class = |dscp, queue| {
        of(&format!(
            r#"{{"classes": [{{"dscp": {dscp}, "queue": {queue}}}]}}"#
        ))
    };
    assert!(class(64, 0).unwrap_err().contains("64 is not a DSCP"));
    assert!(class(0, 8).unwrap_err().contains("no queue 8"));
    let good = class(34, 6).unwrap();
    assert_eq!(good.classes.of(34), 6);
    assert_eq!(good.classes.of(33), 0);
    let again = serde_json::to_string(&good).unwrap();
    assert_eq!(of(&again).unwrap(), good);
    NicParams::default().validate().unwrap();
}
