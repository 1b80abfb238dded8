//! Tables that belong to no program: the device, its ports, multicast and mirror sessions.
//!
//! Names and numbers are those that P4 Studio publishes, as clients look for them. Rows are kept as they were written.
//! Those of multicast and mirroring take effect as P4Runtime's groups and clone sessions, those of the packet generator
//! (`generator.rs`) are the generator's; the others describe ports and device, and change neither links nor traffic but
//! for ports in loopback mode. What there is not here has tables without rows, for which controllers look.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ebb_pipeline::control::Replica;
use serde_json::{Value as Json, json};

use super::chip_tables::{
    DEVICE, MGID, MIRROR, NODE, PORT, PORT_STAT, PRE_PORT, spec, tables, without_rows,
};
use super::connectors;
use super::copies::Copies;
use super::entries::change;
use super::generator;
use super::request::{bytes_of, takes_away};
use super::rows::{
    Row, Spec, answered, checked, data_column, key, key_column, number, numbers, row,
};
use crate::entities::{Context, GROUP_0};
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::data_field::{BoolArray, IntArray, Value};
use crate::proto::bf_runtime::update::Type;
use crate::proto::p4;
use crate::proto::p4::entity::Entity;
use crate::proto::p4::packet_replication_engine_entry::Type as Replication;

/// Columns of `$PORT`, `$pre.mgid`, `$pre.node` and `$mirror.cfg` that take effect.
mod column {
    pub const GROUP_NODES: u32 = 1;
    pub const GROUP_XID_VALID: u32 = 2;
    pub const GROUP_XID: u32 = 3;
    pub const GROUP_ECMP: u32 = 4;
    pub const LOOPBACK_MODE: u32 = 6;
    pub const NODE_RID: u32 = 1;
    pub const NODE_LAGS: u32 = 2;
    pub const NODE_PORTS: u32 = 3;
    pub const BACKUP_PORT: u32 = 1;
    pub const CPU_COPIES: u32 = 4;
    pub const ENABLED: u32 = 5;
    pub const PORT: u32 = 7;
    pub const PORT_VALID: u32 = 8;
    pub const QUEUE: u32 = 9;
    pub const GROUP_A_VALID: u32 = 15;
    pub const GROUP_B_VALID: u32 = 17;
    pub const COPY_TO_CPU: u32 = 22;
    pub const LONGEST: u32 = 23;
}

/// Bytes of a packet that a session leaves whole, which has no limit of its own.
const WHOLE_PACKET: u64 = 0xffff;
/// Stages of Tofino and of Tofino 2.
const STAGES: [u32; 2] = [12, 20];
/// Ports of a pipe that lead back to ingress, of Tofino and of Tofino 2.
const RECIRCULATION: [u32; 2] = [68, 6];

/// The mode of ports that lead to their links.
const NO_LOOPBACK: &str = "BF_LPBK_NONE";

/// The port that is none.
const NO_PORT: u16 = 511;

/// The first column of the device that may be set.
const FIRST_SETTING: u32 = 12;

/// A port that has an interface or a link.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its number.
    pub number: u16,
    /// Name of its interface.
    pub name: String,
}

/// The tables with their rows.
#[derive(Clone, Debug, Default)]
pub struct Chip {
    /// By table, then by key.
    rows: BTreeMap<u32, BTreeMap<u64, Row>>,
    ports: Vec<Port>,
    /// Ports that no client has inserted yet, though they are there: on the chip they begin with that.
    not_inserted: BTreeSet<u64>,
    copies: Copies,
    /// Whether the program is for Tofino 2.
    pub is_second: bool,
}

