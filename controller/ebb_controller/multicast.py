"""Multicast groups: which hosts, under which address, over which tree.

A group gets one tree of shortest paths. Its root is a switch whose farthest member is nearest: in a
fat-tree a core if they are in several pods. Where several are equally near, a hash of the address
chooses, so that the groups of a fabric spread over its cores. Where links are down, each part of a
fabric that fell apart has a tree to the members in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from ebb_topologies.files import InputError
from ebb_topologies.model import Topology

MAX_GROUP = 0xFFFF
"""Highest number of a group: `mcast_grp` of v1model has 16 bits."""


def group_address(receivers: Iterable[str]) -> str:
    """The address of a set of receivers (docs/wire-format.md, "Address of a group"), as the agents
    derive it too."""
    packed = sorted({IPv4Address(address).packed for address in receivers})
    first, second, third, *_ = hashlib.sha256(b"".join(packed)).digest()
    return f"239.{first}.{second}.{third}"


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """Hosts that receive what any host sends to an IPv4 multicast address."""

    address: str
    """IPv4 address in 224.0.0.0/4."""
    group: int
    """Number of the group in P4Runtime, from 1."""
    members: tuple[str, ...]
    """Names of the receivers."""

    @classmethod
    def of(cls, topology: Topology, group: int, members: Sequence[str]) -> MulticastGroup:
        """The group of these receivers, under the address that follows from theirs."""
        address = group_address(str(topology.host(member).ip) for member in members)
        return cls(address, group, tuple(members))

    def check(self, topology: Topology) -> None:
        """Raises `InputError` for an invalid address, number or list of members."""
        try:
            multicast = IPv4Address(self.address).is_multicast
        except AddressValueError:
            multicast = False
        if not multicast:
            raise InputError(f"'{self.address}' is not an IPv4 multicast address (224.0.0.0/4)")
        if not 1 <= self.group <= MAX_GROUP:
            raise InputError(f"multicast group {self.group} is outside 1..{MAX_GROUP}")
        if not self.members:
            raise InputError(f"multicast group {self.address} has no members")
        for member in self.members:
            topology.host(member)


def check(groups: Sequence[MulticastGroup], topology: Topology) -> None:
    """Raises `InputError` for an invalid group, or two of one address."""
    addresses: set[str] = set()
    for group in groups:
        group.check(topology)
        if group.address in addresses:
            raise InputError(
                f"two multicast groups have the address {group.address}; the same receivers "
                "twice? Then one group is enough, any host can send to it"
            )
        addresses.add(group.address)


def tree_ports(topology: Topology, group: MulticastGroup, switch: str) -> set[int]:
    """Ports to which a switch sends packets of a group; none if it has no path to any member."""
    here = tuple(member for member in group.members if topology.next_hops(switch, member))
    if not here:
        return set()
    root, ports = _rooted(topology, group.address, here)
    return ports.get(switch) or set(topology.next_hops(switch, root)[:1])


def tree(topology: Topology, group: MulticastGroup) -> dict[str, set[int]]:
    """Ports of a group's tree, by switch; in a fabric that fell apart, those of the part with the
    first member."""
    place = topology.attachment(topology.host(group.members[0])).node
    here = tuple(member for member in group.members if topology.next_hops(place, member))
    return _rooted(topology, group.address, here)[1] if here else {}


def _rooted(
    topology: Topology, address: str, members: tuple[str, ...]
) -> tuple[str, dict[str, set[int]]]:
    """Root and ports by switch of the tree to these members, from the cache of the topology."""
    key = ("multicast tree", address, members)
    if key not in topology.derived:
        root = _root(topology, address, members)
        topology.derived[key] = root, _tree(topology, root, members)
    found: tuple[str, dict[str, set[int]]] = topology.derived[key]
    return found


def _root(topology: Topology, address: str, members: Sequence[str]) -> str:
    """A switch nearest to members that have paths to each other, chosen by the hash of the address
    among equals."""
    places = [topology.attachment(topology.host(member)).node for member in members]
    distances = [topology.distances(place) for place in places]
    # The distance to the farthest member counts first. By the sum alone, the root of two members in
    # one rack and one in another pod, as HDFS places replicas, would be that rack's switch, and the
    # first shortest path from there would take every such group over the same core.
    cost = {
        switch.name: (
            max(d[switch.name] for d in distances),
            sum(d[switch.name] for d in distances),
        )
        for switch in topology.switches
        if switch.name in distances[0]
    }
    least = min(cost.values())
    nearest = sorted(name for name, each in cost.items() if each == least)
    digest = hashlib.sha256(IPv4Address(address).packed).digest()
    return nearest[int.from_bytes(digest[:4], "big") % len(nearest)]


def _tree(topology: Topology, root: str, members: Sequence[str]) -> dict[str, set[int]]:
    """Ports of the tree by switch: the first shortest path from the root to each member."""
    ports: dict[str, set[int]] = {}
    for member in members:
        node = root
        while not topology.is_host(node):
            port = topology.next_hops(node, member)[0]
            far, _link = topology.neighbours[node][port]
            ports.setdefault(node, set()).add(port)
            if not topology.is_host(far.node):
                ports.setdefault(far.node, set()).add(far.port)
            node = far.node
    return ports
