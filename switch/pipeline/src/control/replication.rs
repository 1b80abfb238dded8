//! Multicast groups, clone sessions and parser value sets.

use super::{CloneSession, ControlError, MatchKey, ProtectedReplica, Replica, Result};
use crate::bits::{from_bytes, ones, prefix_mask, words_for, write_words};
use crate::{Pipeline, ValueSetId};

/// The group of packets that are for none, where 0 is a group.
const NO_GROUP: u16 = u16::MAX;

impl Pipeline {
    /// Adds a multicast group. Programs for Tofino have a group 0: packets that are for none have not written theirs.
    pub fn insert_multicast_group(&mut self, group: u16, replicas: Vec<Replica>) -> Result<()> {
        if group == 0 && self.program.tofino().is_none() {
            return Err(ControlError::invalid(
                "multicast group 0",
                "0 means no multicast; groups start at 1",
            ));
        }
        check_replicas(&format!("multicast group {group}"), &replicas)?;
        if self.state.multicast.contains_key(&group) {
            return Err(ControlError::exists("multicast group", group));
        }
        self.state.multicast.insert(group, replicas);
        if group == 0 {
            self.state.tofino.no_group = NO_GROUP;
        }
        Ok(())
    }

    /// Gives an existing group replicas that have backups (P4Runtime 1.5, "MulticastGroupEntry").
    pub fn protect_multicast_group(
        &mut self,
        group: u16,
        replicas: Vec<ProtectedReplica>,
    ) -> Result<()> {
        let all = replicas
            .iter()
            .flat_map(|r| [r.primary].into_iter().chain(r.backups.iter().copied()));
        check_replicas(
            &format!("multicast group {group}"),
            &all.collect::<Vec<_>>(),
        )?;
        if !self.state.multicast.contains_key(&group) {
            return Err(ControlError::not_found("multicast group", group));
        }
        self.state.protected.insert(group, replicas);
        self.choose_replicas(group);
        Ok(())
    }

    /// Chooses for each replica of a group with backups the first one whose port is up.
    pub(super) fn choose_replicas(&mut self, group: u16) {
        let down = &self.state.ports_down;
        let choose = |r: &ProtectedReplica| {
            let mut all = [r.primary].into_iter().chain(r.backups.iter().copied());
            let up = all.find(|r| !down.contains(&u32::from(r.port)));
            up.unwrap_or(r.primary)
        };
        if let Some(replicas) = self.state.protected.get(&group) {
            let chosen = replicas.iter().map(choose).collect();
            self.state.multicast.insert(group, chosen);
        }
    }

    /// Replaces the replicas of a multicast group, which then have no backups.
    pub fn modify_multicast_group(&mut self, group: u16, replicas: Vec<Replica>) -> Result<()> {
        check_replicas(&format!("multicast group {group}"), &replicas)?;
        match self.state.multicast.get_mut(&group) {
            Some(old) => *old = replicas,
            None => return Err(ControlError::not_found("multicast group", group)),
        }
        self.state.protected.remove(&group);
        Ok(())
    }

    /// Deletes a multicast group.
    pub fn delete_multicast_group(&mut self, group: u16) -> Result<()> {
        self.state.protected.remove(&group);
        self.state.tofino.exclusions.remove(&group);
        if group == 0 {
            self.state.tofino.no_group = 0;
        }
        let removed = self.state.multicast.remove(&group).map(drop);
        removed.ok_or_else(|| ControlError::not_found("multicast group", group))
    }

