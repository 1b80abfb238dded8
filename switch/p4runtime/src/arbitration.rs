//! Who may write: the election of one primary per role (P4Runtime spec, "Client Arbitration and
//! Controller Replication"). A state machine without I/O: it says which notifications to send.

use std::collections::{BTreeMap, HashMap};

use prost_types::Any;
use tonic::{Code, Status};

use crate::proto::{p4, rpc};
use crate::quote::short;
use crate::role::{Rights, RoleConfig};

/// One StreamChannel.
pub type StreamId = u64;

/// A notification and the stream it goes to.
pub type Notice = (StreamId, p4::MasterArbitrationUpdate);

/// Streams that one role may have open; the spec leaves the limit to the server.
const MAX_STREAMS_PER_ROLE: usize = 64;

/// Roles besides the default one. They are remembered until a restart, with their configs, so their number
/// and size have a limit.
const MAX_ROLES: usize = 64;
const MAX_NAME_BYTES: usize = 256;
const MAX_CONFIG_BYTES: usize = 64 << 10;

/// Whether clients have to win the arbitration before they change a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arbitration {
    /// As the specification has it.
    #[default]
    Required,
    /// As with p4lang/PI, the server of BMv2, in the default role: a missing election id is 0, which is one like any
    /// other, and while no controller is connected, who sends none may do what the primary may. The primary is the
    /// highest of those that are connected, even if it is lower than an earlier one's.
    Optional,
}

/// The controllers of one device.
#[derive(Debug)]
pub struct Arbiter {
    device_id: u64,
    arbitration: Arbitration,
    roles: BTreeMap<String, Role>,
    role_of: HashMap<StreamId, String>,
}

#[derive(Debug, Default)]
struct Role {
    /// Live streams and their election ids; a stream without one never becomes primary.
    streams: BTreeMap<StreamId, Option<u128>>,
    /// Highest election id ever seen; outlives the stream that brought it.
    highest: Option<u128>,
    config: Option<Any>,
    /// The same, decoded. None: the role may do everything.
    parsed: Option<RoleConfig>,
    /// The role as the last client to join it wrote it; notices repeat it.
    given: Option<p4::Role>,
}

impl Role {
    fn highest_connected(&self) -> Option<u128> {
        self.streams.values().copied().flatten().max()
    }

    fn primary(&self) -> Option<StreamId> {
        self.highest?;
        let mut streams = self.streams.iter();
        streams
            .find(|(_, id)| **id == self.highest)
            .map(|(stream, _)| *stream)
    }
}

impl Arbiter {
    pub fn new(device_id: u64, arbitration: Arbitration) -> Self {
        Self {
            device_id,
            arbitration,
            roles: BTreeMap::new(),
            role_of: HashMap::new(),
        }
    }

    /// Nobody was ever connected.
    pub fn forget_all(&mut self) {
        *self = Self::new(self.device_id, self.arbitration);
    }

    /// A `MasterArbitrationUpdate` arrived. An error ends the stream.
    pub fn update(
        &mut self,
        stream: StreamId,
        update: &p4::MasterArbitrationUpdate,
    ) -> Result<Vec<Notice>, Status> {
        let name = update.role.as_ref().map_or("", |r| r.name.as_str());
        let election = self.election(update.election_id.as_ref());
        self.check(stream, update, name, election)?;
        let given = update.role.as_ref().and_then(|r| r.config.as_ref());
        let parsed = RoleConfig::parse(given)?;

        let optional = self.arbitration == Arbitration::Optional;
        let role = self.roles.entry(name.to_owned()).or_default();
        let old_primary = role.primary();
        role.streams.insert(stream, election);
        if optional {
            role.highest = role.highest_connected();
        }
        role.given.clone_from(&update.role);
        let wins = election.is_some() && election >= role.highest;
        if wins {
            role.highest = election;
            role.config = given.cloned();
            role.parsed = parsed;
        }
        self.role_of.insert(stream, name.to_owned());

        let role = &self.roles[name];
        // A change that only concerns the sender is reported to the sender only.
        let everyone = wins || old_primary == Some(stream);
        Ok(self.notices(role, |id| everyone || id == stream))
    }

