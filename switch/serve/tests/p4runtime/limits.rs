//! Values that no enum has, P4Infos that promise what is not there, and controllers that open more than
//! they need: each is refused with a message, and nothing else happens.

use crate::common::messages::*;
use crate::common::{Controller, DEVICE_ID, Running, config, uint128, update};
use ebb_p4runtime::proto::config::p4_data_type_spec::TypeSpec;
use ebb_p4runtime::proto::config::p4_struct_type_spec::Member;
use ebb_p4runtime::proto::config::{P4DataTypeSpec, P4NamedType, P4StructTypeSpec};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity;
use ebb_p4runtime::proto::p4::table_action::Type;
use ebb_p4runtime::proto::p4::update::Type as Change;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status};

fn refused<T: std::fmt::Debug>(result: Result<T, Status>) -> String {
    let status = result.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    status.message().to_owned()
}

#[tokio::test]
async fn unknown_values_of_enums_are_named_with_what_is_allowed() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let write = p4::WriteRequest {
        device_id: DEVICE_ID,
        election_id: Some(uint128(1)),
        updates: vec![update(
            Change::Insert,
            Entity::TableEntry(bridge(&[1], &[1])),
        )],
        atomicity: 3,
        ..Default::default()
    };
    assert_eq!(
        refused(c.client.write(write).await),
        "atomicity 3; allowed: CONTINUE_ON_ERROR (0), ROLLBACK_ON_ERROR (1), DATAPLANE_ATOMIC (2)"
    );
    assert_eq!(c.read_table(BRIDGE).await, []);
    for action in [0, 6] {
        let push = p4::SetForwardingPipelineConfigRequest {
            device_id: DEVICE_ID,
            election_id: Some(uint128(1)),
            action,
            config: Some(config()),
            ..Default::default()
        };
        assert_eq!(
            refused(c.client.set_forwarding_pipeline_config(push).await),
            format!(
                "action {action}; allowed: VERIFY (1), VERIFY_AND_SAVE (2), VERIFY_AND_COMMIT (3), COMMIT \
                 (4), RECONCILE_AND_COMMIT (5)"
            )
        );
    }
    let get = p4::GetForwardingPipelineConfigRequest {
        device_id: DEVICE_ID,
        response_type: 4,
    };
    assert_eq!(
        refused(c.client.get_forwarding_pipeline_config(get).await),
        "response_type 4; allowed: ALL (0), COOKIE_ONLY (1), P4INFO_AND_COOKIE (2), \
         DEVICE_CONFIG_AND_COOKIE (3)"
    );
    let mut typeless = update(Change::Insert, Entity::TableEntry(bridge(&[1], &[1])));
    typeless.r#type = 4;
    let status = c.write_all(vec![typeless]).await.unwrap_err();
    assert_eq!(
        status.message(),
        "type 4; allowed: INSERT (1), MODIFY (2), DELETE (3)"
    );
}

#[tokio::test]
async fn a_set_of_actions_says_how_it_is_chosen_from_and_measured() {
    let server = Running::start().await;
    let mut c = server.ready().await;
    let set = |mode, size| {
        let one = p4::ActionProfileAction {
            action: Some(action(SET_NEXT_HOP, &[&[1], &[2]])),
            weight: 1,
            watch_kind: None,
        };
        Entity::TableEntry(route(does(Type::ActionProfileActionSet(
            p4::ActionProfileActionSet {
                action_profile_actions: vec![one],
                action_selection_mode: mode,
                size_semantics: size,
            },
        ))))
    };
    let mode = |n| format!("table 'MyIngress.route': action_selection_mode {n}; allowed: ");
    let modes = "DEFAULT_MODE_DETERMINED_BY_ACTION_SELECTOR (0), HASH (1)";
    let random = mode("RANDOM (2): a v1model selector hashes");
    let size = "table 'MyIngress.route': size_semantics 3; allowed: \
                DEFAULT_SIZE_DETERMINED_BY_ACTION_SELECTOR (0), SUM_OF_WEIGHTS (1), SUM_OF_MEMBERS (2)";
    for (wrong, code, message) in [
        (set(2, 0), Code::Unimplemented, format!("{random}{modes}")),
        (set(3, 0), Code::InvalidArgument, mode("3") + modes),
        (set(-1, 0), Code::InvalidArgument, mode("-1") + modes),
        (set(1, 3), Code::InvalidArgument, size.to_owned()),
    ] {
        assert_eq!(c.refused(wrong).await, (code, message));
    }
    c.insert(set(1, 1)).await;
    server.stop().await;
}

