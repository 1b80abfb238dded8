//! Data of the P4Info and of the pipeline for writes to a table, looked up once per program.

use std::collections::HashMap;

use ebb_pipeline::{ActionId, Pipeline, TableId};

use crate::entities::matching::needs_priority;
use crate::error::Result;
use crate::p4info::{Index, Object};
use crate::proto::config;

#[derive(Debug)]
pub struct TablePlan {
    pub id: TableId,
    pub needs_priority: bool,
    pub has_counter: bool,
    /// Type of the direct meter; none: there is none.
    pub meter: Option<config::meter_spec::Type>,
    /// The pipeline's actions by P4Info id; those of a profile's members are the profile's.
    pub actions: HashMap<u32, ActionId>,
}

pub type Plans = HashMap<u32, TablePlan>;

pub fn plans(info: &Index, pipeline: &Pipeline) -> Result<Plans> {
    let tables = info.tables.values();
    tables
        .map(|t| Ok((t.id(), plan(info, t, pipeline)?)))
        .collect()
}

fn plan(info: &Index, table: &config::Table, pipeline: &Pipeline) -> Result<TablePlan> {
    let id = pipeline.table(table.name())?;
    let meter = info.direct_meter_of(table);
    let action = |reference: &config::ActionRef| {
        let name = info.action(reference.id)?.name();
        Ok((reference.id, action_of(pipeline, id, name)?))
    };
    Ok(TablePlan {
        id,
        needs_priority: needs_priority(&table.match_fields),
        has_counter: info.direct_counter_of(table).is_some(),
        meter: meter.map(|m| meter_type(m.spec.as_ref())),
        actions: table
            .action_refs
            .iter()
            .map(action)
            .collect::<Result<_>>()?,
    })
}

/// An action of a table or, if it has one, of its profile.
pub fn action_of(pipeline: &Pipeline, table: TableId, name: &str) -> Result<ActionId> {
    let of_profile = match pipeline.table_info(table).profile {
        Some(profile) => pipeline.profile_action(profile, name).ok(),
        None => None,
    };
    match of_profile {
        Some(action) => Ok(action),
        None => Ok(pipeline.table_action(table, name)?),
    }
}

pub fn meter_type(spec: Option<&config::MeterSpec>) -> config::meter_spec::Type {
    spec.map_or_else(Default::default, config::MeterSpec::r#type)
}
