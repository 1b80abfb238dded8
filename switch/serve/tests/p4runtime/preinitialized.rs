//! Tables that the program fills and controllers change: which of their entries may be changed, and what
//! becomes of the others (P4Runtime spec, "Preinitialized tables").

use crate::common::messages::*;
use crate::common::{Controller, Running, change_json, codes, config, update};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::set_forwarding_pipeline_config_request::Action;
use ebb_p4runtime::proto::p4::update::Type as Change;
use ebb_p4runtime::proto::p4::write_request::Atomicity;
use tonic::Code;

const ARP: &[u8] = &[0x08, 0x06];
const ALL: &[u8] = &[0xff, 0xff];

fn arp() -> p4::TableEntry {
    p4::TableEntry {
        is_const: true,
        ..preset(3, ARP, ALL, COLOUR_IT)
    }
}

fn multiprotocol() -> p4::TableEntry {
    preset(2, &[0x88, 0], &[0xff, 0], COLOUR_IT)
}

fn others() -> p4::TableEntry {
    preset(1, &[0], &[0], PERMIT)
}

/// The entry as it is to be written: its key, and what is to be done.
fn key_of(entry: p4::TableEntry, action: Option<p4::TableAction>) -> Entity {
    Entity::TableEntry(p4::TableEntry {
        is_const: false,
        action,
        ..entry
    })
}

async fn entries(c: &mut Controller) -> Vec<p4::TableEntry> {
    let mut entries = c.read_table(PRESET).await;
    entries.sort_by_key(|e| -e.priority);
    entries
}

#[tokio::test]
async fn its_entries_are_those_of_the_program_and_of_the_client() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    assert_eq!(entries(&mut c).await, [arp(), multiprotocol(), others()]);
    let mine = preset(9, &[0x86, 0xdd], ALL, PERMIT);
    c.insert(Entity::TableEntry(mine.clone())).await;
    // The size of the table is 4, and the program has 3 entries.
    let full = c.refused(Entity::TableEntry(preset(8, ARP, ALL, PERMIT)));
    assert_eq!(full.await.0, Code::ResourceExhausted);

    c.modify(key_of(others(), direct(COLOUR_IT, &[]))).await;
    c.delete(key_of(multiprotocol(), None)).await;
    let changed = preset(1, &[0], &[0], COLOUR_IT);
    assert_eq!(entries(&mut c).await, [mine, arp(), changed]);
    c.insert(key_of(multiprotocol(), direct(PERMIT, &[]))).await;
    assert_eq!(entries(&mut c).await.len(), 4);
    server.stop().await;
}

#[tokio::test]
async fn what_is_const_keeps_its_action_and_stays() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let the_same = key_of(arp(), direct(COLOUR_IT, &[]));
    let (code, message) = c.refused_as(Change::Modify, the_same.clone()).await;
    assert_eq!(code, Code::PermissionDenied);
    assert_eq!(
        message,
        "table 'MyIngress.preset': the entry is const: only its direct resources can be modified, so give \
         no action"
    );
    let (code, message) = c.refused_as(Change::Delete, the_same.clone()).await;
    assert_eq!(code, Code::PermissionDenied);
    assert_eq!(
        message,
        "table 'MyIngress.preset': the entry is const in the P4 program: it cannot be deleted"
    );
    assert_eq!(c.refused(the_same).await.0, Code::AlreadyExists);
    for kind in [Change::Insert, Change::Modify, Change::Delete] {
        let marked = c.refused_as(kind, Entity::TableEntry(arp())).await;
        assert_eq!(marked.0, Code::InvalidArgument);
    }

    // Its meter is the client's.
    let metered = |config| {
        Entity::TableEntry(p4::TableEntry {
            is_const: false,
            action: None,
            meter_config: config,
            ..arp()
        })
    };
    c.modify(metered(Some(rates()))).await;
    let seen = Entity::TableEntry(p4::TableEntry {
        meter_config: Some(rates()),
        ..arp()
    });
    assert_eq!(c.read_one(metered(Some(rates()))).await, seen);
    c.modify(metered(None)).await;
    let meter = |config| {
        Entity::DirectMeterEntry(p4::DirectMeterEntry {
            table_entry: Some(p4::TableEntry {
                is_const: false,
                action: None,
                ..arp()
            }),
            config,
            counter_data: None,
        })
    };
    assert_eq!(c.read_one(meter(None)).await, meter(None));
    c.modify(meter(Some(rates()))).await;
    assert_eq!(c.read_one(meter(None)).await, meter(Some(rates())));
    assert_eq!(entries(&mut c).await, [arp(), multiprotocol(), others()]);
    server.stop().await;
}

