"""`multicast.p4`: the ports of each group on a switch, and the route of its address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ebb_controller.mechanism import Entity, Mechanism
from ebb_controller.mechanisms.route import IPV4_ROUTE, SELECTOR, SET_MULTICAST_GROUP
from ebb_controller.multicast import MulticastGroup, tree_ports
from ebb_controller.site import Site

FIRST_MEMBER = 1000
"""Members of the selector below are next hops, named by their port (1..510)."""


def entries(site: Site[Any]) -> Iterator[Entity]:
    """Per group: its ports on this switch, and the route of its address."""
    for group in site.groups:
        yield from _of_group(site, group)


def _of_group(site: Site[Any], group: MulticastGroup) -> Iterator[Entity]:
    """A switch on the tree sends to all its tree ports (the program drops the replica that would go
    back where the packet came from), any other switch sends towards the root.

    The route names a member of the selector, as all entries of a table with a selector must; an
    action of its own would be a "one-shot", which P4Runtime servers do not mix with members and
    groups.
    """
    from finsy import (
        P4ActionProfileMember,
        P4IndirectAction,
        P4MulticastGroupEntry,
        P4TableAction,
    )
    from finsy.p4entity import P4Replica

    ports = tree_ports(site.topology, group, site.switch.name)
    if not ports:
        return
    member = FIRST_MEMBER + group.group
    yield P4MulticastGroupEntry(
        group.group, replicas=[P4Replica(port, instance=1) for port in sorted(ports)]
    )
    yield P4ActionProfileMember(
        SELECTOR,
        member_id=member,
        action=P4TableAction(SET_MULTICAST_GROUP, group=group.group),
    )
    yield IPV4_ROUTE.entry_for({"dst": f"{group.address}/32"}, P4IndirectAction(member_id=member))


MECHANISM = Mechanism("multicast", entries, (IPV4_ROUTE,))
