"""The plan of a switch: its order, that it fits the program, and where multicast packets go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from ipaddress import IPv4Network
from itertools import chain
from typing import Any, TypeVar

import pytest
from built import FULL_PROGRAM, NEEDS_PROGRAM, p4info
from ebb_controller.mechanisms.route import IPV4_ROUTE
from ebb_controller.multicast import MulticastGroup, group_address, tree_ports
from ebb_controller.plan import INSERT_ORDER, plan
from ebb_controller.prefixes import routes
from ebb_controller.site import Site
from ebb_topologies.model import Topology, from_table
from everything import everything
from finsy import P4ActionProfileGroup, P4MulticastGroupEntry, P4TableEntry
from finsy.p4entity import P4Replica
from finsy.p4schema import P4Schema
from hypothesis import given, settings
from hypothesis import strategies as st

T = TypeVar("T")

EVERYTHING = everything(return_to_sender=True)
ALL = (EVERYTHING, everything(return_to_sender=False, hosts=["h1"]))
"""Together, every kind of entity and every table: what some mechanisms need, others do not bear."""
GROUP = MulticastGroup("239.0.0.1", 1, ("h1", "h3", "h16"))
FAT_TREE = from_table({"fat_tree": {"k": 4}}, "test")


OF_HOSTS = {"policing", "void_frames"}
"""Tables about hosts, whose entries are at their ports."""


def plan_of(topology: Topology, switch: str, *groups: MulticastGroup) -> list[Any]:
    return list(plan(Site(topology, topology.switch(switch), EVERYTHING, groups=groups)))


def test_switches_share_the_entities_that_say_the_same() -> None:
    """One object is encoded once (`Encoder`)."""
    first, second = (plan_of(FAT_TREE, switch) for switch in ("p0a0", "p1a0"))
    theirs = {id(entity) for entity in second}
    alike = ("trimming", "traffic_class", "return_to_sender")
    same = [
        entity
        for entity in first
        if isinstance(entity, P4ActionProfileGroup) or getattr(entity, "table_id", "") in alike
    ]
    assert {type(entity) for entity in same} == {P4ActionProfileGroup, P4TableEntry}
    assert all(id(entity) in theirs for entity in same)


def plans_of(switch: str) -> list[list[Any]]:
    there = FAT_TREE.switch(switch)
    return [plan(Site(FAT_TREE, there, each, groups=(GROUP,))) for each in ALL]


def test_what_is_named_comes_before_what_names_it() -> None:
    seen = set()
    for entities in plans_of("p0e0"):
        kinds = [INSERT_ORDER.index(type(entity)) for entity in entities]
        assert kinds == sorted(kinds)
        seen |= set(kinds)
    assert seen == set(range(len(INSERT_ORDER)))


@NEEDS_PROGRAM
@pytest.mark.parametrize(
    ("switch", "unused"),
    [
        ("p0e0", set()),
        ("p0a0", {"arp_responder", *OF_HOSTS}),
        ("c0", {"arp_responder", "acceptable", *OF_HOSTS}),
    ],
)
def test_every_entity_fits_the_program(switch: str, unused: set[str]) -> None:
    schema = P4Schema(p4info(FULL_PROGRAM))
    used = set()
    for entity in chain.from_iterable(plans_of(switch)):
        message = entity.encode(schema)
        if message.HasField("table_entry"):
            used.add(schema.tables[message.table_entry.table_id].alias)
    assert used == {table.alias for table in schema.tables} - unused


# -- multicast --------------------------------------------------------------------------------


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Topologies of the generators, and any connected graph of switches with parallel links and
    loops."""
    if draw(st.booleans()):
        kinds: list[dict[str, Any]] = [
            {"fat_tree": {"k": 4}},
            {"leaf_spine": {"leaves": 3, "spines": 2, "hosts_per_leaf": 2}},
            {"single_rack": {"hosts": 4}},
        ]
        return from_table(draw(st.sampled_from(kinds)), "test")
    count = draw(st.integers(1, 7))
    switches = [f"s{index}" for index in range(count)]
    links = [[f"s{draw(st.integers(0, i - 1))}", f"s{i}"] for i in range(1, count)]
    if count > 1:
        pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
        extra = draw(st.lists(pairs.filter(lambda pair: pair[0] != pair[1]), max_size=10))
        links += [[f"s{a}", f"s{b}"] for a, b in extra]
    places = draw(st.lists(st.sampled_from(switches), min_size=2, max_size=6))
    hosts = [f"h{index}" for index in range(1, len(places) + 1)]
    links += [[host, place] for host, place in zip(hosts, places, strict=True)]
    table = {
        "switch": [{"name": name} for name in switches],
        "host": [{"name": name} for name in hosts],
        "link": [{"ends": ends} for ends in draw(st.permutations(links))],
    }
    return from_table(table, "test")


