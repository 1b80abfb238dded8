"""The topology model: what the generators build, and what is refused with which words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from ebb_topologies.files import InputError
from ebb_topologies.model import MAX_INTERFACE_NAME, from_table, load_topology

HERE = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("k", "hosts", "switches", "paths"),
    [(2, 2, 5, 1), (4, 16, 20, 4), (6, 54, 45, 9), (10, 250, 125, 25)],
)
def test_fat_tree_sizes(k: int, hosts: int, switches: int, paths: int) -> None:
    """The table of the thesis with its two misprints put right (25 core paths at k = 10)."""
    topology = from_table({"fat_tree": {"k": k}}, "test")
    assert (len(topology.hosts), len(topology.switches)) == (hosts, switches)
    assert len(topology.links) == 3 * hosts
    first, last = topology.hosts[0], topology.hosts[-1]
    up = topology.next_hops(topology.attachment(first).node, last.name)
    aggregation, _ = topology.neighbours[topology.attachment(first).node][up[0]]
    assert len(up) * len(topology.next_hops(aggregation.node, last.name)) == paths


def test_an_oversubscribed_fat_tree() -> None:
    """HULL section 6.3: 192 servers, 56 switches of 8 ports, 3:1 at the edge."""
    topology = from_table({"fat_tree": {"k": 8, "hosts_per_edge": 6}}, "test")
    assert (len(topology.hosts), len(topology.switches)) == (192, 56)
    assert {len(topology.neighbours[switch.name]) for switch in topology.switches} == {8}
    assert len(topology.next_hops("p0e0", "h192")) == 2
    assert len(topology.next_hops("p0a1", "h192")) == 4
    delays = from_table(
        {
            "fat_tree": {"k": 8, "hosts_per_edge": 6},
            "link_defaults": {"delay_ns": 200, "host_delay_ns": 700},
        },
        "test",
    )
    assert delays.link(delays.hosts[0]).delay_ns == 700
    assert sum(link.delay_ns for link in delays.links) == 192 * 700 + 128 * 200
    with pytest.raises(InputError, match="hosts_per_edge = 8 leaves no port"):
        from_table({"fat_tree": {"k": 8, "hosts_per_edge": 8}}, "test")


@pytest.mark.parametrize("seed", range(20))
def test_next_hops_are_all_ports_that_come_nearer(seed: int) -> None:
    """Found from the distances, whatever links are down; a host is behind its switch."""
    kinds = [{"fat_tree": {"k": 4}}, {"leaf_spine": {"leaves": 3, "spines": 2}}]
    whole = from_table(kinds[seed % 2], "test")
    links = Random(seed).sample([link.ends for link in whole.links], seed % 8)
    topology = whole.without(frozenset(links))
    for host in topology.hosts:
        distance = topology.distances(host.name)
        for switch in topology.switches:
            here = distance.get(switch.name)
            nearer = tuple(
                port
                for port, (far, link) in topology.neighbours[switch.name].items()
                if here is not None and link.ends not in topology.down
                if distance[far.node] < here
            )
            assert tuple(topology.next_hops(switch.name, host.name)) == nearer


def test_every_hop_comes_nearer() -> None:
    topology = load_topology(HERE / "fat-tree-k4.toml")
    for host in topology.hosts:
        distance = topology.distances(host.name)
        for switch in topology.switches:
            ports = topology.next_hops(switch.name, host.name)
            assert ports, f"{switch.name} has no way to {host.name}"
            for port in ports:
                far, _ = topology.neighbours[switch.name][port]
                assert distance[far.node] == distance[switch.name] - 1


def test_addresses_and_names_follow_the_architecture_page() -> None:
    topology = load_topology(HERE / "fat-tree-k4.toml")
    h16 = topology.host("h16")
    assert (h16.ip, h16.gateway_ip) == ("10.3.1.3", "10.3.1.1")
    edge = topology.attachment(h16)
    assert edge.node == "p3e1"
    assert h16.gateway_mac == topology.switch("p3e1").port_mac(edge.port)
    assert len({h.mac for h in topology.hosts}) == 16
    interfaces = [end.interface for link in topology.links for end in link.ends]
    assert len(set(interfaces)) == 96
    assert max(map(len, interfaces)) <= MAX_INTERFACE_NAME


@pytest.mark.parametrize("path", sorted(HERE.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_files_load(path: Path) -> None:
    assert load_topology(path).hosts


def test_the_network_of_detail() -> None:
    """Zats, section 5.4.3: 128 servers, 4 pods of 4 ToR and 4 aggregation switches, 8 cores."""
    topology = load_topology(HERE / "three-tier.toml")
    assert (len(topology.hosts), len(topology.switches)) == (128, 40)
    ports = {switch.name: len(topology.neighbours[switch.name]) for switch in topology.switches}
    assert {name[-2]: n for name, n in ports.items() if name[0] == "p"} == {"e": 8 + 4, "a": 4 + 2}
    assert {n for name, n in ports.items() if name[0] == "c"} == {4}
    assert len(topology.next_hops("p0e0", "h128")) == 4
    assert len(topology.next_hops("p0a3", "h128")) == 2
    assert {end.node for end, _ in topology.neighbours["c7"].values()} == {
        f"p{pod}a3" for pod in range(4)
    }
    with pytest.raises(InputError, match="cores = 6 must be a multiple of aggregations_per_pod"):
        from_table({"three_tier": {"cores": 6}}, "test")


def test_the_limited_tiers_of_the_testbed() -> None:
    """Zats, section 5.4.2: 500 Mbit/s from ToR to aggregation, 250 from that to the core."""
    topology = load_topology(HERE / "fat-tree-k4-limited.toml")
    rates = Counter(link.rate_bps for link in topology.links)
    assert rates == {1_000_000_000: 16, 500_000_000: 16, 250_000_000: 16}
    assert {topology.link(host).rate_bps for host in topology.hosts} == {1_000_000_000}
    assert topology.neighbours["c0"][1][1].rate_bps == 250_000_000


def test_links_that_differ() -> None:
    table = {
        "fat_tree": {"k": 4},
        "link_override": [
            {"ends": ["c0", "p3a0"], "rate_bps": 100_000_000},
            {"ends": ["p0a1", "c2"], "absent": True},
            {"ends": ["p0e0", "h1"], "delay_ns": 7},
        ],
    }
    intact = from_table({"fat_tree": {"k": 4}}, "test")
    topology = from_table(table, "test")
    assert len(topology.links) == len(intact.links) - 1
    changed = set(topology.links) - set(intact.links)
    assert {(link.a.node, link.b.node, link.rate_bps, link.delay_ns) for link in changed} == {
        ("p3a0", "c0", 100_000_000, 10_000),
        ("h1", "p0e0", 1_000_000_000, 7),
    }
    # Ports keep their numbers, and no path uses the link that is absent.
    assert list(topology.neighbours["p0a1"]) == [1, 2, 4]
    assert topology.next_hops("p0a1", "h16") == (4,)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ({"ends": ["p0e0", "c0"], "absent": True}, "has no link p0e0 - c0, which link_override"),
        ({"ends": ["p0e0", "h1"], "absent": True}, "no path from 'h1' to"),
        ({"ends": ["p0e0", "h1"]}, "give rate_bps or delay_ns, or else absent = true"),
        ({"ends": ["p0e0", "h1"], "absent": True, "delay_ns": 0}, "give rate_bps or delay_ns"),
        ({"ends": ["p0e0", "h1"], "rate_bps": 0}, "rate_bps"),
    ],
)
def test_link_overrides_that_cannot_be(override: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        from_table({"fat_tree": {"k": 4}, "link_override": [override]}, "test")


BASE = {
    "switch": [{"name": "s1"}],
    "host": [{"name": "h1"}, {"name": "h2"}],
    "link": [{"ends": ["h1", "s1"]}, {"ends": ["h2", "s1"]}],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"fat_tree": {"k": 4}}, "exactly one of"),
        ({"link": [{"ends": ["h1", "s9"]}]}, "there is no node 's9'"),
        ({"link": [{"ends": ["h1", "s1"]}]}, "test.toml: host 'h2' has no link"),
        (
            {
                "link": [
                    {"ends": ["h1", "s1"], "ports": [1, 1]},
                    {"ends": ["h2", "s1"], "ports": [1, 1]},
                ]
            },
            "port 1 of 's1' is used by two links",
        ),
        ({"host": [{"name": "h1"}, {"name": "h1"}]}, "two nodes are named 'h1'"),
        ({"host": [{"name": "h1", "ip": "10.0.0.300"}]}, "'10.0.0.300' is not an IPv4 address"),
        ({"host": [{"name": "h1"}, {"name": "h2", "ip": "10.0.0.2"}]}, "same address 10.0.0.2"),
        ({"switch": [{"name": "s1"}, {"name": "s2"}]}, "no path from 'h1' to s2"),
        ({"switch": [{"name": "a-very-long-name"}]}, "must be a lower-case letter"),
        ({"link": [{"ends": ["h1", "h2"]}]}, "must hang on a switch"),
        ({"lnik": []}, "unknown key 'lnik'; did you mean 'link'? (valid keys: fat_tree"),
        (
            {"link": [{"ends": ["h1", "s1"], "rate": 1}]},
            "valid keys: delay_ns, ends, ports, rate_bps",
        ),
    ],
)
def test_wrong_topologies_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=None) as caught:
        from_table({**BASE, **change}, "test.toml")
    assert message in str(caught.value)


def test_odd_k_and_missing_file() -> None:
    with pytest.raises(InputError, match="k must be even, not 5"):
        from_table({"fat_tree": {"k": 5}}, "test.toml")
    with pytest.raises(InputError, match="cannot be read"):
        load_topology(Path("no-such-file.toml"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "exactly one of"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"\0" * 100, "Invalid statement"),
        (b"k = " + b"[" * 5000, "nested too deeply"),
        (b"a" + b".a" * 100_000 + b" = 1", "a key or text has more than 500 dots: a.a."),
        (b"[fat_tree]\nk = 1" + b"0" * 5000, "digits"),
        (b"[fat_tree]\nk = nan", "'fat_tree.k'"),
        (b"[fat_tree]\n[link_defaults]\nrate_bps = 1" + b"0" * 30, "'link_defaults.rate_bps'"),
        (b"[fat_tree]\n[fat_tree]\n", "Cannot declare"),
    ],
)
def test_files_that_are_none(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        load_topology(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
