//! Rights of a role: the scheme of Stratum's `P4RoleConfig`, which its controllers send in
//! `role.config` (spec, "Role Config", leaves the scheme to the parties).

use prost::Message;
use prost_types::Any;
use tonic::Status;

use crate::proto::p4;
use crate::proto::p4::entity::Entity as Kind;
use crate::quote::{short, type_of};

/// The one type of `role.config` that is understood.
pub const TYPE: &str = "stratum.P4RoleConfig";

#[derive(Clone, PartialEq, Message)]
pub struct RoleConfig {
    /// Objects of the P4Info that no other role with a config may write.
    #[prost(uint32, repeated, tag = "1")]
    pub exclusive_p4_ids: Vec<u32>,
    /// Objects that this role may write beside others.
    #[prost(uint32, repeated, tag = "2")]
    pub shared_p4_ids: Vec<u32>,
    /// Packets whose metadata has another value are not for this role.
    #[prost(message, optional, tag = "3")]
    pub packet_in_filter: Option<PacketFilter>,
    #[prost(bool, tag = "4")]
    pub receives_packet_ins: bool,
    #[prost(bool, tag = "5")]
    pub can_push_pipeline: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PacketFilter {
    #[prost(uint32, tag = "1")]
    pub metadata_id: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub value: Vec<u8>,
}

impl RoleConfig {
    /// Decodes `role.config`. `None`: there is none, so the role has full access.
    pub fn parse(config: Option<&Any>) -> Result<Option<Self>, Status> {
        let Some(any) = config else { return Ok(None) };
        if type_of(any) != TYPE {
            return Err(Status::invalid_argument(format!(
                "role.config is a '{}'; leave it out for full access, or send a {TYPE}",
                short(type_of(any))
            )));
        }
        let config = Self::decode(any.value.as_slice());
        config
            .map(Some)
            .map_err(|e| Status::invalid_argument(format!("role.config is no {TYPE}: {e}")))
    }

    pub fn has(&self, id: u32) -> bool {
        self.exclusive_p4_ids.contains(&id) || self.shared_p4_ids.contains(&id)
    }

    pub fn wants(&self, packet: &p4::PacketIn) -> bool {
        let matches = |filter: &PacketFilter| {
            let mut metadata = packet.metadata.iter();
            metadata.any(|m| {
                let values = (
                    crate::bytes::strip(&m.value),
                    crate::bytes::strip(&filter.value),
                );
                m.metadata_id == filter.metadata_id && values.0 == values.1
            })
        };
        self.receives_packet_ins && self.packet_in_filter.as_ref().is_none_or(matches)
    }
}

/// Rights of a role beside the other roles.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    /// `None`: full access.
    own: Option<RoleConfig>,
    /// Objects that belong to other roles exclusively.
    others: Vec<u32>,
}

impl Rights {
    pub fn new(own: Option<&RoleConfig>, others: Vec<u32>) -> Self {
        Self {
            own: own.cloned(),
            others,
        }
    }

    /// Whether the role may do everything.
    pub fn is_full(&self) -> bool {
        self.own.is_none() && self.others.is_empty()
    }

    pub fn may_write(&self, entity: Option<&p4::Entity>) -> bool {
        match entity.and_then(p4_id) {
            Some(id) => {
                self.own.as_ref().is_none_or(|own| own.has(id)) && !self.others.contains(&id)
            }
            // Groups and sessions of the replication engine have no id in the P4Info.
            None => true,
        }
    }

    pub fn may_read(&self, entity: &p4::Entity) -> bool {
        p4_id(entity).is_none_or(|id| self.own.as_ref().is_none_or(|own| own.has(id)))
    }

    pub fn may_push(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.can_push_pipeline)
    }
}

/// The id of the object of the P4Info that an entity belongs to. 0: all objects of its kind.
fn p4_id(entity: &p4::Entity) -> Option<u32> {
    let of_table = |entry: &Option<p4::TableEntry>| entry.as_ref().map_or(0, |e| e.table_id);
    Some(match entity.entity.as_ref()? {
        Kind::TableEntry(e) => e.table_id,
        Kind::ActionProfileMember(e) => e.action_profile_id,
        Kind::ActionProfileGroup(e) => e.action_profile_id,
        Kind::CounterEntry(e) => e.counter_id,
        Kind::MeterEntry(e) => e.meter_id,
        Kind::RegisterEntry(e) => e.register_id,
        Kind::DirectCounterEntry(e) => of_table(&e.table_entry),
        Kind::DirectMeterEntry(e) => of_table(&e.table_entry),
        Kind::DigestEntry(e) => e.digest_id,
        Kind::ValueSetEntry(e) => e.value_set_id,
        Kind::ExternEntry(e) => e.extern_id,
        Kind::PacketReplicationEngineEntry(_) => return None,
    })
}