def flood(topology: Topology, group: MulticastGroup, sender: str) -> Counter[str]:
    """Sends one packet through the installed groups; how many copies each host gets."""
    ports = {
        switch.name: [r.port for r in entity.replicas if isinstance(r, P4Replica)]
        for switch in topology.switches
        for entity in plan_of(topology, switch.name, group)
        if isinstance(entity, P4MulticastGroupEntry)
    }
    received: Counter[str] = Counter()
    on_the_way = [topology.attachment(topology.host(sender))]
    for _hop in range(len(topology.switches) + 2):
        arriving, on_the_way = on_the_way, []
        for at in arriving:
            if topology.is_host(at.node):
                received[at.node] += 1
                continue
            for port in ports.get(at.node, ()):
                if port != at.port:  # the program never sends a replica back
                    far, link = topology.neighbours[at.node][port]
                    assert link.ends not in topology.down
                    on_the_way.append(far)
    assert not on_the_way, "a packet is still on its way: a loop"
    return received


def test_the_address_follows_from_the_receivers() -> None:
    """The example of docs/wire-format.md, which the agents have too."""
    assert group_address(["10.0.0.2", "10.1.0.3"]) == "239.93.176.22"
    assert group_address(["10.1.0.3", "10.0.0.2", "10.1.0.3"]) == "239.93.176.22"
    ascending = ["10.0.0.9", "10.0.0.10"]  # as numbers, not as text
    assert group_address(ascending) == group_address(ascending[::-1])
    group = MulticastGroup.of(FAT_TREE, 3, ("h1", "h6"))
    assert group == MulticastGroup("239.93.176.22", 3, ("h1", "h6"))


def test_two_members_in_one_rack_and_one_in_another_pod_spread_over_the_cores_too() -> None:
    """As HDFS places replicas: the rack of the two is nearest by the sum of the distances."""
    topology = from_table({"fat_tree": {"k": 6}}, "fat-tree")
    used: dict[str, int] = {}
    for rack in range(1, 54, 3):
        for third in range(1, 54, 3):
            if (rack - 1) // 9 != (third - 1) // 9:
                members = (f"h{rack}", f"h{rack + 1}", f"h{third}")
                group = MulticastGroup.of(topology, 1, members)
                for switch in topology.switches:
                    tree = tree_ports(topology, group, switch.name)
                    if switch.name.startswith("c") and len(tree) > 1:
                        used[switch.name] = used.get(switch.name, 0) + 1
    assert sum(used.values()) == 18 * 15  # one core for each group
    assert len(used) == 9
    assert max(used.values()) < 2 * 18 * 15 / 9


def test_groups_over_pods_spread_over_the_cores() -> None:
    """Each group has one core, which all its pods use."""
    used: Counter[str] = Counter()
    members = [("h1", f"h{a}", f"h{b}") for a in range(5, 9) for b in range(9, 17)]
    for group in (MulticastGroup.of(FAT_TREE, 1, names) for names in members):
        cores = [
            switch.name
            for switch in FAT_TREE.switches
            for entity in plan_of(FAT_TREE, switch.name, group)
            if isinstance(entity, P4MulticastGroupEntry)
            and switch.name.startswith("c")
            and len(list(entity.replicas)) == 3
        ]
        assert len(cores) == 1
        used.update(cores)
    assert set(used) == {"c0", "c1", "c2", "c3"}
    assert max(used.values()) <= len(members) // 2


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_multicast_packet_reaches_every_member_once_and_nobody_else(data: st.DataObject) -> None:
    topology = data.draw(topologies())
    hosts = [host.name for host in topology.hosts]
    members = data.draw(st.lists(st.sampled_from(hosts), min_size=1, unique=True))
    sender = data.draw(st.sampled_from(hosts))
    received = flood(topology, MulticastGroup("239.0.0.1", 1, tuple(members)), sender)
    assert received == Counter(member for member in members if member != sender)


# -- links that are down --------------------------------------------------------------------------


def unicast_ports(topology: Topology, switch: str) -> dict[str, list[int]]:
    """Ports by which packets to a host may leave a switch, by host."""
    entities = plan_of(topology, switch)
    groups = {
        e.group_id: [m.member_id for m in e.members or ()]
        for e in entities
        if isinstance(e, P4ActionProfileGroup)
    }
    installed = {
        e.match["dst"]: groups[e.action.group_id]
        for e in entities
        if getattr(e, "table_id", None) == IPV4_ROUTE.name
    }
    found = {host.name: longest_match(installed, host.ip) for host in topology.hosts}
    return {host: ports for host, ports in found.items() if ports is not None}


def longest_match(routes: Mapping[str, T], address: str) -> T | None:
    """The action of the longest prefix of an address; none: no prefix has it."""
    for length in range(32, -1, -1):
        found = routes.get(str(IPv4Network(f"{address}/{length}", strict=False)))
        if found is not None:
            return found
    return None


def cut(topology: Topology, *pairs: tuple[str, str]) -> Topology:
    wanted = [set(pair) for pair in pairs]
    return topology.without(
        frozenset(x.ends for x in topology.links if {e.node for e in x.ends} in wanted)
    )


