"""Every source of a fabric gives the same picture of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ebb_controller.fabric_admin import End, FabricView, Link, LinkState
from ebb_controller.multicast import MulticastGroup, tree
from ebb_dashboard.finished import picture
from ebb_dashboard.picture import of_topology, of_view
from ebb_topologies.model import load_topology

TOPOLOGIES = Path(__file__).resolve().parents[2] / "topologies"


def test_a_fat_tree() -> None:
    drawn = of_topology(load_topology(TOPOLOGIES / "fat-tree-k4.toml"))
    assert (len(drawn.hosts), len(drawn.switches), len(drawn.links)) == (16, 20, 48)
    assert len(drawn.ports) == 80
    told = drawn.as_json()
    assert [len(row) for row in told["rows"]] == [16, 8, 8, 4]
    assert told["links"][0]["a"] == "h1"
    assert told["ports"][0] == ["p0e0", 1, 0, 1]


@pytest.mark.parametrize("name", ["fat-tree-k4", "leaf-spine", "three-tier"])
def test_results_tell_the_same_links_as_the_topology(name: str) -> None:
    topology = load_topology(TOPOLOGIES / f"{name}.toml")
    rows = [
        {"switch": switch.name, "port": port, "peer": far.node, "rate_bps": link.rate_bps}
        for switch in topology.switches
        for port, (far, link) in topology.neighbours[switch.name].items()
    ]
    # The port of packets to the controller has no peer.
    rows.append({"switch": topology.switches[0].name, "port": 510, "peer": None, "rate_bps": None})
    drawn, real = picture(topology.name, rows), of_topology(topology)
    assert (drawn.hosts, drawn.switches) == (real.hosts, real.switches)

    def ends(links: object) -> set[tuple[frozenset[str], int]]:
        return {(frozenset((str(w.a), str(w.b))), w.rate_bps) for w in links}  # type: ignore[attr-defined]

    assert ends(drawn.links) == ends(real.links)


def test_a_fabric_service_tells_links_without_rates() -> None:
    view = FabricView(
        switches={"s1": "127.0.0.1:1", "s2": "127.0.0.1:2"},
        device_ids={"s1": 1, "s2": 2},
        hosts=["h1"],
        links=[
            Link(End("s1", 2), End("s2", 1), LinkState(), LinkState()),
            Link(End("s1", 1), End("h1", None), LinkState(), LinkState()),
        ],
    )
    drawn = of_view("x", view)
    assert [str(place) for wire in drawn.links for place in (wire.a, wire.b)] == [
        *("s1:2", "s2:1"),
        *("s1:1", "h1"),
    ]
    assert drawn.as_json()["rows"] == [["h1"], ["s1"], ["s2"]]


def test_the_tree_of_a_group_is_links_of_the_picture() -> None:
    topology = load_topology(TOPOLOGIES / "fat-tree-k4.toml")
    group = MulticastGroup.of(topology, 1, ["h1", "h2", "h5"])
    (told,) = of_topology(topology).groups([(group, tree(topology, group))])
    assert (told["address"], told["members"]) == (group.address, ["h1", "h2", "h5"])
    nodes = [of_topology(topology).as_json()["links"][link]["nodes"] for link in told["links"]]
    assert len(nodes) == 7
    assert sorted(node for ends in nodes for node in ends if node.startswith("h")) == [
        "h1", "h2", "h5",
    ]  # fmt: skip
    # Who is cut off is no part of it.
    apart = topology.without(frozenset({topology.link(topology.host("h5")).ends}))
    (told,) = of_topology(topology).groups([(group, tree(apart, group))])
    assert len(told["links"]) == 2
