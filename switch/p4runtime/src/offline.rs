//! A config without a switch, a thread or gRPC: what requests do to it, directly. For fuzzers and
//! tests of what no request may do.

use ebb_units::Instant;

use crate::entities::{self, Context, Position};
use crate::error::{EntityError, Result};
use crate::forwarding::Forwarding;
use crate::programs::Programs;
use crate::proto::p4;

/// How many entities a part of a read has: few, so that reads have several parts.
const PART: usize = 3;

/// A program with its entities, and no packets.
pub struct Offline(Forwarding);

impl Offline {
    /// Verifies and loads a config. `interpreted`: without native code.
    pub fn new(config: p4::ForwardingPipelineConfig, interpreted: bool) -> Result<Self> {
        Forwarding::verify(&Programs::new(interpreted), config).map(Self)
    }

    /// The same program, with nothing written to it.
    pub fn fresh(&self) -> Self {
        Self(Forwarding::new(self.0.loaded.clone(), None))
    }

    /// Applies one update.
    pub fn write(&self, update: &p4::Update) -> Result<()> {
        self.on(|ctx| entities::write(ctx, update))?
    }

    /// The results of all updates; after one that failed, none is in force.
    pub fn write_all_or_nothing(&self, updates: &[p4::Update]) -> Result<Vec<Result<()>>> {
        self.on(|ctx| entities::write_all_or_nothing(ctx, updates))
    }

    /// Reads part by part, as a request is answered.
    pub fn read(&self, filter: &p4::Entity) -> Result<Vec<p4::Entity>> {
        self.on(|ctx| {
            let (mut at, mut found) = (Position::default(), Vec::new());
            loop {
                let limit = found.len() + PART;
                if entities::read(ctx, filter, (&mut at, limit), &mut found)? {
                    return Ok(found);
                }
            }
        })?
    }

    /// The updates that bring another config of the same program to this state, but for counters and registers.
    pub fn updates(&self) -> Result<Vec<p4::Update>> {
        self.on(entities::restore_updates)?
    }

    /// Writes what [`updates`](Self::updates) gave.
    pub fn restore(&self, updates: &[p4::Update]) -> Result<()> {
        self.on(|ctx| updates.iter().try_for_each(|u| entities::restore(ctx, u)))?
    }

    fn on<R>(&self, f: impl FnOnce(&mut Context) -> R) -> Result<R> {
        let done = self.0.with_detached(Instant::ZERO, f);
        done.ok_or_else(|| EntityError::internal("a switch has the pipeline"))
    }
}
