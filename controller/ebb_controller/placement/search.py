"""Finds hosts for a tenant's VMs: as low in the tree as possible, and there the first that fit.

What a node of the tree can hold is the set of numbers of VMs for which it and its ports keep their
constraints. A set is an integer whose bit m says that m VMs fit; that of a parent follows from
those of its children. So nothing that fits is missed, though a port may fit more VMs and not fewer
(with m of N VMs below it, less comes from above as m grows).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from ebb_controller.placement.network import DIRECTIONS, USED, Network, Request
from ebb_controller.placement.ports import Constraint
from ebb_controller.placement.tree import Whole

Algorithm = Literal["silo", "oktopus", "okto+", "locality"]
"""Silo keeps queues, rates and delays; Oktopus (Ballani et al., SIGCOMM 2011) the rates only, and
Okto+ places in the same way, as only the sender's allowance differs; locality-aware placement looks
for slots only."""
CONSTRAINTS: dict[Algorithm, Constraint] = {
    "silo": "queue",
    "oktopus": "rate",
    "okto+": "rate",
    "locality": "none",
}
"""Constraint at ports, by algorithm."""
BLOCK = 4_096
"""Hosts whose ports are looked at together."""

WORD_BITS = 62
"""Numbers of VMs that fit as bits into a word."""

Sets = tuple[int, ...]
"""Numbers of VMs as bits, by the number of hosts that they are on; the last is of all that are
enough."""
Hosts = dict[int, int]
"""VMs by host."""


def find(network: Network, request: Request, algorithm: Algorithm = "silo") -> Hosts | None:
    """Hosts for the VMs of a tenant; none: there is no valid placement. Changes nothing."""
    if request.vms < request.hosts:
        return None
    return _Search(network, request, algorithm).run()


def levels(network: Network, request: Request, algorithm: Algorithm) -> Iterator[int]:
    """The tiers above which a tenant's paths may turn round, from the lowest."""
    limit = request.guarantee.delay_ns if request.guarantee and algorithm == "silo" else None
    for level in range(len(network.tree.tiers)):
        if limit is None or network.path_capacity_ns(level) <= limit:
            yield level