impl Chip {
    /// The tables of a switch with these ports.
    pub fn new(ports: Vec<Port>) -> Chip {
        let mut chip = Chip {
            rows: BTreeMap::new(),
            is_second: false,
            not_inserted: ports.iter().map(|port| port.number.into()).collect(),
            ports,
            copies: Copies::default(),
        };
        let rows = chip.ports.iter().map(|port| {
            let fields = [
                (4, Value::BoolVal(true)),
                (21, Value::BoolVal(true)),
                (22, Value::BoolVal(false)),
                (25, Value::BoolVal(true)),
                (26, Value::StrVal(port.name.clone())),
            ];
            (u64::from(port.number), row(fields))
        });
        chip.rows.insert(PORT, rows.collect());
        chip
    }

    /// Their schema, as clients get it beside that of the program.
    pub fn schema(&self) -> Vec<u8> {
        let tables = tables(self.is_second).map(|spec| {
            let data: Vec<Json> = spec.data.iter().map(|of| data_column(*of)).collect();
            let has_prefix = spec.id == DEVICE || generator::has(spec.id);
            let name = match has_prefix {
                true => format!("tf{}.{}", 1 + u8::from(self.is_second), spec.name),
                false => spec.name.to_owned(),
            };
            let mut table = json!({
                "name": name,
                "id": spec.id,
                "table_type": spec.kind,
                "size": spec.size,
                "annotations": [],
                "depends_on": [],
                "key": spec.key.iter().map(|of| key_column(*of)).collect::<Vec<_>>(),
                "data": data,
                "supported_operations": [],
                "attributes": [],
            });
            let actions = spec.actions.iter().map(|(id, name, data)| {
                json!({
                    "id": id,
                    "name": name,
                    "action_scope": "TableAndDefault",
                    "annotations": [],
                    "data": data.iter().map(|of| data_column(*of)).collect::<Vec<_>>(),
                })
            });
            if !spec.actions.is_empty() {
                table["action_specs"] = actions.collect::<Vec<_>>().into();
            }
            table
        });
        let schema = json!({
            "schema_version": "1.0.0",
            "tables": tables.collect::<Vec<_>>(),
            "learn_filters": [],
        });
        schema.to_string().into_bytes()
    }

