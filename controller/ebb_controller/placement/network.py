"""Admitted tenants: curves at the ports, VMs at the hosts, and the bounds that follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ebb_controller.placement.curves import (
    NANOBITS_PER_BYTE,
    Bursts,
    Curve,
    Guarantee,
    arrival_curve,
    send_ns,
)
from ebb_controller.placement.ports import PortTable
from ebb_controller.placement.tree import Tree, Whole

Direction = Literal["up", "down"]
DIRECTIONS: tuple[Direction, Direction] = ("up", "down")


LEAST_VOID_BYTES = 84
"""The shortest void frame on the wire."""
USED = -1
"""Kind of a node that has VMs."""


@dataclass(frozen=True, slots=True)
class Request:
    """A tenant that wants to be placed."""

    name: str
    vms: int
    guarantee: Guarantee | None = None
    """Guarantee of each VM; none: its packets have lower priority."""
    hosts: int = 1
    """Fault domains: on how many hosts its VMs must be at least."""


@dataclass(frozen=True, slots=True, order=True)
class Port:
    """A port of the tree: the links of a node to the tier above, in one direction."""

    tier: int
    node: int
    direction: Direction


@dataclass(frozen=True, slots=True)
class Hop:
    """A port on a path, and how long a conforming packet takes there at most, ns."""

    port: Port
    queue_ns: int
    """In the queue, with its own transmission: the horizontal distance of the curves."""
    blocking_ns: int
    """For the packet of lower priority that may be in service when it arrives; at a host's
    interface for the batch too."""
    propagation_ns: int
    """On the link."""
    capacity_ns: int
    """Bound of queueing and blocking, whoever is admitted."""

    @property
    def delay_ns(self) -> int:
        """All of it."""
        return self.queue_ns + self.blocking_ns + self.propagation_ns


@dataclass(frozen=True, slots=True)
class Path:
    """The ports between two hosts. On one host there are none."""

    hops: tuple[Hop, ...]

    @property
    def bound_ns(self) -> int:
        """Longest delay of a conforming packet with the tenants that there are now, ns."""
        return sum(hop.delay_ns for hop in self.hops)

    @property
    def capacity_ns(self) -> int:
        """Longest delay with any tenants that can be admitted, ns."""
        return sum(hop.capacity_ns + hop.propagation_ns for hop in self.hops)


Entries = list[tuple[Port, Curve]]


class Network:
    """The state of admission. Nothing here decides; `admit` adds any placement."""

    def __init__(
        self,
        tree: Tree,
        vms_per_host: int,
        packet_bytes: int = 1_500,
        *,
        blocking: bool = True,
        bursts: Bursts = "bunched",
        batch_ns: int = 0,
    ) -> None:
        """`packet_bytes`: of the longest packet, on the wire. `blocking`: whether there is traffic
        of lower priority, a packet of which may be in service. `batch_ns`: what interfaces of hosts
        get at a time from the pacers, with void frames in its gaps; 0: each packet by itself."""
        self.tree, self.packet_bytes, self.bursts = tree, packet_bytes, bursts
        self.blocking_bytes = packet_bytes if blocking else 0
        self.vms_per_host = vms_per_host
        self.free = np.full(len(tree.hosts), vms_per_host, np.int64)
        """Free slots of each host."""
        self.batch_ns = batch_ns
        self.tables: dict[tuple[int, Direction], PortTable] = {
            (tier, direction): PortTable(each, self._blocking_bytes(tier, direction))
            for tier, each in enumerate(tree.tiers)
            for direction in DIRECTIONS
        }
        self.capacities_ns = [
            max(map(send_ns, each.queue_bytes.tolist(), each.rate_bps.tolist()))
            for each in tree.tiers
        ]
        """Longest time that a packet may wait at a port of each tier, ns."""
        self.admitted: dict[str, tuple[Request, dict[int, int]]] = {}
        """Tenants and how many of their VMs each host has, by name."""

    def _blocking_bytes(self, tier: int, direction: Direction) -> Whole:
        """What a guaranteed packet may have to wait for that no curve has, at each port of a tier:
        a packet of lower priority, and at a host's interface the rest of a batch that was made
        before it came, and void frames that were no shorter (`docs/tenant-pacer.md`)."""
        rate = self.tree.tiers[tier].rate_bps
        bytes_ = np.full(len(rate), self.blocking_bytes, np.int64)
        if self.batch_ns and (tier, direction) == (0, "up"):
            batch = [-(-int(each) * self.batch_ns // NANOBITS_PER_BYTE) for each in rate]
            bytes_ += np.array(batch, np.int64) + 2 * LEAST_VOID_BYTES
        return bytes_

    def blocking_at(self, port: Port) -> int:
        """The same of one port, bytes."""
        return int(self._blocking_bytes(port.tier, port.direction)[port.node])

    def free_below(self, tier: int) -> Whole:
        """Free slots of each node of a tier; of the root, if there is no such tier."""
        free = self.free
        for each in self.tree.tiers[1 : tier + 1]:
            ends = np.concatenate(([0], np.cumsum(free)))
            bounds = np.array([(c.start, c.stop) for c in each.children])
            free = ends[bounds[:, 1]] - ends[bounds[:, 0]]
        return free if tier < len(self.tree.tiers) else free.sum(keepdims=True)

    def kinds(self, tier: int) -> Whole:
        """For each node of a tier, or for the root, a number that nodes share which are alike in
        all that is below them and have no VMs; `USED`: it has some."""
        empty = self.free_below(tier) == self.tree.hosts_count(tier) * self.vms_per_host
        return np.where(empty, self.tree.kinds[tier], USED)

    def path_capacity_ns(self, level: int) -> int:
        """Longest delay of a packet whose path turns round above `level`, ns: of queue capacities,
        as queue bounds change with other tenants (Moncaster constraint 5.3), and of links."""
        links = (int(tier.delay_ns.max()) for tier in self.tree.tiers[: level + 1])
        return 2 * (sum(self.capacities_ns[: level + 1]) + sum(links))

    def upstream_ns(self, tier: int, direction: Direction, level: int) -> int:
        """Longest time in the queues before a port, on paths that turn round above `level`, ns."""
        if direction == "up":
            return sum(self.capacities_ns[:tier])
        return sum(self.capacities_ns[: level + 1]) + sum(self.capacities_ns[tier + 1 : level + 1])

    def curve(
        self, request: Request, tier: int, direction: Direction, level: int, below: int
    ) -> Curve:
        """The curve that a tenant adds to a port with `below` of its VMs below it, if its paths
        turn round above `level`."""
        assert request.guarantee is not None
        senders = below if direction == "up" else request.vms - below
        upstream = self.upstream_ns(tier, direction, level)
        return arrival_curve(
            request.guarantee,
            senders,
            request.vms - senders,
            self.packet_bytes,
            upstream,
            self.bursts,
        )

    def level(self, hosts: Mapping[int, int]) -> int:
        """The highest tier whose links VMs on these hosts use; -1: all are on one host."""
        first = next(iter(hosts))
        return max(self.tree.meeting_tier(first, host) for host in hosts)

    def entries(self, request: Request, hosts: Mapping[int, int]) -> Entries:
        """Traffic that a placement adds, by port. `hosts`: VMs by host."""
        level = self.level(hosts)
        if request.guarantee is None or level < 0:
            return []
        found, below = [], Counter(hosts)
        for tier in range(level + 1):
            for node, count in below.items():
                for direction in DIRECTIONS:
                    curve = self.curve(request, tier, direction, level, count)
                    found.append((Port(tier, node, direction), curve))
            parents = self.tree.parents[tier]
            above: Counter[int] = Counter()
            for node, count in below.items():
                above[int(parents[node])] += count
            below = above
        return found

    def admit(self, request: Request, hosts: Mapping[int, int]) -> None:
        """Adds a tenant whose placement has been found valid."""
        if request.name in self.admitted:
            raise KeyError(f"there is a tenant '{request.name}' already")
        for port, curve in self.entries(request, hosts):
            self.tables[port.tier, port.direction].add(port.node, curve)
        for host, count in hosts.items():
            self.free[host] -= count
        self.admitted[request.name] = (request, dict(hosts))

    def release(self, name: str) -> None:
        """Takes a tenant away: every sum is what it was before it was admitted."""
        request, hosts = self.admitted.pop(name)
        for port, curve in self.entries(request, hosts):
            self.tables[port.tier, port.direction].remove(port.node, curve)
        for host, count in hosts.items():
            self.free[host] += count

    def backlog_bytes(self, port: Port) -> int:
        """Most guaranteed traffic that waits at a port, bytes, rounded up."""
        return -(-self._backlog_nb(port) // NANOBITS_PER_BYTE)

    def _backlog_nb(self, port: Port) -> int:
        table = self.tables[port.tier, port.direction]
        nothing = Curve(0, 0, 0, 0)
        return int(table.backlog_nb(np.array([port.node]), [nothing])[0, 0])

    def hop(self, port: Port) -> Hop:
        """Delay of a conforming packet at a port."""
        tier = self.tree.tiers[port.tier]
        rate = int(tier.rate_bps[port.node])
        return Hop(
            port,
            queue_ns=-(-self._backlog_nb(port) // rate),
            blocking_ns=send_ns(self.blocking_at(port), rate),
            propagation_ns=int(tier.delay_ns[port.node]),
            capacity_ns=send_ns(int(tier.queue_bytes[port.node]), rate),
        )

    def path(self, source: int, destination: int, known: dict[Port, Hop] | None = None) -> Path:
        """The bound of a path between two hosts, for the tenants that there are. `known`: a memory
        of hops for callers that ask for many paths."""
        level = self.tree.meeting_tier(source, destination)
        up = [Port(t, self.tree.ancestor(source, t), "up") for t in range(level + 1)]
        down = [Port(t, self.tree.ancestor(destination, t), "down") for t in range(level + 1)]
        hops = {} if known is None else known
        ports = (*up, *reversed(down))
        for port in ports:
            if port not in hops:
                hops[port] = self.hop(port)
        return Path(tuple(hops[port] for port in ports))

    def port_name(self, port: Port) -> str:
        """A port in words: from which node to which."""
        tier = self.tree.tiers[port.tier]
        kind = "" if port.tier < 2 else "pod of "
        ends = [f"{kind}{tier.names[port.node]}", tier.above[port.node]]
        return " -> ".join(ends if port.direction == "up" else reversed(ends))


def path_bound(network: Network, source: str, destination: str) -> Path:
    """The delay bound of a conforming packet from a host to another, by their names, hop by hop,
    with one packet of lower priority in service at each."""
    numbers = network.tree.host_number
    return network.path(numbers[source], numbers[destination])
