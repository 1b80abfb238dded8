//! Groups and nodes of multicast: their limits, and what one change costs.

use super::*;

const GROUPS: u32 = 0xff02_0001;
const NODES: u32 = 0xff02_0002;

fn row(table_id: u32, id: u16, fields: &[(u32, Value)]) -> bf::TableEntry {
    bf::TableEntry {
        table_id,
        key: key(vec![exact(1, &id.to_be_bytes())]),
        data: data(0, fields),
        ..bf::TableEntry::default()
    }
}

fn node(id: u16, ports: &[u32]) -> bf::TableEntry {
    row(
        NODES,
        id,
        &[(1, bytes(&id.to_be_bytes())), (3, numbers(ports))],
    )
}

fn group(id: u16, nodes: &[u32]) -> bf::TableEntry {
    row(GROUPS, id, &[(1, numbers(nodes))])
}

/// Ports of the copies of a group.
fn ports(program: &Program, group: u32) -> Vec<u8> {
    let of = program.forwarding.with_detached(Instant::ZERO, |ctx| {
        let group = ctx.store.multicast_groups.get(&group).cloned();
        let replicas = group.map(|group| group.replicas).unwrap_or_default();
        let port = |kind| match kind {
            Some(crate::proto::p4::replica::PortKind::Port(port)) => port[0],
            other => panic!("{other:?}"),
        };
        replicas.into_iter().map(|r| port(r.port_kind)).collect()
    });
    of.unwrap()
}

/// 80 kB of nodes and groups would make 10^8 copies.
#[test]
fn short_requests_do_not_make_endless_copies() {
    let program = Program::new();
    let many: Vec<u32> = (0..10_000).map(|port| port % 256).collect();
    program.write(Type::Insert, &node(1, &many)).unwrap();
    let refused = program.write(Type::Insert, &group(1, &[1; 10_000]));
    let refused = refused.unwrap_err();
    assert_eq!(refused.code, Code::ResourceExhausted);
    assert_eq!(
        refused.message,
        "$pre.mgid: group 1 would have the groups make more than 1048576 copies in all; take nodes out of it, or \
         ports out of its nodes"
    );
    assert!(ports(&program, 1).is_empty());
}

#[test]
fn a_node_that_one_of_its_groups_refuses_stays_as_it_was_in_all() {
    let program = Program::new();
    let write = |kind, entry| program.write(kind, &entry);
    write(Type::Insert, node(1, &[1])).unwrap();
    let same_instance = row(NODES, 2, &[(1, bytes(&[1])), (3, numbers(&[2]))]);
    write(Type::Insert, same_instance).unwrap();
    write(Type::Insert, group(1, &[1])).unwrap();
    write(Type::Insert, group(2, &[1, 2])).unwrap();
    // In group 2 port 2 would be there twice.
    write(Type::Modify, node(1, &[2])).unwrap_err();
    assert_eq!(ports(&program, 1), [1]);
    assert_eq!(ports(&program, 2), [1, 2]);
    write(Type::Modify, node(1, &[3])).unwrap();
    assert_eq!(ports(&program, 1), [3]);
    assert_eq!(ports(&program, 2), [3, 2]);
    // It is in group 1 no more.
    write(Type::Modify, group(1, &[])).unwrap();
    write(Type::Delete, node(1, &[])).unwrap_err();
    write(Type::Delete, group(2, &[])).unwrap();
    write(Type::Delete, node(1, &[])).unwrap();
}