    fn spec(&self, table: u32) -> Result<&'static Spec> {
        let missing = || EntityError::not_found(format!("the chip has no table {table}"));
        spec(table, self.is_second).ok_or_else(missing)
    }

    /// Carries out an update.
    pub fn write(&mut self, ctx: &mut Context, kind: Type, entry: &bf::TableEntry) -> Result<()> {
        let spec = self.spec(entry.table_id)?;
        let place = |e: EntityError| e.at(spec.name);
        if generator::has(spec.id) {
            return generator::write(ctx, spec, kind, entry).map_err(place);
        }
        if spec.key.is_empty() {
            return self.set_device(spec, kind, entry).map_err(place);
        }
        if connectors::has(spec.id) {
            return connectors::refuse().map_err(place);
        }
        if let Some(reason) = without_rows(spec.id).filter(|_| kind != Type::Delete) {
            return Err(place(EntityError::unimplemented(reason)));
        }
        let rows = self.rows.get(&spec.id);
        let Some(key) = key(spec, entry).map_err(place)? else {
            if kind != Type::Delete {
                return Err(place(EntityError::invalid("the entry has no key")));
            }
            let all: Vec<u64> = rows
                .into_iter()
                .flat_map(|rows| rows.keys().copied())
                .collect();
            return all
                .into_iter()
                .try_for_each(|key| self.set(ctx, spec, key, None).map_err(place));
        };
        let old = rows.and_then(|rows| rows.get(&key)).cloned();
        let missing = || EntityError::not_found("no such entry");
        let new = match (kind, old) {
            // As on the chip, a port that is not there may be deleted.
            (Type::Delete, None) if spec.id == PORT => return Ok(()),
            (Type::Delete, old) => {
                old.ok_or_else(missing).map_err(place)?;
                None
            }
            (Type::Insert, Some(old)) if spec.id == PORT && self.not_inserted.contains(&key) => {
                Some(checked(spec, entry, old))
            }
            (Type::Insert, Some(_)) => {
                return Err(place(EntityError::already_exists(
                    "the entry exists; use MODIFY",
                )));
            }
            (Type::Insert, None) | (Type::InsertOrModify, None) => {
                Some(checked(spec, entry, Row::new()))
            }
            (Type::Modify | Type::InsertOrModify, Some(old)) => Some(checked(spec, entry, old)),
            (Type::ModifyInc, Some(old)) => Some(added(spec, entry, old)),
            (Type::Modify | Type::ModifyInc, None) => return Err(place(missing())),
            (Type::Reset | Type::Unspecified, _) => {
                return Err(place(EntityError::invalid(
                    "this update is for default entries",
                )));
            }
        };
        self.set(ctx, spec, key, new.transpose().map_err(place)?)
            .map_err(place)
    }

    /// Keeps settings of the device, which change nothing; the facts about it are only read.
    fn set_device(&mut self, spec: &Spec, kind: Type, entry: &bf::TableEntry) -> Result<()> {
        let rows = self.rows.entry(spec.id).or_default();
        if matches!(kind, Type::Delete | Type::Reset) {
            rows.clear();
            return Ok(());
        }
        let old = rows.get(&0).cloned().unwrap_or_default();
        let row = checked(spec, entry, old)?;
        if let Some((id, _)) = row.first_key_value().filter(|(id, _)| **id < FIRST_SETTING) {
            return Err(EntityError::invalid(format!(
                "data field {id} is only read"
            )));
        }
        rows.insert(0, row);
        Ok(())
    }

    /// Puts a row in the place of another, and has it take effect first.
    fn set(&mut self, ctx: &mut Context, spec: &Spec, key: u64, new: Option<Row>) -> Result<()> {
        match spec.id {
            MGID => self.set_group(ctx, key, new.as_ref())?,
            NODE => self.set_node(ctx, key, new.as_ref())?,
            MIRROR => set_session(ctx, key, new.as_ref())?,
            PRE_PORT => set_copy_port(ctx, key, new.as_ref())?,
            PORT => {
                self.not_inserted.remove(&key);
                set_loopback(ctx, key, new.as_ref());
            }
            _ => {}
        }
        let rows = self.rows.entry(spec.id).or_default();
        match new {
            Some(row) => rows.insert(key, row),
            None => rows.remove(&key),
        };
        Ok(())
    }

    fn set_group(&mut self, ctx: &mut Context, group: u64, row: Option<&Row>) -> Result<()> {
        let Some(row) = row else {
            set_group(ctx, group, None)?;
            self.copies.remove(group);
            return Ok(());
        };
        let is_used = |column| numbers(row, column).iter().any(|number| *number != 0);
        let missing = match ctx.pipeline.cell_bytes() {
            _ if is_used(column::GROUP_ECMP) => Some("there are no ECMP groups of nodes here"),
            None if is_used(column::GROUP_XID_VALID) => {
                Some("only programs for Tofino have exclusion by level 1")
            }
            _ => None,
        };
        if let Some(missing) = missing {
            return Err(EntityError::unimplemented(missing));
        }
        let nodes = numbers(row, column::GROUP_NODES);
        let found = |node: &u64| {
            let found = self.rows.get(&NODE).and_then(|rows| rows.get(node));
            found.ok_or_else(|| {
                EntityError::not_found(format!("node {node} does not exist; insert it first"))
            })
        };
        let found: Vec<&Row> = nodes.iter().map(found).collect::<Result<_>>()?;
        let lengths = found
            .iter()
            .map(|row| numbers(row, column::NODE_PORTS).len());
        let count = self.copies.counted(group, lengths)?;
        let ids = exclusions(row, &found);
        let replicas = found.into_iter().flat_map(copies).collect();
        set_group(ctx, group, Some(replicas))?;
        if let Ok(group) = u16::try_from(group) {
            ctx.pipeline.set_exclusions(group, ids);
        }
        self.copies.set(group, nodes, count);
        Ok(())
    }

    /// Changes all groups that have the node, or none.
    fn set_node(&mut self, ctx: &mut Context, node: u64, row: Option<&Row>) -> Result<()> {
        if row.is_some_and(|row| !numbers(row, column::NODE_LAGS).is_empty()) {
            return Err(EntityError::unimplemented(
                "there are no LAGs in nodes here; name the ports",
            ));
        }
        let groups = self.copies.groups_with(node);
        let Some(row) = row else {
            return match groups.first() {
                None => Ok(()),
                Some(group) => Err(EntityError::failed_precondition(format!(
                    "group {group} has node {node}; take it out first"
                ))),
            };
        };
        let old = self.put_node(node, row.clone());
        for (changed, group) in groups.iter().enumerate() {
            let Err(error) = self.renew_group(ctx, *group) else {
                continue;
            };
            if let Some(old) = old {
                self.put_node(node, old);
            }
            for group in &groups[..changed] {
                self.renew_group(ctx, *group)?;
            }
            return Err(error);
        }
        Ok(())
    }

    fn put_node(&mut self, node: u64, row: Row) -> Option<Row> {
        self.rows.entry(NODE).or_default().insert(node, row)
    }

    /// Has a group make the copies of its nodes as they are now.
    fn renew_group(&mut self, ctx: &mut Context, group: u64) -> Result<()> {
        let row = self.rows.get(&MGID).and_then(|rows| rows.get(&group));
        let row = row.cloned().unwrap_or_default();
        self.set_group(ctx, group, Some(&row))
    }

    /// The entries that an entry of a request selects.
    pub fn read(&self, ctx: &mut Context, entry: &bf::TableEntry) -> Result<Vec<bf::TableEntry>> {
        let spec = self.spec(entry.table_id)?;
        if generator::has(spec.id) {
            return generator::read(ctx, spec, entry).map_err(|e| e.at(spec.name));
        }
        if connectors::has(spec.id) {
            return connectors::read(entry, self.is_second).map_err(|e| e.at(spec.name));
        }
        if let Some(reason) = without_rows(spec.id).filter(|_| spec.id == PORT_STAT) {
            return Err(EntityError::unimplemented(reason).at(spec.name));
        }
        let action = spec.actions.first().map_or(0, |(id, ..)| *id);
        let made = |key: Option<u64>, row: &Row| answered(spec, key.as_slice(), action, row);
        if spec.key.is_empty() {
            return Ok(vec![made(None, &self.device())]);
        }
        let rows = self.rows.get(&spec.id).into_iter().flatten();
        let Some(key) = key(spec, entry)? else {
            return Ok(rows.map(|(key, row)| made(Some(*key), row)).collect());
        };
        let mut rows = rows;
        match rows.find(|(found, _)| **found == key) {
            Some((key, row)) => Ok(vec![made(Some(*key), row)]),
            None => Err(EntityError::not_found(format!(
                "{} has no such entry",
                spec.name
            ))),
        }
    }

    fn device(&self) -> Row {
        let last = self.ports.iter().map(|port| port.number).max().unwrap_or(0);
        let pipes = u32::from(last >> 7) + 1;
        let back = RECIRCULATION[usize::from(self.is_second)];
        let back: Vec<u32> = (0..pipes).map(|pipe| pipe << 7 | back).collect();
        let front: Vec<u32> = self.ports.iter().map(|port| port.number.into()).collect();
        let list = |ports: &[u32]| {
            Value::IntArrVal(IntArray {
                val: ports.to_vec(),
            })
        };
        let number = |number: u32| Value::Stream(number.to_be_bytes().into());
        let count = u32::try_from(front.len()).unwrap_or(u32::MAX);
        let settings = self
            .rows
            .get(&DEVICE)
            .and_then(|rows| rows.get(&0))
            .cloned();
        let mut facts = row([
            (1, Value::StrVal("ebb-switch".into())),
            (2, number(pipes)),
            (3, number(STAGES[usize::from(self.is_second)])),
            (4, number(count)),
            (5, number(count)),
            (6, number(0)),
            (7, list(&[])),
            (8, list(&back)),
            (9, list(&front)),
            (10, list(&back)),
            (11, Value::BoolVal(false)),
            (12, Value::BoolVal(false)),
            (13, number(0)),
            (14, number(500)),
            (15, Value::BoolVal(false)),
            (16, Value::BoolVal(false)),
        ]);
        facts.extend(settings.unwrap_or_default());
        facts
    }
}