#[tokio::test]
async fn the_size_of_a_selector_is_what_its_annotation_says() {
    use ebb_p4runtime::proto::config::action_profile::{
        SelectorSizeSemantics, SumOfMembers, SumOfWeights,
    };
    let members = SelectorSizeSemantics::SumOfMembers(SumOfMembers::default());
    let weights = SelectorSizeSemantics::SumOfWeights(SumOfWeights {});
    let server = Running::start().await;
    let mut c = server.primary().await;
    // Groups 1 and 2 have two members each, of weight 1 and 3.
    for (semantics, size, fits) in [
        (None, 3, true),
        (Some(members), 4, true),
        (Some(members), 3, false),
        (Some(weights), 8, true),
        (Some(weights), 7, false),
    ] {
        c.push(|c| {
            let profile = &mut info(c).action_profiles[0];
            (profile.selector_size_semantics, profile.size) = (semantics, size);
        })
        .await
        .unwrap();
        for id in [1, 2] {
            c.insert(member(id, id as u8)).await;
        }
        c.insert(group(1, &[(1, 1), (2, 3)])).await;
        match fits {
            true => c.insert(group(2, &[(1, 1), (2, 3)])).await,
            false => {
                let full = c.refused(group(2, &[(1, 1), (2, 3)])).await;
                assert_eq!(full.0, Code::ResourceExhausted, "{semantics:?} {size}");
                // The old size of a group does not count against its new one.
                c.modify(group(1, &[(1, 1), (2, 3)])).await;
            }
        }
    }
    server.stop().await;
}

type Break = fn(&mut p4::ForwardingPipelineConfig);

fn info(c: &mut p4::ForwardingPipelineConfig) -> &mut ebb_p4runtime::proto::config::P4Info {
    c.p4info.as_mut().unwrap()
}

