//! Members and groups of action profiles, and the binding of actions to their arguments.

use super::{ActionCall, ControlError, Group, Result, TableAction, WeightedAction};
use crate::action::Action;
use crate::bits::{from_bytes, to_bytes, words_for};
use crate::ids::{ActionId, ProfileId};
use crate::profile::{BoundAction, GroupState, Member, Resolved};
use crate::{Pipeline, TableId};

/// Most buckets of a group, so that a wrong weight cannot fill the memory; no real group needs
/// more.
const MAX_BUCKETS: u64 = 65_536;

/// Checks an action call and turns its arguments into words.
pub(crate) fn bind(actions: &[Action], call: &ActionCall) -> Result<BoundAction> {
    let action = &actions[call.action.index()];
    let owner = || format!("action {}", action.name);
    if call.params.len() != action.params.len() {
        return Err(ControlError::invalid(
            owner(),
            format!(
                "{} arguments given, it has {} parameters",
                call.params.len(),
                action.params.len()
            ),
        ));
    }
    let mut data = Vec::with_capacity(action.data_words);
    for (param, value) in action.params.iter().zip(&call.params) {
        let bits = param.slot.bits;
        let words = from_bytes(value, bits).ok_or_else(|| {
            ControlError::invalid(
                owner(),
                format!(
                    "value {value:02x?} of parameter {} does not fit in {bits} bits",
                    param.name
                ),
            )
        })?;
        data.extend(words);
    }
    Ok(BoundAction {
        action: call.action.0,
        data: data.as_slice().into(),
    })
}

/// The inverse of [`bind`], except that values get the width of their parameters.
pub(crate) fn unbind(actions: &[Action], bound: &BoundAction) -> ActionCall {
    let mut rest: &[u64] = &bound.data;
    let params = actions[bound.action as usize].params.iter().map(|param| {
        let bits = param.slot.bits;
        let (words, after) = rest.split_at(words_for(bits).min(rest.len()));
        rest = after;
        to_bytes(words, bits)
    });
    ActionCall {
        params: params.collect(),
        action: ActionId(bound.action),
    }
}

impl Pipeline {
    /// Adds a member to an action profile.
    pub fn insert_member(
        &mut self,
        profile: ProfileId,
        member: u32,
        call: ActionCall,
    ) -> Result<()> {
        let bound = self.bind_for_profile(profile, &call)?;
        let p = self.state.change_profile(profile);
        if p.members.contains_key(&member) {
            return Err(ControlError::exists("member", p.name_of(member)));
        }
        if p.members.len() as u64 >= u64::from(p.spec.max_size) {
            return Err(ControlError::Full {
                kind: "action profile",
                name: p.spec.name.clone(),
                size: p.spec.max_size,
            });
        }
        p.members.insert(member, Member { call, bound });
        Ok(())
    }

    /// Replaces the action of a member.
    pub fn modify_member(
        &mut self,
        profile: ProfileId,
        member: u32,
        call: ActionCall,
    ) -> Result<()> {
        let bound = self.bind_for_profile(profile, &call)?;
        let p = self.state.change_profile(profile);
        match p.members.get_mut(&member) {
            Some(m) => {
                *m = Member { call, bound };
                Ok(())
            }
            None => Err(ControlError::not_found("member", p.name_of(member))),
        }
    }

    /// Deletes a member that nothing refers to.
    pub fn delete_member(&mut self, profile: ProfileId, member: u32) -> Result<()> {
        let p = &self.state.profiles()[profile.index()];
        let name = p.name_of(member);
        if !p.members.contains_key(&member) {
            return Err(ControlError::not_found("member", name));
        }
        let group = p
            .groups
            .iter()
            .find(|(_, g)| g.group.members.iter().any(|m| m.member == member));
        if let Some((group, _)) = group {
            return Err(ControlError::InUse {
                kind: "member",
                name,
                user: format!("group {group}"),
            });
        }
        self.check_unused(
            profile,
            "member",
            name,
            |r| matches!(r, Resolved::Member(m) if *m == member),
        )?;
        self.state.change_profile(profile).members.remove(&member);
        Ok(())
    }