/// Members of lists added, or taken away.
fn added(spec: &Spec, entry: &bf::TableEntry, row: Row) -> Result<Row> {
    let takes = takes_away(entry);
    let given = checked(spec, entry, Row::new())?;
    // Lists of a row belong together: what goes are the places of the members of the first of them.
    let mut made = row.clone();
    let lists = spec.data.iter().filter(|(.., repeated)| *repeated);
    let first = lists.clone().find(|(id, ..)| given.contains_key(id));
    let gone = first.map_or_else(Vec::new, |(id, ..)| numbers(&given, *id));
    let places = first.map_or_else(Vec::new, |(id, ..)| numbers(&row, *id));
    for (id, _, ty, _) in lists {
        let mut all = numbers(&row, *id);
        if takes {
            let stays = |place: usize| places.get(place).is_none_or(|n| !gone.contains(n));
            let mut place = 0;
            let long = all.len() == places.len();
            all.retain(|_| {
                place += 1;
                !long || stays(place - 1)
            });
        } else {
            all.extend(numbers(&given, *id));
        }
        if made.contains_key(id) || given.contains_key(id) {
            let field = bf::DataField {
                field_id: *id,
                value: Some(if *ty == "bool" {
                    Value::BoolArrVal(BoolArray {
                        val: all.iter().map(|n| *n != 0).collect(),
                    })
                } else {
                    let val = all.iter().map(|n| u32::try_from(*n).unwrap_or(u32::MAX));
                    Value::IntArrVal(IntArray { val: val.collect() })
                }),
            };
            made.insert(*id, field);
        }
    }
    Ok(made)
}

