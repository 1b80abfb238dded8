//! Updates and reads of BF Runtime on a pipeline.

use ebb_units::{Duration, Instant};
use tonic::Code;

use super::answer;
use super::chip_tables;
use super::entries::{change, everything, no_entry, only, read_part, with_resources};
use super::groups;
use super::request::{self, has_counter, is_fixed};
use super::schema::{Kind, Schema, Table, fixed};
use super::state::{ALL_PIPES, Counts, DEFAULT_ENTRY, State, canonical_key, check_supported};
use super::tables;
use super::{filters, hashes};
use crate::entities::{self, Context, Position};
use crate::error::{EntityError, Result};
use crate::proto::bf_runtime as bf;
use crate::proto::bf_runtime::entity::Entity as Element;
use crate::proto::bf_runtime::table_attribute::Attribute;
use crate::proto::bf_runtime::update::Type;
use crate::proto::p4;
use crate::proto::p4::entity::Entity;

/// The operation that looks whether entries were hit; others are about counters and registers.
const UPDATE_HIT_STATE: &str = "UpdateHitState";

/// How many entries an operation looks at in a part, where all parts are done together.
const ALL_AT_ONCE: usize = 1000;

/// Program, state and target of a request.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// Tables of the program.
    pub schema: &'a Schema,
    /// Pipe, gress and parser that the request is for, unless an entry says otherwise.
    pub target: Option<&'a bf::TargetDevice>,
}

impl Scope<'_> {
    /// The pipe that a request is for.
    fn pipe(&self) -> u32 {
        self.target.map_or(ALL_PIPES, |target| target.pipe_id)
    }
}

/// Carries out one update, or a part of it: an operation on a table looks at about `limit` entries. None: there are
/// more.
pub fn write_part(
    ctx: &mut Context,
    scope: Scope,
    state: &mut State,
    update: &bf::Update,
    (operation, limit): (&mut Operation, usize),
) -> Option<Result<()>> {
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(Element::TableOperation(asked)) => {
            let ended = operation.part(ctx, scope, state, asked, limit);
            ended.map(|ended| ended.then_some(())).transpose()
        }
        _ => Some(write(ctx, scope, state, update)),
    }
}

