"""Groups as switches hold them, compared with those that the controller has installed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.multicast import MulticastGroup, tree
from ebb_controller.plan import plan
from ebb_controller.program import Program
from ebb_controller.site import Site
from ebb_dashboard.installed import Forwarding, Installed
from ebb_dashboard.picture import of_topology
from ebb_topologies.model import Topology, load_topology
from finsy import P4MulticastGroupEntry
from finsy.p4entity import P4Replica, decode_entity
from support import BINARIES, ROOT

needs_program = pytest.mark.skipif(
    not (BINARIES.directory / "fabric.p4info.txtpb").exists(),
    reason="needs build/fabric.p4info.txtpb: run `make build`",
)
MEMBERS = [("h1", "h2", "h5"), ("h3", "h9", "h13", "h16"), ("h7", "h8")]


def held(
    topology: Topology, groups: tuple[MulticastGroup, ...]
) -> Iterator[tuple[str, Forwarding]]:
    """Entries that the controller writes, as each switch tells them when it is read."""
    schema = Program.of(BINARIES.directory).schema
    for switch in topology.switches:
        site = Site(topology, switch, FabricParameters(), groups=groups)
        told = [decode_entity(each.encode(schema), schema) for each in plan(site)]
        yield switch.name, Forwarding.of(reversed(told))


@needs_program
def test_they_are_the_groups_that_the_controller_has_installed() -> None:
    topology = load_topology(ROOT / "topologies" / "fat-tree-k4.toml")
    picture = of_topology(topology)
    groups = tuple(
        MulticastGroup.of(topology, number, members)
        for number, members in enumerate(MEMBERS, start=1)
    )
    installed = Installed.of(picture, dict(held(topology, groups)))
    known = picture.groups((group, tree(topology, group)) for group in groups)
    assert installed.groups == sorted(known, key=lambda group: group["address"])
    assert installed.hosts == {host.ip: host.name for host in topology.hosts}


@needs_program
def test_without_groups_there_are_none() -> None:
    topology = load_topology(ROOT / "topologies" / "leaf-spine.toml")
    assert Installed.of(of_topology(topology), dict(held(topology, ()))).groups == []


def test_a_group_without_a_route_has_its_number() -> None:
    """Somebody else's controller may have addresses in a table of its own."""
    picture = of_topology(load_topology(ROOT / "topologies" / "leaf-spine.toml"))
    at_leaf = [p for p in picture.ports if picture.far_end(p).port is None and p.switch == "l0"]
    replicas = [P4Replica(port.port) for port in at_leaf[:2]]
    switches = {"l0": Forwarding.of([P4MulticastGroupEntry(7, replicas=replicas)])}
    (group,) = Installed.of(picture, switches).groups
    assert group["address"] == "group 7"
    assert group["members"] == [picture.far_end(port).node for port in at_leaf[:2]]
    assert group["links"] == sorted(port.link for port in at_leaf[:2])
