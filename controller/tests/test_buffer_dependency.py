"""Cyclic buffer dependencies: where shortest paths have them, and that a circle is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ebb_controller.buffer_dependency import find_cycle, refuse_cycle, waits
from ebb_controller.multicast import MulticastGroup
from ebb_topologies.files import InputError
from ebb_topologies.model import Endpoint, LinkEnds, Topology, from_table, load_topology
from hypothesis import given
from hypothesis import strategies as st

TOPOLOGIES = Path(__file__).resolve().parents[2] / "topologies"


def ring(switches: int) -> Topology:
    """Switches in a ring, a host at each; port 1 leads to the next one, 2 to the one before."""
    names = [f"s{i}" for i in range(switches)]
    table: dict[str, Any] = {
        "switch": [{"name": name} for name in names],
        "host": [{"name": f"h{i}"} for i in range(switches)],
        "link": [
            *(
                {"ends": [name, names[(i + 1) % switches]], "ports": [1, 2]}
                for i, name in enumerate(names)
            ),
            *({"ends": [f"h{i}", name], "ports": [1, 3]} for i, name in enumerate(names)),
        ],
    }
    return from_table(table, "ring")


def link(topology: Topology, *nodes: str) -> LinkEnds:
    (found,) = (x.ends for x in topology.links if {end.node for end in x.ends} == set(nodes))
    return found


@pytest.mark.parametrize("path", sorted(TOPOLOGIES.glob("*.toml")), ids=lambda path: path.stem)
def test_trees_of_switches_have_none(path: Path) -> None:
    topology = load_topology(path)
    assert find_cycle(waits(topology)) is None
    refuse_cycle(topology, [0, 7])


def test_any_one_link_of_a_fat_tree_may_fail() -> None:
    topology = from_table({"fat_tree": {"k": 4}}, "test")
    for failed in topology.links:
        refuse_cycle(topology.without(frozenset({failed.ends})), [0])


def test_a_ring_has_one_where_packets_pass_two_of_its_links() -> None:
    assert find_cycle(waits(ring(3))) is None  # every switch is a neighbour of every other
    assert find_cycle(waits(ring(4))) == [Endpoint(f"s{i}", 1) for i in range(4)]
    with pytest.raises(InputError) as error:
        refuse_cycle(ring(4), [0, 3])
    said = str(error.value)
    assert "routes lead round s0:1 -> s1:1 -> s2:1 -> s3:1 -> s0:1, so" in said
    assert "lossless queues (0, 3) could wait" in said
    assert "\n" not in said


def test_lossy_queues_may_have_one() -> None:
    refuse_cycle(ring(4), [])


def test_a_failure_can_bring_one_and_end_one() -> None:
    topology = ring(4)
    refuse_cycle(topology.without(frozenset({link(topology, "s0", "s1")})), [0])
    # Two planes of a fat-tree, each cut off from one side of a pod: paths go down and up again.
    tree = from_table({"fat_tree": {"k": 4}}, "test")
    cut = {("p0a0", "c0"), ("p0a0", "c1"), ("p1a1", "c2"), ("p1a1", "c3")}
    broken = tree.without(frozenset(link(tree, *nodes) for nodes in cut))
    graph = waits(broken)
    climbs_again = [
        (first, second)
        for first, following in graph.items()
        for second in following
        if first.node[2:3] == "a" and second.node[2:3] == "e"
    ]
    assert climbs_again, "no path goes down to an edge switch and up again"


def test_switches_without_traffic_do_not_count() -> None:
    """Only what hosts send can wait: nothing comes in by a link from which no host is reached."""
    topology = from_table({"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}}, "test")
    assert {port.node[0] for port in waits(topology)} == {"l", "s"}
    down = frozenset(x.ends for x in topology.links if topology.is_host(x.a.node))
    assert waits(topology.without(down)) == {}


def test_trees_of_several_groups_can_go_round_where_paths_do_not() -> None:
    """In a ring of three every tree passes two links; three of them, each from another root, go
    round, and one alone does not."""
    topology = ring(3)
    members = ("h0", "h1", "h2")
    groups = [MulticastGroup(f"239.0.0.{n}", n, members) for n in range(1, 9)]
    for group in groups:
        refuse_cycle(topology, [0], [group])
    with pytest.raises(InputError, match="the routes lead round s0:1 -> s1:1 -> s2:1 -> s0:1"):
        refuse_cycle(topology, [0], groups)
    refuse_cycle(topology, [], groups)


def test_groups_of_a_fat_tree_have_none() -> None:
    topology = from_table({"fat_tree": {"k": 4}}, "test")
    names = [host.name for host in topology.hosts]
    groups = [MulticastGroup(f"239.0.0.{n}", n, tuple(names[n::4])) for n in range(1, 17)]
    refuse_cycle(topology, [0], groups)


PORTS = [Endpoint("s", number) for number in range(8)]


@given(st.dictionaries(st.sampled_from(PORTS), st.sets(st.sampled_from(PORTS))))
def test_a_circle_is_found_where_there_is_one(graph: dict[Endpoint, set[Endpoint]]) -> None:
    """Without a port that waits for nothing or for what was left out, there is a circle; and
    repeatedly leaving such ports out leaves nothing where there is none."""
    left = {port: set(following) for port, following in graph.items()}
    while free := [port for port, following in left.items() if not following & left.keys()]:
        for port in free:
            del left[port]
    cycle = find_cycle(graph)
    assert (cycle is not None) == bool(left)
    if cycle is not None:
        assert all(b in graph[a] for a, b in zip(cycle, (*cycle[1:], cycle[0]), strict=True))
