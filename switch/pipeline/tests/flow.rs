//! Decisions after ingress and after egress.

use ebb_pipeline::control::{CloneSession, ProtectedReplica, Replica};
use ebb_pipeline::*;
use serde_json::json;

use crate::fixture::*;
use crate::value_of;

fn standard(name: &str) -> serde_json::Value {
    field("standard_metadata", name)
}

fn to_port(port: u64) -> serde_json::Value {
    set("standard_metadata", "egress_spec", hex(port))
}

fn drop() -> serde_json::Value {
    let header = json!({"type": "header", "value": "standard_metadata"});
    call("mark_to_drop", &[header])
}

#[test]
fn a_packet_goes_through_unchanged() {
    let mut p = Fixture::new(&[to_port(5)], &[]).load();
    let f = frame(&[1, 2], 0x1234_5678, b"payload");
    let (port, packet) = unicast(ingress(&mut p, &f));
    assert_eq!(port, 5);
    assert_eq!(packet.wire_len(), f.len());
    let (outcome, out) = egress(&mut p, packet);
    assert!(matches!(outcome.verdict, EgressVerdict::Transmit(_)));
    assert_eq!(out, f);
}

#[test]
fn the_drop_port_drops_in_ingress_and_in_egress() {
    let f = frame(&[], 0, b"");
    let mut p = Fixture::new(&[drop()], &[]).load();
    let outcome = ingress(&mut p, &f);
    assert!(matches!(
        outcome.verdict,
        IngressVerdict::Dropped(DropReason::IngressMarkToDrop)
    ));
    let mut p = Fixture::new(&[to_port(1)], &[drop()]).load();
    let (_, packet) = unicast(ingress(&mut p, &f));
    let (outcome, _) = egress(&mut p, packet);
    assert!(matches!(
        outcome.verdict,
        EgressVerdict::Dropped(DropReason::EgressMarkToDrop)
    ));
    assert_eq!(p.stats().drops(DropReason::EgressMarkToDrop), 1);
    // Another drop port: 511 is a port like others then.
    let mut p = Fixture::new(&[to_port(511)], &[]).load();
    p.set_drop_port(100);
    assert_eq!(unicast(ingress(&mut p, &f)).0, 511);
}

#[test]
fn mark_to_drop_on_a_copy_of_the_metadata_is_about_the_copy() {
    let f = frame(&[], 0, b"x");
    let marked = call(
        "mark_to_drop",
        &[json!({"type": "header", "value": "copy"})],
    );
    let mut p = Fixture::new(&[to_port(5), marked.clone()], &[]).load();
    assert_eq!(unicast(ingress(&mut p, &f)).0, 5);
    let back = |name| set("standard_metadata", name, field("copy", name));
    let mut p = Fixture::new(&[to_port(5), marked.clone(), back("egress_spec")], &[]).load();
    assert!(matches!(
        ingress(&mut p, &f).verdict,
        IngressVerdict::Dropped(DropReason::IngressMarkToDrop)
    ));
    // The group of the copy is cleared, that of the packet stays.
    let group = |header| set(header, "mcast_grp", hex(7));
    let mut p = Fixture::new(
        &[group("copy"), marked.clone(), back("mcast_grp"), to_port(5)],
        &[],
    );
    assert_eq!(unicast(ingress(&mut p.load(), &f)).0, 5);
    p = Fixture::new(&[group("standard_metadata"), marked], &[]);
    let mut p = p.load();
    p.insert_multicast_group(
        7,
        vec![Replica {
            port: 1,
            instance: 1,
        }],
    )
    .unwrap();
    assert!(matches!(
        ingress(&mut p, &f).verdict,
        IngressVerdict::Multicast { group: 7, .. }
    ));
}

#[test]
fn a_replica_goes_to_its_first_backup_whose_port_is_up() {
    let mut p = Fixture::new(&[to_port(1)], &[]).load();
    let at = |port| Replica { port, instance: 0 };
    let ports =
        |p: &Pipeline| -> Vec<u16> { p.multicast_replicas(7).iter().map(|r| r.port).collect() };
    let protected = || {
        [(1, &[2, 3][..]), (4, &[])].map(|(primary, backups)| ProtectedReplica {
            primary: at(primary),
            backups: backups.iter().map(|port| at(*port)).collect(),
        })
    };
    p.set_port_up(2, false);
    assert!(p.protect_multicast_group(7, protected().into()).is_err());
    p.insert_multicast_group(7, vec![at(1), at(4)]).unwrap();
    p.protect_multicast_group(7, protected().into()).unwrap();
    assert_eq!(ports(&p), [1, 4]);
    p.set_port_up(1, false);
    assert_eq!(ports(&p), [3, 4]);
    p.set_port_up(2, true);
    assert_eq!(ports(&p), [2, 4]);
    // With nothing left, and without backups, it is the primary's.
    for port in [2, 3, 4] {
        p.set_port_up(port, false);
    }
    assert_eq!(ports(&p), [1, 4]);
    p.set_port_up(3, true);
    p.set_port_up(1, true);
    assert_eq!(ports(&p), [1, 4]);
    // Without backups again, ports no longer matter.
    p.modify_multicast_group(7, vec![at(1)]).unwrap();
    p.set_port_up(1, false);
    assert_eq!(ports(&p), [1]);
    let twice = ProtectedReplica {
        primary: at(1),
        backups: vec![at(1)],
    };
    assert!(p.protect_multicast_group(7, vec![twice]).is_err());
}

