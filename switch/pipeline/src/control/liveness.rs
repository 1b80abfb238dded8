//! Ports that are down and what watches them (P4Runtime 1.5, "Group Programming", `watch_port`).

use crate::control::{ProtectedReplica, TableAction};
use crate::profile::{GroupState, Resolved};
use crate::{Pipeline, ProfileId, TableId};

impl Pipeline {
    /// Notes that a port has come up or gone down. While a port is down, members of groups and
    /// one-shot sets that watch it are not chosen, and replicas of multicast groups go to their
    /// backups. A group without a member left acts like a miss, without an action.
    pub fn set_port_up(&mut self, port: u32, up: bool) {
        let changed = match up {
            true => self.state.ports_down.remove(&port),
            false => self.state.ports_down.insert(port),
        };
        if !changed {
            return;
        }
        let protects = |replicas: &Vec<ProtectedReplica>| {
            let mut replicas = replicas.iter();
            replicas.any(|r| {
                u32::from(r.primary.port) == port
                    || r.backups.iter().any(|b| u32::from(b.port) == port)
            })
        };
        let groups = self.state.protected.iter();
        let groups: Vec<u16> = groups
            .filter(|(_, r)| protects(r))
            .map(|(id, _)| *id)
            .collect();
        for group in groups {
            self.choose_replicas(group);
        }
        let watches = |watched: Option<u32>| watched == Some(port);
        let down = self.state.ports_down.clone();
        for profile in 0..self.state.profiles().len() {
            let profile = self.state.change_profile(ProfileId(profile as u32));
            for group in profile.groups.values_mut() {
                if group.group.members.iter().any(|m| watches(m.watch_port)) {
                    *group = GroupState::new(group.group.clone(), &down);
                }
            }
        }
        for table in 0..self.state.tables.len() {
            if self.state.tables[table].spec.profile.is_some() {
                self.watch_sets(TableId(table as u32), watches);
            }
        }
    }

    /// Chooses anew among the actions of one-shot sets that watch a port.
    fn watch_sets(&mut self, table: TableId, watches: impl Fn(Option<u32>) -> bool) {
        let mut sets = Vec::new();
        for (slot, entry) in self.state.tables[table.index()].entries.iter().enumerate() {
            let extra = entry.as_ref().and_then(|e| e.extra.as_deref());
            if let Some(extra) = extra
                && extra.set.iter().any(|a| watches(a.watch_port))
            {
                sets.push((slot, TableAction::Set(extra.set.clone())));
            }
        }
        // The sets were accepted before, and the state of a port does not change that.
        let resolve = |(slot, set)| Some((slot, self.resolve(table, &set).ok()?));
        let resolved: Vec<(usize, Resolved)> = sets.into_iter().filter_map(resolve).collect();
        if !resolved.is_empty() {
            let table = &mut self.state.tables[table.index()];
            for (slot, set) in resolved {
                table.hot[slot].action = set;
            }
        }
    }
}
