"""Everything a switch should hold: the mechanisms' entries, in the order P4Runtime needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address

from ebb_topologies.files import InputError
from ebb_topologies.model import Topology
from finsy import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4MulticastGroupEntry,
    P4TableEntry,
)

from ebb_controller import (
    arp,
    ecn_threshold,
    mlfq,
    occupancy,
    phantom_queue,
    return_to_sender,
    route,
    traffic_class,
    trimming,
)
from ebb_controller.site import Site

Entity = P4ActionProfileMember | P4ActionProfileGroup | P4MulticastGroupEntry | P4TableEntry

MECHANISMS = (
    route.entries,
    traffic_class.entries,
    mlfq.entries,
    trimming.entries,
    return_to_sender.entries,
    occupancy.entries,
    phantom_queue.entries,
    ecn_threshold.entries,
    arp.entries,
)

# An entity may only name what is there already: members, then groups, then the entries.
INSERT_ORDER = (
    P4ActionProfileMember,
    P4ActionProfileGroup,
    P4MulticastGroupEntry,
    P4TableEntry,
)


MAX_GROUP = 0xFFFF


@dataclass(frozen=True, slots=True)
class MulticastGroup:
    """Hosts that receive what is sent to an IPv4 multicast address."""

    address: str
    group: int
    members: tuple[str, ...]

    def check(self, topology: Topology) -> None:
        """Raises `InputError` for what no switch could do."""
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


def plan(site: Site, multicast: Sequence[MulticastGroup] = ()) -> list[Entity]:
    """The entities of one switch, members before groups before entries."""
    entities = list(_all(site, multicast))
    return sorted(entities, key=lambda entity: INSERT_ORDER.index(type(entity)))


def _all(site: Site, multicast: Sequence[MulticastGroup]) -> Iterator[Entity]:
    for mechanism in MECHANISMS:
        yield from mechanism(site)
    for group in multicast:
        yield from route.multicast(site, group.address, group.group, group.members)
