//! A forwarding pipeline config: P4Info, device configuration, and what was written to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ebb_bmv2_json::Program;
use ebb_pipeline::control::MatchKind;
use ebb_pipeline::{ActionId, DigestId, Pipeline};
use prost::Message;
use tonic::Status;

use crate::device::Switch;
use crate::entities::{self, Context, match_kind};
use crate::error::{EntityError, Result};
use crate::p4info::{Index, Object};
use crate::proto::config::{self, P4Info};
use crate::proto::p4::ForwardingPipelineConfig;
use crate::store::Store;

/// A config that was verified. Until it is committed it has its pipeline with it, and takes writes
/// there: committing only puts that pipeline into the switch.
pub struct Forwarding {
    pub config: ForwardingPipelineConfig,
    pub info: Index,
    /// The P4Info's ids of the pipeline's digests.
    pub digests: HashMap<DigestId, u32>,
    pub store: Mutex<Store>,
    detached: Mutex<Option<Pipeline>>,
}

impl Forwarding {
    pub fn verify(config: ForwardingPipelineConfig) -> Result<Self> {
        let empty = P4Info::default();
        let info = Index::new(config.p4info.as_ref().unwrap_or(&empty))?;
        let pipeline = load(&config.p4_device_config)?;
        check(&info, &pipeline)?;
        let store = Store::new(&info, &pipeline)?;
        let digests = info.digests.values().map(|digest| {
            let id = pipeline.digest(digest.name())?;
            Ok((id, digest.id()))
        });
        Ok(Self {
            digests: digests.collect::<Result<_>>()?,
            store: Mutex::new(store),
            detached: Mutex::new(Some(pipeline)),
            info,
            config,
        })
    }

    /// Puts the pipeline into the switch.
    pub fn install(&self, switch: &mut dyn Switch) {
        if let Some(pipeline) = lock(&self.detached).take() {
            switch.install(pipeline);
        }
    }

    /// Runs `f` on the pipeline, wherever it is.
    pub fn with<R>(
        &self,
        switch: &mut dyn Switch,
        f: impl FnOnce(&mut Context) -> R,
    ) -> Result<R, Status> {
        let now = switch.now();
        let mut detached = lock(&self.detached);
        let pipeline = match detached.as_mut() {
            Some(pipeline) => pipeline,
            None => switch
                .pipeline()
                .ok_or_else(|| Status::internal("the switch has lost its pipeline"))?,
        };
        Ok(f(&mut Context {
            info: &self.info,
            store: &mut lock(&self.store),
            pipeline,
            now,
        }))
    }

    /// Writes what `old` holds to this config (spec: RECONCILE_AND_COMMIT). Counters and registers
    /// start again at zero.
    pub fn take_over(&self, old: &Forwarding, switch: &mut dyn Switch) -> Result<()> {
        let updates = entities::restore_updates(&old.info, &lock(&old.store));
        let restored = self.with(switch, |ctx| {
            updates.iter().try_for_each(|u| entities::restore(ctx, u))
        });
        restored
            .map_err(|status| EntityError::internal(status.message()))?
            .map_err(|e| {
                EntityError::invalid(format!(
                    "the present state does not fit the new config: {e}"
                ))
            })
    }
}