def test_groups_shrink_to_the_paths_that_are_left() -> None:
    """A dead link between edge and aggregation changes the routes of every other edge to it."""
    broken = cut(FAT_TREE, ("p0e0", "p0a0"))
    here = unicast_ports(broken, "p0e0")
    assert here["h1"] == [1]
    assert here["h16"] == [4]
    elsewhere = unicast_ports(broken, "p3e1")
    assert elsewhere["h1"] == elsewhere["h2"] == [4]
    assert elsewhere["h3"] == [3, 4]


def test_a_host_that_is_cut_off_has_no_route_anywhere() -> None:
    broken = cut(FAT_TREE, ("h1", "p0e0"))
    for switch in broken.switches:
        assert "h1" not in unicast_ports(broken, switch.name)
    group = MulticastGroup("239.0.0.1", 1, ("h1", "h2", "h5"))
    assert flood(broken, group, "h9") == Counter(["h2", "h5"])


def test_each_part_of_a_broken_fabric_keeps_its_own_members() -> None:
    halves = cut(FAT_TREE, *((f"p0a{a}", f"c{2 * a + c}") for a in range(2) for c in range(2)))
    assert set(unicast_ports(halves, "p0e0")) == {"h1", "h2", "h3", "h4"}
    assert set(unicast_ports(halves, "c0")) == {f"h{n}" for n in range(5, 17)}
    group = MulticastGroup("239.0.0.1", 1, ("h1", "h4", "h16"))
    assert flood(halves, group, "h2") == Counter(["h1", "h4"])
    assert flood(halves, group, "h9") == Counter(["h16"])


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_prefixes_say_what_a_route_per_host_would(data: st.DataObject) -> None:
    """From every switch to every host, whatever links are down."""
    whole = data.draw(topologies())
    links = [link.ends for link in whole.links]
    topology = whole.without(frozenset(data.draw(st.lists(st.sampled_from(links), max_size=8))))
    for switch in topology.switches:
        found = dict(routes(topology, switch.name))
        assert len(found) == len(list(routes(topology, switch.name))), "a prefix twice"
        for host in topology.hosts:
            wanted = tuple(topology.next_hops(switch.name, host.name))
            assert (longest_match(found, host.ip) or ()) == wanted


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_packet_to_an_address_that_nobody_has_goes_round_nowhere(data: st.DataObject) -> None:
    whole = data.draw(topologies())
    links = [link.ends for link in whole.links]
    topology = whole.without(frozenset(data.draw(st.lists(st.sampled_from(links), max_size=8))))
    host = data.draw(st.sampled_from(topology.hosts))
    pod, rack = host.ip.split(".")[1:3]
    nobody = data.draw(st.sampled_from([f"10.{pod}.{rack}.254", f"10.{pod}.251.2", "10.251.0.2"]))
    at = data.draw(st.sampled_from(topology.switches)).name
    for _hop in range(len(topology.switches)):
        ports = longest_match(dict(routes(topology, at)), nobody)
        if ports is None:
            break
        far, _link = topology.neighbours[at][data.draw(st.sampled_from(ports))]
        assert not topology.is_host(far.node)
        at = far.node
    else:
        pytest.fail("still on its way")


def test_a_switch_of_a_large_fat_tree_has_few_routes() -> None:
    """k = 32: 16 own hosts, 15 racks of the pod, 31 pods; the table has room for 4096."""
    topology = from_table({"fat_tree": {"k": 32}}, "test")
    sizes = {name: len(list(routes(topology, name))) for name in ("p0e0", "p3a1", "c7")}
    assert sizes == {"p0e0": 16 + 15 + 31, "p3a1": 16 + 31, "c7": 32}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_whatever_is_down_packets_reach_exactly_those_that_have_a_path(data: st.DataObject) -> None:
    whole = data.draw(topologies())
    links = [link.ends for link in whole.links]
    topology = whole.without(frozenset(data.draw(st.lists(st.sampled_from(links), max_size=8))))
    hosts = [host.name for host in topology.hosts]
    sender, target = data.draw(st.sampled_from(hosts)), data.draw(st.sampled_from(hosts))
    reached = topology.distances(sender)  # a path of live links, found without the plan
    members = data.draw(st.lists(st.sampled_from(hosts), min_size=1, unique=True))
    group = MulticastGroup("239.0.0.1", 1, tuple(members))
    first = topology.attachment(topology.host(sender))
    if first.node in reached:  # otherwise its own link is down
        wanted = Counter(member for member in members if member != sender and member in reached)
        assert flood(topology, group, sender) == wanted
    at = topology.attachment(topology.host(sender)).node
    for _hop in range(len(topology.switches) + 1):
        ports = unicast_ports(topology, at).get(target)
        if ports is None:
            assert target not in topology.distances(at)
            break
        far, link = topology.neighbours[at][data.draw(st.sampled_from(ports))]
        assert link.ends not in topology.down
        at = far.node
        if at == target:
            break
    else:
        pytest.fail("still on its way")