#[test]
fn multicast_comes_before_unicast_and_mark_to_drop_clears_it() {
    let group = set("standard_metadata", "mcast_grp", hex(7));
    let f = frame(&[], 0, b"x");
    let mut p = Fixture::new(
        &[to_port(1), group.clone()],
        &[set(
            "h",
            "value",
            expr(
                "+",
                standard("egress_rid"),
                expr("<<", standard("instance_type"), hex(16)),
            ),
        )],
    )
    .load();
    let replicas = [(1, 10), (2, 20)].map(|(port, instance)| Replica { port, instance });
    p.insert_multicast_group(7, replicas.to_vec()).unwrap();
    let IngressVerdict::Multicast { group: 7, packet } = ingress(&mut p, &f).verdict else {
        panic!("not multicast");
    };
    for r in p.multicast_replicas(7).to_vec() {
        let copy = p.clone_packet(&packet);
        let input = EgressInput {
            egress_port: r.port,
            egress_rid: r.instance,
            ..EgressInput::default()
        };
        let EgressVerdict::Transmit(out) = p.egress(at(1), copy, &input).verdict else {
            panic!("not transmitted");
        };
        assert_eq!(value_of(&out), 5 << 16 | u32::from(r.instance));
    }
    assert!(p.multicast_replicas(8).is_empty());
    let mut p = Fixture::new(&[group, drop()], &[]).load();
    assert!(matches!(
        ingress(&mut p, &f).verdict,
        IngressVerdict::Dropped(_)
    ));
}

#[test]
fn an_ingress_clone_is_the_frame_as_it_came_with_the_preserved_metadata() {
    let mut p = Fixture::new(
        &[
            set("h", "value", hex(99)),
            set("scalars", "a", hex(0x55)),
            call("clone_ingress_pkt_to_egress", &[hex(4), hex(1)]),
            drop(),
        ],
        &[set(
            "h",
            "wide",
            expr(
                "+",
                field("scalars", "a"),
                expr("<<", standard("instance_type"), hex(8)),
            ),
        )],
    )
    .load();
    let f = frame(&[9], 42, b"p");
    assert!(
        ingress(&mut p, &f).clone.is_none(),
        "the session is not configured"
    );
    p.insert_clone_session(4, CloneSession::default()).unwrap();
    let outcome = ingress(&mut p, &f);
    assert!(matches!(outcome.verdict, IngressVerdict::Dropped(_)));
    let clone = outcome.clone.unwrap();
    assert_eq!(clone.session, 4);
    let (_, out) = egress(&mut p, clone.packet);
    assert_eq!(value_of(&out), 42);
    assert_eq!(out[19..21], [1, 0x55]);
}

#[test]
fn an_egress_clone_has_the_changes() {
    let mut p = Fixture::new(
        &[to_port(1)],
        &[
            set("h", "value", expr("+", field("h", "value"), hex(1))),
            call("clone_egress_pkt_to_egress", &[hex(4), hex(0)]),
        ],
    )
    .load();
    let session = CloneSession {
        packet_length_bytes: 10,
        ..CloneSession::default()
    };
    p.insert_clone_session(4, session).unwrap();
    let (_, packet) = unicast(ingress(&mut p, &frame(&[], 7, b"abc")));
    let (outcome, out) = egress(&mut p, packet);
    assert_eq!(value_of(&out), 8);
    let clone = outcome.clone.unwrap();
    assert_eq!(clone.packet.wire_len(), 10);
    let (_, out) = egress(&mut p, clone.packet);
    assert_eq!((value_of(&out), out.len()), (9, 10));
}

