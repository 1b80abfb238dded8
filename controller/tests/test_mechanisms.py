"""Entities of each mechanism module in a small fabric, one by one."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from itertools import pairwise
from typing import Any

import pytest
from ebb_controller.mechanisms import (
    FabricParameters,
    adaptive_routing,
    arp,
    codel,
    drop_notification,
    ecn_threshold,
    mlfq,
    occupancy,
    phantom_queue,
    policing,
    return_to_sender,
    route,
    source_quench,
    traffic_class,
    trimming,
    void_frames,
)
from ebb_controller.mechanisms.adaptive_routing import AdaptiveRouting
from ebb_controller.mechanisms.codel import Codel
from ebb_controller.mechanisms.ecn_threshold import StepMarking
from ebb_controller.mechanisms.phantom_queue import PhantomQueue
from ebb_controller.mechanisms.traffic_class import TrafficClass
from ebb_controller.mechanisms.trimming import Trimming
from ebb_controller.scheme import load_scheme
from ebb_controller.site import DepthUnit, Site
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError, validate
from ebb_topologies.model import Topology, from_table
from ebb_topologies.traffic_manager import (
    PortParameters,
    QueueParameters,
    traffic_manager_config,
)
from finsy import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4CloneSessionEntry,
    P4TableEntry,
)
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

FAT_TREE = from_table({"fat_tree": {"k": 4}}, "test")
EIGHT_QUEUES = PortParameters(queue=[QueueParameters(id=queue) for queue in range(8)])
LEAF_SPINE = from_table({"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 2}}, "test")


def site(
    switch: str,
    topology: Topology = FAT_TREE,
    depth_unit: DepthUnit = "bytes",
    **parameters: Any,
) -> Site[FabricParameters]:
    parameters.setdefault("ports", EIGHT_QUEUES)
    return Site(topology, topology.switch(switch), FabricParameters(**parameters), depth_unit)


def rows(entries: Iterable[object]) -> list[tuple[dict[str, Any], str, dict[str, Any]]]:
    """Table entries as (match, action, arguments)."""
    found = []
    for entry in entries:
        assert isinstance(entry, P4TableEntry)
        assert entry.action is not None
        found.append((dict(entry.match or {}), entry.action.name, entry.action.args))  # type: ignore[union-attr]
    return found


def fat_tree_of(rate_bps: int) -> Topology:
    return from_table({"fat_tree": {"k": 4}, "link_defaults": {"rate_bps": rate_bps}}, "test")


class TestCodel:
    def test_times_are_those_of_the_bytes_at_the_rate_of_the_port(self) -> None:
        topology = fat_tree_of(10_000_000_000)
        parameters = {"codel": {"target_bytes": 62_500, "interval_targets": 20}}
        of_ports = rows(codel.entries(site("p0e0", topology, **parameters)))[:4]
        expected = {"target_us": 50, "interval_us": 1000, "least_depth": 1514, "reaction": 0}
        assert [(match, arguments) for match, _, arguments in of_ports] == [
            ({"egress_port": number}, expected) for number in (1, 2, 3, 4)
        ]
        slow = fat_tree_of(100_000_000)
        there = site("p0e0", slow, "packets", codel={"reaction": "mark"})
        (_, _, arguments), *_ = rows(codel.entries(there))
        # RFC 8289: 5 ms and 100 ms.
        rfc = {"target_us": 5_000, "interval_us": 100_000, "least_depth": 1, "reaction": 1}
        assert arguments == rfc

    def test_every_count_has_its_inverse_root_to_within_a_percent(self) -> None:
        law = rows(codel.entries(site("p0e0", codel={})))[4:]
        assert len(law) < 1024  # the size of the table
        found = {}
        for match, action, arguments in law:
            value, bits = match["count"]
            assert action == "set_inverse_root"
            for count in range(value, value + 2 ** (16 - bits)):
                assert count not in found
                found[count] = arguments["inverse"]
        assert sorted(found) == list(range(1, 2**16))
        errors = {count: abs(found[count] / 2**24 * count**0.5 - 1) for count in found}
        assert max(errors[count] for count in range(1, 64)) < 1e-6
        assert 0.005 < max(errors.values()) < 0.008

    def test_the_old_spelling_of_a_reaction_is_taken_with_a_line(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        old = Codel.model_validate({"reaction": "tell"})
        assert old == Codel(reaction="source-quench")
        assert caplog.messages == ['codel.reaction: "tell" is now "source-quench"']

    def test_off_by_default(self) -> None:
        assert rows(codel.entries(site("p0e0"))) == []
        assert rows(source_quench.entries(site("p0e0"))) == []


class TestSourceQuench:
    def test_every_port_has_a_session_for_each_queue(self) -> None:
        ports = PortParameters(queue=[QueueParameters(id=queue) for queue in (0, 6)])
        there = site("p0e0", codel={"reaction": "source-quench"}, ports=ports)
        entities = list(source_quench.entries(there))
        told = [each for each in entities if isinstance(each, P4TableEntry)]
        for (match, _, arguments), port in zip(rows(told), there.ports, strict=True):
            assert match == {"port": port.number}
            assert arguments == {"src_mac": port.mac, "dst_mac": port.peer_mac}
        sessions = [each for each in entities if isinstance(each, P4CloneSessionEntry)]
        assert [(each.session_id, each.class_of_service) for each in sessions] == [
            (8 * port + queue, queue) for port in (1, 2, 3, 4) for queue in (0, 6)
        ]

    def test_stock_bmv2_has_all_messages_in_one_queue(self) -> None:
        ports = PortParameters(queue=[QueueParameters(id=queue) for queue in (0, 6)])
        parameters = FabricParameters(codel=Codel(reaction="source-quench"), ports=ports)
        there = site("p0e0", **parameters.without_traffic_manager().model_dump())
        sessions = [
            each for each in source_quench.entries(there) if isinstance(each, P4CloneSessionEntry)
        ]
        assert {each.class_of_service for each in sessions} == {0}
        assert len(sessions) == 8

    def test_only_with_the_reaction_of_codel(self) -> None:
        assert list(source_quench.entries(site("p0e0", codel={}))) == []

    def test_its_copies_must_not_be_deflected(self) -> None:
        queues = [QueueParameters(id=0), QueueParameters(id=3, on_full="deflect")]
        problem = r'with "source-quench", no queue may say .* as queue 3 does'
        with pytest.raises(ValueError, match=problem):
            site("p0e0", codel={"reaction": "source-quench"}, ports=PortParameters(queue=queues))


class TestDropNotification:
    def test_every_port_knows_both_ends_of_its_link(self) -> None:
        there = site(
            "p0e0",
            drop_notification={"dscp_value": 40},
            classes=[TrafficClass(dscp=0), TrafficClass(dscp=40, queue=7)],
        )
        accepted, *told = rows(drop_notification.entries(there))
        assert accepted == ({"dscp": 40}, "accept_cut", {})
        assert [match["ingress_port"] for match, _, _ in told] == [1, 2, 3, 4]
        for (_, action, arguments), port in zip(told, there.ports, strict=True):
            assert action == "set_notification"
            macs = {"src_mac": port.mac, "dst_mac": port.peer_mac}
            assert arguments == {**macs, "dscp_value": 40, "queue_index": 7}

    def test_stock_bmv2_counts_and_meters_by_itself(self) -> None:
        fabric = load_scheme("fastlane").fabric.without_traffic_manager()
        there = Site(FAT_TREE, FAT_TREE.switch("p0e0"), fabric, "packets")
        shares = [row for row in rows(drop_notification.entries(there)) if "share" in row[1]]
        # 64 bytes at 1 % of 1 Gbit/s, 51 of them at once.
        share = {"interval_us": 51, "burst_us": 2560}
        assert shares == [
            ({"ingress_port": port}, "set_notification_share", share) for port in (1, 2, 3, 4)
        ]
        limits = [arguments for _, _, arguments in rows(occupancy.entries(there))]
        assert limits == [{"limit_bytes": 48_000}] * 4
        eligible = {
            match["dscp"]: arguments["trimmable"]
            for match, _, arguments in rows(traffic_class.entries(there))
        }
        assert eligible == {0: 1, 34: 1, 56: 0}
        # A packet that is not TCP is dropped, not trimmed.
        ((match, _, arguments),) = rows(trimming.entries(there))
        assert (match, arguments["size"]) == ({}, 0)

    def test_the_share_of_the_scheme_holds_on_both_targets(self) -> None:
        scheme = load_scheme("fastlane").fabric
        quarter = [
            group
            if group.share is None
            else group.model_copy(update={"share": 0.0025, "burst_bytes": 6_400})
            for group in scheme.ports.group
        ]
        ports = scheme.ports.model_copy(update={"group": quarter})
        slower = scheme.model_copy(update={"ports": ports})
        edge = FAT_TREE.switch("p0e0")
        config = traffic_manager_config(FAT_TREE, edge, slower.ports)
        (told,) = (g for g in config["profile"][0]["group"] if "share" in g)
        assert (told["share"], told["burst_bytes"]) == (0.0025, 6_400)

        def of_bmv2(fabric: FabricParameters) -> list[dict[str, Any]]:
            there = Site(FAT_TREE, edge, fabric.without_traffic_manager(), "packets")
            found = rows(drop_notification.entries(there))
            return [arguments for _, action, arguments in found if "share" in action]

        # 64 bytes at 0.25 % of 1 Gbit/s are 204.8 us; 100 of them may come at once.
        assert of_bmv2(slower) == [{"interval_us": 205, "burst_us": 20_275}] * 4
        # Nobody keeps to a share that the scheme does not have.
        no_group = scheme.ports.model_copy(update={"group": []})
        assert of_bmv2(scheme.model_copy(update={"ports": no_group})) == []

    def test_trimming_goes_before_it_on_stock_bmv2(self) -> None:
        classes = [TrafficClass(dscp=0), TrafficClass(dscp=56, queue=7)]
        both = FabricParameters(
            trimming=Trimming(),
            drop_notification={"dscp_value": 56},
            classes=classes,
            ports=EIGHT_QUEUES,
        ).without_traffic_manager()
        assert both.classes == classes
        there = Site(FAT_TREE, FAT_TREE.switch("p0e0"), both, "packets")
        assert {arguments["size"] for _, _, arguments in rows(trimming.entries(there))} == {128}

    def test_off_by_default(self) -> None:
        assert rows(drop_notification.entries(site("p0e0"))) == []

    def test_notifications_need_a_class(self) -> None:
        with pytest.raises(ValueError, match="no class has dscp 56"):
            site("p0e0", drop_notification={})


class TestRoute:
    def groups(self, switch: str) -> dict[int, list[int]]:
        return {
            e.group_id: [m.member_id for m in e.members or ()]
            for e in route.entries(site(switch))
            if isinstance(e, P4ActionProfileGroup)
        }

    def routes(self, switch: str) -> dict[str, int]:
        return {
            e.match["dst"]: e.action.group_id  # type: ignore[index, union-attr, misc]
            for e in route.entries(site(switch))
            if isinstance(e, P4TableEntry) and e.table_id == "ipv4_route"
        }

    def test_an_edge_switch_has_a_group_per_own_host_and_one_that_goes_up(self) -> None:
        (up,) = set(self.groups("p0e0")) - {1, 2}
        assert self.groups("p0e0") == {1: [1], 2: [2], up: [3, 4]}
        routes = self.routes("p0e0")
        own = {"10.0.0.2/32": 1, "10.0.0.3/32": 2}
        others = dict.fromkeys(["10.0.1.0/24", "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"], up)
        assert routes == own | others

    def test_an_aggregation_switch_goes_down_to_each_edge_and_up_to_all_its_cores(self) -> None:
        (up,) = set(self.groups("p1a0")) - {1, 2}
        assert self.groups("p1a0") == {1: [1], 2: [2], up: [3, 4]}
        routes = self.routes("p1a0")
        assert routes == {
            **{"10.1.0.0/24": 1, "10.1.1.0/24": 2},
            **dict.fromkeys(["10.0.0.0/16", "10.2.0.0/16", "10.3.0.0/16"], up),
        }

    def test_a_core_switch_has_one_way_into_each_pod(self) -> None:
        assert self.groups("c0") == {1: [1], 2: [2], 3: [3], 4: [4]}

    def test_a_member_is_a_port_with_the_addresses_of_both_its_ends(self) -> None:
        members = {
            e.member_id: e.action
            for e in route.entries(site("p0e0"))
            if isinstance(e, P4ActionProfileMember)
        }
        edge = FAT_TREE.switch("p0e0")
        assert list(members) == [1, 2, 3, 4]
        to_host, up = members[1], members[3]
        assert to_host is not None
        assert to_host.name == "set_next_hop"
        assert to_host.args == {
            "port": 1,
            "src_mac": route.mac_number(edge.port_mac(1)),
            "dst_mac": route.mac_number(FAT_TREE.host("h1").mac),
        }
        assert up is not None
        assert up.args["dst_mac"] == route.mac_number(FAT_TREE.switch("p0a0").port_mac(1))

    def test_two_links_between_the_same_switches_are_two_paths(self) -> None:
        topology = from_table(
            {
                "switch": [{"name": "s1"}, {"name": "s2"}],
                "host": [{"name": "h1"}, {"name": "h2"}],
                "link": [
                    {"ends": ["h1", "s1"]},
                    {"ends": ["h2", "s2"]},
                    {"ends": ["s1", "s2"]},
                    {"ends": ["s1", "s2"]},
                ],
            },
            "test",
        )
        entries = list(route.entries(site("s1", topology)))
        groups = [e.members for e in entries if isinstance(e, P4ActionProfileGroup)]
        assert [[m.member_id for m in members or ()] for members in groups] == [[1], [2, 3]]

    def test_every_switch_has_an_odd_seed_of_its_own(self) -> None:
        seeds = []
        for switch in FAT_TREE.switches:
            first = next(iter(route.entries(site(switch.name))))
            assert isinstance(first, P4TableEntry)
            assert first.is_default_action
            seeds.append(first.action.args["seed"])  # type: ignore[union-attr]
        # The program multiplies by seed | 1.
        assert all(seed % 2 for seed in seeds)
        assert len(set(seeds)) == len(FAT_TREE.switches)
        other = next(iter(route.entries(site("p0e0", hash_seed=2))))
        assert other.action.args["seed"] not in seeds  # type: ignore[union-attr]


class TestTrafficClass:
    def test_a_class_is_an_entry(self) -> None:
        classes = [
            TrafficClass(dscp=0),
            TrafficClass(dscp=10, queue=1, spray=True, trimmable=True, mlfq="in-switch"),
        ]
        assert rows(traffic_class.entries(site("c0", classes=classes))) == [
            ({"dscp": 0}, "set_traffic_class", {"queue": 0, "spray": 0, "trimmable": 0, "mlfq": 0}),
            (
                {"dscp": 10},
                "set_traffic_class",
                {"queue": 1, "spray": 1, "trimmable": 1, "mlfq": 2},
            ),
        ]


class TestTrimming:
    def test_off_without_parameters(self) -> None:
        assert rows(trimming.entries(site("p0e0"))) == []
        assert rows(occupancy.entries(site("p0e0"))) == []

    def test_host_ports_write_the_lasthop_dscp(self) -> None:
        found = rows(trimming.entries(site("p0e0", trimming=Trimming(size=100, queue_index=6))))
        assert [(m["egress_port"], a["dscp_value"]) for m, _, a in found] == [
            (1, 14), (2, 14), (3, 12), (4, 12),
        ]  # fmt: skip
        assert {(a["size"], a["queue_index"]) for _, _, a in found} == {(100, 6)}

    def test_without_a_lasthop_dscp_all_ports_are_alike(self) -> None:
        parameters = Trimming(lasthop_dscp_value=None)
        found = rows(trimming.entries(site("p0e0", trimming=parameters)))
        assert {a["dscp_value"] for _, _, a in found} == {12}

    def test_the_occupancy_limit_is_there_only_where_it_is_the_trigger(self) -> None:
        assert rows(occupancy.entries(site("p0e0", trimming=Trimming()))) == []
        by_counter = Trimming(trigger="occupancy", occupancy_limit_bytes=9000)
        assert rows(occupancy.entries(site("p0e0", trimming=by_counter))) == [
            ({"egress_port": port}, "set_occupancy_limit", {"limit_bytes": 9000})
            for port in (1, 2, 3, 4)
        ]


class TestReturnToSender:
    deflecting = PortParameters(
        queue=[QueueParameters(id=0), QueueParameters(id=7, on_full="deflect")]
    )

    def classes(self, **parameters: Any) -> list[int]:
        there = site("c0", ports=self.deflecting, trimming=Trimming(**parameters))
        found = rows(return_to_sender.entries(there))
        assert {(action, *args) for _, action, args in found} <= {("return_header",)}
        return [match["dscp"] for match, _, _ in found]

    def test_off_unless_asked_for(self) -> None:
        assert rows(return_to_sender.entries(site("c0"))) == []
        assert self.classes() == []

    def test_headers_of_all_switches_are_returned(self) -> None:
        assert self.classes(return_to_sender=True) == [12, 14]
        assert self.classes(return_to_sender=True, dscp_value=20, lasthop_dscp_value=0) == [0, 20]
        assert self.classes(return_to_sender=True, lasthop_dscp_value=None) == [12]

    def test_off_where_nothing_is_deflected(self) -> None:
        fabric = FabricParameters(ports=self.deflecting, trimming=Trimming(return_to_sender=True))
        bmv2 = fabric.without_deflection()
        assert bmv2.trimming is not None
        assert not bmv2.trimming.return_to_sender


class TestPhantomQueue:
    def rate(self, topology: Topology) -> int:
        found = rows(phantom_queue.entries(site("c0", topology, phantom_queue=PhantomQueue())))
        (rate,) = {a["drain_bytes_per_65536_us"] for _, _, a in found}
        return int(rate)

    def test_the_drain_is_gamma_c_in_bytes_per_65536_us(self) -> None:
        # 1 Gbit/s = 125 bytes/us; 0.95 of it over 65536 us.
        assert self.rate(FAT_TREE) == 7_782_400

    def test_the_drain_of_a_slowed_link_is_slower(self) -> None:
        assert self.rate(Dilation(50).topology(FAT_TREE)) == 155_648

    def test_every_port_has_the_rate_of_its_link(self) -> None:
        topology = from_table(
            {
                "switch": [{"name": "s1"}],
                "host": [{"name": "h1"}, {"name": "h2"}],
                "link": [
                    {"ends": ["h1", "s1"], "rate_bps": 8_000_000},
                    {"ends": ["h2", "s1"], "rate_bps": 80_000_000},
                ],
            },
            "test",
        )
        parameters = PhantomQueue(drain_fraction=0.5, threshold_bytes=3000, count_self=True)
        assert rows(phantom_queue.entries(site("s1", topology, phantom_queue=parameters))) == [
            (
                {"egress_port": 1},
                "set_phantom_queue",
                {"drain_bytes_per_65536_us": 32768, "threshold_bytes": 3000, "count_self": 1},
            ),
            (
                {"egress_port": 2},
                "set_phantom_queue",
                {"drain_bytes_per_65536_us": 327680, "threshold_bytes": 3000, "count_self": 1},
            ),
        ]

    def test_off_without_parameters(self) -> None:
        assert rows(phantom_queue.entries(site("c0"))) == []


class TestEcnThreshold:
    def depths(self, unit: DepthUnit) -> set[int]:
        marking = StepMarking(threshold_bytes=30_000)
        found = rows(ecn_threshold.entries(site("c0", depth_unit=unit, step_marking=marking)))
        assert [m["egress_port"] for m, _, _ in found] == [1, 2, 3, 4]
        return {a["depth"] for _, _, a in found}

    def test_in_the_unit_of_the_target(self) -> None:
        assert self.depths("bytes") == {30_000}
        assert self.depths("packets") == {20}

    def test_off_without_parameters(self) -> None:
        assert rows(ecn_threshold.entries(site("c0"))) == []


class TestMlfq:
    def entries(self, mode: str, **parameters: Any) -> list[P4TableEntry]:
        classes = [TrafficClass(dscp=10, mlfq=mode)]  # type: ignore[arg-type]
        return list(mlfq.entries(site("c0", classes=classes, **parameters)))

    def test_off_without_a_class_that_uses_it(self) -> None:
        assert self.entries("off") == []

    def test_sender_levels_choose_queues(self) -> None:
        assert rows(self.entries("sender", mlfq_queues=[6, 5, 2])) == [
            ({"level": 0}, "set_mlfq_queue", {"queue": 6}),
            ({"level": 1}, "set_mlfq_queue", {"queue": 5}),
            ({"level": 2}, "set_mlfq_queue", {"queue": 2}),
        ]

    @given(st.sets(st.integers(1, 2**32 - 1), max_size=4).map(sorted))
    def test_demotion_ranges_are_contiguous_and_complete(self, thresholds: list[int]) -> None:
        queues = [5, 4, 3, 2, 1][: len(thresholds) + 1]
        entries = self.entries("in-switch", mlfq_queues=queues, mlfq_thresholds_bytes=thresholds)
        ranges = [e.match["flow_bytes"] for e in entries if e.table_id == "mlfq_demotion"]  # type: ignore[index]
        levels = [e.action.args["level"] for e in entries if e.table_id == "mlfq_demotion"]  # type: ignore[union-attr]
        assert (ranges[0][0], ranges[-1][1]) == (0, 2**32 - 1)
        for (_, high), (low, _) in pairwise(ranges):
            assert low == high + 1
        assert [low for low, _ in ranges[1:]] == thresholds
        assert levels == list(range(len(queues)))


class TestArp:
    def test_an_edge_switch_answers_for_its_gateway_only(self) -> None:
        mac = FAT_TREE.host("h1").gateway_mac
        assert rows(arp.entries(site("p0e0"))) == [
            ({"target": "10.0.0.1"}, "answer_arp", {"mac": mac})
        ]
        assert rows(arp.entries(site("p0a0"))) == []

    def test_leaves_answer_for_different_gateways(self) -> None:
        found = [rows(arp.entries(site(leaf, LEAF_SPINE)))[0][0] for leaf in ("l0", "l1")]
        assert found == [{"target": "10.0.0.1"}, {"target": "10.0.1.1"}]


class TestAdaptiveRouting:
    def acceptable(self, switch: str, topology: Topology = FAT_TREE) -> dict[str, set[int]]:
        """Ports of each host that has several, by its address."""
        there = site(switch, topology, adaptive_routing=AdaptiveRouting())
        found = {}
        for match, action, arguments in rows(adaptive_routing.entries(there)):
            if action == "set_acceptable":
                slots = [i for i in range(8) if arguments["slots"] >> i & 1]
                ports = {arguments[f"port{i}"] for i in slots}
                assert len(ports) == len(slots)
                found[ip_network(match["dst"])] = ports
        # No prefix is in another one, so there is one entry for a host at most.
        return {
            f"{host.ip}/32": ports
            for host in topology.hosts
            for prefix, ports in found.items()
            if ip_address(host.ip) in prefix
        }

    def test_off_unless_asked_for(self) -> None:
        assert rows(adaptive_routing.entries(site("c0"))) == []

    def test_racks_and_pods_have_an_entry_each(self) -> None:
        large = from_table({"fat_tree": {"k": 16}}, "test")
        there = site("p0e0", large, adaptive_routing=AdaptiveRouting())
        entries = rows(adaptive_routing.entries(there))
        assert sum(action == "set_acceptable" for _, action, _ in entries) == 7 + 15
        assert len(self.acceptable("p0e0", large)) == 1024 - 8

    def test_destinations_with_several_shortest_paths_have_all_of_them(self) -> None:
        up = self.acceptable("p0e0")
        assert len(up) == 14
        assert set(map(frozenset, up.values())) == {frozenset({3, 4})}
        assert "10.0.0.2/32" not in up
        assert len(self.acceptable("p0a0")) == 12
        assert self.acceptable("c0") == {}

    def test_a_failed_link_leaves_the_choice(self) -> None:
        (link,) = (link for link in FAT_TREE.links if {e.node for e in link.ends} == {"p0a0", "c0"})
        damaged = FAT_TREE.without(frozenset({link.ends}))
        assert self.acceptable("p0a0", damaged) == {}
        assert len(self.acceptable("p0a1", damaged)) == 12
        # c0 reaches pod 0 no more, so that nothing for it goes there.
        to_pod_0 = {dst for dst in self.acceptable("p1a0") if dst.startswith("10.0.")}
        assert len(to_pod_0) == 4
        assert not to_pod_0 & self.acceptable("p1a0", damaged).keys()

    def test_of_many_ports_hosts_have_eight_each_and_all_are_used(self) -> None:
        wide = from_table({"leaf_spine": {"leaves": 2, "spines": 11, "hosts_per_leaf": 11}}, "test")
        found = self.acceptable("l0", wide)
        assert {len(ports) for ports in found.values()} == {8}
        assert set().union(*found.values()) == set(range(12, 23))

    def test_only_classes_that_may_be_slowed_down_mark(self) -> None:
        there = site("c0", adaptive_routing=AdaptiveRouting(marking_queues=[0, 2]))
        marking = [
            (match, arguments)
            for match, action, arguments in rows(adaptive_routing.entries(there))
            if action == "set_drain_marking"
        ]
        assert marking == [({"queue": q}, {"threshold_bytes": 65_536}) for q in (0, 2)]

    def test_the_program_counts_only_where_the_target_does_not(self) -> None:
        fabric = FabricParameters(ports=EIGHT_QUEUES, adaptive_routing=AdaptiveRouting())
        for parameters, ports in ((fabric, 0), (fabric.without_traffic_manager(), 4)):
            there = Site(FAT_TREE, FAT_TREE.switch("p0e0"), parameters)
            actions = [action for _, action, _ in rows(adaptive_routing.entries(there))]
            assert actions.count("account_queue") == ports

    def test_what_cannot_be_is_refused(self) -> None:
        adaptive = {"classes": [{"dscp": 3, "spray": "adaptive"}]}
        for wrong, said in (
            (adaptive, 'class of dscp 3: spray = "adaptive" needs [fabric.adaptive_routing]'),
            ({"adaptive_routing": {"favoured_bytes": 3}}, "most_favoured_bytes = 16384 must not"),
            ({"adaptive_routing": {"marking_queues": [1, 1]}}, "names a queue twice: [1, 1]"),
            ({"adaptive_routing": {"marking_queues": [3]}}, "marking_queues: there is no queue 3"),
        ):
            with pytest.raises(InputError, match=re.escape(said)):
                validate(FabricParameters, wrong, "test")


def policed(**keys: Any) -> list[Any]:
    """Entries at the first switch of a rack of three, whose links have 1 Gbit/s."""
    topology = from_table({"single_rack": {"hosts": 3}}, "rack")
    (switch,) = topology.switches
    return list(policing.entries(Site(topology, switch, FabricParameters(policing=keys))))


CONTRACT = {"hosts": ["h2"], "guarantee_bps": 250_000_000, "peak_bps": 1_000_000_000}


def test_a_contract_is_a_meter_at_the_port_of_its_host() -> None:
    (entry,) = policed(contract=[CONTRACT], excess="best-effort", dscp_value=8, queue=1)
    assert entry.match["ingress_port"] == 2
    assert entry.action.args == {"excess": 2, "dscp_value": 8, "queue_index": 1}
    meter = entry.meter_config
    assert (meter.cir, meter.cburst) == (31_250_000, 15_000)
    assert (meter.pir, meter.pburst) == (125_000_000, 1_514)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"peak_bps": 1_000}, "peak_bps = 1000: expected at least guarantee_bps = 250000000"),
        ({"burst_bytes": 1_000}, "burst_bytes\n.*greater than or equal to 1514"),
        ({"hosts": ["h2", "h2"]}, "contract: h2 has two; a host has one"),
    ],
)
def test_a_contract_that_cannot_be_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        policed(contract=[CONTRACT | change])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hosts": ["h9"]}, "h9"),
        (
            {"guarantee_bps": 2_000_000_000, "peak_bps": 2_000_000_000},
            "policing: guarantee_bps of h2 is 2 times the rate of its link; at most 1",
        ),
    ],
)
def test_a_contract_beyond_the_fabric_is_refused(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        policed(contract=[CONTRACT | change])


def test_void_frames_are_dropped_at_the_ports_of_hosts_only() -> None:
    topology = from_table({"fat_tree": {"k": 4}}, "tree")
    parameters = FabricParameters(void_frames=True)
    ports = {
        switch: [
            entry.match["ingress_port"]
            for entry in void_frames.entries(Site(topology, topology.switch(switch), parameters))
        ]
        for switch in ("p0e0", "p0a0", "c0")
    }
    assert ports == {"p0e0": [1, 2], "p0a0": [], "c0": []}
