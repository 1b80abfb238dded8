//! A forwarding pipeline config of one switch, and the entities written to it.

use std::sync::{Arc, Mutex};

use ebb_pipeline::Pipeline;
use ebb_traffic_manager::ConfigError;
use ebb_units::Instant;
use tonic::Status;

use crate::device::Switch;
use crate::entities::{self, Context};
use crate::error::{EntityError, Result};
use crate::lock::lock;
use crate::programs::{Loaded, Programs};
use crate::proto::p4::ForwardingPipelineConfig;
use crate::proto::p4::forwarding_pipeline_config::Cookie;
use crate::store::Store;
use crate::translation::{Names, SpecialPorts};

/// A config that was verified. It holds its pipeline, and applies writes to it, until it is committed:
/// that only moves the pipeline into the switch.
pub struct Forwarding {
    /// State that switches with the same program share.
    pub loaded: Arc<Loaded>,
    /// The controller's own name for the config.
    pub cookie: Option<Cookie>,
    pub store: Mutex<Store>,
    /// Values of translated types.
    pub names: Mutex<Names>,
    /// The pipeline. `None`: a switch has it.
    detached: Mutex<Option<Pipeline>>,
}

impl Forwarding {
    pub fn verify(programs: &Programs, config: ForwardingPipelineConfig) -> Result<Self> {
        let cookie = config.cookie;
        Ok(Self::new(programs.load(config)?, cookie))
    }

    /// A config of a program, to which nothing is written yet.
    pub fn new(loaded: Arc<Loaded>, cookie: Option<Cookie>) -> Self {
        let pipeline = Pipeline::new(loaded.program.clone());
        let store = Store::new(&loaded.info);
        let names = Names::new(&loaded.info.types);
        Self {
            cookie,
            store: Mutex::new(store),
            names: Mutex::new(names),
            detached: Mutex::new(Some(pipeline)),
            loaded,
        }
    }

    /// Checks that the switch takes the pipeline.
    pub fn check(&self, switch: &dyn Switch) -> Result<()> {
        match &*lock(&self.detached) {
            Some(pipeline) => switch.check_program(pipeline).map_err(refused),
            None => Ok(()),
        }
    }

    /// Puts the pipeline into the switch.
    pub fn install(&self, switch: &mut dyn Switch) -> Result<()> {
        match lock(&self.detached).take() {
            Some(pipeline) => switch.install(pipeline).map_err(refused),
            None => Ok(()),
        }
    }

    /// Runs `f` on the pipeline, here or in the switch.
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
        Ok(f(&mut self.context(
            pipeline,
            now,
            &mut lock(&self.names),
            &mut lock(&self.store),
        )))
    }

    /// Runs `f` on the pipeline while no switch has it. `None`: one has.
    pub fn with_detached<R>(&self, now: Instant, f: impl FnOnce(&mut Context) -> R) -> Option<R> {
        let mut detached = lock(&self.detached);
        let (mut names, mut store) = (lock(&self.names), lock(&self.store));
        let mut context = self.context(detached.as_mut()?, now, &mut names, &mut store);
        Some(f(&mut context))
    }

    fn context<'a>(
        &'a self,
        pipeline: &'a mut Pipeline,
        now: Instant,
        names: &'a mut Names,
        store: &'a mut Store,
    ) -> Context<'a> {
        names.set_special(SpecialPorts::of(pipeline));
        Context {
            info: &self.loaded.info,
            plans: &self.loaded.plans,
            names,
            store,
            pipeline,
            now,
        }
    }

    /// Writes the entities of `old` to this config (spec: RECONCILE_AND_COMMIT). Counters and registers
    /// start again at zero.
    pub fn take_over(&self, old: &Forwarding, switch: &mut dyn Switch) -> Result<()> {
        let internal = |status: Status| EntityError::internal(status.message());
        let updates = old.with(switch, entities::restore_updates);
        let updates = updates.map_err(internal)??;
        let restored = self.with(switch, |ctx| {
            updates.iter().try_for_each(|u| entities::restore(ctx, u))
        });
        restored.map_err(internal)?.map_err(|e| {
            EntityError::invalid(format!(
                "the present state does not fit the new config: {e}"
            ))
        })
    }
}

fn refused(problem: ConfigError) -> EntityError {
    EntityError::invalid(problem.to_string())
}

/// The config that is in force and the one that waits for COMMIT.
#[derive(Default)]
pub struct Configs {
    pub committed: Option<Arc<Forwarding>>,
    pub saved: Option<Arc<Forwarding>>,
}

impl Configs {
    /// Program that reads and writes refer to.
    pub fn active(&self) -> Option<Arc<Forwarding>> {
        self.saved.clone().or_else(|| self.committed.clone())
    }
}
