"""One switch, seen by the mechanisms: its ports and the parameters in force, in real units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeVar

from ebb_topologies.model import Host, Switch, Topology

from ebb_controller.multicast import MulticastGroup
from ebb_controller.parameters import Parameters

DepthUnit = Literal["bytes", "packets"]

P = TypeVar("P", bound=Parameters, covariant=True)
"""Parameters of all mechanisms, or the part that one of them reads."""


@dataclass(frozen=True, slots=True)
class Port:
    """A port with a link."""

    number: int
    """Number of the port in P4, from 1."""
    mac: str
    """Address of the port, source of what leaves by it."""
    peer_mac: str
    """Address at the other end of the link."""
    to_host: bool
    """Whether a host is there; otherwise a switch."""
    rate_bps: int
    """Rate of the link, bit/s."""


@dataclass(frozen=True)
class Site(Generic[P]):
    """A switch and what it is to do; a mechanism sees its own part of the parameters."""

    topology: Topology
    """The topology that runs: its rates are those of the wires, not nominal ones."""
    switch: Switch
    """The switch that this is about."""
    parameters: P
    """Parameters in force, in real units."""
    depth_unit: DepthUnit = "bytes"
    """Unit in which the target counts `enq_qdepth`."""
    groups: tuple[MulticastGroup, ...] = ()
    """All multicast groups of the fabric."""

    @cached_property
    def ports(self) -> tuple[Port, ...]:
        """All ports with a link, by number."""
        found = []
        for number, (far, link) in self.topology.neighbours[self.switch.name].items():
            to_host = self.topology.is_host(far.node)
            peer: Host | Switch
            peer = self.topology.host(far.node) if to_host else self.topology.switch(far.node)
            found.append(
                Port(
                    number=number,
                    mac=self.switch.port_mac(number),
                    peer_mac=peer.mac if isinstance(peer, Host) else peer.port_mac(far.port),
                    to_host=to_host,
                    rate_bps=link.rate_bps,
                )
            )
        return tuple(found)
