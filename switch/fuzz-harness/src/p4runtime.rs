//! Requests of a P4Runtime client with arbitrary content, many of them nearly valid.

use arbitrary::{Arbitrary, Result, Unstructured};
use ebb_p4runtime::Offline;
use ebb_p4runtime::proto::config::P4Info;
use ebb_p4runtime::proto::config::match_field::{Match, MatchType};
use ebb_p4runtime::proto::p4;
use ebb_p4runtime::proto::p4::entity::Entity as Kind;
use ebb_p4runtime::proto::p4::field_match::{self, FieldMatchType};
use ebb_p4runtime::proto::p4::packet_replication_engine_entry::Type as Replication;
use ebb_p4runtime::proto::p4::table_action::Type;
use prost::Message;

use crate::bytes::{number, popular};

/// Most requests of one input.
const MOST_REQUESTS: usize = 40;

/// A program and the names of its objects.
pub struct Target {
    offline: Offline,
    info: P4Info,
    config: p4::ForwardingPipelineConfig,
}

impl Target {
    /// The program of the P4Runtime server's own tests, which has one of every kind of entity.
    pub fn fixture() -> Target {
        let text = include_str!("../../p4runtime/tests/fixture/entities.p4");
        let compiled = ebb_p4c::compile_text("entities.p4", text).expect("a right program");
        let config = compiled.pipeline_config();
        Target {
            info: config.p4info.clone().unwrap_or_default(),
            offline: Offline::new(config.clone(), true).expect("they belong together"),
            config,
        }
    }

    /// The program as a client pushes it.
    pub fn config(&self) -> &p4::ForwardingPipelineConfig {
        &self.config
    }
}

/// Makes the writes and reads that the bytes encode. Checks that a refused request, a read, and a
/// batch with a failed update change nothing, and that the final state can be written to a fresh switch.
pub fn p4runtime(target: &Target, bytes: &[u8]) {
    let mut input = Unstructured::new(bytes);
    let offline = target.offline.fresh();
    let mut known = state(target, &offline, true);
    for _ in 0..MOST_REQUESTS {
        if input.is_empty() || request(target, &offline, &mut input, &mut known).is_err() {
            break;
        }
    }
    let updates = offline.updates().expect("what is there can be read");
    let copy = target.offline.fresh();
    copy.restore(&updates).expect("and written again");
    let kept = |offline: &Offline| state(target, offline, false);
    assert_eq!(kept(&copy), kept(&offline), "restored by {updates:?}");
}

/// Makes one request. `known` is the state before it and, afterwards, the state after it.
fn request(
    target: &Target,
    offline: &Offline,
    input: &mut Unstructured,
    known: &mut Vec<String>,
) -> Result<()> {
    // Result of the call, or the reason of its refusal.
    let (done, what) = match input.int_in_range(0..=7u8)? {
        0 => {
            let filter = entity(target, input)?;
            // Whatever the read returns, it must change nothing.
            let _ = offline.read(&filter);
            (Vec::new(), format!("{filter:?} is a read"))
        }
        1 => {
            let updates = several(input, |input| update(target, input))?;
            let results = offline.write_all_or_nothing(&updates).expect("no switch");
            assert_eq!(results.len(), updates.len());
            let failed = results.iter().filter(|r| r.is_err()).count();
            assert!(failed == 0 || failed == results.len(), "{results:?}");
            match failed {
                0 => (updates, String::new()),
                _ => (Vec::new(), format!("{updates:?} failed as a whole")),
            }
        }
        _ => {
            let update = update(target, input)?;
            match offline.write(&update) {
                Ok(()) => (vec![update], String::new()),
                Err(error) => {
                    assert!(!error.message.is_empty());
                    (Vec::new(), format!("{update:?} was refused: {error}"))
                }
            }
        }
    };
    let after = state(target, offline, true);
    assert!(
        !done.is_empty() || after == *known,
        "{what}, but changed\n{known:#?}\nto\n{after:#?}"
    );
    let more = entities(&after) - entities(known);
    let expected: i64 = done.iter().map(added).sum();
    assert_eq!(
        more, expected,
        "entities more after {done:?}\n{known:#?}\n{after:#?}"
    );
    *known = after;
    Ok(())
}

/// Number of entities that an accepted update adds.
fn added(update: &p4::Update) -> i64 {
    match update.r#type() {
        p4::update::Type::Insert => 1,
        p4::update::Type::Delete => -1,
        _ => 0,
    }
}

/// Number of entities, without the counters that belong to entries.
fn entities(state: &[String]) -> i64 {
    let of_an_entry = |entity: &&String| entity.contains("(DirectCounterEntry");
    state.iter().filter(|e| !of_an_entry(e)).count() as i64
}

