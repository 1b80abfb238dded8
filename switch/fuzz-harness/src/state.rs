//! Calls of a controller on a pipeline, and the packets that follow.

use arbitrary::{Result, Unstructured};
use ebb_pipeline::control::{
    ActionCall, CloneSession, ControlError, Group, GroupMember, MatchKey, MatchKind, MeterConfig,
    Replica, TableAction, TableEntry, WeightedAction,
};
use ebb_pipeline::{ActionId, MeterId, Pipeline, ProfileId, RegisterId, TableId, ValueSetId};

use crate::bytes::{number, popular};
use crate::loaded::Loaded;
use crate::world::{PORTS, World};

/// How many numbers members, groups, clone sessions and multicast groups have.
const IDS: u32 = 5;

#[derive(Clone, Debug)]
pub enum Operation {
    Packet(u16, Vec<u8>),
    Insert(TableId, TableEntry),
    Modify(TableId, TableEntry),
    Delete(TableId, TableEntry),
    Default(TableId, Option<TableAction>),
    Member(ProfileId, u32, ActionCall),
    Group(ProfileId, u32, Group),
    DeleteMember(ProfileId, u32),
    DeleteGroup(ProfileId, u32),
    Multicast(u16, Vec<Replica>),
    Session(u32, CloneSession),
    ValueSet(ValueSetId, Vec<Vec<MatchKey>>),
    Meter(MeterId, u64, MeterConfig),
    EntryMeter(TableId, TableEntry, MeterConfig),
    Register(RegisterId, u64, Vec<u8>),
}

/// Performs at most this many operations, as long as there is input.
pub fn perform_all(
    program: &Loaded,
    worlds: &mut [World; 3],
    input: &mut Unstructured,
    most: usize,
) {
    for _ in 0..most {
        if input.is_empty() {
            break;
        }
        // The program may have nothing of the kind.
        if let Ok(operation) = Operation::arbitrary(input, program) {
            operation.perform_alike(worlds);
        }
    }
    let [native, interpreted, plain] = worlds.each_ref().map(|w| w.memory(&program.arrays));
    assert_eq!(native, interpreted, "native code and interpreter");
    assert_eq!(interpreted, plain, "interpreter and its plain form");
}

impl Operation {
    pub fn arbitrary(input: &mut Unstructured, program: &Loaded) -> Result<Operation> {
        let p = &program.pipeline;
        let table = |input: &mut Unstructured| -> Result<TableId> {
            let tables: Vec<TableId> = p.tables().collect();
            input.choose(&tables).copied()
        };
        Ok(match input.int_in_range(0..=19u8)? {
            0..=8 => Operation::Packet(input.int_in_range(0..=PORTS - 1)?, frame(input)?),
            9..=12 => {
                let table = table(input)?;
                Operation::Insert(table, entry(input, p, table)?)
            }
            13 => {
                let table = table(input)?;
                let entry = entry(input, p, table)?;
                match input.arbitrary()? {
                    true => Operation::Modify(table, entry),
                    false => Operation::Delete(table, entry),
                }
            }
            14 => {
                let table = table(input)?;
                let some: bool = input.arbitrary()?;
                let action = some.then(|| action(input, p, table)).transpose()?;
                Operation::Default(table, action)
            }
            15 | 16 => {
                let with_profile: Vec<TableId> = p
                    .tables()
                    .filter(|t| p.table_info(*t).profile.is_some())
                    .collect();
                let table = *input.choose(&with_profile)?;
                let info = p.table_info(table);
                let Some(profile) = info.profile else {
                    return Err(arbitrary::Error::IncorrectFormat);
                };
                let id = input.int_in_range(0..=IDS)?;
                match input.int_in_range(0..=7u8)? {
                    0..=3 => Operation::Member(profile, id, call(input, p, info.actions)?),
                    4 => Operation::DeleteMember(profile, id),
                    5 => Operation::DeleteGroup(profile, id),
                    _ => Operation::Group(profile, id, group(input)?),
                }
            }
            17 => {
                let replicas = replicas(input)?;
                match input.arbitrary()? {
                    true => Operation::Multicast(popular(input)? as u16, replicas),
                    false => {
                        let session = CloneSession {
                            replicas,
                            packet_length_bytes: input.int_in_range(0..=40)?,
                            class_of_service: input.int_in_range(0..=7)?,
                        };
                        Operation::Session(popular(input)? as u32, session)
                    }
                }
            }
            18 => {
                let (set, bits) = *input.choose(&program.arrays.value_sets)?;
                let members = (0..input.int_in_range(0..=3u8)?)
                    .map(|_| Ok(vec![MatchKey::Exact(number(input, bits)?)]))
                    .collect::<Result<_>>()?;
                Operation::ValueSet(set, members)
            }
            _ => match input.int_in_range(0..=2u8)? {
                0 => {
                    let register = *input.choose(&program.arrays.registers)?;
                    let value = number(input, p.register_bits(register))?;
                    Operation::Register(register, popular(input)?, value)
                }
                1 => {
                    let meter = *input.choose(&program.arrays.meters)?;
                    Operation::Meter(meter, popular(input)?, rate(input)?)
                }
                _ => {
                    let table = table(input)?;
                    let entry = entry(input, p, table)?;
                    Operation::EntryMeter(table, entry, rate(input)?)
                }
            },
        })
    }