#[tokio::test]
async fn a_batch_that_fails_brings_deleted_entries_back() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let batch = vec![
        update(Change::Delete, key_of(multiprotocol(), None)),
        update(Change::Modify, key_of(others(), direct(COLOUR_IT, &[]))),
        update(Change::Delete, key_of(arp(), None)),
    ];
    let status = c.write_with(Atomicity::RollbackOnError, batch).await;
    let expected = [Code::Aborted, Code::Aborted, Code::PermissionDenied];
    assert_eq!(codes(&status.unwrap_err()), expected);
    assert_eq!(entries(&mut c).await, [arp(), multiprotocol(), others()]);
    server.stop().await;
}

#[tokio::test]
async fn a_new_program_does_not_bring_back_what_was_deleted_when_the_state_is_kept() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    c.delete(key_of(multiprotocol(), None)).await;
    c.modify(key_of(others(), direct(COLOUR_IT, &[]))).await;
    let metered = p4::TableEntry {
        meter_config: Some(rates()),
        ..arp()
    };
    c.modify(key_of(metered.clone(), None)).await;
    let changed = preset(1, &[0], &[0], COLOUR_IT);
    for action in [Action::ReconcileAndCommit, Action::VerifyAndCommit] {
        c.set_config(action, Some(config())).await.unwrap();
        match action {
            Action::ReconcileAndCommit => {
                assert_eq!(entries(&mut c).await, [arp(), changed.clone()]);
                let read = c.read_one(key_of(metered.clone(), None)).await;
                assert_eq!(read, Entity::TableEntry(metered.clone()));
            }
            _ => assert_eq!(entries(&mut c).await, [arp(), multiprotocol(), others()]),
        }
    }
    server.stop().await;
}

/// The JSON of p4c-bm2-ss says nothing of `const`.
#[tokio::test]
async fn without_a_word_in_the_json_the_p4info_decides() {
    let server = Running::start().await;
    let silent = |c: &mut p4::ForwardingPipelineConfig| {
        change_json(c, |program| {
            let pipelines = program["pipelines"].as_array_mut().unwrap();
            let tables = pipelines
                .iter_mut()
                .flat_map(|p| p["tables"].as_array_mut());
            for entry in tables
                .flatten()
                .flat_map(|t| t["entries"].as_array_mut())
                .flatten()
            {
                entry.as_object_mut().unwrap().remove("is_const");
            }
        });
    };
    let mut c = server.ready_with(silent).await;
    let mut first = arp();
    first.is_const = false;
    assert_eq!(entries(&mut c).await, [first, multiprotocol(), others()]);
    c.delete(key_of(arp(), None)).await;
    let const_table = c.read_table(WELL_KNOWN).await;
    assert!(const_table.len() == 2 && const_table.iter().all(|e| e.is_const));
    let denied = c.refused_as(Change::Delete, key_of(const_table[0].clone(), None));
    assert_eq!(denied.await.0, Code::PermissionDenied);

    // A list without entries: `entries = {}` in P4, an ordinary table.
    let empty = |c: &mut p4::ForwardingPipelineConfig| {
        let info = c.p4info.as_mut().unwrap();
        let mut tables = info.tables.iter_mut();
        let bridge = tables.find(|t| t.preamble.as_ref().unwrap().id == BRIDGE);
        assert!(!bridge.unwrap().is_const_table);
        change_json(c, |program| {
            for table in program["pipelines"][0]["tables"].as_array_mut().unwrap() {
                if table["name"] == "MyIngress.bridge" {
                    table["entries"] = serde_json::json!([]);
                }
            }
        });
    };
    c.push(empty).await.unwrap();
    c.insert(Entity::TableEntry(bridge(&[1], &[1]))).await;
    server.stop().await;
}