/// All that can be read, in a fixed order.
fn state(target: &Target, offline: &Offline, with_counters: bool) -> Vec<String> {
    let replication = |kind| {
        Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: Some(kind) })
    };
    let mut filters = vec![
        Kind::TableEntry(p4::TableEntry {
            meter_config: Some(p4::MeterConfig::default()),
            ..Default::default()
        }),
        Kind::ActionProfileMember(Default::default()),
        Kind::ActionProfileGroup(Default::default()),
        Kind::MeterEntry(Default::default()),
        replication(Replication::MulticastGroupEntry(Default::default())),
        replication(Replication::CloneSessionEntry(Default::default())),
        Kind::DigestEntry(Default::default()),
        Kind::ValueSetEntry(Default::default()),
    ];
    filters.extend(target.info.tables.iter().map(|table| {
        Kind::TableEntry(p4::TableEntry {
            table_id: table.preamble.as_ref().map_or(0, |p| p.id),
            is_default_action: true,
            ..Default::default()
        })
    }));
    if with_counters {
        filters.push(Kind::CounterEntry(Default::default()));
        filters.push(Kind::RegisterEntry(Default::default()));
        filters.push(Kind::DirectCounterEntry(Default::default()));
    }
    let read = |kind| {
        let filter = p4::Entity { entity: Some(kind) };
        offline.read(&filter).expect("a wildcard")
    };
    let all = filters.into_iter().flat_map(read);
    let mut all: Vec<_> = all.map(|entity| format!("{entity:?}")).collect();
    all.sort_unstable();
    all
}

/// An update; most are nearly valid.
pub fn update(target: &Target, input: &mut Unstructured) -> Result<p4::Update> {
    let update = p4::Update {
        r#type: input.int_in_range(0..=4)?,
        entity: Some(entity(target, input)?),
    };
    Ok(match input.int_in_range(0..=9u8)? {
        // Some bytes of the encoded message are changed; the result is used if it can be decoded.
        0 => {
            let mut wire = update.encode_to_vec();
            for _ in 0..input.int_in_range(1..=3u8)? {
                let at = input.choose_index(wire.len())?;
                wire[at] = input.arbitrary()?;
            }
            p4::Update::decode(wire.as_slice()).unwrap_or(update)
        }
        1 => {
            let len = input.int_in_range(0..=60usize)?;
            let wire = input.bytes(len.min(input.len()))?;
            p4::Update::decode(wire).unwrap_or(update)
        }
        _ => update,
    })
}

/// An entity of any kind.
fn entity(target: &Target, input: &mut Unstructured) -> Result<p4::Entity> {
    let info = &target.info;
    let kind = match input.int_in_range(0..=13u8)? {
        0..=4 => Kind::TableEntry(table_entry(info, input)?),
        5 => Kind::ActionProfileMember(p4::ActionProfileMember {
            action_profile_id: id(input, info.action_profiles.iter().map(|p| &p.preamble))?,
            member_id: small(input)?,
            action: Some(action(info, input)?),
        }),
        6 => Kind::ActionProfileGroup(p4::ActionProfileGroup {
            action_profile_id: id(input, info.action_profiles.iter().map(|p| &p.preamble))?,
            group_id: small(input)?,
            members: several(input, |input| {
                Ok(p4::action_profile_group::Member {
                    member_id: small(input)?,
                    weight: signed(input)? as i32,
                    watch_kind: None,
                })
            })?,
            max_size: if input.ratio(1, 4)? {
                signed(input)? as i32
            } else {
                0
            },
        }),
        7 => Kind::CounterEntry(p4::CounterEntry {
            counter_id: id(input, info.counters.iter().map(|p| &p.preamble))?,
            index: index(input)?,
            data: counter_data(input)?,
        }),
        8 => Kind::MeterEntry(p4::MeterEntry {
            meter_id: id(input, info.meters.iter().map(|p| &p.preamble))?,
            index: index(input)?,
            config: meter_config(input)?,
            counter_data: None,
        }),
        9 => Kind::RegisterEntry(p4::RegisterEntry {
            register_id: id(input, info.registers.iter().map(|p| &p.preamble))?,
            index: index(input)?,
            data: Some(p4::P4Data {
                data: Some(p4::p4_data::Data::Bitstring(number(input, 32)?)),
            }),
        }),
        10 => match input.arbitrary()? {
            true => Kind::DirectCounterEntry(p4::DirectCounterEntry {
                table_entry: Some(table_entry(info, input)?),
                data: counter_data(input)?,
            }),
            false => Kind::DirectMeterEntry(p4::DirectMeterEntry {
                table_entry: Some(table_entry(info, input)?),
                config: meter_config(input)?,
                counter_data: None,
            }),
        },
        11 => {
            let replicas = several(input, replica)?;
            let kind = match input.arbitrary()? {
                true => Replication::MulticastGroupEntry(p4::MulticastGroupEntry {
                    multicast_group_id: small(input)?,
                    replicas,
                    metadata: Vec::new(),
                }),
                false => Replication::CloneSessionEntry(p4::CloneSessionEntry {
                    session_id: small(input)?,
                    replicas,
                    class_of_service: small(input)?,
                    packet_length_bytes: signed(input)? as i32,
                }),
            };
            let kind = Some(kind);
            Kind::PacketReplicationEngineEntry(p4::PacketReplicationEngineEntry { r#type: kind })
        }
        12 => Kind::DigestEntry(p4::DigestEntry {
            digest_id: id(input, info.digests.iter().map(|p| &p.preamble))?,
            config: match input.arbitrary()? {
                true => Some(p4::digest_entry::Config {
                    max_timeout_ns: signed(input)?,
                    max_list_size: signed(input)? as i32,
                    ack_timeout_ns: signed(input)?,
                }),
                false => None,
            },
        }),
        _ => Kind::ValueSetEntry(p4::ValueSetEntry {
            value_set_id: id(input, info.value_sets.iter().map(|p| &p.preamble))?,
            members: several(input, |input| {
                Ok(p4::ValueSetMember {
                    r#match: several(input, |input| {
                        let value = number(input, 16)?;
                        Ok(field(
                            1,
                            FieldMatchType::Exact(field_match::Exact { value }),
                        ))
                    })?,
                })
            })?,
        }),
    };
    Ok(p4::Entity { entity: Some(kind) })
}

