//! Everything of a switch that changes after its program is loaded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use crate::control::{CloneSession, ProtectedReplica, Replica};
use crate::dynamic_hash::Dynamic;
use crate::filter::{FilterSpec, Filters};
use crate::generator::Generator;
use crate::ids::{ProfileId, TableId};
use crate::native::Tables;
use crate::packet::Pool;
use crate::parser::CompiledMembers;
use crate::profile::{ActionSet, BoundAction, Profile, ProfileSpec};
use crate::program::Program;
use crate::stateful::{
    ArraySpec, Counters, MeterSpec, Meters, RegisterArray, RegisterSpec, Registers,
};
use crate::stats::PipelineStats;
use crate::table::Table;

/// The state of one switch.
#[derive(Debug)]
pub(crate) struct State {
    /// Its tables.
    pub tables: Tables,
    /// Its action profiles, which only [`change_profile`](State::change_profile) changes.
    profiles: Vec<Profile>,
    /// Its counter arrays.
    pub counters: Vec<Counters>,
    /// Its meter arrays.
    pub meters: Vec<Meters>,
    /// Its register arrays.
    pub registers: Registers,
    /// Its filter arrays.
    pub filters: Vec<Filters>,
    /// A counter for each calculation; see [`Algorithm::compute`](crate::hash::Algorithm::compute).
    pub turns: Vec<u64>,
    /// Configurations of its hashes, by their number in the program; `None`: as in the program. Empty: all are.
    pub hashes: Vec<Option<Box<Dynamic>>>,
    /// Its parser value sets.
    pub value_sets: Vec<ValueSet>,
    /// Replicas in use of each multicast group.
    pub multicast: BTreeMap<u16, Vec<Replica>>,
    /// Replicas of the groups that have backups, from which `multicast` is chosen anew when a port
    /// goes down or comes up.
    pub protected: BTreeMap<u16, Vec<ProtectedReplica>>,
    /// Its clone sessions.
    pub clone_sessions: BTreeMap<u32, CloneSession>,
    /// Ports that are down. All others count as up, whether they exist or not.
    pub ports_down: BTreeSet<u32>,
    /// The source of `random()`.
    pub rng: SmallRng,
    /// The value of `egress_spec` that means drop.
    pub drop_port: u16,
    /// Counts of the pipeline.
    pub stats: PipelineStats,
    /// Memory for packets.
    pub pool: Pool,
    /// Memory for the input of hashes; like the next ones it saves allocations per packet.
    pub scratch: Vec<u8>,
    /// Memory for table keys.
    pub key: Vec<u64>,
    /// Memory for table keys under a mask.
    pub masked_key: Vec<u64>,
    /// Memory for action data.
    pub action_data: Vec<u64>,
    /// Requests of the deparser of Tofino that ran last.
    pub tofino: crate::tofino::Requests,
    /// The packet generators of Tofino; `None`: they have never been used.
    pub generator: Option<Box<Generator>>,
    /// Steps of the packet so far; `None` if it is not traced.
    pub trace: Option<Vec<crate::trace::TraceEvent>>,
    /// Whether packets are interpreted: for a trace, and where a hash is set at run time.
    pub interprets: bool,
    /// Whether packets begin with all their words initialised: others than the program may read
    /// them.
    pub sets_all: AtomicBool,
}

/// A parser value set.
#[derive(Clone, Debug)]
pub(crate) struct ValueSet {
    /// Its name in P4.
    pub name: Arc<str>,
    /// Widths in bits of the key fields of the select that uses it.
    pub fields: Vec<u32>,
    /// Most members that it can have; `None` means no limit.
    pub max_size: Option<u32>,
    /// Its members, as the parser compares them.
    pub members: CompiledMembers,
}

/// State that every switch with the same program starts with.
#[derive(Debug)]
pub(crate) struct Blueprint {
    /// The tables, with the program's own entries and default actions.
    pub tables: Vec<Arc<Table>>,
    /// The action profiles.
    pub profiles: Vec<Arc<ProfileSpec>>,
    /// The counter arrays.
    pub counters: Vec<ArraySpec>,
    /// The meter arrays.
    pub meters: Vec<MeterSpec>,
    /// The register arrays.
    pub registers: Vec<RegisterSpec>,
    /// Those that have a cell for each entry of a table: the table, and the index in `registers`.
    pub direct_registers: Vec<(TableId, usize)>,
    /// The filter arrays.
    pub filters: Vec<FilterSpec>,
    /// Those that have a cell for each entry of a table: the table, and the index in `filters`.
    pub direct_filters: Vec<(TableId, usize)>,
    /// The parser value sets.
    pub value_sets: Vec<ValueSet>,
}

/// The value of `egress_spec` that means drop by default in simple_switch.
const DROP_PORT: u16 = 511;

impl State {
    /// The initial state of a switch.
    pub fn new(program: &Program) -> State {
        let start = &program.blueprint;
        State {
            tables: Tables::new(&start.tables),
            profiles: start.profiles.iter().map(Profile::new).collect(),
            counters: start.counters.iter().map(Counters::new).collect(),
            meters: start.meters.iter().map(Meters::new).collect(),
            registers: Registers {
                arrays: start.registers.iter().map(RegisterArray::new).collect(),
            },
            filters: start.filters.iter().map(Filters::new).collect(),
            turns: vec![0; program.algorithms.len()],
            hashes: Vec::new(),
            value_sets: start.value_sets.clone(),
            multicast: BTreeMap::new(),
            protected: BTreeMap::new(),
            clone_sessions: BTreeMap::new(),
            ports_down: BTreeSet::new(),
            rng: SmallRng::seed_from_u64(0),
            drop_port: DROP_PORT,
            stats: Default::default(),
            pool: Pool::default(),
            scratch: Vec::new(),
            key: Vec::new(),
            masked_key: Vec::new(),
            action_data: Vec::new(),
            tofino: Default::default(),
            generator: None,
            trace: None,
            interprets: false,
            sets_all: AtomicBool::new(false),
        }
    }

    /// The action profiles.
    #[inline]
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// An action profile, for a change of its members or groups. What tables have cached of it is
    /// forgotten.
    pub fn change_profile(&mut self, profile: ProfileId) -> &mut Profile {
        self.tables.forget(profile);
        &mut self.profiles[profile.index()]
    }

    /// One-shot sets with the same actions are shared; that changes nothing that tables have
    /// cached.
    pub fn share_set(&mut self, profile: ProfileId, actions: Vec<BoundAction>) -> Arc<ActionSet> {
        self.profiles[profile.index()].sets.share(actions)
    }

    /// Brings what native code sees of a table up to date, for a packet that hit this entry, or
    /// none.
    pub fn refresh(&mut self, table: usize, words: &[u64], entry: Option<u32>) {
        if !self.tables.is_viewed(table) {
            return;
        }
        let profile = self.tables[table].spec.profile;
        let profile = profile.map(|profile| &self.profiles[profile.index()]);
        self.tables.refresh(table, words, entry, profile);
    }
}