#[test]
fn resubmit_and_recirculate_carry_the_field_list() {
    let seen = set(
        "h",
        "value",
        expr("+", field("scalars", "a"), standard("instance_type")),
    );
    let f = frame(&[], 1, b"");
    let mut p = Fixture::new(
        &[
            seen.clone(),
            set("scalars", "a", hex(0x700)),
            call("resubmit", &[hex(1)]),
        ],
        &[],
    )
    .load();
    let IngressVerdict::Resubmit { frame, preserved } = ingress(&mut p, &f).verdict else {
        panic!("not resubmitted");
    };
    assert_eq!(frame, f);
    let again = IngressInput {
        instance_type: instance_type::RESUBMITTED,
        preserved: Some(preserved.clone()),
        ..IngressInput::default()
    };
    // Another program in which nothing is asked for shows what arrived.
    let mut q = Fixture::new(&[seen, to_port(1)], &[call("recirculate", &[hex(1)])]).load();
    let (_, packet) = unicast(q.ingress(at(1), frame, &again));
    let (outcome, out) = egress(&mut q, packet);
    assert_eq!(value_of(&out), 0x706);
    match outcome.verdict {
        EgressVerdict::Recirculate { preserved: p, .. } => assert_eq!(p, preserved),
        other => panic!("not recirculated: {other:?}"),
    }
}

#[test]
fn a_digest_carries_the_fields() {
    let mut p = Fixture::new(&[call("generate_digest", &[hex(0), hex(1)]), drop()], &[]).load();
    let digest = ingress(&mut p, &frame(&[1], 0x0102_0304, b""))
        .digest
        .unwrap();
    assert_eq!(p.digest("seen"), Ok(digest.digest));
    assert_eq!(digest.values, [vec![1], vec![1, 2, 3, 4]]);
}

#[test]
fn a_deflected_packet_shows_its_failed_port_and_depth() {
    let trim = set(
        "h",
        "value",
        expr(
            "+",
            standard("egress_port"),
            expr("<<", standard("enq_qdepth"), hex(16)),
        ),
    );
    let mut p = Fixture::new(&[trim, call("truncate", &[hex(30)]), to_port(2)], &[]).load();
    let f = frame(&[], 7, &[0xee; 100]);
    // The traffic manager has the packet as it left ingress, and deparses it.
    let (_, packet) = unicast(ingress(&mut p, &f));
    assert_eq!(packet.wire_len(), 30);
    let out = p.deparse(packet).expect("a frame");
    assert_eq!(out.len(), 30);
    let input = IngressInput {
        instance_type: instance_type::DEFLECTED,
        deflect: Some(Deflect {
            egress_port: 6,
            enq_qdepth: 12,
        }),
        ..IngressInput::default()
    };
    let (_, packet) = unicast(p.ingress(at(2), out, &input));
    let (_, out) = egress(&mut p, packet);
    assert_eq!(value_of(&out), 12 << 16 | 6);
    assert_eq!(
        p.stats().checksum_errors,
        0,
        "deparsing updates the checksum"
    );
}

#[test]
fn a_wrong_checksum_is_seen_and_put_right() {
    let mut p = Fixture::new(
        &[set("scalars", "a", standard("checksum_error")), to_port(1)],
        &[set("h", "wide", field("scalars", "a"))],
    )
    .load();
    let right = frame(&[], 0xdead_beef, b"");
    let mut wrong = right.clone();
    wrong[21] ^= 1;
    assert_eq!(through(&mut p, &right)[20], 0);
    let out = through(&mut p, &wrong);
    assert_eq!(out[20], 1);
    assert_eq!(out[21..23], right[21..23]);
    assert_eq!(p.stats().checksum_errors, 1);
}

#[test]
fn a_packet_with_a_parser_error_goes_on() {
    let mut p = Fixture::new(
        &[set("scalars", "a", standard("parser_error")), to_port(1)],
        &[set("h", "value", field("scalars", "a"))],
    )
    .load();
    // Four elements do not fit into a stack of three; the fourth byte stays payload.
    let out = through(&mut p, &frame(&[1, 2, 3, 4], 0, b"Z"));
    assert_eq!(value_of(&out), 3);
    assert_eq!(out[23..], [1, 2, 3, 4, b'Z']);
    // Too short for `h`: nothing is parsed, nothing is lost.
    assert_eq!(through(&mut p, b"short"), b"short");
    let errors: Vec<_> = p.stats().parser_errors().collect();
    assert_eq!(errors, [(1, 1), (3, 1)]);
    assert_eq!(p.error_name(3), Some("StackOutOfBounds"));
}

#[test]
fn the_metadata_of_the_queue_and_the_clock_arrive_in_egress() {
    let mut p = Fixture::new(
        &[to_port(1), set("standard_metadata", "priority", hex(6))],
        &[
            set(
                "h",
                "value",
                expr(
                    "+",
                    standard("enq_qdepth"),
                    expr("<<", standard("egress_global_timestamp"), hex(8)),
                ),
            ),
            set("h", "wide", standard("packet_length")),
        ],
    )
    .load();
    let f = frame(&[], 0, b"12345");
    let IngressVerdict::Unicast {
        priority, packet, ..
    } = ingress(&mut p, &f).verdict
    else {
        panic!("not unicast");
    };
    assert_eq!(priority, 6);
    let (_, out) = egress(&mut p, packet);
    assert_eq!(value_of(&out), 20 << 8 | 77);
    assert_eq!(usize::from(out[20]), f.len());
}
