//! What a control plane may see and change. Names are those of the BMv2 JSON.
mod error;
mod types;
use crate::{Pipeline, ids::*};
use ebb_units::Instant;
pub use error::*;
pub use types::*;

type Result<T> = std::result::Result<T, ControlError>;

/// Names to handles, and the program's schema.
impl Pipeline {
    pub fn table(&self, name: &str) -> Result<TableId> {
        unimplemented!("the next commit")
    }
    pub fn tables(&self) -> impl Iterator<Item = TableId> + '_ {
        (0..0).map(TableId)
    }
    pub fn table_info(&self, table: TableId) -> TableInfo<'_> {
        unimplemented!("the next commit")
    }
    /// An action of a table (p4c gives the same name to several actions, so the table matters).
    pub fn table_action(&self, table: TableId, name: &str) -> Result<ActionId> {
        unimplemented!("the next commit")
    }
    pub fn action_info(&self, action: ActionId) -> ActionInfo<'_> {
        unimplemented!("the next commit")
    }
    pub fn profile(&self, name: &str) -> Result<ProfileId> {
        unimplemented!("the next commit")
    }
    pub fn profile_name(&self, profile: ProfileId) -> &str {
        unimplemented!("the next commit")
    }
    pub fn profile_action(&self, profile: ProfileId, name: &str) -> Result<ActionId> {
        unimplemented!("the next commit")
    }
    pub fn counter(&self, name: &str) -> Result<CounterId> {
        unimplemented!("the next commit")
    }
    pub fn meter(&self, name: &str) -> Result<MeterId> {
        unimplemented!("the next commit")
    }
    pub fn register(&self, name: &str) -> Result<RegisterId> {
        unimplemented!("the next commit")
    }
    pub fn value_set(&self, name: &str) -> Result<ValueSetId> {
        unimplemented!("the next commit")
    }
    pub fn digest(&self, name: &str) -> Result<DigestId> {
        unimplemented!("the next commit")
    }
    pub fn digest_name(&self, digest: DigestId) -> &str {
        unimplemented!("the next commit")
    }
}

/// Tables.
impl Pipeline {
    pub fn insert_entry(
        &mut self,
        now: Instant,
        table: TableId,
        entry: TableEntry,
    ) -> Result<EntryId> {
        unimplemented!("the next commit")
    }
    /// Replaces action, idle timeout and metadata of the entry with the same key and priority.
    pub fn modify_entry(
        &mut self,
        now: Instant,
        table: TableId,
        entry: TableEntry,
    ) -> Result<EntryId> {
        unimplemented!("the next commit")
    }
    pub fn delete_entry(&mut self, table: TableId, key: &[MatchKey], priority: i32) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn entry(&self, table: TableId, key: &[MatchKey], priority: i32) -> Result<EntryView<'_>> {
        unimplemented!("the next commit")
    }
    /// In order of insertion.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = EntryView<'_>> + '_ {
        std::iter::empty()
    }
    /// `None` sets the program's default back.
    pub fn set_default_entry(&mut self, table: TableId, action: Option<TableAction>) -> Result<()> {
        unimplemented!("the next commit")
    }
    /// `None`: no default action, a miss does nothing.
    pub fn default_entry(&self, table: TableId) -> Option<&TableAction> {
        unimplemented!("the next commit")
    }
    pub fn set_entry_counter(
        &mut self,
        table: TableId,
        key: &[MatchKey],
        priority: i32,
        value: CounterValue,
    ) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn set_entry_meter(
        &mut self,
        now: Instant,
        table: TableId,
        key: &[MatchKey],
        priority: i32,
        config: Option<MeterConfig>,
    ) -> Result<()> {
        unimplemented!("the next commit")
    }
    /// Entries not hit for their idle timeout.
    pub fn idle_entries(&self, now: Instant) -> Vec<(TableId, EntryId)> {
        unimplemented!("the next commit")
    }
    pub fn entry_by_id(&self, table: TableId, entry: EntryId) -> Result<EntryView<'_>> {
        unimplemented!("the next commit")
    }
}

