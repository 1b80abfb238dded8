"""One switch, seen by the mechanisms: its ports and the parameters in force, in real units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from ebb_topologies.model import Host, Switch, Topology

from ebb_controller.parameters import FabricParameters

DepthUnit = Literal["bytes", "packets"]


@dataclass(frozen=True, slots=True)
class Port:
    number: int
    mac: str
    peer_mac: str
    to_host: bool
    rate_bps: int


@dataclass(frozen=True)
class Site:
    """The topology is the one that runs: its rates are those of the wires, not nominal ones."""

    topology: Topology
    switch: Switch
    parameters: FabricParameters
    depth_unit: DepthUnit = "bytes"
    """Unit in which the target counts `enq_qdepth`."""

    @cached_property
    def ports(self) -> tuple[Port, ...]:
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
