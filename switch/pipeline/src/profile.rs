//! Action profiles and selectors, and the actions of entries, ready to run.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Deref;
use std::sync::Arc;

use crate::by_id::ById;
use crate::control::{ActionCall, Group};
pub(crate) use crate::native::ActionSet;

/// An action with its arguments as words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoundAction {
    /// Number of the action.
    pub action: u32,
    /// Its arguments.
    pub data: Data,
}

/// Words of action data. Those of most actions are stored in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// How many words there are, and the words.
    Short(u8, [u64; SHORT]),
    /// More words than fit in place.
    Long(Box<[u64]>),
}

/// Most words that are stored in place.
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

/// Effect of an entry, ready to run.
#[derive(Clone, Debug)]
pub(crate) enum Resolved {
    /// Runs this action.
    Action(BoundAction),
    /// Runs the action of this member.
    Member(u32),
    /// Runs the action of one member of this group.
    Group(u32),
    /// Runs one of these actions, each listed as often as its weight says (a one-shot set).
    Set(Arc<ActionSet>),
}

/// Properties of an action profile in the program.
#[derive(Debug)]
pub(crate) struct ProfileSpec {
    /// Its name in P4.
    pub name: String,
    /// Most members or, with a selector, most that the weights of a group may add up to.
    pub max_size: u32,
    /// The calculation of the selector's hash; `None` if it has no selector.
    pub selector: Option<u32>,
    /// The actions that members may have.
    pub actions: Vec<crate::ids::ActionId>,
}

/// An action profile of a switch.
#[derive(Debug)]
pub(crate) struct Profile {
    /// Its properties in the program.
    pub spec: Arc<ProfileSpec>,
    /// Its members.
    pub members: ById<Member>,
    /// Its groups.
    pub groups: ById<GroupState>,
    /// One-shot sets in use.
    pub sets: RecentSets,
}

/// A member of an action profile.
#[derive(Debug)]
pub(crate) struct Member {
    /// The action as the control plane gave it.
    pub call: ActionCall,
    /// The action, ready to run.
    pub bound: BoundAction,
}

/// A group of an action selector.
#[derive(Debug)]
pub(crate) struct GroupState {
    /// The group as the control plane gave it.
    pub group: Group,
    /// Members whose ports are up, each as often as its weight says, ordered by number.
    pub buckets: Vec<u32>,
}

/// `hash` modulo `n`, without the slow division where possible.
#[inline]
pub(crate) fn bucket(hash: u64, n: usize) -> usize {
    match (u32::try_from(hash), u32::try_from(n)) {
        _ if n.is_power_of_two() => hash as usize & (n - 1),
        (Ok(hash), Ok(n)) => (hash % n) as usize,
        _ => (hash % n as u64) as usize,
    }
}

/// One-shot sets that were written lately. Most routes of a switch lead over the same few sets of
/// links. With one copy of each for all entries, they fit into the caches.
#[derive(Debug, Default)]
pub(crate) struct RecentSets(VecDeque<Arc<ActionSet>>);

/// How many sets are remembered: more than a controller writes in turn.
const RECENT_SETS: usize = 64;

impl RecentSets {
    /// The set with these actions, shared with earlier entries if it was written lately.
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
    /// A profile without members.
    pub fn new(spec: &Arc<ProfileSpec>) -> Profile {
        Profile {
            spec: spec.clone(),
            members: ById::default(),
            groups: ById::default(),
            sets: RecentSets::default(),
        }
    }

    /// The name of a member or group in messages.
    pub fn name_of(&self, number: u32) -> String {
        format!("{}#{number}", self.spec.name)
    }

    /// The actions among which a packet of a member or group gets one.
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
    /// The state of a group while these ports are down.
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
