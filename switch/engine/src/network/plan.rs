//! How nodes are divided into parts: with about the same number of link ends in each, and few links
//! between them.

/// A link between two nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Edge {
    /// The numbers of the two nodes.
    pub ends: [usize; 2],
    /// Whether its nodes must stay together.
    pub tight: bool,
}

/// Returns the part of each node. Parts are numbered from 0 without gaps. There are fewer than
/// asked for if not enough nodes can be separated.
///
/// Each part grows from the first node that has none yet, by the neighbour with the largest share
/// of its links in the part already. So the hosts of a switch and the switches of a pod come before
/// other pods.
pub(super) fn plan(nodes: usize, edges: &[Edge], parts: usize) -> Vec<usize> {
    let groups = groups(nodes, edges);
    let count = groups.iter().max().map_or(0, |last| last + 1);
    let mut sizes = vec![0; count];
    let mut neighbours = vec![Vec::new(); count];
    for edge in edges {
        let [a, b] = edge.ends.map(|node| groups[node]);
        sizes[a] += 1;
        sizes[b] += 1;
        if a != b {
            neighbours[a].push(b);
            neighbours[b].push(a);
        }
    }
    let part_of_group = grow(&sizes, &neighbours, parts.clamp(1, count.max(1)));
    groups.iter().map(|group| part_of_group[*group]).collect()
}

/// Returns the group of each node: nodes that must stay together. Groups are numbered in the order
/// of their first nodes.
fn groups(nodes: usize, edges: &[Edge]) -> Vec<usize> {
    let mut leader: Vec<usize> = (0..nodes).collect();
    fn find(leader: &mut [usize], mut node: usize) -> usize {
        while leader[node] != node {
            leader[node] = leader[leader[node]];
            node = leader[node];
        }
        node
    }
    for edge in edges.iter().filter(|edge| edge.tight) {
        let [a, b] = edge.ends.map(|node| find(&mut leader, node));
        // The first node leads, so that numbers follow the order of the nodes.
        leader[a.max(b)] = a.min(b);
    }
    let mut number = vec![usize::MAX; nodes];
    let mut count = 0;
    (0..nodes)
        .map(|node| {
            let first = find(&mut leader, node);
            if number[first] == usize::MAX {
                number[first] = count;
                count += 1;
            }
            number[first]
        })
        .collect()
}

/// Returns the part of each group, given the link ends in each group and its neighbours, one entry
/// per link.
fn grow(sizes: &[usize], neighbours: &[Vec<usize>], parts: usize) -> Vec<usize> {
    const NONE: usize = usize::MAX;
    let count = sizes.len();
    let mut part_of = vec![NONE; count];
    let mut left: usize = sizes.iter().sum();
    let mut groups_left = count;
    for part in 0..parts {
        let parts_left = parts - part;
        let share = left.div_ceil(parts_left);
        let mut size = 0;
        let mut links_in = vec![0usize; count];
        // Each part to come must get at least one group.
        while groups_left >= parts_left {
            // Fractions are compared by cross-multiplication; among equals the first wins.
            let open = (0..count).filter(|group| part_of[*group] == NONE);
            let best = open.reduce(|best, group| {
                let weight = |a: usize, b: usize| links_in[a] * neighbours[b].len().max(1);
                match weight(group, best) > weight(best, group) {
                    true => group,
                    false => best,
                }
            });
            let Some(best) = best else { break };
            // The last part takes all that is left; the others stop where they are nearest to their
            // share.
            let after = size + sizes[best];
            if size > 0 && parts_left > 1 && after.abs_diff(share) > size.abs_diff(share) {
                break;
            }
            part_of[best] = part;
            size = after;
            left -= sizes[best];
            groups_left -= 1;
            for neighbour in &neighbours[best] {
                links_in[*neighbour] += 1;
            }
        }
    }
    part_of
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loose(a: usize, b: usize) -> Edge {
        Edge {
            ends: [a, b],
            tight: false,
        }
    }

    fn tight(a: usize, b: usize) -> Edge {
        Edge {
            tight: true,
            ..loose(a, b)
        }
    }

    /// k=4: cores 0..4, then per pod aggregation 2, edge 2, hosts 4.
    fn fat_tree() -> (usize, Vec<Edge>) {
        let mut edges = Vec::new();
        for pod in 0..4 {
            let base = 4 + pod * 8;
            for a in 0..2 {
                let aggregation = base + a;
                edges.extend((0..2).map(|c| loose(2 * a + c, aggregation)));
                edges.extend((0..2).map(|e| loose(aggregation, base + 2 + e)));
            }
            edges.extend((0..4).map(|h| tight(base + 2 + h / 2, base + 4 + h)));
        }
        (4 + 4 * 8, edges)
    }

    #[test]
    fn a_fat_tree_is_cut_between_its_pods() {
        let (nodes, edges) = fat_tree();
        for parts in [2, 4] {
            let part = plan(nodes, &edges, parts);
            let mut sizes = vec![0usize; parts];
            for edge in &edges {
                for end in edge.ends {
                    sizes[part[end]] += 1;
                }
            }
            let share = edges.len() * 2 / parts;
            assert!(
                sizes.iter().all(|size| size.abs_diff(share) <= share / 4),
                "{sizes:?}"
            );
            let cut = edges.iter().filter(|e| part[e.ends[0]] != part[e.ends[1]]);
            assert!(cut.count() <= 4 * parts, "{part:?}");
        }
    }

    #[test]
    fn tight_nodes_stay_together_and_every_part_has_some() {
        let edges = [
            tight(0, 3),
            tight(3, 5),
            loose(0, 1),
            loose(1, 2),
            loose(2, 4),
        ];
        for parts in 1..9 {
            let part = plan(6, &edges, parts);
            assert_eq!((part[0], part[0]), (part[3], part[5]));
            let used = parts.min(4);
            assert!((0..used).all(|p| part.contains(&p)), "{parts}: {part:?}");
            assert!(part.iter().all(|p| *p < used), "{parts}: {part:?}");
        }
        assert!(plan(0, &[], 2).is_empty());
        assert_eq!(plan(3, &[], 2).iter().max(), Some(&1));
    }
}