    /// All multicast groups with the replicas in use.
    pub fn multicast_groups(&self) -> impl Iterator<Item = (u16, &[Replica])> + '_ {
        self.state
            .multicast
            .iter()
            .map(|(id, r)| (*id, r.as_slice()))
    }

    /// Adds a clone session.
    pub fn insert_clone_session(&mut self, session: u32, value: CloneSession) -> Result<()> {
        check_replicas(&format!("clone session {session}"), &value.replicas)?;
        if self.state.clone_sessions.contains_key(&session) {
            return Err(ControlError::exists("clone session", session));
        }
        self.state.clone_sessions.insert(session, value);
        Ok(())
    }

    /// Replaces a clone session.
    pub fn modify_clone_session(&mut self, session: u32, value: CloneSession) -> Result<()> {
        check_replicas(&format!("clone session {session}"), &value.replicas)?;
        match self.state.clone_sessions.get_mut(&session) {
            Some(old) => *old = value,
            None => return Err(ControlError::not_found("clone session", session)),
        }
        Ok(())
    }

    /// Deletes a clone session.
    pub fn delete_clone_session(&mut self, session: u32) -> Result<()> {
        let removed = self.state.clone_sessions.remove(&session).map(drop);
        removed.ok_or_else(|| ControlError::not_found("clone session", session))
    }

    /// All clone sessions.
    pub fn clone_sessions(&self) -> impl Iterator<Item = (u32, &CloneSession)> + '_ {
        self.state.clone_sessions.iter().map(|(id, s)| (*id, s))
    }

    /// Replaces the members of a value set. Each has one key for every field of the `select` that
    /// uses the set.
    pub fn set_value_set(&mut self, set: ValueSetId, members: &[Vec<MatchKey>]) -> Result<()> {
        let s = &mut self.state.value_sets[set.index()];
        if let Some(size) = s.max_size
            && members.len() as u64 > u64::from(size)
        {
            return Err(ControlError::Full {
                kind: "value set",
                name: s.name.to_string(),
                size,
            });
        }
        s.members = members
            .iter()
            .map(|m| member(&s.fields, m))
            .collect::<std::result::Result<_, _>>()
            .map_err(|problem| ControlError::invalid(format!("value set {}", s.name), problem))?;
        Ok(())
    }

    /// Number of members of a value set.
    pub fn value_set_len(&self, set: ValueSetId) -> usize {
        self.state.value_sets[set.index()].members.len()
    }
}

/// Checks that no pair of port and instance appears twice (P4Runtime 1.5, section 9.5).
fn check_replicas(owner: &str, replicas: &[Replica]) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    match replicas.iter().find(|r| !seen.insert(**r)) {
        None => Ok(()),
        Some(r) => Err(ControlError::invalid(
            owner,
            format!("port {} instance {} is listed twice", r.port, r.instance),
        )),
    }
}

type Bytes = Box<[u8]>;

/// Value and mask of a member, laid out like the key of the parser.
fn member(fields: &[u32], keys: &[MatchKey]) -> std::result::Result<(Bytes, Bytes), String> {
    if keys.len() != fields.len() {
        return Err(format!(
            "a member has {} fields, the select has {}",
            keys.len(),
            fields.len()
        ));
    }
    let bytes: usize = fields.iter().map(|bits| bits.div_ceil(8) as usize).sum();
    let (mut value, mut mask) = (vec![0; bytes], vec![0; bytes]);
    let mut end = 0;
    for (bits, key) in fields.iter().copied().zip(keys) {
        end += bits.div_ceil(8) as usize;
        let at = end * 8 - bits as usize;
        let fit = |v: &[u8]| {
            from_bytes(v, bits).ok_or_else(|| format!("value {v:02x?} does not fit in {bits} bits"))
        };
        let (v, m) = match key {
            MatchKey::Exact(v) | MatchKey::Optional(Some(v)) => (fit(v)?, ones(bits)),
            MatchKey::Ternary { value, mask } => (fit(value)?, fit(mask)?),
            MatchKey::Lpm { value, prefix_len } if *prefix_len <= bits => {
                (fit(value)?, prefix_mask(bits, *prefix_len))
            }
            MatchKey::Any | MatchKey::Optional(None) => {
                (vec![0; words_for(bits)], vec![0; words_for(bits)])
            }
            other => return Err(format!("{other:?} is not supported in a value set")),
        };
        write_words(&mut value, at, bits, &v);
        write_words(&mut mask, at, bits, &m);
    }
    Ok((value.into(), mask.into()))
}
