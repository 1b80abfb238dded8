//! Wildcard reads of every kind of entity, and what is no wildcard (P4Runtime spec, "Wildcard Reads").

use std::sync::atomic::Ordering;

use crate::common::messages::*;
use crate::common::{DEVICE_ID, Running, settled, update};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::packet_replication_engine_entry::Type as Replication;
use ebb_p4runtime::proto::p4::update::Type as Change;
use tonic::Code;

#[tokio::test]
async fn a_table_is_filtered_by_what_is_given() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let src = |byte| vec![ternary(1, &[byte, 0, 0, 0], &[255, 0, 0, 0])];
    let mut entries = [acl(1, src(10)), acl(2, src(10)), acl(2, src(11))];
    entries[1].action = direct(PERMIT, &[]);
    entries[2].metadata = b"mine".to_vec();
    #[allow(deprecated)]
    {
        entries[0].controller_metadata = 7;
    }
    for entry in &entries {
        c.insert(Entity::TableEntry(entry.clone())).await;
    }
    let [first, second, third] = entries;
    let all = p4::TableEntry {
        table_id: ACL,
        ..Default::default()
    };
    #[allow(deprecated)]
    let cookie = p4::TableEntry {
        controller_metadata: 7,
        ..all.clone()
    };
    let with = |change: &dyn Fn(&mut p4::TableEntry)| {
        let mut filter = all.clone();
        change(&mut filter);
        filter
    };
    for (filter, expected) in [
        (all.clone(), vec![&first, &second, &third]),
        (cookie, vec![&first]),
        (with(&|f| f.priority = 2), vec![&second, &third]),
        (with(&|f| f.metadata = b"mine".to_vec()), vec![&third]),
        (with(&|f| f.action = direct(PERMIT, &[])), vec![&second]),
        (with(&|f| f.action = direct(TO_CPU, &[])), vec![]),
        // The filter selects entries of any priority, or of this one.
        (with(&|f| f.r#match = src(10)), vec![&first, &second]),
        (
            with(&|f| (f.r#match, f.priority) = (src(10), 2)),
            vec![&second],
        ),
        (with(&|f| (f.r#match, f.priority) = (src(11), 1)), vec![]),
        (
            with(&|f| {
                (f.r#match, f.action) = (src(10), direct(PERMIT, &[]));
            }),
            vec![&second],
        ),
    ] {
        let mut found = c.read(Entity::TableEntry(filter.clone())).await.unwrap();
        found.sort_by_key(|e| match e {
            Entity::TableEntry(e) => (e.priority, e.r#match != src(10)),
            other => panic!("{other:?}"),
        });
        let expected = expected.into_iter().cloned().map(Entity::TableEntry);
        assert_eq!(found, expected.collect::<Vec<_>>(), "{filter:?}");
    }
    server.stop().await;
}

#[tokio::test]
async fn filters_of_one_table_are_refused_for_all_of_them() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let wrong = [
        bridge(&[1], &[1]),
        p4::TableEntry {
            priority: 1,
            ..Default::default()
        },
        p4::TableEntry {
            metadata: vec![1],
            ..Default::default()
        },
    ];
    for (mut filter, field) in wrong.into_iter().zip(["match", "priority", "metadata"]) {
        filter.table_id = 0;
        let status = c.read(Entity::TableEntry(filter)).await.unwrap_err();
        assert_eq!(
            status.message(),
            format!(
                "{field} is a filter within one table, but table_id is 0, which reads all of them; give the \
                 table's id"
            )
        );
    }
    // The default entries of all tables are no filter of one.
    let defaults = c.read(Entity::TableEntry(default(0, None))).await.unwrap();
    assert_eq!(defaults.len(), 6);
    server.stop().await;
}

#[tokio::test]
async fn id_0_is_all_of_a_kind_whatever_the_index() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.insert(member(1, 1)).await;
    c.insert(member(2, 2)).await;
    c.insert(group(1, &[(1, 1)])).await;
    c.insert(multicast(5, vec![replica(1, 0)])).await;
    let limited = limited();
    c.insert(Entity::TableEntry(limited)).await;
    let session = |session_id| {
        replication(Replication::CloneSessionEntry(p4::CloneSessionEntry {
            session_id,
            ..Default::default()
        }))
    };
    c.insert(session(3)).await;
    c.insert(session(4)).await;
    let counter = |index| p4::CounterEntry {
        index,
        ..Default::default()
    };
    let meter = |index| p4::MeterEntry {
        index,
        ..Default::default()
    };
    let register = |index| p4::RegisterEntry {
        index,
        ..Default::default()
    };
    for (filter, found) in [
        (Entity::ActionProfileMember(Default::default()), 2),
        (Entity::ActionProfileGroup(Default::default()), 1),
        (multicast(0, vec![]), 1),
        (session(0), 2),
        (session(4), 1),
        (session(5), 0),
        (Entity::CounterEntry(counter(None)), 8),
        (Entity::CounterEntry(counter(index(7))), 8),
        (Entity::MeterEntry(meter(None)), 4),
        (Entity::MeterEntry(meter(index(7))), 4),
        (Entity::RegisterEntry(register(None)), 4),
        (Entity::RegisterEntry(register(index(99))), 4),
        (Entity::DigestEntry(Default::default()), 0),
        (Entity::ValueSetEntry(Default::default()), 1),
        // Three entries of the program, one of the client.
        (Entity::DirectMeterEntry(Default::default()), 4),
        (Entity::DirectCounterEntry(Default::default()), 0),
    ] {
        let what = format!("{filter:?}");
        assert_eq!(c.read(filter).await.unwrap().len(), found, "{what}");
    }
    server.stop().await;
}

#[tokio::test]
async fn what_a_whole_key_names_and_is_not_there() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let code = async |c: &mut crate::common::Controller, entity| {
        let status = c.read(entity).await.unwrap_err();
        crate::common::codes(&status)[0]
    };
    let of = |entry| {
        Entity::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry: Some(entry),
            data: None,
        })
    };
    assert_eq!(code(&mut c, of(route(None))).await, Code::NotFound);
    assert_eq!(
        code(&mut c, of(bridge(&[1], &[1]))).await,
        Code::InvalidArgument
    );
    let extern_entry = Entity::ExternEntry(Default::default());
    assert_eq!(code(&mut c, extern_entry).await, Code::Unimplemented);
    assert_eq!(code(&mut c, port_in(Some(8), None)).await, Code::OutOfRange);
    assert_eq!(
        code(&mut c, port_in(Some(-1), None)).await,
        Code::InvalidArgument
    );
    // Before there is a program, and of another device, there is nothing to look into.
    let fresh = Running::start().await;
    let mut nobody = fresh.client().await;
    for (device_id, expected) in [(DEVICE_ID, Code::FailedPrecondition), (8, Code::NotFound)] {
        let request = p4::ReadRequest {
            device_id,
            ..Default::default()
        };
        let status = nobody.read(request).await.unwrap_err();
        assert_eq!(status.code(), expected);
    }
    fresh.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn a_read_that_nobody_reads_holds_up_no_write() {
    let (server, jobs) = Running::counted().await;
    let mut primary = server.ready().await;
    let entry = |n: u16| {
        let entry = bridge(&n.to_be_bytes(), &[1]);
        update(Change::Insert, Entity::TableEntry(entry))
    };
    let entries = (0x100..0x100 + 1000).map(entry).collect();
    primary.write_all(entries).await.unwrap();
    // 2000 parts each.
    let all = p4::Entity {
        entity: Some(table(BRIDGE)),
    };
    let read = p4::ReadRequest {
        device_id: DEVICE_ID,
        entities: vec![all; 400],
        ..Default::default()
    };
    let mut other = server.client().await;
    let before = jobs.load(Ordering::Relaxed);
    let mut unread = Vec::new();
    for _ in 0..8 {
        unread.push(other.read(read.clone()).await.unwrap());
    }
    primary.insert(Entity::TableEntry(bridge(&[1], &[1]))).await;
    let parts = jobs.load(Ordering::Relaxed) - before;
    assert!(parts < 3000, "{parts} of 16000 parts came before the write");
    // Readers that have gone get nothing more.
    drop(unread);
    drop(other);
    let last = settled(&jobs).await;
    assert!(last - before < 8000, "{} of 16000 parts", last - before);
    server.stop().await;
}