    /// Performs the operation in every switch; the results must be the same.
    pub fn perform_alike(&self, worlds: &mut [World; 3]) {
        let [native, interpreted, plain] = worlds.each_mut().map(|w| self.perform(w));
        assert_eq!(native, interpreted, "native code and interpreter: {self:?}");
        assert_eq!(
            interpreted, plain,
            "interpreter and its plain form: {self:?}"
        );
    }

    /// Performs the operation and describes the result.
    fn perform(&self, world: &mut World) -> String {
        let text = |done: std::result::Result<(), ControlError>| match done {
            Ok(()) => "done".to_owned(),
            Err(error) => error.to_string(),
        };
        if let Operation::Packet(port, frame) = self {
            return world.send(*port, frame);
        }
        world.pipeline(|now, p| {
            text(match self.clone() {
                Operation::Packet(..) => Ok(()),
                Operation::Insert(table, entry) => p.insert_entry(now, table, entry).map(drop),
                Operation::Modify(table, entry) => p.modify_entry(now, table, entry).map(drop),
                Operation::Delete(table, entry) => {
                    let deleted = p.delete_entry(table, &entry.key, entry.priority);
                    deleted.map(drop)
                }
                Operation::Default(table, action) => p.set_default_entry(table, action),
                Operation::Member(profile, id, call) => p
                    .insert_member(profile, id, call.clone())
                    .or_else(|_| p.modify_member(profile, id, call)),
                Operation::Group(profile, id, group) => p
                    .insert_group(profile, id, group.clone())
                    .or_else(|_| p.modify_group(profile, id, group)),
                Operation::DeleteMember(profile, id) => p.delete_member(profile, id),
                Operation::DeleteGroup(profile, id) => p.delete_group(profile, id),
                Operation::Multicast(group, replicas) => p
                    .insert_multicast_group(group, replicas.clone())
                    .or_else(|_| p.modify_multicast_group(group, replicas)),
                Operation::Session(session, value) => p
                    .insert_clone_session(session, value.clone())
                    .or_else(|_| p.modify_clone_session(session, value)),
                Operation::ValueSet(set, members) => p.set_value_set(set, &members),
                Operation::Meter(meter, index, config) => {
                    p.set_meter_config(now, meter, index, Some(config))
                }
                Operation::EntryMeter(table, entry, config) => p
                    .insert_entry(now, table, entry)
                    .and_then(|entry| p.set_entry_meter(now, table, Some(entry), Some(config))),
                Operation::Register(register, index, value) => {
                    p.set_register_value(register, index, &value)
                }
            })
        })
    }
}

