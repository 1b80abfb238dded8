"""The picture: nodes and their places, links, and the switch ports that send into them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ebb_controller.fabric_admin import FabricView
from ebb_controller.multicast import MulticastGroup
from ebb_topologies.draw import rows
from ebb_topologies.files import InputError
from ebb_topologies.model import Endpoint, Topology

Trees = Iterable[tuple[MulticastGroup, Mapping[str, Set[int]]]]
"""Multicast groups, with the ports of the tree of each by switch."""
MAX_GROUPS = 64
"""Most multicast groups that a page gets."""


@dataclass(frozen=True, slots=True)
class Place:
    """An end of a link."""

    node: str
    """Name of the switch or host."""
    port: int | None
    """Port of a switch, from 1; none: it is a host, which has one link only."""

    def __str__(self) -> str:
        """As the fabric service calls it: "s1:3", or the name of a host."""
        return self.node if self.port is None else f"{self.node}:{self.port}"


@dataclass(frozen=True, slots=True)
class Wire:
    """A link."""

    a: Place
    """The end that is named first."""
    b: Place
    """The other end."""
    rate_bps: int | None = None
    """Nominal rate of each direction, bit/s; none: not known."""
    delay_ns: int | None = None
    """Nominal propagation delay of each direction, ns; none: not known."""


@dataclass(frozen=True, slots=True)
class Port:
    """A switch port with a link: an end whose queue the switch reports."""

    switch: str
    """Name of the switch."""
    port: int
    """Number of the port."""
    link: int
    """Index of the link in `Picture.links`."""
    end: int
    """0: the port is end `a` of the link, 1: end `b`."""


@dataclass(frozen=True)
class Picture:
    """A topology, as far as it is drawn."""

    name: str
    """Name of the topology."""
    hosts: Sequence[str]
    """Names of the hosts, in order."""
    switches: Sequence[str]
    """Names of the switches, in order."""
    links: Sequence[Wire]
    """All links."""

    def link(self, index: int) -> Wire:
        """A link by its index. Raises `InputError`."""
        if index >= len(self.links):
            raise InputError(f"there is no link {index}")
        return self.links[index]

    @cached_property
    def ports(self) -> list[Port]:
        """Switch ports with links, by link. Values of ports are sent in this order."""
        return [
            Port(place.node, place.port, index, end)
            for index, link in enumerate(self.links)
            for end, place in enumerate((link.a, link.b))
            if place.port is not None
        ]

    def far_end(self, port: Port) -> Place:
        """The other end of a port's link."""
        link = self.links[port.link]
        return link.a if port.end else link.b

    def groups(self, trees: Trees) -> list[dict[str, Any]]:
        """Groups as the page gets them (docs/dashboard.md, `groups`), from their trees."""
        links = {(port.switch, port.port): port.link for port in self.ports}
        return [
            {
                "address": group.address,
                "members": list(group.members),
                "links": sorted(
                    {links[switch, port] for switch, ports in tree.items() for port in ports}
                ),
            }
            for group, tree in itertools.islice(trees, MAX_GROUPS)
        ]

    def as_json(self) -> dict[str, Any]:
        """The picture as the page gets it (docs/dashboard.md, `hello`)."""
        ends = [(link.a.node, link.b.node) for link in self.links]
        return {
            "name": self.name,
            "rows": rows(self.hosts, self.switches, ends),
            "hosts": list(self.hosts),
            "links": [
                {
                    "a": str(link.a),
                    "b": str(link.b),
                    "nodes": [link.a.node, link.b.node],
                    "rate_bps": link.rate_bps,
                    "delay_ns": link.delay_ns,
                }
                for link in self.links
            ],
            "ports": [[port.switch, port.port, port.link, port.end] for port in self.ports],
        }


def of_topology(topology: Topology) -> Picture:
    """The picture of a topology, with its rates and delays."""

    def place(end: Endpoint) -> Place:
        return Place(end.node, None if topology.is_host(end.node) else end.port)

    links = [
        Wire(place(link.a), place(link.b), link.rate_bps, link.delay_ns) for link in topology.links
    ]
    return Picture(
        topology.name,
        [host.name for host in topology.hosts],
        [switch.name for switch in topology.switches],
        links,
    )


def of_view(name: str, view: FabricView) -> Picture:
    """The picture of a fabric from its fabric service, which reports no rates and delays."""
    links = [
        Wire(Place(link.a.node, link.a.port), Place(link.b.node, link.b.port))
        for link in view.links
    ]
    return Picture(name, view.hosts, list(view.switches), links)
