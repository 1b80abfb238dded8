"""The hosts file of a topology."""

from __future__ import annotations

from ebb_topologies.hosts import host_list
from ebb_topologies.model import from_table


def test_racks_are_edge_switches_and_pods_their_pods() -> None:
    hosts = host_list(from_table({"fat_tree": {"k": 4}}, "test"))["host"]
    assert hosts[0] == {"name": "h1", "address": "10.0.0.2", "rack": "p0e0", "pod": "p0"}
    assert hosts[-1] == {"name": "h16", "address": "10.3.1.3", "rack": "p3e1", "pod": "p3"}


def test_without_pods_every_rack_is_one() -> None:
    hosts = host_list(from_table({"leaf_spine": {"leaves": 2, "hosts_per_leaf": 1}}, "test"))[
        "host"
    ]
    assert [(host["rack"], host["pod"]) for host in hosts] == [("l0", "l0"), ("l1", "l1")]
