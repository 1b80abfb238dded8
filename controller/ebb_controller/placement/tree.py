"""A data centre as a tree: hosts below racks below pods, and a port up and one down at each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
from ebb_topologies.files import InputError
from ebb_topologies.model import Link, Topology

Multipath = Literal["hashed", "spread"]
"""Load of several links between the same tiers: `hashed`, any of them may get all that goes
through its tier, which is a bound for every routing; `spread`, each gets its share, as if packets
were sprayed evenly."""
Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Tier:
    """The nodes of one height, and the links from each of them to the tier above."""

    names: Sequence[str]
    """A name of each node: host, edge switch, or the first edge switch of a pod."""
    above: Sequence[str]
    """Neighbours of each node, in words."""
    children: Sequence[range]
    """Nodes of the tier below, of each node; empty for hosts."""
    rate_bps: Whole
    """Rate of the links of each node, in each direction, bit/s."""
    queue_bytes: Whole
    """Room for guaranteed traffic before the links of each node, in each direction, bytes."""
    delay_ns: Whole
    """Propagation delay of the links of each node, ns."""

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True)
class Tree:
    """Tiers from the hosts up; above the last one is the root."""

    tiers: tuple[Tier, ...]

    @property
    def hosts(self) -> Sequence[str]:
        """Names of the hosts, in the order of the tree: those of a rack are neighbours."""
        return self.tiers[0].names

    @cached_property
    def parents(self) -> tuple[Whole, ...]:
        """Parent of each node, by tier; those of the last tier have the root, 0."""
        found = []
        for tier, above in zip(self.tiers, (*self.tiers[1:], None), strict=True):
            parent = np.zeros(len(tier), np.int64)
            if above is not None:
                for node, children in enumerate(above.children):
                    parent[children.start : children.stop] = node
            found.append(parent)
        return tuple(found)

    @cached_property
    def host_number(self) -> dict[str, int]:
        """Number of each host, by its name."""
        return {name: number for number, name in enumerate(self.hosts)}

    @cached_property
    def kinds(self) -> tuple[Whole, ...]:
        """For each node of each tier, and for the root, a number that nodes share which are alike:
        in rate and room of their links, and in what is below them."""
        found: list[Whole] = []
        for tier in self.tiers:
            below = [tuple(found[-1][c.start : c.stop]) if found else () for c in tier.children]
            keys = zip(below, tier.rate_bps.tolist(), tier.queue_bytes.tolist(), strict=True)
            numbers: dict[tuple[object, ...], int] = {}
            found.append(np.array([numbers.setdefault(key, len(numbers)) for key in keys]))
        return (*found, np.zeros(1, np.int64))

    @cached_property
    def _hosts_counts(self) -> tuple[Whole, ...]:
        count = np.ones(len(self.hosts), np.int64)
        found = [count]
        for tier in self.tiers[1:]:
            count = np.array([count[c.start : c.stop].sum() for c in tier.children])
            found.append(count)
        return (*found, np.array([len(self.hosts)]))

    def hosts_count(self, tier: int) -> Whole:
        """How many hosts each node of a tier has, or the root, if there is no such tier."""
        return self._hosts_counts[tier]

    def ancestor(self, host: int, tier: int) -> int:
        """The node of a tier that a host belongs to."""
        node = host
        for parent in self.parents[:tier]:
            node = int(parent[node])
        return node

    def meeting_tier(self, a: int, b: int) -> int:
        """The highest tier whose links are on the path between two hosts; -1: they are the same."""
        tier = -1
        while a != b:
            tier += 1
            a, b = int(self.parents[tier][a]), int(self.parents[tier][b])
        return tier

    def hosts_below(self, tier: int, node: int) -> range:
        """Hosts of a node; those of the root are all (`tier` = number of tiers)."""
        if tier == len(self.tiers):
            return range(len(self.hosts))
        below = range(node, node + 1)
        for each in reversed(self.tiers[1 : tier + 1]):
            below = range(each.children[below[0]].start, each.children[below[-1]].stop)
        return below

    def roots(self, tier: int) -> Sequence[range]:
        """For each place where paths over links of `tier` turn round, its nodes of that tier."""
        if tier + 1 < len(self.tiers):
            return self.tiers[tier + 1].children
        return [range(len(self.tiers[tier]))]


def regular(
    *,
    pods: int,
    racks_per_pod: int,
    hosts_per_rack: int,
    rate_bps: int,
    queue_ns: int,
    oversubscription: tuple[float, float] = (1.0, 1.0),
    delay_ns: int = 0,
) -> Tree:
    """Equal pods of equal racks. `oversubscription` of racks, and of pods: by how much the rates of
    what is below a link are more than its own. Every port has room for `queue_ns` at its rate. With
    one pod there are two tiers, with one rack too there is one."""
    racks, of_rack, of_pod = pods * racks_per_pod, *oversubscription
    rack_bps = int(rate_bps * hosts_per_rack / of_rack)
    tiers = [_equal("h", "edge", racks * hosts_per_rack, None, rate_bps, queue_ns, delay_ns)]
    if racks > 1:
        tiers.append(
            _equal("r", "aggregation", racks, hosts_per_rack, rack_bps, queue_ns, delay_ns)
        )
    if pods > 1:
        pod_bps = int(rack_bps * racks_per_pod / of_pod)
        tiers.append(_equal("p", "core", pods, racks_per_pod, pod_bps, queue_ns, delay_ns))
    return Tree(tuple(tiers))


def _equal(
    letter: str,
    above: str,
    count: int,
    width: int | None,
    rate_bps: int,
    queue_ns: int,
    delay_ns: int,
) -> Tier:
    queue_bytes = rate_bps * queue_ns // 8_000_000_000
    return Tier(
        [f"{letter}{number}" for number in range(1, count + 1)],
        [above] * count,
        [range(i * (width or 0), (i + 1) * (width or 0)) for i in range(count)],
        *(np.full(count, value, np.int64) for value in (rate_bps, queue_bytes, delay_ns)),
    )


def of_topology(
    topology: Topology, queue_bytes: int, uplink_queue_bytes: int, multipath: Multipath
) -> Tree:
    """The tree of a rack, leaf-spine, fat-tree or three-tier network. `queue_bytes`: room before a
    link of a host, in both directions; `uplink_queue_bytes`: before one between switches. Raises
    `InputError` for a network that is no tree."""
    edges = _Group.edges(topology)
    groups = [edges]
    while len(groups[-1].members) > 1:
        above = groups[-1].joined(topology, groups)
        if above is None:
            break
        groups.append(above)
    uppermost = groups[-1]
    links = uppermost.links_up(topology) if len(uppermost.members) > 1 else []
    if len(uppermost.members) > 1 and not all(links):
        raise InputError(
            f"topology {topology.name} is no tree of racks and pods: "
            f"{uppermost.names[links.index([])]} has no link to the tier above"
        )
    return _ordered(topology, groups, (queue_bytes, uplink_queue_bytes), multipath)


@dataclass(frozen=True)
class _Group:
    """Sets of switches of one height: each is an edge switch, or the switches of a pod."""

    members: list[frozenset[str]]
    tops: list[frozenset[str]]
    """Switches of each set that links lead up from."""
    names: list[str]

    @classmethod
    def edges(cls, topology: Topology) -> _Group:
        edges = list(dict.fromkeys(topology.attachment(host).node for host in topology.hosts))
        sets = [frozenset([edge]) for edge in edges]
        return cls(sets, sets, edges)

    def above(self, topology: Topology, index: int) -> frozenset[str]:
        """Switches that links of a set lead up to."""
        ends = (far for top in self.tops[index] for far, _ in topology.neighbours[top].values())
        inside = self.members[index]
        return frozenset(
            far.node for far in ends if not topology.is_host(far.node) and far.node not in inside
        )

    def links_up(self, topology: Topology) -> list[list[Link]]:
        """Links from each set to the switches above it."""
        return [
            [
                link
                for top in sorted(self.tops[index])
                for far, link in topology.neighbours[top].values()
                if far.node in self.above(topology, index)
            ]
            for index in range(len(self.members))
        ]

    def joined(self, topology: Topology, lower: Sequence[_Group]) -> _Group | None:
        """Sets that share switches above them, joined; none: all of them share some, so paths
        between any two turn round there."""
        parts: list[tuple[list[int], set[str]]] = []
        for index in range(len(self.members)):
            uppers = set(self.above(topology, index))
            for level in lower:
                if uppers & frozenset().union(*level.members):
                    raise InputError(
                        f"topology {topology.name} is no tree of racks and pods: "
                        f"{self.names[index]} has a link to a switch that is not above it"
                    )
            sharing = [part for part in parts if part[1] & uppers]
            merged = sorted({index}.union(*(part[0] for part in sharing)))
            uppers = uppers.union(*(part[1] for part in sharing))
            parts = [part for part in parts if part not in sharing] + [(merged, uppers)]
        if len(parts) == 1:
            return None
        parts.sort(key=lambda part: part[0][0])
        members = [frozenset().union(upper, *(self.members[i] for i in of)) for of, upper in parts]
        names = [self.names[of[0]] for of, _ in parts]
        return _Group(members, [frozenset(upper) for _, upper in parts], names)


def _ordered(
    topology: Topology,
    groups: Sequence[_Group],
    queue_bytes: tuple[int, int],
    multipath: Multipath,
) -> Tree:
    """Tiers whose nodes are numbered so that those of one parent are neighbours."""
    order = [list(range(len(groups[-1].members)))]
    children: list[list[range]] = []
    for lower, upper in zip(reversed(groups[:-1]), reversed(groups[1:]), strict=True):
        inside = [
            [i for i, part in enumerate(lower.members) if part <= upper.members[node]]
            for node in order[0]
        ]
        children.insert(0, _ranges([len(each) for each in inside]))
        order.insert(0, [i for each in inside for i in each])
    edge_names = [groups[0].names[i] for i in order[0]]
    of_edge: dict[str, list[str]] = {edge: [] for edge in edge_names}
    for host in topology.hosts:
        of_edge[topology.attachment(host).node].append(host.name)
    hosts = [topology.host(name) for edge in edge_names for name in of_edge[edge]]
    host_links = [[topology.link(host)] for host in hosts]
    above = [topology.attachment(host).node for host in hosts]
    tiers = [_tier([h.name for h in hosts], above, [], host_links, queue_bytes[0], multipath)]
    children.insert(0, _ranges([len(of_edge[edge]) for edge in edge_names]))
    for group, nodes, below in zip(groups, order, children, strict=True):
        if len(group.members) == 1:
            break
        links = group.links_up(topology)
        names = [group.names[i] for i in nodes]
        tops = [", ".join(sorted(group.above(topology, i))) for i in nodes]
        of_nodes = [links[i] for i in nodes]
        tiers.append(_tier(names, tops, below, of_nodes, queue_bytes[1], multipath))
    return Tree(tuple(tiers))


def _ranges(sizes: Sequence[int]) -> list[range]:
    ends = np.cumsum(sizes).tolist()
    return [range(end - size, end) for end, size in zip(ends, sizes, strict=True)]


def _tier(
    names: list[str],
    above: list[str],
    children: Sequence[range],
    links: Sequence[Sequence[Link]],
    queue_bytes: int,
    multipath: Multipath,
) -> Tier:
    rates = ([link.rate_bps for link in each] for each in links)
    rate = [min(each) if multipath == "hashed" else sum(each) for each in rates]
    room = [queue_bytes * (1 if multipath == "hashed" else len(each)) for each in links]
    delay = [max(link.delay_ns for link in each) for each in links]
    arrays = (np.array(values, np.int64) for values in (rate, room, delay))
    return Tier(names, above, children or [range(0)] * len(names), *arrays)