/// The bytes of a frame; the first is often one that the parsers know.
fn frame(input: &mut Unstructured) -> Result<Vec<u8>> {
    let mut frame = Vec::new();
    if input.ratio(1, 3)? {
        // These are the headers that the router parses: Ethernet and IPv4.
        frame.extend([2; 12]);
        frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
        for _ in 0..2 {
            frame.extend(number(input, 32)?);
        }
    } else {
        frame.push(popular(input)? as u8);
        frame.push(input.arbitrary::<u8>()? & 0x2f);
        frame.extend(number(input, 16)?);
        frame.extend(number(input, 8)?);
        frame.extend(number(input, 64)?);
    }
    let rest = input.int_in_range(0..=40usize)?;
    let payload = input.bytes(rest.min(input.len()))?;
    frame.extend_from_slice(payload);
    if input.ratio(1, 10)? {
        frame.truncate(rest);
    }
    Ok(frame)
}

fn entry(input: &mut Unstructured, p: &Pipeline, table: TableId) -> Result<TableEntry> {
    let info = p.table_info(table);
    let key = info.key.iter().map(|field| {
        Ok(match (field.kind, input.int_in_range(0..=9u8)?) {
            (MatchKind::Exact, _) | (MatchKind::Lpm | MatchKind::Ternary | MatchKind::Range, 0) => {
                MatchKey::Exact(number(input, field.bits)?)
            }
            (MatchKind::Lpm | MatchKind::Ternary | MatchKind::Range, 1) => MatchKey::Any,
            (MatchKind::Valid, _) => MatchKey::Valid(input.arbitrary()?),
            (MatchKind::Lpm, _) => MatchKey::Lpm {
                value: number(input, field.bits)?,
                prefix_len: input.int_in_range(0..=field.bits + 1)?,
            },
            (MatchKind::Ternary, _) => MatchKey::Ternary {
                value: number(input, field.bits)?,
                mask: number(input, field.bits)?,
            },
            (MatchKind::Range, _) => MatchKey::Range {
                low: number(input, field.bits)?,
                high: number(input, field.bits)?,
            },
        })
    });
    Ok(TableEntry {
        key: key.collect::<Result<_>>()?,
        priority: match info.needs_priority {
            true => input.int_in_range(0..=4)?,
            false => 0,
        },
        action: action(input, p, table)?,
        idle_timeout: None,
        metadata: Vec::new(),
    })
}

fn action(input: &mut Unstructured, p: &Pipeline, table: TableId) -> Result<TableAction> {
    let info = p.table_info(table);
    let id = input.int_in_range(0..=IDS)?;
    Ok(match (info.profile, input.int_in_range(0..=2u8)?) {
        (Some(_), 0) => TableAction::Member(id),
        (Some(_), 1) => TableAction::Group(id),
        (Some(_), _) => {
            let member = |_| {
                Ok(WeightedAction {
                    call: call(input, p, info.actions)?,
                    weight: 1 + id,
                    watch_port: None,
                })
            };
            TableAction::Set((0..id).map(member).collect::<Result<_>>()?)
        }
        (None, _) => TableAction::Direct(call(input, p, info.actions)?),
    })
}

fn call(input: &mut Unstructured, p: &Pipeline, actions: &[ActionId]) -> Result<ActionCall> {
    let action = *input.choose(actions)?;
    let params = p.action_info(action).params;
    let params = params.iter().map(|(_, bits)| number(input, *bits));
    Ok(ActionCall {
        action,
        params: params.collect::<Result<_>>()?,
    })
}

fn rate(input: &mut Unstructured) -> Result<MeterConfig> {
    Ok(MeterConfig {
        cir: popular(input)?,
        cburst: popular(input)?,
        pir: popular(input)?.saturating_mul(1000),
        pburst: popular(input)?,
        eburst: match input.arbitrary()? {
            true => Some(popular(input)?),
            false => None,
        },
    })
}

fn group(input: &mut Unstructured) -> Result<Group> {
    let member = |_| {
        Ok(GroupMember {
            member: input.int_in_range(0..=IDS)?,
            weight: input.int_in_range(0..=4)?,
            watch_port: None,
        })
    };
    Ok(Group {
        members: (0..3).map(member).collect::<Result<_>>()?,
        max_size: 0,
    })
}

fn replicas(input: &mut Unstructured) -> Result<Vec<Replica>> {
    (0..input.int_in_range(0..=3u8)?)
        .map(|_| {
            Ok(Replica {
                port: input.int_in_range(0..=PORTS)?,
                instance: input.int_in_range(0..=3)?,
            })
        })
        .collect()
}
