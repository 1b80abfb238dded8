//! Everything that changes after a program is loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::control::MeterUnit;
use crate::control::{CloneSession, DigestConfig, MatchKey, ProtectedReplica, Replica};
use crate::ids::ProfileId;
use crate::native::Tables;
use crate::packet::Pool;
use crate::parser::CompiledMembers;
use crate::profile::{ActionSet, BoundAction, Profile, ProfileSpec};
use crate::program::Program;
use crate::stateful::{ArraySpec, Counters, Meters, RegisterArray, Registers};
use crate::stats::PipelineStats;
use crate::table::Table;

#[derive(Debug)]
pub(crate) struct State {
    pub tables: Tables,
    /// Changed by [`change_profile`](State::change_profile) only.
    profiles: Vec<Profile>,
    pub counters: Vec<Counters>,
    pub meters: Vec<Meters>,
    pub registers: Registers,
    /// One for every calculation; see [`Algorithm::compute`](crate::hash::Algorithm::compute).
    pub turns: Vec<u64>,
    pub value_sets: Vec<ValueSet>,
    pub multicast: BTreeMap<u16, Vec<Replica>>,
    /// Replicas of the groups that have backup replicas: what `multicast` is made of when a port goes
    /// down or comes up.
    pub protected: BTreeMap<u16, Vec<ProtectedReplica>>,
    pub clone_sessions: BTreeMap<u32, CloneSession>,
    /// Those that are up are not told apart from those that do not exist.
    pub ports_down: BTreeSet<u32>,
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
    /// What happens to the packet, if somebody wants to know.
    pub trace: Option<Vec<crate::trace::TraceEvent>>,
}

#[derive(Clone, Debug)]
pub(crate) struct ValueSet {
    pub name: Arc<str>,
    /// Widths of the key fields of the select that uses it.
    pub fields: Vec<u32>,
    pub max_size: Option<u32>,
    pub members: Vec<Vec<MatchKey>>,
    pub compiled: CompiledMembers,
}

/// What every switch with the same program starts with.
#[derive(Debug)]
pub(crate) struct Blueprint {
    /// With the program's own entries and default actions.
    pub tables: Vec<Table>,
    pub profiles: Vec<Arc<ProfileSpec>>,
    pub counters: Vec<ArraySpec>,
    pub meters: Vec<(ArraySpec, MeterUnit)>,
    /// With the width of a cell in bits.
    pub registers: Vec<(ArraySpec, u32)>,
    pub value_sets: Vec<ValueSet>,
}

/// simple_switch's default.
const DROP_PORT: u16 = 511;

impl State {
    pub fn new(program: &Program) -> State {
        let start = &program.blueprint;
        State {
            tables: Tables::new(start.tables.clone()),
            profiles: start.profiles.iter().map(Profile::new).collect(),
            counters: start.counters.iter().map(Counters::new).collect(),
            meters: start.meters.iter().map(Meters::new).collect(),
            registers: Registers {
                arrays: start.registers.iter().map(RegisterArray::new).collect(),
            },
            turns: vec![0; program.algorithms.len()],
            value_sets: start.value_sets.clone(),
            multicast: BTreeMap::new(),
            protected: BTreeMap::new(),
            clone_sessions: BTreeMap::new(),
            ports_down: BTreeSet::new(),
            digest_configs: vec![None; program.digests.len()],
            rng: SmallRng::seed_from_u64(0),
            drop_port: DROP_PORT,
            stats: Default::default(),
            pool: Pool::default(),
            scratch: Vec::new(),
            key: Vec::new(),
            masked_key: Vec::new(),
            action_data: Vec::new(),
            trace: None,
        }
    }

    #[inline]
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// A profile, to change its members or groups: what tables show of them is out of date.
    pub fn change_profile(&mut self, profile: ProfileId) -> &mut Profile {
        self.tables.forget(profile);
        &mut self.profiles[profile.index()]
    }

    /// Equal one-shot sets of a profile are one; this changes nothing that tables show.
    pub fn share_set(&mut self, profile: ProfileId, actions: Vec<BoundAction>) -> Arc<ActionSet> {
        self.profiles[profile.index()].sets.share(actions)
    }

    /// Brings what native code sees of a table up to date, for a packet that hit an entry, or none.
    pub fn refresh(&mut self, table: usize, words: &[u64], entry: Option<u32>) {
        let profile = self.tables[table].spec.profile;
        let profile = profile.map(|profile| &self.profiles[profile.index()]);
        self.tables.refresh(table, words, entry, profile);
    }
}
