"""Multicast groups as the switches hold them: for a fabric whose controller is not at hand."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from typing import Any

import grpc
from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms.route import IPV4_ROUTE, SET_MULTICAST_GROUP
from finsy import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4IndirectAction,
    P4MulticastGroupEntry,
    P4TableAction,
    P4TableEntry,
)
from finsy.p4entity import P4Replica, decode_entity
from finsy.proto import p4r

from ebb_dashboard import reading
from ebb_dashboard.picture import MAX_GROUPS, Picture

HOST = 32
"""Length of a prefix that is one address."""
SET_NEXT_HOP = IPV4_ROUTE.actions[0]
EVERY_ROUTE = (
    reading.EVERY_GROUP,
    p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
    p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
    p4r.Entity(table_entry=p4r.TableEntry()),
)


@dataclass(frozen=True)
class Forwarding:
    """Entries of a switch about multicast groups and about the hosts at its ports."""

    replicas: dict[int, Set[int]] = field(default_factory=dict)
    """Ports that a packet of a group is copied to, by the number of the group in the PRE."""
    groups: dict[str, int] = field(default_factory=dict)
    """Number of the group that packets to an address belong to."""
    neighbours: dict[str, int] = field(default_factory=dict)
    """Port by which packets to a single address always leave."""

    @classmethod
    def of(cls, entities: Iterable[Any]) -> Forwarding:
        """Takes entities as finsy decodes them, in any order; others are passed over."""
        actions: dict[int, P4TableAction] = {}
        members: dict[int, list[int]] = {}
        routes: list[tuple[str, P4IndirectAction]] = []
        found = cls()
        for entity in entities:
            match entity:
                case P4MulticastGroupEntry():
                    ports = {r.port for r in entity.replicas if isinstance(r, P4Replica)}
                    found.replicas[entity.multicast_group_id] = frozenset(ports)
                case P4ActionProfileMember(action=P4TableAction() as action):
                    actions[entity.member_id] = action
                case P4ActionProfileGroup():
                    members[entity.group_id] = [m.member_id for m in entity.members or ()]
                case P4TableEntry(table_id=IPV4_ROUTE.name, action=P4IndirectAction() as action):
                    match: Mapping[str, Any] = entity.match or {}
                    value, length = match.get("dst", (0, 0))
                    if length == HOST:
                        routes.append((str(IPv4Address(value)), action))
        for address, action in routes:
            chosen = [action.member_id] if action.group_id is None else members[action.group_id]
            found._note(address, [actions[each] for each in chosen if each in actions])
        return found

    def _note(self, address: str, actions: Collection[P4TableAction]) -> None:
        for action in actions:
            if action.name == SET_MULTICAST_GROUP:
                self.groups[address] = action.args["group"]
        ports = {a.args["port"] for a in actions if a.name == SET_NEXT_HOP}
        if len(ports) == 1:
            self.neighbours[address] = ports.pop()


@dataclass(frozen=True)
class Installed:
    """The groups of a fabric, and the addresses of its hosts."""

    groups: list[dict[str, Any]] = field(default_factory=list)
    """As the page gets them (docs/dashboard.md, `groups`)."""
    hosts: dict[str, str] = field(default_factory=dict)
    """Name of the host at an address."""

    @classmethod
    def of(cls, picture: Picture, switches: Mapping[str, Forwarding]) -> Installed:
        """Puts the entries of all switches together.

        A link is in a tree if both its ends copy to it, as packets may come from either side, or
        if a host is at its end. So the port by which a switch outside of the tree sends towards it
        does not make a link of the tree.
        """
        far = {(port.switch, port.port): picture.far_end(port) for port in picture.ports}
        copies: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
        for switch, held in switches.items():
            names = {number: address for address, number in held.groups.items()}
            for number, ports in held.replicas.items():
                name = names.get(number, f"group {number}")
                copies[name] |= {(switch, port) for port in ports if (switch, port) in far}
        links = {(port.switch, port.port): port.link for port in picture.ports}
        groups: list[dict[str, Any]] = []
        for name, ends in sorted(copies.items())[:MAX_GROUPS]:
            leaves = {end for end in ends if far[end].port is None}
            hosts = {far[end].node for end in leaves}
            tree = {end for end in ends if (far[end].node, far[end].port) in ends} | leaves
            groups.append(
                {
                    "address": name,
                    "members": [host for host in picture.hosts if host in hosts],
                    "links": sorted({links[end] for end in tree}),
                }
            )
        addresses = {
            address: far[switch, port].node
            for switch, held in switches.items()
            for address, port in held.neighbours.items()
            if (switch, port) in far and far[switch, port].port is None
        }
        return cls(groups, addresses)


class InstalledGroups:
    """Reads the groups of a fabric, and the routes again when they have changed."""

    def __init__(self, picture: Picture, addresses: Mapping[str, tuple[str, int]]) -> None:
        """`addresses`: where a switch serves P4Runtime, and its device id."""
        self._picture = picture
        self._addresses = addresses
        self._copies: dict[str, dict[int, Set[int]]] = {}
        self.latest = Installed()
        """The state that `sample` found last."""

    async def sample(self) -> Installed:
        """Reads the switches. Raises `ControllerError`."""
        copies = await self._of_all([reading.EVERY_GROUP])
        found = {name: held.replicas for name, held in copies.items()}
        if found != self._copies:
            whole = await self._of_all(EVERY_ROUTE)
            self.latest = Installed.of(self._picture, whole)
            self._copies = {name: held.replicas for name, held in whole.items()}
        return self.latest

    async def _of_all(self, wanted: Sequence[p4r.Entity]) -> dict[str, Forwarding]:
        found = await asyncio.gather(*(self._of(name, wanted) for name in self._addresses))
        return dict(zip(self._addresses, found, strict=True))

    async def _of(self, name: str, wanted: Sequence[p4r.Entity]) -> Forwarding:
        address, device_id = self._addresses[name]
        try:
            async with grpc.aio.insecure_channel(address) as channel:
                schema = await reading.schema(channel, device_id)
                read = reading.read(channel, device_id, wanted)
                return Forwarding.of([decode_entity(each, schema) async for each in read])
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.FAILED_PRECONDITION:
                return Forwarding()  # it has no program yet
            raise ControllerError(f"groups of {name}: {error.details()}") from error
        except (KeyError, ValueError) as error:
            raise ControllerError(f"groups of {name}: not of its program: {error}") from error
