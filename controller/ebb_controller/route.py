"""Entries of `route.p4`: a route per host, over every shortest path.

The ports of a switch are the members of its `ecmp` selector; the sets of ports that lead to some
host are its groups. So an edge switch of a fat-tree has a group per own host and one that goes up.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from ebb_topologies.model import Topology
from finsy import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4IndirectAction,
    P4Member,
    P4MulticastGroupEntry,
    P4TableAction,
    P4TableEntry,
    P4TableMatch,
)
from finsy.p4entity import P4Replica

from ebb_controller.site import Site

FIRST_MULTICAST_MEMBER = 1000
"""Members below are next hops, named by their port (1..510)."""

Entity = P4ActionProfileMember | P4ActionProfileGroup | P4TableEntry | P4MulticastGroupEntry


def entries(site: Site) -> Iterator[Entity]:
    yield P4TableEntry(
        "hash_settings",
        is_default_action=True,
        action=P4TableAction(
            "set_hash_seed", seed=_hash_seed(site.parameters.hash_seed, site.switch.device_id)
        ),
    )
    for port in site.ports:
        yield P4ActionProfileMember(
            "ecmp",
            member_id=port.number,
            action=P4TableAction(
                "set_next_hop", port=port.number, src_mac=port.mac, dst_mac=port.peer_mac
            ),
        )
    groups: dict[tuple[int, ...], int] = {}
    routes = []
    for host in site.topology.hosts:
        ports = tuple(site.topology.next_hops(site.switch.name, host.name))
        group = groups.setdefault(ports, len(groups) + 1)
        routes.append((host.ip, group))
    for ports, group in groups.items():
        yield P4ActionProfileGroup(
            "ecmp",
            group_id=group,  # without a max_size: it may grow with the topology
            members=[P4Member(port, weight=1) for port in ports],
        )
    for ip, group in routes:
        yield P4TableEntry(
            "ipv4_route",
            match=P4TableMatch(dst=f"{ip}/32"),
            action=P4IndirectAction(group_id=group),
        )


def _hash_seed(fabric: int, device_id: int) -> int:
    """A multiplier per switch. The program takes the upper half of hash * seed and ignores the
    seed's lowest bit, so neighbouring ids must give numbers that differ in all bits."""
    return zlib.crc32(struct.pack("!IQ", fabric, device_id)) | 1


def multicast(site: Site, address: str, group: int, members: Sequence[str]) -> Iterator[Entity]:
    """A multicast route to hosts, over one tree.

    The root is the switch nearest to all members. A switch on the tree sends to all its tree
    ports (the program drops the replica that would go back where the packet came from), any other
    switch sends towards the root.

    The route names a member of `ecmp`, as all entries of a table with a selector must; an action
    of its own would be a "one-shot", which P4Runtime servers do not mix with members and groups.
    """
    topology, switch = site.topology, site.switch.name
    root = _root(topology, members)
    ports = _tree(topology, root, members).get(switch) or set(topology.next_hops(switch, root)[:1])
    member = FIRST_MULTICAST_MEMBER + group
    yield P4MulticastGroupEntry(
        group, replicas=[P4Replica(port, instance=1) for port in sorted(ports)]
    )
    yield P4ActionProfileMember(
        "ecmp", member_id=member, action=P4TableAction("set_multicast_group", group=group)
    )
    yield P4TableEntry(
        "ipv4_route",
        match=P4TableMatch(dst=f"{address}/32"),
        action=P4IndirectAction(member_id=member),
    )


def _root(topology: Topology, members: Sequence[str]) -> str:
    distances = [topology.distances(member) for member in members]
    return min((sum(d[s.name] for d in distances), s.name) for s in topology.switches)[1]


def _tree(topology: Topology, root: str, members: Sequence[str]) -> dict[str, set[int]]:
    """switch -> ports of the tree: the first shortest path from the root to each member."""
    tree: dict[str, set[int]] = {}
    for member in members:
        node = root
        while not topology.is_host(node):
            port = topology.next_hops(node, member)[0]
            far, _link = topology.neighbours[node][port]
            tree.setdefault(node, set()).add(port)
            if not topology.is_host(far.node):
                tree.setdefault(far.node, set()).add(far.port)
            node = far.node
    return tree
