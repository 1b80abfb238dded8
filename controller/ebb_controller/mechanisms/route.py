"""`route.p4`: routes to all hosts, over every shortest path.

The ports of a switch are the members of its `ecmp` selector; the sets of ports that lead to some
host are its groups. So an edge switch of a fat-tree has a group per own host and one that goes up.
Racks and pods have one route where all their hosts are behind the same ports (`prefixes`). A host
without a path has no route. The number of a group follows from its ports, so that a change
of some routes leaves the groups of all others as they are, while packets use them.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ebb_controller.mechanism import SHARED_ENTRIES, Counter, Entity, Mechanism, Table
from ebb_controller.parameters import Parameters
from ebb_controller.prefixes import routes
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4ActionProfileGroup, P4TableAction, P4TableEntry

HASH_SETTINGS = Table("hash_settings", ("set_hash_seed",))
SELECTOR = "ecmp"
"""The action selector that picks one of several next hops."""
SET_MULTICAST_GROUP = "set_multicast_group"
"""The action of routes to groups, see `multicast`."""
IPV4_ROUTE = Table("ipv4_route", ("set_next_hop", SET_MULTICAST_GROUP), SELECTOR)
REPLICATED = Counter("replicated", index="multicast group")

FIRST_SHARED = 1000
"""First number of groups of several ports, above that of every port."""
SHARED = 2**24
"""Count of these numbers, such that two groups of a switch hardly ever hash to the same."""


class WithHashSeed(Parameters):
    """The part of `FabricParameters` that this mechanism reads."""

    hash_seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """Seed of the path hash; mixed with each switch's device id, against polarisation."""


def next_hop(port: int, mac: str, peer_mac: str) -> P4TableAction:
    """The action that sends out of a port, from its address to the one at the other end."""
    return IPV4_ROUTE.action(port=port, src_mac=mac_number(mac), dst_mac=mac_number(peer_mac))


def mac_number(mac: str) -> int:
    """Value of a MAC address. finsy accepts its text, too, but parsing it octet by octet takes a
    third of the time of encoding the members of a large fabric."""
    return int(mac.replace(":", ""), 16)


def entries(site: Site[WithHashSeed]) -> Iterator[Entity]:
    """The switch's hash seed, a member of the selector per port, a group per set of ports that
    leads to some host over all shortest paths, a route per host, rack or pod."""
    from finsy import P4ActionProfileMember

    seed = _hash_seed(site.parameters.hash_seed, site.switch.device_id)
    yield HASH_SETTINGS.default(seed=seed)
    for port in site.ports:
        yield P4ActionProfileMember(
            SELECTOR,
            member_id=port.number,
            action=next_hop(port.number, port.mac, port.peer_mac),
        )
    groups: dict[tuple[int, ...], int] = {}
    found = [
        (prefix, _group(groups, ports)) for prefix, ports in routes(site.topology, site.switch.name)
    ]
    # Many switches have the same groups and routes: each is made, and encoded, once.
    for ports, group in groups.items():
        yield _ecmp_group(group, ports)
    for prefix, group in found:
        yield _route(prefix, group)


@lru_cache(SHARED_ENTRIES)
def _ecmp_group(group: int, ports: tuple[int, ...]) -> P4ActionProfileGroup:
    from finsy import P4ActionProfileGroup, P4Member

    members = [P4Member(port, weight=1) for port in ports]
    # Without a max_size: it may grow with the topology.
    return P4ActionProfileGroup(SELECTOR, group_id=group, members=members)


@lru_cache(SHARED_ENTRIES)
def _route(prefix: str, group: int) -> P4TableEntry:
    from finsy import P4IndirectAction

    return IPV4_ROUTE.entry_for({"dst": prefix}, P4IndirectAction(group_id=group))


def _group(groups: dict[tuple[int, ...], int], ports: tuple[int, ...]) -> int:
    """Number of the group of these ports: the port's own if it is a single one."""
    if ports not in groups:
        number = ports[0]
        if len(ports) > 1:
            number = FIRST_SHARED + zlib.crc32(struct.pack(f"!{len(ports)}H", *ports)) % SHARED
            while number in groups.values():
                number += 1
        groups[ports] = number
    return groups[ports]


def _hash_seed(fabric: int, device_id: int) -> int:
    """A multiplier per switch. The program takes the upper half of hash * seed and ignores the
    seed's lowest bit, so neighbouring ids must give numbers that differ in all bits."""
    return zlib.crc32(struct.pack("!IQ", fabric, device_id)) | 1


MECHANISM = Mechanism("route", entries, (HASH_SETTINGS, IPV4_ROUTE), (REPLICATED,))
