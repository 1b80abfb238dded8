"""Cyclic buffer dependencies: whether full queues could wait for each other in a circle.

A queue that may not drop waits for room in the next queue on the way of its packets. If routes lead
these waits round in a circle, a fabric that is full once stays so for ever: no packet of the circle
can move (Dally and Seitz, IEEE ToC 1987). In a tree of switches, where packets go up and then down,
there is none; after failures the shortest paths of a fat-tree may go down and up again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ebb_topologies.files import InputError
from ebb_topologies.model import Endpoint, Topology

Waits = Mapping[Endpoint, set[Endpoint]]
"""Output port of a switch to the ports of the next switch that its packets may leave by."""


def refuse_cycle(topology: Topology, lossless: list[int]) -> None:
    """Raises `InputError` if lossless queues, here by their numbers, could wait for each other in a
    circle on the shortest paths that the topology has now."""
    cycle = find_cycle(waits(topology)) if lossless else None
    if cycle is not None:
        queues = ", ".join(map(str, lossless))
        way = " -> ".join(f"{end.node}:{end.port}" for end in (*cycle, cycle[0]))
        raise InputError(
            f"topology {topology.name}: the shortest paths lead round {way}, so lossless queues "
            f"({queues}) could wait for each other for ever; repair links of that circle or remove "
            "one, or make the queues lossy"
        )


def waits(topology: Topology) -> Waits:
    """What the ports between switches wait for, over all destinations. Packets of every class take
    the same paths, whichever of the shortest ones, so one graph stands for all classes. Ports to
    hosts are left out: a host takes what comes."""
    edges = {
        topology.attachment(host).node
        for host in topology.hosts
        if topology.link(host).ends not in topology.down
    }
    found: dict[Endpoint, set[Endpoint]] = {}
    for target in edges:
        ahead = {
            switch.name: [
                Endpoint(switch.name, port) for port in topology.next_hops(switch.name, target)
            ]
            for switch in topology.switches
        }
        reached = set(edges)
        waiting = list(edges)
        while waiting:
            for port in ahead[waiting.pop()]:
                far = topology.neighbours[port.node][port.port][0].node
                found.setdefault(port, set()).update(ahead[far])
                if far not in reached:
                    reached.add(far)
                    waiting.append(far)
    return found


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
