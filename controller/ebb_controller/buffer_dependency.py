"""Cyclic buffer dependencies: whether full queues could wait for each other in a circle.

A queue that may not drop waits for room in the next queue on the way of its packets. If routes lead
these waits round in a circle, a fabric that is full once stays so for ever: no packet of the circle
can move (Dally and Seitz, IEEE ToC 1987). In a tree of switches, where packets go up and then down,
there is none; after failures the shortest paths of a fat-tree may go down and up again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from ebb_topologies.files import InputError
from ebb_topologies.model import Endpoint, Topology

from ebb_controller.multicast import MulticastGroup, tree_ports

Waits = Mapping[Endpoint, set[Endpoint]]
"""Output port of a switch to the ports of the next switch that its packets may leave by."""


def refuse_cycle(
    topology: Topology, lossless: list[int], groups: Sequence[MulticastGroup] = ()
) -> None:
    """Raises `InputError` if lossless queues, here by their numbers, could wait for each other in a
    circle on the shortest paths and the trees of groups that the topology has now."""
    cycle = find_cycle(waits(topology, groups)) if lossless else None
    if cycle is not None:
        queues = ", ".join(map(str, lossless))
        way = " -> ".join(f"{end.node}:{end.port}" for end in (*cycle, cycle[0]))
        raise InputError(
            f"topology {topology.name}: the routes lead round {way}, so lossless queues "
            f"({queues}) could wait for each other for ever; repair links of that circle or remove "
            "one, or make the queues lossy"
        )


def waits(topology: Topology, groups: Sequence[MulticastGroup] = ()) -> Waits:
    """Dependencies between the ports of switches, over all destinations and groups. Packets of
    every
    class take the same paths, whichever of the shortest ones, so one graph stands for all classes.
    Ports to hosts are left out: a host takes what comes."""
    edges = {
        topology.attachment(host).node
        for host in topology.hosts
        if topology.link(host).ends not in topology.down
    }
    found: dict[Endpoint, set[Endpoint]] = {}
    for target in edges:
        paths = {each.name: topology.next_hops(each.name, target) for each in topology.switches}
        _follow(topology, edges, paths.__getitem__, found)
    for group in groups:
        _follow(topology, edges, partial(tree_ports, topology, group), found)
    return found


def _follow(
    topology: Topology,
    sources: Iterable[str],
    ports: Callable[[str], Iterable[int]],
    found: dict[Endpoint, set[Endpoint]],
) -> None:
    """Adds to `found` what packets wait for that come in at `sources` and leave each switch by
    `ports`, but never by the port that they came by."""
    waiting = [Endpoint(source, port) for source in sources for port in ports(source)]
    seen = set(waiting)
    while waiting:
        here = waiting.pop()
        far = topology.neighbours[here.node][here.port][0]
        if topology.is_host(far.node):
            continue
        ahead = {Endpoint(far.node, port) for port in ports(far.node) if port != far.port}
        switches = {
            end
            for end in ahead
            if not topology.is_host(topology.neighbours[end.node][end.port][0].node)
        }
        found.setdefault(here, set()).update(switches)
        waiting += ahead - seen
        seen |= ahead


def find_cycle(graph: Waits) -> list[Endpoint] | None:
    """Ports each of which waits for the next, and the last for the first; none: there is no such
    circle."""
    done: set[Endpoint] = set()
    for start in sorted(graph):
        path: dict[Endpoint, Iterator[Endpoint]] = {}
        """The way from the start, each port with those that are yet to be tried behind it."""
        following: Endpoint | None = start
        while following is not None or path:
            if following is not None:
                if following in path:
                    ports = list(path)
                    return ports[ports.index(following) :]
                path[following] = iter(sorted(graph.get(following, ())))
            last = next(reversed(path))
            following = next((port for port in path[last] if port not in done), None)
            if following is None:
                del path[last]
                done.add(last)
    return None
