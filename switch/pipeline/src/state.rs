//! Everything that changes after a program is loaded.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;

use crate::control::{CloneSession, DigestConfig, MatchKey, Replica};
use crate::hash::Algorithm;
use crate::packet::Pool;
use crate::parser::CompiledMembers;
use crate::profile::Profile;
use crate::stateful::{Counters, Meters, Registers};
use crate::stats::PipelineStats;
use crate::table::Table;

#[derive(Debug)]
pub(crate) struct State {
    pub tables: Vec<Table>,
    pub profiles: Vec<Profile>,
    pub counters: Vec<Counters>,
    pub meters: Vec<Meters>,
    pub registers: Registers,
    /// One for every calculation.
    pub algorithms: Vec<Algorithm>,
    pub value_sets: Vec<ValueSet>,
    pub multicast: BTreeMap<u16, Vec<Replica>>,
    pub clone_sessions: BTreeMap<u32, CloneSession>,
    pub digest_configs: Vec<Option<DigestConfig>>,
    pub rng: SmallRng,
    pub drop_port: u16,
    pub stats: PipelineStats,
    pub pool: Pool,
    /// Work memory, so that packets cost no allocation.
    pub scratch: Vec<u8>,
    pub key: Vec<u64>,
    pub masked_key: Vec<u64>,
    pub action_data: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct ValueSet {
    pub name: String,
    /// Widths of the key fields of the select that uses it.
    pub fields: Vec<u32>,
    pub max_size: Option<u32>,
    pub members: Vec<Vec<MatchKey>>,
    pub compiled: CompiledMembers,
}
