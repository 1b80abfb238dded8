//! Action profiles and selectors, and the actions of entries ready to run.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use crate::by_id::ById;
use crate::control::{ActionCall, Group};
pub(crate) use crate::native::ActionSet;

/// An action and its data as words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundAction {
    pub action: u32,
    pub data: Data,
}

/// Words of action data: those of most actions are where the action is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    Short(u8, [u64; SHORT]),
    Long(Box<[u64]>),
}

const SHORT: usize = 3;

impl From<&[u64]> for Data {
    fn from(words: &[u64]) -> Data {
        let mut short = [0; SHORT];
        match short.get_mut(..words.len()) {
            Some(start) => {
                start.copy_from_slice(words);
                Data::Short(words.len() as u8, short)
            }
            None => Data::Long(words.into()),
        }
    }
}

impl Deref for Data {
    type Target = [u64];

    #[inline]
    fn deref(&self) -> &[u64] {
        match self {
            Data::Short(n, words) => &words[..usize::from(*n)],
            Data::Long(words) => words,
        }
    }
}

/// What an entry does.
#[derive(Clone, Debug)]
pub(crate) enum Resolved {
    Action(BoundAction),
    Member(u32),
    Group(u32),
    /// One-shot: every action as often as its weight says.
    Set(Arc<ActionSet>),
}

/// What the program says about an action profile.
#[derive(Debug)]
pub(crate) struct ProfileSpec {
    pub name: String,
    pub max_size: u32,
    /// Hash over the selector's inputs.
    pub selector: Option<u32>,
    pub actions: Vec<crate::ids::ActionId>,
}

#[derive(Debug)]
pub(crate) struct Profile {
    pub spec: Arc<ProfileSpec>,
    pub members: ById<Member>,
    pub groups: ById<GroupState>,
    pub sets: RecentSets,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub call: ActionCall,
    pub bound: BoundAction,
}

#[derive(Debug)]
pub(crate) struct GroupState {
    pub group: Group,
    /// Members whose ports are up, each as often as its weight says, in order of their numbers.
    pub buckets: Vec<u32>,
}

/// One-shot sets of late. Most routes of a switch lead over the same few sets of links: one copy of each, for all
/// entries together, is what the caches can hold.
#[derive(Debug, Default)]
pub(crate) struct RecentSets(VecDeque<Arc<ActionSet>>);

/// More different sets than a controller writes in turn.
const RECENT_SETS: usize = 64;

impl RecentSets {
    /// The set with these actions.
    pub fn share(&mut self, actions: Vec<BoundAction>) -> Arc<ActionSet> {
        if let Some(set) = self.0.iter().find(|set| set.actions() == actions) {
            return set.clone();
        }
        if self.0.len() >= RECENT_SETS {
            self.0.pop_front();
        }
        let set = Arc::new(ActionSet::new(actions));
        self.0.push_back(set.clone());
        set
    }
}

impl Profile {
    pub fn new(spec: &Arc<ProfileSpec>) -> Profile {
        Profile {
            spec: spec.clone(),
            members: ById::default(),
            groups: ById::default(),
            sets: RecentSets::default(),
        }
    }

    /// The actions of which a packet gets one, of a member or a group.
    pub fn actions_of(&self, resolved: &Resolved) -> Option<Vec<BoundAction>> {
        let bound = |member: &u32| Some(self.members.get(member)?.bound.clone());
        match resolved {
            Resolved::Member(member) => Some(vec![bound(member)?]),
            Resolved::Group(group) => {
                let buckets = &self.groups.get(group)?.buckets;
                buckets.iter().map(bound).collect()
            }
            Resolved::Action(_) | Resolved::Set(_) => None,
        }
    }
}

impl GroupState {
    pub fn new(group: Group, ports_down: &BTreeSet<u32>) -> GroupState {
        let is_up = |port: Option<u32>| port.is_none_or(|p| !ports_down.contains(&p));
        let members = group.members.iter().filter(|m| is_up(m.watch_port));
        let mut members: Vec<_> = members.map(|m| (m.member, m.weight)).collect();
        members.sort_unstable();
        let buckets = members
            .into_iter()
            .flat_map(|(member, weight)| std::iter::repeat_n(member, weight as usize))
            .collect();
        GroupState { group, buckets }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(ports: &[u64]) -> Vec<BoundAction> {
        let bound = |port: &u64| BoundAction {
            action: 1,
            data: [*port].as_slice().into(),
        };
        ports.iter().map(bound).collect()
    }

    #[test]
    fn equal_sets_are_one() {
        let mut sets = RecentSets::default();
        let first = sets.share(actions(&[1, 2]));
        assert!(!Arc::ptr_eq(&first, &sets.share(actions(&[2, 1]))));
        assert!(Arc::ptr_eq(&first, &sets.share(actions(&[1, 2]))));
        for port in 0..2 * RECENT_SETS as u64 {
            sets.share(actions(&[port]));
        }
        assert_eq!(sets.0.len(), RECENT_SETS);
        assert_eq!(first.actions(), actions(&[1, 2]));
    }
}