#[tokio::test]
async fn a_p4info_that_promises_what_is_not_there_is_refused() {
    let server = Running::start().await;
    let mut c = server.primary().await;
    let broken: [(Break, &str); 8] = [
        (
            |c| info(c).counters[0].size = 9,
            "counter 'MyIngress.port_in' has 9 cells in the P4Info, 8 in the JSON",
        ),
        (
            |c| info(c).meters[0].size = i64::MAX,
            "meter 'MyIngress.port_meter' has 9223372036854775807 cells in the P4Info, 4 in the JSON",
        ),
        (
            |c| info(c).registers[0].size = 5,
            "register 'MyIngress.last_seen' has 5 cells in the P4Info, 4 in the JSON",
        ),
        (
            |c| {
                let spec = info(c).registers[0].type_spec.as_mut().unwrap();
                let Some(TypeSpec::Bitstring(bits)) = &mut spec.type_spec else {
                    panic!("{spec:?}");
                };
                use ebb_p4runtime::proto::config::P4BitTypeSpec;
                use ebb_p4runtime::proto::config::p4_bitstring_like_type_spec::TypeSpec as Bits;
                let bitwidth = i32::MAX;
                bits.type_spec = Some(Bits::Bit(P4BitTypeSpec { bitwidth }));
            },
            "register 'MyIngress.last_seen' has 2147483647 bits in the P4Info, 32 in the JSON",
        ),
        (
            |c| info(c).controller_packet_metadata[1].metadata[0].bitwidth = i32::MAX,
            "P4Info, controller header 'packet_out': metadata 'egress_port' has bitwidth 2147483647; \
             allowed: 0 to 65536",
        ),
        (
            |c| info(c).actions[2].params[0].bitwidth = -1,
            "parameter 'port' has bitwidth -1; allowed: 0 to 65536",
        ),
        (
            |c| info(c).value_sets[0].r#match[0].bitwidth = 1 << 30,
            "P4Info, value set 'MyParser.ip_types': field",
        ),
        (
            |c| {
                let name = || P4NamedType {
                    name: "learned_t".into(),
                };
                let itself = Member {
                    name: "again".into(),
                    type_spec: Some(P4DataTypeSpec {
                        type_spec: Some(TypeSpec::Struct(name())),
                    }),
                };
                let types = info(c).type_info.as_mut().unwrap();
                let learned: &mut P4StructTypeSpec = types.structs.get_mut("learned_t").unwrap();
                learned.members.push(itself);
            },
            "P4Info, digest 'learned_t': its type has more than 65536 parts, or they nest more than 64 deep",
        ),
    ];
    for (change, message) in broken {
        let said = refused(c.push(change).await);
        assert!(said.contains(message), "{said}\nand not\n{message}");
    }
    // Fewer cells than there are is a promise that is kept.
    c.push(|c| info(c).counters[0].size = 7).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn streams_have_a_limit_and_room_again_when_some_end() {
    let server = Running::start().await;
    let mut primary = server.ready().await;
    let mut open = Vec::new();
    let full = 'all: loop {
        // A connection has 200 at a time.
        let client = server.client().await;
        for _ in 0..150 {
            let (requests, receiver) = tokio::sync::mpsc::channel(1);
            let requested = ReceiverStream::new(receiver);
            match client.clone().stream_channel(requested).await {
                Ok(responses) => open.push((requests, responses)),
                Err(status) => break 'all status,
            }
            assert!(open.len() < 2000);
        }
    };
    assert_eq!(full.code(), Code::ResourceExhausted);
    assert_eq!(open.len(), 1023);
    primary.write_all(Vec::new()).await.unwrap();
    open.truncate(10);
    let began = std::time::Instant::now();
    while Controller::try_silent(&server).await.is_err() {
        assert!(began.elapsed().as_secs() < 20);
        tokio::task::yield_now().await;
    }
    server.stop().await;
}

#[tokio::test]
async fn what_a_refused_program_is_called_does_not_reach_a_terminal_as_it_is() {
    const HOSTILE: &str = "\u{1b}]0;title\u{7}\r\u{202e}";
    let server = Running::start().await;
    let mut c = server.primary().await;
    let shown = |result: Result<(), Status>| {
        let status = result.unwrap_err();
        let details = String::from_utf8_lossy(status.details()).into_owned();
        for text in [status.message(), &details] {
            for c in HOSTILE.chars().filter(|c| !c.is_ascii_graphic()) {
                assert!(!text.contains(c), "{text:?}");
            }
        }
        status.message().to_owned()
    };
    // A table that the program does not have.
    let renamed = c.push(|config| {
        let tables = &mut config.p4info.as_mut().unwrap().tables;
        tables[0].preamble.as_mut().unwrap().name = HOSTILE.into();
    });
    assert!(shown(renamed.await).contains(r"\u{1b}]0;title"));
    // A program that is none.
    let broken = c.push(|config| config.p4_device_config = HOSTILE.into());
    shown(broken.await);
    let json = serde_json::json!({ HOSTILE: [], "actions": HOSTILE }).to_string();
    let broken = c.push(|config| config.p4_device_config = json.into());
    shown(broken.await);
    // A role, in the message and in the details of an update.
    c.push(|_| {}).await.unwrap();
    let write = p4::WriteRequest {
        device_id: DEVICE_ID,
        role: HOSTILE.into(),
        ..Default::default()
    };
    shown(c.client.write(write).await.map(drop));
    server.stop().await;
}