    /// The stream ended. The others learn it when it was the primary.
    pub fn disconnect(&mut self, stream: StreamId) -> Vec<Notice> {
        let Some(name) = self.role_of.remove(&stream) else {
            return Vec::new();
        };
        let Some(role) = self.roles.get_mut(&name) else {
            return Vec::new();
        };
        let was_primary = role.primary() == Some(stream);
        role.streams.remove(&stream);
        if self.arbitration == Arbitration::Optional {
            role.highest = role.highest_connected();
        }
        self.notices(&self.roles[&name], |_| was_primary)
    }

    /// The election id of a message.
    fn election(&self, given: Option<&p4::Uint128>) -> Option<u128> {
        let absent = (self.arbitration == Arbitration::Optional).then_some(0);
        given.map(election_id).or(absent)
    }

    /// Whether nobody has to ask for the default role before he uses it.
    fn is_free(&self, role: &str) -> bool {
        let mut roles = self.roles.values();
        self.arbitration == Arbitration::Optional
            && role.is_empty()
            && roles.all(|r| r.streams.is_empty())
    }

    /// Whether a request with this role and election id comes from the primary.
    pub fn check_primary(&self, role: &str, election: Option<&p4::Uint128>) -> Result<(), Status> {
        if election.is_none() && self.is_free(role) {
            return Ok(());
        }
        let election = self.election(election);
        let denied = |why: String| Err(Status::permission_denied(why));
        let shown = match role {
            "" => "the default role".to_owned(),
            name => format!("role '{}'", short(name)),
        };
        if !role.is_empty() && !self.roles.contains_key(role) {
            return Err(Status::not_found(format!(
                "device {} has no {shown}; open a StreamChannel with it first",
                self.device_id
            )));
        }
        let state = self.roles.get(role).filter(|r| r.primary().is_some());
        match (state.and_then(|r| r.highest), election) {
            (None, _) => denied(format!(
                "device {} has no primary for {shown}; open a StreamChannel and win arbitration first",
                self.device_id
            )),
            (Some(_), None) => denied(format!(
                "the request has no election_id; only the primary of {shown} may change the device"
            )),
            (Some(primary), Some(id)) if id != primary => denied(format!(
                "election_id {id} is not the primary of {shown}, which has election_id {primary}"
            )),
            _ => Ok(()),
        }
    }

    pub fn is_primary(&self, stream: StreamId) -> bool {
        let role = self.role_of.get(&stream).and_then(|r| self.roles.get(r));
        role.is_some_and(|r| r.primary() == Some(stream))
    }

    /// The primaries of the roles whose config allows something: who gets packets and digests.
    pub fn primaries(&self, allowed: impl Fn(&RoleConfig) -> bool) -> Vec<StreamId> {
        let roles = self.roles.values();
        let roles = roles.filter(|r| r.parsed.as_ref().is_none_or(&allowed));
        roles.filter_map(Role::primary).collect()
    }

    /// A table that is exclusively another role's is so while a controller of that role is there: one that has
    /// gone for good would otherwise lock its tables.
    pub fn rights(&self, role: &str) -> Rights {
        let others = self.roles.iter().filter(|(name, _)| *name != role);
        let present = others.filter(|(_, r)| !r.streams.is_empty());
        let theirs = present.filter_map(|(_, r)| r.parsed.as_ref());
        let theirs = theirs.flat_map(|config| config.exclusive_p4_ids.iter().copied());
        let own = self.roles.get(role).and_then(|r| r.parsed.as_ref());
        Rights::new(own, theirs.collect())
    }

