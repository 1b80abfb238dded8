//! Action profiles and selectors, and the actions of entries ready to run.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use crate::control::{ActionCall, Group};

/// An action and its data as words.
#[derive(Clone, Debug)]
pub(crate) struct BoundAction {
    pub action: u32,
    pub data: Data,
}

/// Words of action data: those of most actions are where the action is.
#[derive(Clone, Debug)]
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
    Set(Box<[BoundAction]>),
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
    pub members: BTreeMap<u32, Member>,
    pub groups: BTreeMap<u32, GroupState>,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub call: ActionCall,
    pub bound: BoundAction,
}

#[derive(Debug)]
pub(crate) struct GroupState {
    pub group: Group,
    /// Members, each as often as its weight says, in order of their numbers.
    pub buckets: Vec<u32>,
}

impl Profile {
    pub fn new(spec: &Arc<ProfileSpec>) -> Profile {
        Profile {
            spec: spec.clone(),
            members: BTreeMap::new(),
            groups: BTreeMap::new(),
        }
    }
}

impl GroupState {
    pub fn new(group: Group) -> GroupState {
        let mut members: Vec<_> = group.members.iter().map(|m| (m.member, m.weight)).collect();
        members.sort_unstable();
        let buckets = members
            .into_iter()
            .flat_map(|(member, weight)| std::iter::repeat_n(member, weight as usize))
            .collect();
        GroupState { group, buckets }
    }
}