type Preamble = Option<ebb_p4runtime::proto::config::Preamble>;

/// The id of one of the objects, or sometimes another one.
fn id<'a>(input: &mut Unstructured, objects: impl Iterator<Item = &'a Preamble>) -> Result<u32> {
    let ids: Vec<u32> = objects.flatten().map(|p| p.id).collect();
    match input.int_in_range(0..=19u8)? {
        0 => Ok(0),
        1 => input.arbitrary(),
        _ if ids.is_empty() => Ok(0),
        _ => input.choose(&ids).copied(),
    }
}

/// An id, of so few that messages often have the same one.
fn small(input: &mut Unstructured) -> Result<u32> {
    match input.int_in_range(0..=19u8)? {
        0 => input.arbitrary(),
        _ => input.int_in_range(0..=3),
    }
}

fn signed(input: &mut Unstructured) -> Result<i64> {
    match input.int_in_range(0..=9u8)? {
        0 => input.arbitrary(),
        _ => Ok(popular(input)? as i64),
    }
}

fn several<T>(
    input: &mut Unstructured,
    one: impl Fn(&mut Unstructured) -> Result<T>,
) -> Result<Vec<T>> {
    let many = input.int_in_range(0..=3u8)?;
    (0..many).map(|_| one(input)).collect()
}

fn index(input: &mut Unstructured) -> Result<Option<p4::Index>> {
    Ok(match input.int_in_range(0..=3u8)? {
        0 => None,
        _ => Some(p4::Index {
            index: signed(input)?,
        }),
    })
}

fn counter_data(input: &mut Unstructured) -> Result<Option<p4::CounterData>> {
    Ok(match bool::arbitrary(input)? {
        true => Some(p4::CounterData {
            byte_count: signed(input)?,
            packet_count: signed(input)?,
        }),
        false => None,
    })
}

fn meter_config(input: &mut Unstructured) -> Result<Option<p4::MeterConfig>> {
    Ok(match bool::arbitrary(input)? {
        true => Some(p4::MeterConfig {
            cir: signed(input)?,
            cburst: signed(input)?,
            pir: signed(input)?.saturating_mul(0x100),
            pburst: signed(input)?,
            eburst: if input.ratio(1, 10)? {
                signed(input)?
            } else {
                0
            },
        }),
        false => None,
    })
}

fn replica(input: &mut Unstructured) -> Result<p4::Replica> {
    Ok(p4::Replica {
        port_kind: match input.int_in_range(0..=9u8)? {
            0 => None,
            #[allow(deprecated)] // Older clients send it.
            1 => Some(p4::replica::PortKind::EgressPort(small(input)?)),
            _ => Some(p4::replica::PortKind::Port(number(input, 9)?)),
        },
        instance: small(input)?,
        backup_replicas: match input.int_in_range(0..=3u8)? {
            0 => several(input, |input| {
                Ok(p4::BackupReplica {
                    port: number(input, 9)?,
                    instance: small(input)?,
                })
            })?,
            _ => Vec::new(),
        },
    })
}

