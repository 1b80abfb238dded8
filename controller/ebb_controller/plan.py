"""Everything a switch should hold: the mechanisms' entries, in the order P4Runtime needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    multicast,
    occupancy,
    phantom_queue,
    return_to_sender,
    route,
    traffic_class,
    trimming,
)
from ebb_controller.multicast import MulticastGroup
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


def plan(site: Site, groups: Sequence[MulticastGroup] = ()) -> list[Entity]:
    """The entities of one switch, members before groups before entries."""
    entities = list(_all(site, groups))
    return sorted(entities, key=lambda entity: INSERT_ORDER.index(type(entity)))


def _all(site: Site, groups: Sequence[MulticastGroup]) -> Iterator[Entity]:
    for mechanism in MECHANISMS:
        yield from mechanism(site)
    for group in groups:
        yield from multicast.entries(site, group)
