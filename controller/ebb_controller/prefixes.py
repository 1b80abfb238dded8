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


@dataclass(frozen=True, slots=True)
class _Pod:
    """The hosts of a /16."""

    prefix: str
    racks: tuple[_Rack, ...]
    ways: Mapping[str, tuple[int, ...]]
    """The ports that lead to all of several racks, as `_Rack.ways`; none of a single rack."""


def routes(topology: Topology, switch: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Prefixes, and the ports of a switch on all shortest paths to the hosts in them: the longest
    one that has a host's address is the host's. A host without a path is in none."""
    for pod in _pods(topology):
        common = pod.ways.get(switch)
        if common is not None:
            found = [(pod.prefix, common)]
        else:
            found = [route for rack in pod.racks for route in _of_rack(topology, switch, rack)]
        yield from (route for route in found if route[1])


def _of_rack(topology: Topology, switch: str, rack: _Rack) -> list[tuple[str, tuple[int, ...]]]:
    common = rack.ways.get(switch)
    if common is not None and len(rack.hosts) > 1:
        return [(rack.prefix, common)]
    return [(f"{host.ip}/32", _ports(topology, switch, host.name)) for host in rack.hosts]


def _ways(topology: Topology, hosts: Sequence[Host]) -> Mapping[str, tuple[int, ...]]:
    """Value of `_Rack.ways`: none if the link of one of the hosts is down."""
    if any(topology.link(host).ends in topology.down for host in hosts):
        return {}
    behind = sorted({topology.attachment(host).node for host in hosts})
    return _common([topology.ports_towards(switch) for switch in behind])


def _common(ways: Sequence[Mapping[str, tuple[int, ...]]]) -> Mapping[str, tuple[int, ...]]:
    """Ports of the switches for which all say the same."""
    first, *others = ways
    if not others:
        return first
    return {
        switch: ports
        for switch, ports in first.items()
        if all(other.get(switch) == ports for other in others)
    }


def _ports(topology: Topology, switch: str, target: str) -> tuple[int, ...]:
    return tuple(topology.next_hops(switch, target))


def _pods(topology: Topology) -> Sequence[_Pod]:
    """All hosts by prefix, found once."""
    if "pods" not in topology.derived:
        hosts = _by_octets(topology.endpoints, 2)
        topology.derived["pods"] = [_pod(topology, prefix, own) for prefix, own in hosts]
    pods: Sequence[_Pod] = topology.derived["pods"]
    return pods


def _pod(topology: Topology, prefix: str, hosts: Sequence[Host]) -> _Pod:
    racks = tuple(_racks(topology, hosts))
    ways = _common([rack.ways for rack in racks]) if len(racks) > 1 else {}
    return _Pod(f"{prefix}.0.0/16", racks, ways)


def _racks(topology: Topology, hosts: Sequence[Host]) -> Iterator[_Rack]:
    for prefix, own in _by_octets(hosts, 3):
        yield _Rack(f"{prefix}.0/24", own, _ways(topology, own))


def _by_octets(hosts: Sequence[Host], count: int) -> Iterator[tuple[str, tuple[Host, ...]]]:
    """Hosts whose addresses begin with the same octets, with these."""

    def start(host: Host) -> str:
        return ".".join(host.ip.split(".")[:count])

    for prefix, same in groupby(sorted(hosts, key=start), key=start):
        yield prefix, tuple(same)