/// The copies that a node makes.
fn copies(node: &Row) -> impl Iterator<Item = p4::Replica> {
    let instance = u32::try_from(number(node, column::NODE_RID)).unwrap_or(u32::MAX);
    let ports = numbers(node, column::NODE_PORTS);
    ports.into_iter().map(move |port| replica(port, instance))
}

/// The ids by which level 1 excludes the copies of a group, those of its nodes.
fn exclusions(group: &Row, nodes: &[&Row]) -> HashMap<Replica, u16> {
    let valid = numbers(group, column::GROUP_XID_VALID);
    let ids = numbers(group, column::GROUP_XID);
    let of_nodes = nodes.iter().zip(valid.into_iter().zip(ids));
    let of_nodes = of_nodes.filter(|(_, (is_valid, _))| *is_valid != 0);
    let short = |number| u16::try_from(number).unwrap_or(u16::MAX);
    let of_copies = of_nodes.flat_map(|(node, (_, id))| {
        let instance = short(number(node, column::NODE_RID));
        let ports = numbers(node, column::NODE_PORTS).into_iter();
        ports.map(move |port| {
            let port = short(port);
            (Replica { port, instance }, short(id))
        })
    });
    of_copies.collect()
}

fn replica(port: u64, instance: u32) -> p4::Replica {
    p4::Replica {
        instance,
        port_kind: Some(p4::replica::PortKind::Port(bytes_of(port))),
        ..p4::Replica::default()
    }
}

/// Has a port without a link lead back to ingress, by whichever of the chip's modes.
fn set_loopback(ctx: &mut Context, port: u64, row: Option<&Row>) {
    let mode = row.and_then(|row| row.get(&column::LOOPBACK_MODE));
    let mode = mode.and_then(|field| field.value.as_ref());
    let is_looped = matches!(mode, Some(Value::StrVal(mode)) if mode != NO_LOOPBACK);
    if let Ok(port) = u16::try_from(port) {
        ctx.pipeline.set_loopback(port, is_looped);
    }
}