    fn check(
        &self,
        stream: StreamId,
        update: &p4::MasterArbitrationUpdate,
        name: &str,
        election: Option<u128>,
    ) -> Result<(), Status> {
        if let Some(current) = self.role_of.get(&stream) {
            if update.device_id != self.device_id {
                return Err(Status::failed_precondition(format!(
                    "this stream is of device {}; open another stream for device {}",
                    self.device_id, update.device_id
                )));
            }
            if current != name {
                return Err(Status::failed_precondition(format!(
                    "this stream has role '{}'; open another stream for role '{}'",
                    short(current),
                    short(name)
                )));
            }
        }
        if update.device_id != self.device_id {
            return Err(unknown_device(update.device_id, self.device_id));
        }
        check_role(update.role.as_ref())?;
        let Some(role) = self.roles.get(name) else {
            let named = self.roles.keys().filter(|name| !name.is_empty());
            return match name.is_empty() || named.count() < MAX_ROLES {
                true => Ok(()),
                false => Err(Status::resource_exhausted(format!(
                    "device {} has had {MAX_ROLES} roles, which is the limit; use one of them, or \
                     restart the switch",
                    self.device_id
                ))),
            };
        };
        let mut others = role.streams.iter().filter(|(id, _)| **id != stream);
        if let Some(election) = election
            && others.any(|(_, id)| *id == Some(election))
        {
            // finsy looks for "election id .. used" or ".. exists", and then takes the next lower one.
            return Err(Status::invalid_argument(format!(
                "election id {election} is used by another live controller of device {}; \
                 choose another one (the highest seen is {})",
                self.device_id,
                role.highest.unwrap_or_default()
            )));
        }
        if !role.streams.contains_key(&stream) && role.streams.len() >= MAX_STREAMS_PER_ROLE {
            return Err(Status::resource_exhausted(format!(
                "device {} has {MAX_STREAMS_PER_ROLE} open streams for this role, which is the limit",
                self.device_id
            )));
        }
        Ok(())
    }

    fn notices(&self, role: &Role, to: impl Fn(StreamId) -> bool) -> Vec<Notice> {
        let primary = role.primary();
        let notice = |stream: StreamId| {
            let (code, message) = match primary {
                Some(id) if id == stream => (Code::Ok, "you are the primary"),
                Some(_) => (Code::AlreadyExists, "you are a backup"),
                None => (Code::NotFound, "you are a backup, and there is no primary"),
            };
            let update = p4::MasterArbitrationUpdate {
                device_id: self.device_id,
                role: role.given.as_ref().map(|given| p4::Role {
                    config: role.config.clone(),
                    ..given.clone()
                }),
                election_id: role.highest.map(uint128),
                status: Some(rpc::Status {
                    code: code as i32,
                    message: message.into(),
                    details: Vec::new(),
                }),
            };
            (stream, update)
        };
        // The demoted hear it before the new primary does.
        let mut streams: Vec<_> = role.streams.keys().copied().filter(|s| to(*s)).collect();
        streams.sort_by_key(|s| primary == Some(*s));
        streams.into_iter().map(notice).collect()
    }
}

fn check_role(role: Option<&p4::Role>) -> Result<(), Status> {
    let name = role.map_or(0, |r| r.name.len());
    let config = role.and_then(|r| r.config.as_ref());
    let config = config.map_or(0, |c| c.value.len() + c.type_url.len());
    let too_long = |what: &str, bytes: usize, limit: usize| {
        Err(Status::invalid_argument(format!(
            "role.{what} has {bytes} bytes; allowed: up to {limit}"
        )))
    };
    match () {
        () if name > MAX_NAME_BYTES => too_long("name", name, MAX_NAME_BYTES),
        () if config > MAX_CONFIG_BYTES => too_long("config", config, MAX_CONFIG_BYTES),
        () => Ok(()),
    }
}

pub fn unknown_device(asked: u64, served: u64) -> Status {
    Status::not_found(format!(
        "no device {asked} here; this address serves device {served}"
    ))
}

fn election_id(id: &p4::Uint128) -> u128 {
    u128::from(id.high) << 64 | u128::from(id.low)
}