/// Carries out one update.
pub fn write(
    ctx: &mut Context,
    scope: Scope,
    state: &mut State,
    update: &bf::Update,
) -> Result<()> {
    match update.entity.as_ref().and_then(|e| e.entity.as_ref()) {
        Some(Element::TableEntry(entry)) => {
            write_entry(ctx, scope, state, (update.r#type(), entry))
        }
        Some(Element::TableOperation(asked)) => {
            let mut operation = Operation::default();
            while !operation.part(ctx, scope, state, asked, ALL_AT_ONCE)? {}
            Ok(())
        }
        Some(Element::TableAttribute(attribute)) => write_attribute(ctx, scope, state, attribute),
        Some(Element::TableUsage(_) | Element::Handle(_)) => {
            Err(EntityError::invalid("usage and handles are only read"))
        }
        None => Err(EntityError::unimplemented(
            "the update is of nothing that is known here",
        )),
    }
}

fn write_attribute(
    ctx: &mut Context,
    scope: Scope,
    state: &mut State,
    attribute: &bf::TableAttribute,
) -> Result<()> {
    let table = scope.schema.table(attribute.table_id)?;
    if let Some(Attribute::DynKeyMask(mask)) = &attribute.attribute {
        check_supported(table, &Attribute::DynKeyMask(mask.clone()))?;
        return tables::set_key_mask(ctx, table, mask);
    }
    state.set_attribute(table, attribute, scope.pipe())?;
    match &attribute.attribute {
        Some(Attribute::IdleTable(_)) => state.set_clock(ctx, table),
        Some(Attribute::ByteCountAdj(adjust)) => {
            tables::adjust_meters(ctx, table, adjust.byte_count_adjust)
        }
        _ => Ok(()),
    }
}

fn write_entry(
    ctx: &mut Context,
    scope: Scope,
    state: &mut State,
    (kind, entry): (Type, &bf::TableEntry),
) -> Result<()> {
    let schema = scope.schema;
    if chip_tables::has(entry.table_id) {
        return state.chip.write(ctx, kind, entry);
    }
    let table = schema.table(entry.table_id)?;
    let target = entry.entry_tgt.as_ref().or(scope.target);
    state.check_target(table, target)?;
    let of_group = (table.kind == Kind::Group).then(|| whole_group(ctx, table, state, kind, entry));
    let of_group = of_group.transpose()?;
    let (kind, entry) = match &of_group {
        Some((kind, entry)) => (*kind, entry),
        None => (kind, entry),
    };
    let is_kept = table.kind == Kind::Match && !matches!(kind, Type::Delete | Type::Reset);
    if is_kept {
        groups::check_entry(ctx, schema, table, entry)?;
    }
    if table.kind == Kind::Group && kind == Type::Modify {
        groups::check_pipe(ctx, schema, state, table, target)?;
        groups::check_group(ctx, schema, table, entry)?;
    }
    let cells = match is_kept {
        true => tables::direct_register_values(table, entry)?,
        false => Vec::new(),
    };
    let filter = match is_kept {
        true => filters::change_of(ctx, table, kind, entry)?,
        false => None,
    };
    written(ctx, table, kind, entry)?;
    tables::write_direct_registers(ctx, table, entry, &cells)?;
    filters::carry_out(ctx, table, entry, filter)?;
    if table.kind == Kind::Group {
        return state.group_written(table, entry, kind == Type::Delete);
    }
    if table.has(fixed::HIT_STATE) && !entry.is_default_entry {
        match kind {
            Type::Delete => state.hits.deleted(&canonical(table, entry)?),
            _ => {
                let is_new = kind == Type::Insert;
                let entry = canonical(table, entry)?;
                state.hits.written(ctx.now, table, &entry, is_new);
            }
        }
    }
    match kind {
        Type::ModifyInc => Ok(()),
        Type::Modify if entry.data.as_ref().is_none_or(|data| !has_counter(data)) => Ok(()),
        _ => state.counts_written(table, entry),
    }
}

/// A change of a group as a whole one, with inactive members and the fields that the update leaves out.
fn whole_group(
    ctx: &mut Context,
    table: &Table,
    state: &State,
    kind: Type,
    entry: &bf::TableEntry,
) -> Result<(Type, bf::TableEntry)> {
    let is_change = matches!(kind, Type::Modify | Type::ModifyInc | Type::InsertOrModify);
    if !is_change || entry.key.is_none() {
        return Ok((kind, entry.clone()));
    }
    let mut present = match only(ctx, table, entry) {
        Err(missing) if kind == Type::InsertOrModify && missing.code == Code::NotFound => {
            return Ok((Type::Insert, entry.clone()));
        }
        found => found?,
    };
    state.show_members(table, &mut present);
    let given = entry.data.clone().unwrap_or_default();
    let data = present.data.get_or_insert_default();
    if kind == Type::ModifyInc {
        tables::change_members(data, &given, request::takes_away(entry));
    } else {
        data.fields
            .retain(|field| request::field(&given, field.field_id).is_none());
        data.fields.extend(given.fields);
    }
    Ok((Type::Modify, present))
}

/// The entry with its key as reads give it.
fn canonical(table: &Table, entry: &bf::TableEntry) -> Result<bf::TableEntry> {
    let key = match entry.key {
        Some(_) => canonical_key(table, entry)?,
        None => None,
    };
    Ok(bf::TableEntry {
        key,
        ..entry.clone()
    })
}

/// An operation on its way through the entries of a table.
#[derive(Default)]
pub struct Operation(Position);

impl Operation {
    /// Does the operation for about `limit` entries. True: there are no more.
    pub fn part(
        &mut self,
        ctx: &mut Context,
        scope: Scope,
        state: &mut State,
        asked: &bf::TableOperation,
        limit: usize,
    ) -> Result<bool> {
        let table = scope.schema.table(asked.table_id)?;
        let is_of_hits = asked.table_operations_type == UPDATE_HIT_STATE;
        if !is_of_hits && !table.has_counts() {
            // Registers are always those of the data plane.
            return Ok(true);
        }
        let filter = with_resources(table, request::all_of(table)?);
        let mut found = Vec::new();
        let ended = read_part(ctx, &filter, (&mut self.0, limit), &mut found)?;
        for entity in found.into_iter().filter_map(|of| of.entity) {
            let last_hit = last_hit(ctx, &entity);
            let Some(entry) = answer::entry(table, entity) else {
                continue;
            };
            match (is_of_hits, last_hit) {
                (false, _) => state.keep_counts(table, &entry),
                (true, Some(last_hit)) => state.hits.update(ctx.now, &entry, last_hit),
                (true, None) => {}
            }
        }
        Ok(ended)
    }
}

/// When an entry that was read was last hit; none: its table has no idle timeouts.
fn last_hit(ctx: &Context, entity: &Entity) -> Option<Instant> {
    let Entity::TableEntry(entry) = entity else {
        return None;
    };
    let elapsed = u64::try_from(entry.time_since_last_hit?.elapsed_ns).ok()?;
    let elapsed = Duration::from_nanos(elapsed);
    Some(Instant::from_picos(
        ctx.now.as_picos().saturating_sub(elapsed.as_picos()),
    ))
}

fn written(ctx: &mut Context, table: &Table, kind: Type, entry: &bf::TableEntry) -> Result<()> {
    match table.kind {
        Kind::ValueSet => return tables::write_value_set(ctx, table, kind, entry),
        Kind::PortMetadata => return tables::write_port_metadata(ctx, table, kind, entry),
        Kind::RegisterParam => return tables::write_register_param(ctx, table, kind, entry),
        Kind::Filter => return filters::write(ctx, table, kind, entry),
        Kind::HashInputs | Kind::HashAlgorithm => return hashes::write(ctx, table, kind, entry),
        _ => {}
    }
    let lasting = is_fixed(table) || entry.is_default_entry;
    match kind {
        Type::Delete | Type::Reset if lasting => reset(ctx, table, entry),
        Type::Delete => delete(ctx, table, entry),
        Type::Insert | Type::Modify | Type::InsertOrModify if lasting => change(
            ctx,
            p4::update::Type::Modify,
            request::entity(table, entry)?,
        ),
        Type::Insert => change(
            ctx,
            p4::update::Type::Insert,
            request::entity(table, entry)?,
        ),
        Type::Modify if table.kind == Kind::Group => match request::entity(table, entry)? {
            Entity::ActionProfileGroup(group) => {
                entities::write_resizable_group(ctx, entities::Change::Modify, &group)
            }
            other => change(ctx, p4::update::Type::Modify, other),
        },
        Type::Modify => modify(ctx, table, entry),
        Type::InsertOrModify => {
            let entity = request::entity(table, entry)?;
            match change(ctx, p4::update::Type::Insert, entity.clone()) {
                Err(error) if error.code == Code::AlreadyExists => {
                    change(ctx, p4::update::Type::Modify, entity)
                }
                done => done,
            }
        }
        Type::Reset => Err(EntityError::invalid(
            "only default entries and objects are reset",
        )),
        Type::ModifyInc => tables::add(ctx, table, entry),
        Type::Unspecified => Err(EntityError::invalid("an update without a type")),
    }
}

/// Data without an action sets the entry's counter or meter and leaves its action; parameters that are left out stay
/// those that the entry has, if it has the same action.
fn modify(ctx: &mut Context, table: &Table, entry: &bf::TableEntry) -> Result<()> {
    let Some(data) = entry.data.as_ref().filter(|_| table.kind == Kind::Match) else {
        return change(
            ctx,
            p4::update::Type::Modify,
            request::entity(table, entry)?,
        );
    };
    let is_whole = match data.action_id {
        0 => request::field(data, fixed::MEMBER)
            .or(request::field(data, fixed::GROUP))
            .is_some(),
        id => {
            let params = &table.action(id)?.data;
            params
                .iter()
                .all(|param| request::field(data, param.id).is_some())
        }
    };
    let mut data = data.clone();
    if !is_whole {
        let old = only(ctx, table, entry)?.data.unwrap_or_default();
        let is_same = data.action_id == 0 || data.action_id == old.action_id;
        let belongs = |field: &bf::DataField| {
            let params = table
                .action(old.action_id)
                .map_or(&[][..], |action| &action.data);
            params.iter().any(|param| param.id == field.field_id)
                || matches!(field.field_id, fixed::MEMBER | fixed::GROUP)
        };
        if is_same {
            data.action_id = old.action_id;
            let stay = old.fields.into_iter().filter(belongs);
            let stay: Vec<_> = stay
                .filter(|of| request::field(&data, of.field_id).is_none())
                .collect();
            data.fields.extend(stay);
        }
    }
    // A write of P4Runtime without a meter would reset it.
    if table.has_meter()
        && !data
            .fields
            .iter()
            .any(|field| fixed::is_meter(field.field_id))
    {
        let old = only(ctx, table, entry)?.data.unwrap_or_default();
        let rates = old
            .fields
            .into_iter()
            .filter(|field| fixed::is_meter(field.field_id));
        data.fields.extend(rates);
    }
    let has_timeout = request::field(&data, fixed::TTL).is_some();
    let entry = bf::TableEntry {
        data: Some(data),
        ..entry.clone()
    };
    let mut entity = request::entity(table, &entry)?;
    // The rest of a timeout is not the timeout.
    if let Entity::TableEntry(new) = &mut entity
        && table.has(fixed::TTL)
        && !has_timeout
    {
        new.idle_timeout_ns = idle_timeout_ns(ctx, table, &entry)?;
    }
    change(ctx, p4::update::Type::Modify, entity)
}

/// The idle timeout of an entry that is there; 0: it has none.
fn idle_timeout_ns(ctx: &mut Context, table: &Table, entry: &bf::TableEntry) -> Result<i64> {
    let filter = request::named(table, entry)?;
    let found = everything(ctx, &filter)?.into_iter();
    let timeouts = found.filter_map(|entity| match entity {
        Entity::TableEntry(entry) => Some(entry.idle_timeout_ns),
        _ => None,
    });
    Ok(timeouts.max().unwrap_or(0))
}

/// The default action of the program, or the first value of a cell of an object, of all cells without a key.
fn reset(ctx: &mut Context, table: &Table, entry: &bf::TableEntry) -> Result<()> {
    let entity = match request::named(table, entry)? {
        Entity::CounterEntry(cell) => Entity::CounterEntry(p4::CounterEntry {
            data: Some(p4::CounterData::default()),
            ..cell
        }),
        Entity::RegisterEntry(cell) => {
            let register = ctx.pipeline.register(tables::plain_name(ctx, table))?;
            let index = cell.index.map(|index| index.index.unsigned_abs());
            return Ok(ctx.pipeline.reset_register(register, index)?);
        }
        other => other,
    };
    change(ctx, p4::update::Type::Modify, entity)
}

/// An entry, or all of them without a key.
fn delete(ctx: &mut Context, table: &Table, entry: &bf::TableEntry) -> Result<()> {
    let filter = request::named(table, entry)?;
    if entry.key.is_some() {
        return change(ctx, p4::update::Type::Delete, filter);
    }
    for entity in everything(ctx, &filter)?.into_iter().filter(is_removable) {
        change(ctx, p4::update::Type::Delete, entity)?;
    }
    Ok(())
}

/// Neither a default entry nor one that the program gives for good.
fn is_removable(entity: &Entity) -> bool {
    match entity {
        Entity::TableEntry(entry) => !entry.is_default_action && !entry.is_const,
        _ => true,
    }
}

/// A read on its way: one element of a request.
pub struct Reading {
    kind: Asked,
    entry: bf::TableEntry,
    /// Whether the entry is named by its handle.
    is_by_handle: bool,
    counts: Counts,
    position: Position,
    /// How many cells of filters have been read.
    cells: u64,
    is_found: bool,
}

/// The value of an attribute of a table.
fn attribute(
    ctx: &mut Context,
    scope: Scope,
    state: &mut State,
    (table, asked): (&Table, &bf::TableAttribute),
) -> Result<bf::TableAttribute> {
    if let Some(mask @ Attribute::DynKeyMask(_)) = &asked.attribute {
        check_supported(table, mask)?;
        let mask = tables::key_mask(ctx, table)?;
        return Ok(bf::TableAttribute {
            table_id: table.id,
            attribute: Some(Attribute::DynKeyMask(mask)),
        });
    }
    state.attribute(table, asked, scope.pipe())
}

/// The kinds of reads.
enum Asked {
    Entries,
    /// How many there are.
    Usage(u32),
    Handle,
    Attribute(bf::TableAttribute),
}

impl Reading {
    /// The read that an element of a request asks for.
    pub fn new(element: &bf::Entity) -> Result<Reading> {
        let of = |table_id| bf::TableEntry {
            table_id,
            ..bf::TableEntry::default()
        };
        let (entry, kind) = match element.entity.as_ref() {
            Some(Element::TableEntry(entry)) => (entry.clone(), Asked::Entries),
            Some(Element::TableUsage(usage)) => (of(usage.table_id), Asked::Usage(0)),
            Some(Element::TableAttribute(asked)) => {
                (of(asked.table_id), Asked::Attribute(asked.clone()))
            }
            Some(Element::Handle(asked)) => {
                let key = match &asked.value {
                    Some(bf::handle_id::Value::Key(key)) => Some(key.clone()),
                    _ => return Err(EntityError::invalid("a handle is asked for by a key")),
                };
                let entry = bf::TableEntry {
                    key,
                    ..of(asked.table_id)
                };
                (entry, Asked::Handle)
            }
            Some(Element::TableOperation(_)) | None => {
                return Err(EntityError::unimplemented(
                    "the element is of nothing that is known here",
                ));
            }
        };
        let kept = entry.table_flags.is_some_and(|flags| !flags.from_hw);
        Ok(Reading {
            counts: if kept { Counts::Kept } else { Counts::Live },
            is_by_handle: entry.handle_id != 0,
            entry,
            kind,
            position: Position::default(),
            cells: 0,
            is_found: false,
        })
    }

    /// Adds about `limit` entries to `found`. True: there are no more.
    pub fn part(
        &mut self,
        ctx: &mut Context,
        scope: Scope,
        state: &mut State,
        (limit, found): (usize, &mut Vec<bf::Entity>),
    ) -> Result<bool> {
        if chip_tables::has(self.entry.table_id) {
            let entries = state.chip.read(ctx, &self.entry)?;
            match self.kind {
                Asked::Entries => found.extend(entries.into_iter().map(of_entry)),
                Asked::Usage(_) => found.push(usage(self.entry.table_id, entries.len())),
                _ => {
                    return Err(EntityError::unimplemented(
                        "this table has neither handles nor attributes",
                    ));
                }
            }
            return Ok(true);
        }
        let table = scope.schema.table(self.entry.table_id)?;
        if let Asked::Attribute(asked) = &self.kind {
            let attribute = attribute(ctx, scope, state, (table, asked))?;
            found.push(entity(Element::TableAttribute(attribute)));
            return Ok(true);
        }
        self.check_target(table, scope, state)?;
        if self.entry.handle_id == DEFAULT_ENTRY {
            self.entry.is_default_entry = true;
        } else if self.entry.handle_id != 0 {
            self.entry.key = Some(state.key_of(table.id, self.entry.handle_id)?);
        }
        self.entry.handle_id = 0;
        let (entries, ended) = self.next_entries(ctx, (scope, table), state, limit)?;
        for entry in entries {
            if entry.is_default_entry == self.entry.is_default_entry {
                self.add(table, state, entry, found)?;
            }
        }
        if !ended {
            return Ok(false);
        }
        if let Asked::Usage(count) = self.kind {
            found.push(usage(table.id, count as usize));
            return Ok(true);
        }
        match self.entry.key.is_some() && !self.is_found {
            true => Err(no_entry(table)),
            false => Ok(true),
        }
    }

    /// About `limit` more entries, and whether they are the last.
    fn next_entries(
        &mut self,
        ctx: &mut Context,
        (scope, table): (Scope, &Table),
        state: &mut State,
        limit: usize,
    ) -> Result<(Vec<bf::TableEntry>, bool)> {
        Ok(match table.kind {
            Kind::ValueSet => (tables::value_set(ctx, table, &self.entry)?, true),
            Kind::PortMetadata => (tables::port_metadata(ctx, table, &self.entry)?, true),
            Kind::RegisterParam => (vec![tables::register_param(ctx, table)?], true),
            Kind::HashInputs | Kind::HashAlgorithm => (vec![hashes::read(ctx, table)?], true),
            Kind::SelectedMember => (
                vec![groups::selected_member(
                    ctx,
                    scope.schema,
                    table,
                    &self.entry,
                )?],
                true,
            ),
            Kind::HashValue => (vec![hashes::compute(ctx, table, &self.entry)?], true),
            Kind::Filter => {
                let part = (self.cells, limit);
                let (cells, ended) = filters::read(ctx, table, &self.entry, part)?;
                self.cells += cells.len() as u64;
                (cells, ended)
            }
            _ => self.entries(ctx, table, state, limit)?,
        })
    }

    /// Adds an entry, or its handle, to `found`, or counts it, as the client asked for; one with another action than
    /// it named is left out.
    fn add(
        &mut self,
        table: &Table,
        state: &mut State,
        mut entry: bf::TableEntry,
        found: &mut Vec<bf::Entity>,
    ) -> Result<()> {
        self.is_found = true;
        if !self.has_action(&entry) {
            return match self.entry.key {
                Some(_) => Err(other_action(table)),
                None => Ok(()),
            };
        }
        match &mut self.kind {
            Asked::Usage(count) => *count += 1,
            Asked::Handle => {
                let key = entry.key.take().unwrap_or_default();
                let handle_id = state.handle(table, key)?;
                found.push(entity(Element::Handle(bf::HandleId {
                    table_id: table.id,
                    value: Some(bf::handle_id::Value::HandleId(handle_id)),
                })));
            }
            _ => {
                // Clients expect an entry that they named by a handle to look like any other.
                entry.is_default_entry &= !self.is_by_handle;
                if table.kind == Kind::Group {
                    state.show_members(table, &mut entry);
                }
                if table.has_counts() {
                    match self.counts {
                        Counts::Live => state.keep_counts(table, &entry),
                        Counts::Kept => state.show_kept(table, &mut entry),
                    }
                }
                found.push(of_entry(entry));
            }
        }
        Ok(())
    }

    /// Whether an entry has the action that is asked for; none is asked for: any.
    fn has_action(&self, entry: &bf::TableEntry) -> bool {
        let action = |entry: &bf::TableEntry| entry.data.as_ref().map_or(0, |data| data.action_id);
        let asked = action(&self.entry);
        asked == 0 || asked == action(entry)
    }

    /// As on the chip: what is kept of the entries of all pipes is that of all, and an entry of a single pipe is found
    /// from all of them by its handle only.
    fn check_target(&self, table: &Table, scope: Scope, state: &State) -> Result<()> {
        let target = self.entry.entry_tgt.as_ref().or(scope.target);
        let names_one = self.is_by_handle || self.entry.key.is_some();
        let is_default = self.entry.is_default_entry || self.entry.handle_id == DEFAULT_ENTRY;
        let pipe = target.filter(|_| table.kind == Kind::Match && names_one && !is_default);
        let Some(pipe) = pipe.map(|target| target.pipe_id) else {
            return state.check_target(table, target);
        };
        match (state.is_by_pipe(table), pipe == ALL_PIPES) {
            (true, true) if self.is_by_handle => Ok(()),
            (true, true) => Err(no_entry(table)),
            (false, false) if self.counts == Counts::Kept => Err(no_entry(table)),
            _ => state.check_target(table, target),
        }
    }

    fn entries(
        &mut self,
        ctx: &mut Context,
        table: &Table,
        state: &State,
        limit: usize,
    ) -> Result<(Vec<bf::TableEntry>, bool)> {
        let filter = with_resources(table, request::named(table, &self.entry)?);
        let mut entities = Vec::new();
        let part = (&mut self.position, limit);
        let ended = read_part(ctx, &filter, part, &mut entities)?;
        let is_kept = self.counts == Counts::Kept;
        let entries = entities.into_iter().filter_map(|e| {
            let entity = e.entity?;
            let idle = idle_times(&entity);
            let last_hit = last_hit(ctx, &entity);
            let mut entry = answer::entry(table, entity)?;
            if let Some(idle) = idle {
                state.clock(table.id).show(ctx.now, &mut entry, idle);
            }
            if let Some(last_hit) = last_hit.filter(|_| state.is_polled(table.id)) {
                state.hits.show(&mut entry, last_hit, is_kept);
            }
            Some(entry)
        });
        let mut entries: Vec<_> = entries.collect();
        if table.kind == Kind::Match {
            for entry in &mut entries {
                tables::show_direct_registers(ctx, table, entry)?;
                filters::show(ctx, table, entry)?;
            }
        }
        if let Some(cell_bytes) = ctx.pipeline.cell_bytes() {
            let entries = entries.iter_mut().filter_map(|entry| entry.data.as_mut());
            entries.for_each(|data| answer::limit_rates(data, cell_bytes));
        }
        Ok((entries, ended))
    }
}

/// Idle timeout of an entry that was read, and the time since its last hit; none: it has no timeout.
fn idle_times(entity: &Entity) -> Option<(Duration, Duration)> {
    let Entity::TableEntry(entry) = entity else {
        return None;
    };
    let timeout = u64::try_from(entry.idle_timeout_ns)
        .ok()
        .filter(|ns| *ns > 0)?;
    let elapsed = u64::try_from(entry.time_since_last_hit?.elapsed_ns).ok()?;
    Some((Duration::from_nanos(timeout), Duration::from_nanos(elapsed)))
}

fn other_action(table: &Table) -> EntityError {
    EntityError::invalid(format!(
        "the entry of {} has another action than the one that is asked for",
        table.name
    ))
}

fn of_entry(entry: bf::TableEntry) -> bf::Entity {
    entity(Element::TableEntry(entry))
}

fn usage(table_id: u32, count: usize) -> bf::Entity {
    let usage = u32::try_from(count).unwrap_or(u32::MAX);
    entity(Element::TableUsage(bf::TableUsage { table_id, usage }))
}

fn entity(entity: bf::entity::Entity) -> bf::Entity {
    bf::Entity {
        entity: Some(entity),
    }
}