fn field(field_id: u32, kind: FieldMatchType) -> p4::FieldMatch {
    p4::FieldMatch {
        field_id,
        field_match_type: Some(kind),
    }
}

fn table_entry(info: &P4Info, input: &mut Unstructured) -> Result<p4::TableEntry> {
    let table_id = id(input, info.tables.iter().map(|t| &t.preamble))?;
    let has_id = |t: &&ebb_p4runtime::proto::config::Table| {
        t.preamble.as_ref().is_some_and(|p| p.id == table_id)
    };
    let table = info.tables.iter().find(has_id);
    let mut matches = Vec::new();
    for key in table.iter().flat_map(|t| &t.match_fields) {
        let bits = key.bitwidth as u32;
        let kind = match key.r#match {
            Some(Match::MatchType(kind)) => MatchType::try_from(kind).unwrap_or_default(),
            _ => MatchType::Exact,
        };
        let value = number(input, bits)?;
        matches.push(match (kind, input.int_in_range(0..=9u8)?) {
            (MatchType::Ternary | MatchType::Range | MatchType::Optional, 0..=3) => continue,
            (_, 0) => continue,
            (MatchType::Lpm, _) => field(
                key.id,
                FieldMatchType::Lpm(field_match::Lpm {
                    value,
                    prefix_len: input.int_in_range(-1..=bits as i32 + 1)?,
                }),
            ),
            (MatchType::Ternary, _) => field(
                key.id,
                FieldMatchType::Ternary(field_match::Ternary {
                    mask: if input.arbitrary()? {
                        value.clone()
                    } else {
                        number(input, bits)?
                    },
                    value,
                }),
            ),
            (MatchType::Range, _) => field(
                key.id,
                FieldMatchType::Range(field_match::Range {
                    low: value,
                    high: number(input, bits)?,
                }),
            ),
            (MatchType::Optional, _) => field(
                key.id,
                FieldMatchType::Optional(field_match::Optional { value }),
            ),
            _ => field(key.id, FieldMatchType::Exact(field_match::Exact { value })),
        });
    }
    let is_default_action = input.ratio(1, 6)?;
    if is_default_action && input.ratio(9, 10)? {
        matches.clear();
    }
    Ok(p4::TableEntry {
        table_id,
        r#match: matches,
        action: table_action(info, input)?,
        priority: if input.arbitrary()? {
            0
        } else {
            input.int_in_range(-1..=3)?
        },
        meter_config: if input.ratio(1, 4)? {
            meter_config(input)?
        } else {
            None
        },
        counter_data: if input.ratio(1, 4)? {
            counter_data(input)?
        } else {
            None
        },
        is_default_action,
        idle_timeout_ns: if input.ratio(1, 6)? {
            signed(input)?
        } else {
            0
        },
        metadata: if input.ratio(1, 6)? {
            number(input, 16)?
        } else {
            Vec::new()
        },
        is_const: input.ratio(1, 30)?,
        ..Default::default()
    })
}

fn table_action(info: &P4Info, input: &mut Unstructured) -> Result<Option<p4::TableAction>> {
    let kind = match input.int_in_range(0..=9u8)? {
        0 => return Ok(None),
        1 | 2 => Type::ActionProfileMemberId(small(input)?),
        3 => Type::ActionProfileGroupId(small(input)?),
        4 => Type::ActionProfileActionSet(p4::ActionProfileActionSet {
            action_profile_actions: several(input, |input| {
                Ok(p4::ActionProfileAction {
                    action: Some(action(info, input)?),
                    weight: signed(input)? as i32,
                    watch_kind: None,
                })
            })?,
            action_selection_mode: input.int_in_range(0..=3)?,
            size_semantics: input.int_in_range(0..=3)?,
        }),
        _ => Type::Action(action(info, input)?),
    };
    Ok(Some(p4::TableAction { r#type: Some(kind) }))
}

fn action(info: &P4Info, input: &mut Unstructured) -> Result<p4::Action> {
    let action = input.choose(&info.actions)?;
    let mut params = Vec::new();
    for param in &action.params {
        params.push(p4::action::Param {
            param_id: if input.ratio(1, 30)? {
                input.arbitrary()?
            } else {
                param.id
            },
            value: number(input, param.bitwidth as u32)?,
        });
    }
    Ok(p4::Action {
        action_id: action.preamble.as_ref().map_or(0, |p| p.id),
        params,
    })
}