fn uint128(id: u128) -> p4::Uint128 {
    p4::Uint128 {
        high: (id >> 64) as u64,
        low: id as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(election: impl Into<Option<u64>>) -> p4::MasterArbitrationUpdate {
        p4::MasterArbitrationUpdate {
            device_id: 1,
            election_id: election.into().map(|low| p4::Uint128 { high: 0, low }),
            ..Default::default()
        }
    }

    fn id(low: u64) -> p4::Uint128 {
        p4::Uint128 { high: 0, low }
    }

    fn told(notices: &[Notice]) -> Vec<(StreamId, Code)> {
        let code = |u: &p4::MasterArbitrationUpdate| Code::from(u.status.as_ref().unwrap().code);
        notices.iter().map(|(s, u)| (*s, code(u))).collect()
    }

    #[test]
    fn the_highest_id_is_primary_and_the_demoted_hear_it_first() {
        let mut a = Arbiter::new(1, Arbitration::Required);
        assert_eq!(told(&a.update(10, &update(5)).unwrap()), [(10, Code::Ok)]);
        let notices = a.update(11, &update(6)).unwrap();
        assert_eq!(told(&notices), [(10, Code::AlreadyExists), (11, Code::Ok)]);
        assert_eq!(notices[0].1.election_id, Some(id(6)));
        assert!(a.check_primary("", Some(&id(6))).is_ok());
        let error = a.check_primary("", Some(&id(5))).unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied);
        assert_eq!(
            error.message(),
            "election_id 5 is not the primary of the default role, which has election_id 6"
        );
    }

    #[test]
    fn a_lower_id_is_a_backup_and_only_it_is_told() {
        let mut a = Arbiter::new(1, Arbitration::Required);
        a.update(10, &update(5)).unwrap();
        let notices = a.update(11, &update(4)).unwrap();
        assert_eq!(told(&notices), [(11, Code::AlreadyExists)]);
        let notices = a.update(12, &update(None)).unwrap();
        assert_eq!(told(&notices), [(12, Code::AlreadyExists)]);
    }

    #[test]
    fn without_the_primary_nobody_is_promoted_until_the_highest_id_is_reached() {
        let mut a = Arbiter::new(1, Arbitration::Required);
        a.update(10, &update(5)).unwrap();
        a.update(11, &update(4)).unwrap();
        assert_eq!(told(&a.disconnect(10)), [(11, Code::NotFound)]);
        assert!(a.check_primary("", Some(&id(5))).is_err());
        assert_eq!(
            told(&a.update(11, &update(4)).unwrap()),
            [(11, Code::NotFound)]
        );
        assert_eq!(told(&a.update(11, &update(5)).unwrap()), [(11, Code::Ok)]);
        assert_eq!(a.primaries(|_| true), [11]);
    }

    #[test]
    fn a_primary_that_lowers_its_id_steps_down_for_all_to_hear() {
        let mut a = Arbiter::new(1, Arbitration::Required);
        a.update(10, &update(5)).unwrap();
        a.update(11, &update(4)).unwrap();
        let notices = a.update(10, &update(3)).unwrap();
        assert_eq!(told(&notices), [(10, Code::NotFound), (11, Code::NotFound)]);
        assert!(!a.is_primary(10));
    }

    #[test]
    fn roles_are_separate() {
        let mut a = Arbiter::new(1, Arbitration::Required);
        a.update(10, &update(5)).unwrap();
        let mut other = update(5);
        other.role = Some(p4::Role {
            name: "statistics".into(),
            ..Default::default()
        });
        assert_eq!(told(&a.update(11, &other).unwrap()), [(11, Code::Ok)]);
        assert_eq!(a.primaries(|_| true), [10, 11]);
        let error = a.update(11, &update(9)).unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition);
    }

    #[test]
    fn roles_are_remembered_so_their_number_and_size_have_a_limit() {
        let mut a = Arbiter::new(1, Arbitration::Required);
        let with = |name: String, config: usize| p4::MasterArbitrationUpdate {
            role: Some(p4::Role {
                name,
                config: (config > 0).then(|| Any {
                    type_url: "type.googleapis.com/stratum.P4RoleConfig".into(),
                    value: vec![0; config],
                }),
                ..Default::default()
            }),
            ..update(5)
        };
        for n in 0..MAX_ROLES as u64 {
            assert!(a.update(n, &with(format!("role {n}"), 0)).is_ok());
            a.disconnect(n);
        }
        let one_more = a.update(100, &with("one more".into(), 0)).unwrap_err();
        assert_eq!(one_more.code(), Code::ResourceExhausted);
        assert!(a.update(100, &with("role 7".into(), 0)).is_ok());
        assert!(a.update(101, &update(5)).is_ok(), "the default role");
        for (name, config) in [(MAX_NAME_BYTES + 1, 0), (6, MAX_CONFIG_BYTES)] {
            let large = a.update(102, &with("x".repeat(name), config));
            assert_eq!(large.unwrap_err().code(), Code::InvalidArgument);
        }
    }

    #[test]
    fn duplicates_and_strangers_are_refused() {
        let mut a = Arbiter::new(1, Arbitration::Required);
        a.update(10, &update(5)).unwrap();
        let error = a.update(11, &update(5)).unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument);
        let mut stranger = update(7);
        stranger.device_id = 2;
        let error = a.update(12, &stranger).unwrap_err();
        assert_eq!(error.code(), Code::NotFound);
        assert_eq!(
            error.message(),
            "no device 2 here; this address serves device 1"
        );
        // The same stream may repeat its id.
        assert!(a.update(10, &update(5)).is_ok());
    }

    #[test]
    fn without_arbitration_a_request_without_id_is_done_while_nobody_is_connected() {
        let mut a = Arbiter::new(1, Arbitration::Optional);
        assert!(a.check_primary("", None).is_ok());
        let refused = |a: &Arbiter, role: &str, election: Option<u64>| {
            let election = election.map(id);
            a.check_primary(role, election.as_ref()).unwrap_err().code()
        };
        // An id has to be won, and a role to be there.
        assert_eq!(refused(&a, "", Some(0)), Code::PermissionDenied);
        assert_eq!(refused(&a, "", Some(3)), Code::PermissionDenied);
        assert_eq!(refused(&a, "other", None), Code::NotFound);
        a.update(10, &update(5)).unwrap();
        assert_eq!(refused(&a, "", None), Code::PermissionDenied);
        assert!(a.check_primary("", Some(&id(5))).is_ok());
        a.disconnect(10);
        assert!(a.check_primary("", None).is_ok());
        // A controller of another role is one, too.
        let mut other = update(5);
        other.role = Some(p4::Role {
            name: "other".into(),
            ..Default::default()
        });
        a.update(11, &other).unwrap();
        assert_eq!(refused(&a, "", None), Code::PermissionDenied);
    }

    #[test]
    fn without_arbitration_a_stream_without_id_has_id_0() {
        let mut a = Arbiter::new(1, Arbitration::Optional);
        assert_eq!(
            told(&a.update(10, &update(None)).unwrap()),
            [(10, Code::Ok)]
        );
        assert!(a.is_primary(10));
        assert!(a.check_primary("", None).is_ok());
        assert!(a.check_primary("", Some(&id(0))).is_ok());
        let second = a.update(11, &update(None)).unwrap_err();
        assert_eq!(second.code(), Code::InvalidArgument);
        // A higher one takes over while it is there, and leaves nothing behind.
        a.update(11, &update(7)).unwrap();
        assert!(a.check_primary("", None).is_err());
        let notices = a.disconnect(11);
        assert_eq!(told(&notices), [(10, Code::Ok)]);
        assert!(a.check_primary("", None).is_ok());
    }

    #[test]
    fn election_ids_have_128_bits() {
        let mut a = Arbiter::new(1, Arbitration::Required);
        let mut high = update(0);
        high.election_id = Some(p4::Uint128 { high: 1, low: 0 });
        a.update(10, &high).unwrap();
        assert_eq!(
            told(&a.update(11, &update(u64::MAX)).unwrap()),
            [(11, Code::AlreadyExists)]
        );
    }
}