#[test]
fn multicast_and_mirroring_take_effect_as_groups_and_sessions() {
    let program = Program::new();
    let row = |table_id, id: u8, fields: &[(u32, Value)]| bf::TableEntry {
        table_id,
        key: key(vec![exact(1, &[0, id])]),
        data: data(0, fields),
        ..bf::TableEntry::default()
    };
    let (groups, nodes, sessions) = (0xff02_0001, 0xff02_0002, 0xff04_0001);
    let node = |ports: &[u32]| row(nodes, 9, &[(1, bytes(&[7])), (3, numbers(ports))]);
    program.write(Type::Insert, &node(&[1, 2])).unwrap();
    let group = row(groups, 5, &[(1, numbers(&[9])), (2, flags(&[false]))]);
    program.write(Type::Insert, &group).unwrap();
    let replicas = || {
        let of = program.forwarding.with_detached(Instant::ZERO, |ctx| {
            let group = ctx.store.multicast_groups.get(&5).cloned();
            let replicas = group.map(|group| group.replicas).unwrap_or_default();
            let port = |kind| match kind {
                Some(crate::proto::p4::replica::PortKind::Port(port)) => port,
                other => panic!("{other:?}"),
            };
            let of = replicas
                .into_iter()
                .map(|r| (port(r.port_kind), r.instance));
            of.collect::<Vec<_>>()
        });
        of.unwrap()
    };
    assert_eq!(replicas(), [(vec![1], 7), (vec![2], 7)]);
    program.write(Type::Modify, &node(&[3])).unwrap();
    assert_eq!(replicas(), [(vec![3], 7)]);
    let used = program.write(Type::Delete, &node(&[3])).unwrap_err();
    assert_eq!(used.code, Code::FailedPrecondition);
    program.write(Type::Delete, &group).unwrap();
    assert_eq!(replicas(), []);
    let excluded = row(groups, 5, &[(1, numbers(&[9])), (2, flags(&[true]))]);
    let refused = program.write(Type::Insert, &excluded).unwrap_err();
    assert_eq!(refused.code, Code::Unimplemented);
    let session = |length: &[u8]| {
        let fields = [
            (5, Value::BoolVal(true)),
            (7, bytes(&[2])),
            (8, Value::BoolVal(true)),
            (9, bytes(&[4])),
            (23, bytes(length)),
        ];
        row(sessions, 3, &fields)
    };
    let length = || {
        let of = program.forwarding.with_detached(Instant::ZERO, |ctx| {
            let session = ctx.store.clone_sessions.get(&3);
            session.map(|s| (s.packet_length_bytes, s.class_of_service))
        });
        of.unwrap()
    };
    program.write(Type::Insert, &session(&[100])).unwrap();
    assert_eq!(length(), Some((100, 4)));
    program.write(Type::Modify, &session(&[255, 255])).unwrap();
    assert_eq!(length(), Some((0, 4)));
    program.write(Type::Delete, &session(&[0])).unwrap();
    assert_eq!(length(), None);
    // Programs for Tofino have more queues.
    let tofino = Program::of("filters");
    let to_queue = |program: &Program, queue: u8| {
        let mut fields = vec![(5, Value::BoolVal(true)), (7, bytes(&[2]))];
        fields.extend([(8, Value::BoolVal(true)), (9, bytes(&[queue]))]);
        let done = program.write(Type::Insert, &row(sessions, 4, &fields));
        done.map_err(|error| error.code)
    };
    assert_eq!(to_queue(&program, 8), Err(Code::InvalidArgument));
    assert_eq!(to_queue(&tofino, 32), Err(Code::InvalidArgument));
    assert_eq!(to_queue(&tofino, 31), Ok(()));
}

#[test]
fn a_program_for_tofino_has_group_0_and_exclusion_by_level_1() {
    let program = Program::of("filters");
    program.write(Type::Insert, &node(0, &[4])).unwrap();
    program.write(Type::Insert, &node(1, &[5])).unwrap();
    // As controllers do it: without nodes first, then node by node.
    let empty = Value::BoolArrVal(BoolArray { val: vec![] });
    let fields = [(1, numbers(&[])), (2, empty), (3, numbers(&[]))];
    program
        .write(Type::Insert, &row(GROUPS, 0, &fields))
        .unwrap();
    for id in [0, 1] {
        let fields = [
            (1, numbers(&[id])),
            (2, flags(&[true])),
            (3, numbers(&[0x8000 + id])),
        ];
        let added = row(GROUPS, 0, &fields);
        program.write(Type::ModifyInc, &added).unwrap();
    }
    assert_eq!(ports(&program, u32::MAX), [4, 5]);
    let read = program.read(row(GROUPS, 0, &[])).unwrap();
    let fields = &read[0].data.as_ref().unwrap().fields;
    assert_eq!(fields[1].value, Some(flags(&[true, true])));
    assert_eq!(fields[2].value, Some(numbers(&[0x8000, 0x8001])));
    // As today's clients take a node out.
    let fields = [(1, numbers(&[0])), (2, flags(&[false])), (3, numbers(&[0]))];
    let taken = bf::TableEntry {
        table_flags: Some(bf::TableFlags {
            mod_del: true,
            ..bf::TableFlags::default()
        }),
        ..row(GROUPS, 0, &fields)
    };
    program.write(Type::ModifyInc, &taken).unwrap();
    assert_eq!(ports(&program, u32::MAX), [5]);
    let read = program.read(row(GROUPS, 0, &[])).unwrap();
    let fields = &read[0].data.as_ref().unwrap().fields;
    assert_eq!(fields[2].value, Some(numbers(&[0x8001])));
    program.write(Type::Delete, &row(GROUPS, 0, &[])).unwrap();
    assert!(ports(&program, u32::MAX).is_empty());
    let v1model = Program::new();
    v1model.write(Type::Insert, &node(0, &[4])).unwrap();
    let refused = v1model.write(Type::Insert, &group(0, &[0]));
    assert_eq!(refused.unwrap_err().code, Code::InvalidArgument);
}