    /// The members of an action profile, by number.
    pub fn members(&self, profile: ProfileId) -> impl Iterator<Item = (u32, &ActionCall)> + '_ {
        self.state.profiles()[profile.index()]
            .members
            .iter()
            .map(|(id, m)| (*id, &m.call))
    }

    /// Adds a group to an action selector.
    pub fn insert_group(&mut self, profile: ProfileId, group: u32, value: Group) -> Result<()> {
        self.check_group(profile, group, &value)?;
        let value = GroupState::new(value, &self.state.ports_down);
        let p = self.state.change_profile(profile);
        if p.groups.contains_key(&group) {
            return Err(ControlError::exists("group", p.name_of(group)));
        }
        p.groups.insert(group, value);
        Ok(())
    }

    /// Replaces the members of a group.
    pub fn modify_group(&mut self, profile: ProfileId, group: u32, value: Group) -> Result<()> {
        self.check_group(profile, group, &value)?;
        let value = GroupState::new(value, &self.state.ports_down);
        let p = self.state.change_profile(profile);
        match p.groups.get_mut(&group) {
            Some(g) => {
                *g = value;
                Ok(())
            }
            None => Err(ControlError::not_found("group", p.name_of(group))),
        }
    }

    /// Deletes a group that nothing refers to.
    pub fn delete_group(&mut self, profile: ProfileId, group: u32) -> Result<()> {
        let p = &self.state.profiles()[profile.index()];
        let name = p.name_of(group);
        if !p.groups.contains_key(&group) {
            return Err(ControlError::not_found("group", name));
        }
        self.check_unused(
            profile,
            "group",
            name,
            |r| matches!(r, Resolved::Group(g) if *g == group),
        )?;
        self.state.change_profile(profile).groups.remove(&group);
        Ok(())
    }

    /// The groups of an action selector, by number.
    pub fn groups(&self, profile: ProfileId) -> impl Iterator<Item = (u32, &Group)> + '_ {
        self.state.profiles()[profile.index()]
            .groups
            .iter()
            .map(|(id, g)| (*id, &g.group))
    }

    /// The member of a group that a hash selects; `None`: the group has none, or is not there.
    pub fn selected_member(&self, profile: ProfileId, group: u32, hash: u64) -> Option<u32> {
        let buckets = &self.state.profiles()[profile.index()]
            .groups
            .get(&group)?
            .buckets;
        let is_some = !buckets.is_empty();
        let chosen = is_some.then(|| crate::profile::bucket(hash, buckets.len()))?;
        buckets.get(chosen).copied()
    }

    /// Binds an action that the profile allows.
    fn bind_for_profile(&self, profile: ProfileId, call: &ActionCall) -> Result<BoundAction> {
        let p = &self.state.profiles()[profile.index()];
        self.check_action(&p.spec.actions, call.action, || {
            format!("action profile {}", p.spec.name)
        })?;
        bind(&self.program.actions, call)
    }

    /// Checks that an action is among those allowed.
    fn check_action(
        &self,
        allowed: &[ActionId],
        action: ActionId,
        owner: impl Fn() -> String,
    ) -> Result<()> {
        if allowed.contains(&action) {
            return Ok(());
        }
        let name = |a: &ActionId| self.program.actions[a.index()].name.as_str();
        Err(ControlError::invalid(
            owner(),
            format!(
                "action {} is not one of its actions: {}",
                name(&action),
                allowed.iter().map(name).collect::<Vec<_>>().join(", ")
            ),
        ))
    }

    /// Checks that a group can have these members.
    fn check_group(&self, profile: ProfileId, group: u32, value: &Group) -> Result<()> {
        let p = &self.state.profiles()[profile.index()];
        let owner = format!("group {}", p.name_of(group));
        if p.spec.selector.is_none() {
            return Err(ControlError::invalid(
                owner,
                "an action profile without selector has no groups",
            ));
        }
        for m in &value.members {
            if !p.members.contains_key(&m.member) {
                return Err(ControlError::not_found("member", p.name_of(m.member)));
            }
        }
        check_weights(
            &owner,
            value.members.iter().map(|m| m.weight),
            value.max_size,
        )
    }

    /// Checks that no entry refers to a member or group.
    fn check_unused(
        &self,
        profile: ProfileId,
        kind: &'static str,
        name: String,
        uses: impl Fn(&Resolved) -> bool,
    ) -> Result<()> {
        let user = self.state.tables.iter().find(|t| {
            t.spec.profile == Some(profile)
                && (t.actions().any(&uses) || t.default.as_ref().is_some_and(|d| uses(&d.resolved)))
        });
        match user {
            None => Ok(()),
            Some(t) => Err(ControlError::InUse {
                kind,
                name,
                user: format!("an entry of table {}", t.spec.name),
            }),
        }
    }

    /// Checks that a table can have this action, and makes it ready to run.
    pub(crate) fn resolve(&mut self, table: TableId, action: &TableAction) -> Result<Resolved> {
        let spec = self.state.tables[table.index()].spec.clone();
        let owner = || format!("table {}", spec.name);
        let wrong = |what: &str| Err(ControlError::invalid(owner(), what));
        let Some(profile) = spec.profile else {
            return match action {
                TableAction::Direct(call) => {
                    self.check_action(&spec.actions, call.action, owner)?;
                    Ok(Resolved::Action(bind(&self.program.actions, call)?))
                }
                _ => wrong("it has no action profile; give an action"),
            };
        };
        let p = &self.state.profiles()[profile.index()];
        match action {
            TableAction::Direct(_) => {
                wrong("it has an action profile; give a member, a group or an action set")
            }
            TableAction::Member(m) if p.members.contains_key(m) => Ok(Resolved::Member(*m)),
            TableAction::Member(m) => Err(ControlError::not_found("member", p.name_of(*m))),
            TableAction::Group(g) if p.groups.contains_key(g) => Ok(Resolved::Group(*g)),
            TableAction::Group(g) => Err(ControlError::not_found("group", p.name_of(*g))),
            TableAction::Set(_) if p.spec.selector.is_none() => {
                wrong("its action profile has no selector; give a member")
            }
            TableAction::Set(set) => self.resolve_set(profile, &owner(), set),
        }
    }

    /// Makes the actions of a one-shot set ready to run, without those whose port is down.
    fn resolve_set(
        &mut self,
        profile: ProfileId,
        owner: &str,
        set: &[WeightedAction],
    ) -> Result<Resolved> {
        check_weights(owner, set.iter().map(|a| a.weight), 0)?;
        let mut buckets = Vec::new();
        for action in set {
            let bound = self.bind_for_profile(profile, &action.call)?;
            let watched = action.watch_port;
            if watched.is_some_and(|port| self.state.ports_down.contains(&port)) {
                continue;
            }
            buckets.extend(std::iter::repeat_n(bound, action.weight as usize));
        }
        Ok(Resolved::Set(self.state.share_set(profile, buckets)))
    }
}

/// Checks that weights are positive and within the limit; 0 for `max_size` means the default limit.
fn check_weights(owner: &str, weights: impl Iterator<Item = u32>, max_size: u32) -> Result<()> {
    let mut sum = 0u64;
    for weight in weights {
        if weight == 0 {
            return Err(ControlError::invalid(
                owner,
                "a weight is 0; weights start at 1",
            ));
        }
        sum += u64::from(weight);
    }
    let limit = match max_size {
        0 => MAX_BUCKETS,
        n => u64::from(n).min(MAX_BUCKETS),
    };
    if sum > limit {
        return Err(ControlError::invalid(
            owner,
            format!("the weights add up to {sum}, the limit is {limit}"),
        ));
    }
    Ok(())
}