/// A lock that a panic elsewhere does not take away: the values are whole after every update.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The older wrapper that the P4 tutorials still send around the JSON (p4.tmp.P4DeviceConfig).
#[derive(Clone, PartialEq, Message)]
struct P4DeviceConfig {
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

fn load(device_config: &[u8]) -> Result<Pipeline> {
    let starts_as_json = |bytes: &[u8]| bytes.trim_ascii_start().first() == Some(&b'{');
    let wrapped = P4DeviceConfig::decode(device_config).ok();
    let json = match wrapped {
        _ if starts_as_json(device_config) => device_config.to_vec(),
        Some(wrapper) if starts_as_json(&wrapper.device_data) => wrapper.device_data,
        _ => {
            let size = device_config.len();
            return Err(EntityError::invalid(format!(
                "p4_device_config ({size} bytes) is not BMv2 JSON; give the .json file that \
                 ebb-p4c or p4c-bm2-ss wrote"
            )));
        }
    };
    let program: Program = serde_json::from_slice(&json)
        .map_err(|e| EntityError::invalid(format!("p4_device_config is not BMv2 JSON: {e}")))?;
    Pipeline::load(&program)
        .map_err(|e| EntityError::invalid(format!("p4_device_config cannot be loaded: {e}")))
}

/// What the P4Info promises must be in the program: P4Info and JSON of one compilation.
fn check(info: &Index, pipeline: &Pipeline) -> Result<()> {
    let missing = |kind: &str, name: &str, why: &dyn std::fmt::Display| {
        EntityError::invalid(format!(
            "P4Info and p4_device_config do not belong together: {kind} '{name}': {why}"
        ))
    };
    for t in info.tables.values() {
        check_table(info, pipeline, t).map_err(|e| missing("table", t.name(), &e))?;
    }
    macro_rules! check_names {
        ($($objects:ident by $find:ident),* $(,)?) => {$(
            for object in info.$objects.values() {
                pipeline
                    .$find(object.name())
                    .map_err(|e| missing(kind(object), object.name(), &e))?;
            }
        )*};
    }
    check_names!(
        action_profiles by profile,
        counters by counter,
        meters by meter,
        registers by register,
        digests by digest,
        value_sets by value_set,
    );
    Ok(())
}

fn kind<T: Object>(_: &T) -> &'static str {
    T::KIND
}

fn check_table(info: &Index, pipeline: &Pipeline, table: &config::Table) -> Result<()> {
    let id = pipeline.table(table.name())?;
    let has = pipeline.table_info(id);
    if has.key.len() != table.match_fields.len() {
        return Err(EntityError::invalid(format!(
            "{} match fields in the P4Info, {} in the JSON",
            table.match_fields.len(),
            has.key.len()
        )));
    }
    for (field, key) in table.match_fields.iter().zip(&has.key) {
        let fits = key.kind == match_kind(field)? || key.kind == MatchKind::Valid;
        let same_width = key.bits as i32 == field.bitwidth || field.type_name.is_some();
        if !fits || !same_width {
            return Err(EntityError::invalid(format!(
                "match field '{}' has {} bits in the P4Info; the JSON has '{}', {:?}, {} bits",
                field.name, field.bitwidth, key.name, key.kind, key.bits
            )));
        }
    }
    for reference in &table.action_refs {
        let action = info.action(reference.id)?;
        let found = match has.profile {
            Some(profile) => pipeline
                .profile_action(profile, action.name())
                .or_else(|_| pipeline.table_action(id, action.name()))?,
            None => pipeline.table_action(id, action.name())?,
        };
        check_action(pipeline, action, found)?;
    }
    Ok(())
}

fn check_action(pipeline: &Pipeline, action: &config::Action, id: ActionId) -> Result<()> {
    let has = pipeline.action_info(id).params;
    let widths: Vec<_> = action.params.iter().map(|p| p.bitwidth).collect();
    let found: Vec<_> = has.iter().map(|(_, bits)| *bits as i32).collect();
    let translated = action.params.iter().any(|p| p.type_name.is_some());
    if widths.len() != found.len() || (widths != found && !translated) {
        return Err(EntityError::invalid(format!(
            "action '{}' has parameters of {widths:?} bits in the P4Info, of {found:?} in the JSON",
            action.name()
        )));
    }
    Ok(())
}

/// The config that is in force and the one that waits for COMMIT.
#[derive(Default)]
pub struct Configs {
    pub committed: Option<Arc<Forwarding>>,
    pub saved: Option<Arc<Forwarding>>,
}

impl Configs {
    /// What reads and writes refer to.
    pub fn active(&self) -> Option<Arc<Forwarding>> {
        self.saved.clone().or_else(|| self.committed.clone())
    }
}