#[test]
fn lanes_of_connectors_have_their_ports_and_tables_of_what_is_missing_say_so() {
    let program = Program::of("filters");
    let lane = |connector: u8, lane: u8| bf::TableEntry {
        table_id: 0xff01_0003,
        key: key(vec![exact(1, &[connector]), exact(2, &[lane])]),
        ..bf::TableEntry::default()
    };
    let read = program.read(lane(3, 2)).unwrap();
    let field = &read[0].data.as_ref().unwrap().fields[0];
    assert_eq!(field.value, Some(bytes(&[0, 0, 0, 10])));
    assert_eq!(program.read(lane(0, 0)).unwrap_err().code, Code::NotFound);
    let written = program.write(Type::Insert, &lane(3, 2));
    assert_eq!(written.unwrap_err().code, Code::InvalidArgument);
    let all = bf::TableEntry {
        table_id: 0xff01_0003,
        ..bf::TableEntry::default()
    };
    assert_eq!(program.read(all).unwrap().len(), 256);
    for missing in [0xff01_0002, 0xff02_0003, 0xff02_0004, 0xff02_0005] {
        let refused = program.write(Type::Insert, &row(missing, 1, &[]));
        assert_eq!(refused.unwrap_err().code, Code::Unimplemented);
    }
}

#[test]
fn a_port_with_an_interface_may_be_inserted_once() {
    let program = Program::new();
    let port = |number, speed: &str| row(0xff01_0001, number, &[(1, Value::StrVal(speed.into()))]);
    let insert = |number, speed| program.write(Type::Insert, &port(number, speed));
    insert(3, "BF_SPEED_25G").unwrap();
    let again = insert(3, "BF_SPEED_10G").unwrap_err();
    assert_eq!(again.code, Code::AlreadyExists);
    let read = program.read(row(0xff01_0001, 3, &[])).unwrap();
    let fields = &read[0].data.as_ref().unwrap().fields;
    assert_eq!(fields[0].value, Some(Value::StrVal("BF_SPEED_25G".into())));
    program
        .write(Type::Modify, &port(0, "BF_SPEED_25G"))
        .unwrap();
    assert_eq!(
        insert(0, "BF_SPEED_25G").unwrap_err().code,
        Code::AlreadyExists
    );
}

#[test]
fn ports_lead_back_to_ingress_where_a_client_wants_it() {
    let program = Program::of("filters");
    let leads_back = |port| {
        let of = program
            .forwarding
            .with_detached(Instant::ZERO, |ctx| ctx.pipeline.recirculates(port));
        of.unwrap()
    };
    let mode = |mode: &str| row(0xff01_0001, 128, &[(6, Value::StrVal(mode.into()))]);
    assert!(!leads_back(128));
    program
        .write(Type::Insert, &mode("BF_LPBK_MAC_NEAR"))
        .unwrap();
    assert!(leads_back(128));
    program.write(Type::Modify, &mode("BF_LPBK_NONE")).unwrap();
    assert!(!leads_back(128));
    program.write(Type::Modify, &mode("BF_LPBK_PIPE")).unwrap();
    program
        .write(Type::Delete, &row(0xff01_0001, 128, &[]))
        .unwrap();
    assert!(!leads_back(128));
    // Those of packet generators have a table of their own.
    let generator = |port, enabled| row(0xff03_0001, port, &[(1, Value::BoolVal(enabled))]);
    program.write(Type::Insert, &generator(192, true)).unwrap();
    assert!(leads_back(192));
    let read = program.read(row(0xff03_0001, 192, &[])).unwrap();
    let field = &read[0].data.as_ref().unwrap().fields[0];
    assert_eq!(field.value, Some(Value::BoolVal(true)));
    program.write(Type::Modify, &generator(192, false)).unwrap();
    assert!(!leads_back(192));
    let refused = program.write(Type::Modify, &generator(130, true));
    assert_eq!(refused.unwrap_err().code, Code::InvalidArgument);
}
