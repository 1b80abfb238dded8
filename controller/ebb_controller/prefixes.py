"""The destinations of a switch in as few prefixes as racks and pods of addresses allow.

The hosts of a rack share a /24, those of a pod a /16 (docs/architecture.md, "Addresses and names").
Where all of them are behind the same ports, the prefix stands for them. It never stands for hosts
of the switch itself: a packet to an address that nobody has comes as far as the switch of the rack,
which has no route for it, and goes round nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from ebb_topologies.model import Host, Topology


@dataclass(frozen=True, slots=True)
class _Rack:
    """The hosts of a /24."""

    prefix: str
    hosts: tuple[Host, ...]
    ways: Mapping[str, tuple[int, ...]]
    """The ports that lead to all of them, by switch; a switch that is not there has some of them
    itself, another way to each, or none."""


_Pods = tuple[tuple[str, tuple[_Rack, ...]], ...]
"""/16 prefixes and what is in them."""


def routes(topology: Topology, switch: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Prefixes, and the ports of a switch on all shortest paths to the hosts in them: the longest
    one that has a host's address is the host's. A host without a path is in none."""
    for prefix, racks in _pods(topology):
        ports = [rack.ways.get(switch) for rack in racks]
        if len(racks) > 1 and ports[0] is not None and all(p == ports[0] for p in ports):
            found = [(prefix, ports[0])]
        else:
            found = [
                route
                for rack, common in zip(racks, ports, strict=True)
                for route in _of_rack(topology, switch, rack, common)
            ]
        yield from (route for route in found if route[1])


def _of_rack(
    topology: Topology, switch: str, rack: _Rack, common: tuple[int, ...] | None
) -> list[tuple[str, tuple[int, ...]]]:
    if common is not None and len(rack.hosts) > 1:
        return [(rack.prefix, common)]
    return [(f"{host.ip}/32", _ports(topology, switch, host.name)) for host in rack.hosts]


def _ways(topology: Topology, hosts: Sequence[Host]) -> Mapping[str, tuple[int, ...]]:
    """Value of `_Rack.ways`: none if the link of one of the hosts is down."""
    if any(topology.link(host).ends in topology.down for host in hosts):
        return {}
    behind = sorted({topology.attachment(host).node for host in hosts})
    first, *others = (topology.ports_towards(switch) for switch in behind)
    if not others:
        return first
    return {
        switch: ports
        for switch, ports in first.items()
        if all(other.get(switch) == ports for other in others)
    }


def _ports(topology: Topology, switch: str, target: str) -> tuple[int, ...]:
    return tuple(topology.next_hops(switch, target))


def _pods(topology: Topology) -> _Pods:
    """All hosts by prefix, found once."""
    if "pods" not in topology.derived:
        pods = [
            (f"{prefix}.0.0/16", tuple(_racks(topology, hosts)))
            for prefix, hosts in _by_octets(topology.endpoints, 2)
        ]
        topology.derived["pods"] = tuple(pods)
    pods_of_all: _Pods = topology.derived["pods"]
    return pods_of_all


def _racks(topology: Topology, hosts: Sequence[Host]) -> Iterator[_Rack]:
    for prefix, own in _by_octets(hosts, 3):
        yield _Rack(f"{prefix}.0/24", own, _ways(topology, own))


def _by_octets(hosts: Sequence[Host], count: int) -> Iterator[tuple[str, tuple[Host, ...]]]:
    """Hosts whose addresses begin with the same octets, with these."""

    def start(host: Host) -> str:
        return ".".join(host.ip.split(".")[:count])

    for prefix, same in groupby(sorted(hosts, key=start), key=start):
        yield prefix, tuple(same)