class _Search:
    def __init__(self, network: Network, request: Request, algorithm: Algorithm) -> None:
        self.network, self.request = network, request
        self.algorithm = algorithm
        self.constraint: Constraint = CONSTRAINTS[algorithm] if request.guarantee else "none"
        self.enough = request.hosts if request.hosts > 1 else 0
        """Least number of hosts for the VMs; 0: any."""
        self.full = (1 << (request.vms + 1)) - 1
        self.kinds = [network.kinds(tier) for tier in range(len(network.tree.tiers) + 1)]
        self.blocks: dict[int, list[int]] = {}
        """Numbers of VMs that hosts can hold, by block."""
        self.below: dict[tuple[int, int], Sets] = {}
        """VMs that nodes could hold if their links had no limits, by tier and node."""
        self.like: dict[tuple[int, int], Sets] = {}
        """VMs that empty nodes can hold, by tier and kind."""

    def run(self) -> Hosts | None:
        network, wanted = self.network, self.request.vms
        if not self.enough:
            alone = np.flatnonzero(network.free >= wanted)
            if len(alone):
                return {int(alone[0]): wanted}
        for level in levels(network, self.request, self.algorithm):
            self.blocks, self.below, self.like = {}, {}, {}
            free, kinds = network.free_below(level + 1), self.kinds[level + 1]
            failed = set()
            for root, nodes in enumerate(network.tree.roots(level)):
                if free[root] < wanted or len(nodes) < 2 or kinds[root] in failed:
                    continue
                children = self._children(level, nodes, level)
                if self._total(children)[-1] >> wanted & 1:
                    return self._choose(level, nodes, children, (self.enough, wanted), level)
                failed.add(kinds[root])
                failed.discard(USED)
        return None

    def _children(self, tier: int, nodes: range, level: int) -> list[Sets]:
        """VMs that each of the nodes can hold, by its own links too."""
        if tier == 0:
            return [self._sets_of_host(mask) for mask in self._masks(nodes, level)]
        kinds = self.kinds[tier][nodes.start : nodes.stop].tolist()
        new = [
            node
            for index, (node, kind) in enumerate(zip(nodes, kinds, strict=True))
            if kind == USED or ((tier, kind) not in self.like and kind not in kinds[:index])
        ]
        found = dict(zip(new, self._by_links(tier, new, level), strict=True))
        for node in new:
            if (kind := kinds[node - nodes.start]) != USED:
                self.like[tier, kind] = found[node]
        return [
            found[node] if node in found else self.like[tier, kind]
            for node, kind in zip(nodes, kinds, strict=True)
        ]

    def _by_links(self, tier: int, nodes: Sequence[int], level: int) -> list[Sets]:
        """VMs that nodes above the hosts can hold, each computed."""
        below = self.network.tree.tiers[tier].children
        inside = [self._inside(tier, node, below[node], level) for node in nodes]
        some = 0
        for sets in inside:
            for each in sets:
                some |= each
        counts = [m for m in range(1, self.request.vms) if some >> m & 1]
        allowed = self._allowed(tier, np.array(nodes, np.int64), counts, level)
        return [
            tuple(each & (mask | 1) for each in sets)
            for sets, mask in zip(inside, allowed, strict=True)
        ]

    def _inside(self, tier: int, node: int, below: range, level: int) -> Sets:
        """VMs that a node could hold if its links had no limits."""
        if (tier, node) not in self.below:
            if tier == 1 and not self.enough:
                sets = self._of_hosts(below, level)
            else:
                sets = self._total(self._children(tier - 1, below, level))
            self.below[tier, node] = sets
        return self.below[tier, node]

    def _of_hosts(self, hosts: range, level: int) -> Sets:
        masks = self._masks(hosts, level)
        # Hosts that hold any number up to their most can together hold any up to the sum of these.
        if all(mask & (mask + 2) == 0 for mask in masks):
            most = sum((mask + 2).bit_length() - 2 for mask in masks if mask)
            return (((1 << (most + 1)) - 1) & self.full,)
        return self._total([self._sets_of_host(mask) for mask in masks])

    def _sets_of_host(self, mask: int) -> Sets:
        if not self.enough:
            return (mask | 1,)
        return (1, mask) + (0,) * (self.enough - 1)

    def _masks(self, hosts: range, level: int) -> Sequence[int]:
        """Numbers of VMs, without 0, that each of the hosts can hold."""
        found: list[int] = []
        for block in range(hosts.start // BLOCK, (hosts.stop - 1) // BLOCK + 1):
            if block not in self.blocks:
                self.blocks[block] = self._block(block, level)
            first = max(hosts.start - block * BLOCK, 0)
            found += self.blocks[block][first : hosts.stop - block * BLOCK]
        return found

    def _block(self, block: int, level: int) -> list[int]:
        start = block * BLOCK
        free = self.network.free[start : start + BLOCK]
        masks = [0] * len(free)
        most = min(int(free.max(initial=0)), self.request.vms - 1)
        if most < 1:
            return masks
        kinds = self.kinds[0][start : start + BLOCK]
        used = np.flatnonzero((free > 0) & (kinds == USED))
        fresh, first = np.unique(kinds, return_index=True)
        each = np.concatenate((used, first[fresh != USED]))
        counts = list(range(1, most + 1))
        for at, mask in zip(each, self._allowed(0, each + start, counts, level), strict=True):
            masks[at] = mask & ((2 << int(free[at])) - 1)
        of_kind = {int(kinds[at]): masks[at] for at in first}
        for at in np.flatnonzero(kinds != USED):
            masks[at] = of_kind[int(kinds[at])]
        return masks

    def _allowed(self, tier: int, nodes: Whole, counts: Sequence[int], level: int) -> list[int]:
        """For each of the nodes, which of the numbers of VMs below it its links can take."""
        if not counts:
            return [0] * len(nodes)
        if self.constraint == "none":
            return [sum(1 << m for m in counts)] * len(nodes)
        fits = np.ones((len(nodes), len(counts)), np.bool_)
        for way in DIRECTIONS:
            curves = [self.network.curve(self.request, tier, way, level, m) for m in counts]
            fits &= self.network.tables[tier, way].fits(nodes, curves, self.constraint)
        if counts[-1] < WORD_BITS:
            of_words: list[int] = (fits @ (1 << np.array(counts, np.int64))).tolist()
            return of_words
        bits = [1 << m for m in counts]
        return [
            sum(bit for bit, fit in zip(bits, row, strict=True) if fit) for row in fits.tolist()
        ]

    def _total(self, children: Sequence[Sets]) -> Sets:
        return self._prefixes(children)[-1]

    def _prefixes(self, children: Sequence[Sets]) -> list[Sets]:
        """VMs that the first 0, 1, .. of the children can hold together."""
        sums: list[Sets] = [(1,) + (0,) * self.enough]
        for child in children:
            sums.append(self._sum(sums[-1], child))
        return sums

    def _sum(self, a: Sets, b: Sets) -> Sets:
        if not self.enough:
            return (_shifted(a[0], b[0]) & self.full,)
        found = [0] * (self.enough + 1)
        some = [(j, right) for j, right in enumerate(b) if right]
        for i, left in enumerate(a):
            for j, right in some if left else ():
                found[min(i + j, self.enough)] |= _shifted(left, right) & self.full
        return tuple(found)

    def _choose(
        self, tier: int, nodes: range, children: Sequence[Sets], target: tuple[int, int], level: int
    ) -> Hosts:
        """A placement of VMs on at least a number of hosts: the first nodes take what they can so
        that the others can take the rest."""
        found: Hosts = {}
        prefixes = self._prefixes(children)
        for index in range(len(nodes) - 1, -1, -1):
            rest, taken = self._split(prefixes[index], children[index], target)
            target = rest
            if taken[1] == 0:
                continue
            if tier == 0:
                found[nodes[index]] = taken[1]
                continue
            below = self.network.tree.tiers[tier].children[nodes[index]]
            inside = self._children(tier - 1, below, level)
            found |= self._choose(tier - 1, below, inside, taken, level)
        return dict(sorted(found.items()))

    def _split(
        self, before: Sets, own: Sets, target: tuple[int, int]
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """What the nodes before and a node itself take of a number of VMs, the latter as few as
        possible, each with on how many hosts."""
        hosts, vms = target
        for few in range(vms + 1):
            for j, right in enumerate(own):
                if not right >> few & 1:
                    continue
                for i, left in enumerate(before):
                    if left >> (vms - few) & 1 and min(i + j, self.enough) == hosts:
                        return (i, vms - few), (j, few)
        raise AssertionError(f"{vms} VMs are not the sum of what nodes can hold")


def _shifted(a: int, b: int) -> int:
    """All sums of a number of one set and one of the other."""
    if a & (a + 1) == 0 and b & (b + 1) == 0:  # all numbers up to a most
        return (1 << (a.bit_length() + b.bit_length() - 1)) - 1
    if a.bit_count() < b.bit_count():
        a, b = b, a
    found = 0
    while b:
        low = b & -b
        found |= a * low
        b ^= low
    return found