/// Makes a port that of `copy_to_cpu`, or takes that away again.
fn set_copy_port(ctx: &mut Context, port: u64, row: Option<&Row>) -> Result<()> {
    let port = u16::try_from(port).ok().filter(|port| *port < NO_PORT);
    let port = port.ok_or_else(|| {
        EntityError::out_of_range(format!("the port; allowed: 0 to {}", NO_PORT - 1))
    })?;
    if row.is_some_and(|row| row.contains_key(&column::BACKUP_PORT)) {
        return Err(EntityError::unimplemented(
            "there are no backup ports here; P4Runtime has them for members of groups",
        ));
    }
    let wanted = row.is_some_and(|row| number(row, column::CPU_COPIES) != 0);
    match ctx.pipeline.cpu_port() {
        _ if wanted => ctx.pipeline.set_cpu_port(Some(port)),
        Some(present) if present == port => ctx.pipeline.set_cpu_port(None),
        _ => {}
    }
    Ok(())
}

/// Sets a group of P4Runtime; `None` deletes it.
fn set_group(ctx: &mut Context, group: u64, replicas: Option<Vec<p4::Replica>>) -> Result<()> {
    let multicast_group_id = match group {
        0 => GROUP_0,
        group => u32::try_from(group).unwrap_or(u32::MAX),
    };
    let exists = ctx.store.multicast_groups.contains_key(&multicast_group_id);
    let kind = kind(replicas.is_some(), exists);
    let entry = Replication::MulticastGroupEntry(p4::MulticastGroupEntry {
        multicast_group_id,
        replicas: replicas.unwrap_or_default(),
        ..p4::MulticastGroupEntry::default()
    });
    replicate(ctx, kind, entry)
}

fn set_session(ctx: &mut Context, session: u64, row: Option<&Row>) -> Result<()> {
    let session_id = u32::try_from(session).unwrap_or(u32::MAX);
    let exists = ctx.store.clone_sessions.contains_key(&session_id);
    let flag = |column| row.is_some_and(|row| number(row, column) != 0);
    if flag(column::GROUP_A_VALID) || flag(column::GROUP_B_VALID) {
        return Err(EntityError::unimplemented(
            "copies go to a port, not to a multicast group",
        ));
    }
    if flag(column::COPY_TO_CPU) {
        return Err(EntityError::unimplemented("there is no $copy_to_cpu here"));
    }
    let wanted = row.filter(|_| flag(column::ENABLED) && flag(column::PORT_VALID));
    if wanted.is_none() && !exists {
        return Ok(());
    }
    let mut entry = p4::CloneSessionEntry {
        session_id,
        ..p4::CloneSessionEntry::default()
    };
    if let Some(row) = wanted {
        entry.replicas = vec![replica(number(row, column::PORT), 0)];
        entry.class_of_service = u32::try_from(number(row, column::QUEUE)).unwrap_or(u32::MAX);
        let longest = number(row, column::LONGEST);
        entry.packet_length_bytes = match longest {
            WHOLE_PACKET => 0,
            bytes => i32::try_from(bytes).unwrap_or(i32::MAX),
        };
    }
    let kind = kind(wanted.is_some(), exists);
    replicate(ctx, kind, Replication::CloneSessionEntry(entry))
}

fn kind(wanted: bool, exists: bool) -> p4::update::Type {
    match (wanted, exists) {
        (false, _) => p4::update::Type::Delete,
        (true, true) => p4::update::Type::Modify,
        (true, false) => p4::update::Type::Insert,
    }
}

fn replicate(ctx: &mut Context, kind: p4::update::Type, entry: Replication) -> Result<()> {
    let entry = p4::PacketReplicationEngineEntry {
        r#type: Some(entry),
    };
    change(ctx, kind, Entity::PacketReplicationEngineEntry(entry))
}