/// Action profiles and selectors.
impl Pipeline {
    pub fn insert_member(
        &mut self,
        profile: ProfileId,
        member: u32,
        call: ActionCall,
    ) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn modify_member(
        &mut self,
        profile: ProfileId,
        member: u32,
        call: ActionCall,
    ) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn delete_member(&mut self, profile: ProfileId, member: u32) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn members(&self, profile: ProfileId) -> impl Iterator<Item = (u32, &ActionCall)> + '_ {
        std::iter::empty()
    }
    pub fn insert_group(&mut self, profile: ProfileId, group: u32, value: Group) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn modify_group(&mut self, profile: ProfileId, group: u32, value: Group) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn delete_group(&mut self, profile: ProfileId, group: u32) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn groups(&self, profile: ProfileId) -> impl Iterator<Item = (u32, &Group)> + '_ {
        std::iter::empty()
    }
}

/// Counters, meters, registers.
impl Pipeline {
    pub fn counter_size(&self, counter: CounterId) -> u64 {
        unimplemented!("the next commit")
    }
    pub fn counter_value(&self, counter: CounterId, index: u64) -> Result<CounterValue> {
        unimplemented!("the next commit")
    }
    pub fn set_counter_value(
        &mut self,
        counter: CounterId,
        index: u64,
        value: CounterValue,
    ) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn meter_size(&self, meter: MeterId) -> u64 {
        unimplemented!("the next commit")
    }
    pub fn meter_config(&self, meter: MeterId, index: u64) -> Result<Option<MeterConfig>> {
        unimplemented!("the next commit")
    }
    pub fn set_meter_config(
        &mut self,
        now: Instant,
        meter: MeterId,
        index: u64,
        config: Option<MeterConfig>,
    ) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn register_size(&self, register: RegisterId) -> u64 {
        unimplemented!("the next commit")
    }
    pub fn register_bits(&self, register: RegisterId) -> u32 {
        unimplemented!("the next commit")
    }
    /// Big-endian, as many bytes as the cell has.
    pub fn register_value(&self, register: RegisterId, index: u64) -> Result<Vec<u8>> {
        unimplemented!("the next commit")
    }
    pub fn set_register_value(
        &mut self,
        register: RegisterId,
        index: u64,
        value: &[u8],
    ) -> Result<()> {
        unimplemented!("the next commit")
    }
}

/// Packet replication engine, value sets, digests.
impl Pipeline {
    pub fn insert_multicast_group(&mut self, group: u16, replicas: Vec<Replica>) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn modify_multicast_group(&mut self, group: u16, replicas: Vec<Replica>) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn delete_multicast_group(&mut self, group: u16) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn multicast_groups(&self) -> impl Iterator<Item = (u16, &[Replica])> + '_ {
        std::iter::empty()
    }
    pub fn insert_clone_session(&mut self, session: u32, value: CloneSession) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn modify_clone_session(&mut self, session: u32, value: CloneSession) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn delete_clone_session(&mut self, session: u32) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn clone_sessions(&self) -> impl Iterator<Item = (u32, &CloneSession)> + '_ {
        std::iter::empty()
    }
    /// Each member has one key for every field of the `select` that uses the set.
    pub fn set_value_set(&mut self, set: ValueSetId, members: Vec<Vec<MatchKey>>) -> Result<()> {
        unimplemented!("the next commit")
    }
    pub fn value_set_members(&self, set: ValueSetId) -> &[Vec<MatchKey>] {
        unimplemented!("the next commit")
    }
    pub fn set_digest_config(&mut self, digest: DigestId, config: Option<DigestConfig>) {
        unimplemented!("the next commit")
    }
    pub fn digest_config(&self, digest: DigestId) -> Option<DigestConfig> {
        unimplemented!("the next commit")
    }
}
