//! The number of copies that the multicast groups of a device make, and the nodes of the groups.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{EntityError, Result};

/// Most copies of all groups of a device together. A few nodes of many ports, listed in many groups, would take more
/// memory than there is.
const MOST_COPIES: usize = 1 << 20;

/// Copies and nodes of the groups of a device.
#[derive(Clone, Debug, Default)]
pub struct Copies {
    /// Nodes and number of copies, by group.
    groups: BTreeMap<u64, (Vec<u64>, usize)>,
    /// Groups by node.
    of_node: BTreeMap<u64, BTreeSet<u64>>,
    all: usize,
}

impl Copies {
    /// The groups that have a node.
    pub fn groups_with(&self, node: u64) -> Vec<u64> {
        let groups = self.of_node.get(&node).into_iter().flatten();
        groups.copied().collect()
    }

    /// Number of copies of a group. `of_nodes`: number of copies of each of its nodes. An error: with this group, there
    /// would be too many in all.
    pub fn counted(&self, group: u64, of_nodes: impl Iterator<Item = usize>) -> Result<usize> {
        let own = self.groups.get(&group).map_or(0, |(_, copies)| *copies);
        let room = MOST_COPIES - (self.all - own);
        let mut sum = 0;
        for copies in of_nodes {
            sum += copies;
            if sum > room {
                return Err(EntityError::exhausted(format!(
                    "group {group} would have the groups make more than {MOST_COPIES} copies in all; take nodes out \
                     of it, or ports out of its nodes"
                )));
            }
        }
        Ok(sum)
    }

    /// Sets the nodes of a group, and the number of copies that they make together.
    pub fn set(&mut self, group: u64, nodes: Vec<u64>, copies: usize) {
        self.remove(group);
        for node in &nodes {
            self.of_node.entry(*node).or_default().insert(group);
        }
        self.all += copies;
        self.groups.insert(group, (nodes, copies));
    }

    /// Removes a group.
    pub fn remove(&mut self, group: u64) {
        let (nodes, copies) = self.groups.remove(&group).unwrap_or_default();
        self.all -= copies;
        for node in nodes {
            if let Some(groups) = self.of_node.get_mut(&node) {
                groups.remove(&group);
                if groups.is_empty() {
                    self.of_node.remove(&node);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_all_groups_count_together_and_those_of_deleted_ones_no_more() {
        let mut copies = Copies::default();
        let half = |copies: &Copies, group| copies.counted(group, [MOST_COPIES / 4; 2].into_iter());
        for group in [1, 2] {
            let count = half(&copies, group).unwrap();
            copies.set(group, vec![7, 8], count);
        }
        assert!(copies.counted(3, [0, 0].into_iter()).is_ok());
        assert!(copies.counted(3, [0, 1].into_iter()).is_err());
        // As many as before.
        assert_eq!(half(&copies, 2).unwrap(), MOST_COPIES / 2);
        assert_eq!(copies.groups_with(7), [1, 2]);
        copies.remove(1);
        assert_eq!(half(&copies, 3).unwrap(), MOST_COPIES / 2);
        copies.set(2, vec![8], 0);
        assert!(copies.groups_with(7).is_empty());
        assert_eq!(copies.groups_with(8), [2]);
    }
}
