"""Placement of tenants: valid whatever comes and goes, complete on small trees, and refused only
for a constraint that fails."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path

import pytest
from ebb_controller.placement.curves import Guarantee
from ebb_controller.placement.explain import Violation, decide
from ebb_controller.placement.network import Network, Request, path_bound
from ebb_controller.placement.search import find
from ebb_controller.placement.tree import Tree, of_topology, regular
from ebb_topologies.files import InputError
from ebb_topologies.model import from_table, load_topology
from exact_calculus import all_curves, placements, port_curves, too_much, valid
from hypothesis import given, settings
from hypothesis import strategies as st

TOPOLOGIES = Path(__file__).parents[2] / "topologies"
LINK = 10_000_000_000
CLASS_A = Guarantee(250_000_000, 15_000, 1_000_000_000, 1_000_000)


def tree(pods: int = 2, racks: int = 2, hosts: int = 2, queue_ns: int = 250_000) -> Tree:
    return regular(
        pods=pods,
        racks_per_pod=racks,
        hosts_per_rack=hosts,
        rate_bps=LINK,
        queue_ns=queue_ns,
        oversubscription=(1.5, 1.25),
    )


def snapshot(network: Network) -> list[object]:
    return [network.free.tolist(), *(table.snapshot() for table in network.tables.values())]


GUARANTEES = st.none() | st.builds(
    lambda rate, more, burst, delay: Guarantee(rate, burst, rate + more, delay),
    st.integers(1, 6_000_000_000),
    st.integers(0, 4_000_000_000),
    st.integers(1_500, 150_000),
    st.sampled_from([None, None, 1, 500_000, 1_000_000, 2_000_000]),
)


def requests(most_vms: int) -> st.SearchStrategy[list[Request]]:
    one = st.tuples(st.integers(1, most_vms), GUARANTEES, st.integers(1, 3))
    return st.lists(one, min_size=1, max_size=12).map(
        lambda each: [Request(f"t{i}", vms, g, hosts) for i, (vms, g, hosts) in enumerate(each)]
    )


def test_paths_have_2_4_and_6_ports_of_250_us_and_three_tiers_miss_1_ms() -> None:
    network = Network(tree(), 2)
    assert [network.path_capacity_ns(level) for level in range(3)] == [
        500_000,
        1_000_000,
        1_500_000,
    ]
    hops = [len(path_bound(network, "h1", to).hops) for to in ("h1", "h2", "h3", "h5")]
    assert hops == [0, 2, 4, 6]
    for vms, admitted in ((8, True), (9, False)):
        wanted = Request("a", vms, Guarantee(1_000_000, 1_500, LINK, 1_000_000))
        assert (find(network, wanted) is not None) == admitted, "8 slots are in a pod"
    [*_, last] = decide(network, wanted).refused
    assert (last.constraint, last.needed, last.available) == ("delay", 1_500_000, 1_000_000)


def test_all_tiers_add_their_queue_one_packet_in_service_and_their_links() -> None:
    network = Network(
        regular(pods=2, racks_per_pod=1, hosts_per_rack=2, rate_bps=LINK, queue_ns=249_600,
                delay_ns=700), 1
    )  # fmt: skip
    network.admit(Request("a", 2, CLASS_A), {0: 1, 2: 1})
    path = path_bound(network, "h1", "h3")
    first = path.hops[0]
    assert (first.queue_ns, first.blocking_ns, first.propagation_ns) == (1_200, 1_200, 700)
    # The links of racks and pods have 20 Gbit/s.
    assert [hop.blocking_ns for hop in path.hops] == [1_200, 600, 600, 600, 600, 1_200]
    assert path.bound_ns == sum(hop.queue_ns + hop.blocking_ns + 700 for hop in path.hops)
    assert path.capacity_ns == len(path.hops) * (249_600 + 700)
    alone = Network(network.tree, 1, blocking=False)
    alone.admit(Request("a", 2, CLASS_A), {0: 1, 2: 1})
    assert path_bound(alone, "h1", "h3").hops[0].blocking_ns == 0


@settings(deadline=None, max_examples=60)
@given(requests(6), st.data())
def test_no_constraint_is_broken_whatever_comes_and_goes(
    wanted: list[Request], data: st.DataObject
) -> None:
    network = Network(tree(), 3)
    for request in wanted:
        before = snapshot(network)
        decision = decide(network, request)
        if decision.hosts is None:
            assert snapshot(network) == before
            assert decision.refused
            continue
        assert sum(decision.hosts.values()) == request.vms
        if data.draw(st.integers(0, 3)) == 0:
            network.release(data.draw(st.sampled_from(sorted(network.admitted))))
        for key, curves in all_curves(network).items():
            assert not too_much(network, key, curves)
        for admitted, hosts in network.admitted.values():
            assert len(hosts) >= admitted.hosts
            limit = admitted.guarantee.delay_ns if admitted.guarantee else None
            ends = list(hosts)
            if limit is not None:
                longest = max(network.path(a, b).bound_ns for a in ends for b in ends)
                assert longest <= limit
        assert network.free.min() >= 0
    for name in data.draw(st.permutations(sorted(network.admitted))):
        network.release(name)
    assert snapshot(network) == snapshot(Network(tree(), 3))


@settings(deadline=None, max_examples=60)
@given(requests(5))
def test_what_is_placed_is_what_trying_everything_finds(wanted: list[Request]) -> None:
    network = Network(tree(), 2)
    for request in wanted:
        hosts = find(network, request)
        free = network.free.tolist()
        every = [p for p in placements(free, request.vms) if valid(network, request, p)]
        if hosts is None:
            assert not every
            continue
        assert hosts in every
        assert network.level(hosts) == min(map(network.level, every))
        network.admit(request, hosts)


@settings(deadline=None, max_examples=60)
@given(requests(8))
def test_a_refusal_names_a_constraint_that_fails_alone(wanted: list[Request]) -> None:
    network = Network(tree(), 2)
    for request in wanted:
        decision = decide(network, request)
        for each in decision.refused:
            assert each.needed > each.available
            _really_fails(network, request, each)


def _really_fails(network: Network, request: Request, why: Violation) -> None:
    if why.constraint == "slots":
        assert why.needed == request.vms
    elif why.constraint == "delay":
        assert request.guarantee is not None and why.available == request.guarantee.delay_ns
        assert why.needed in (500_000, 1_000_000, 1_500_000)
    elif why.port is not None and why.hosts is not None:
        key = (why.port.tier, why.port.node, why.port.direction)
        new = port_curves(network, request, why.hosts)[key]
        assert too_much(network, key, [*all_curves(network).get(key, []), new])


def test_oktopus_keeps_rates_and_locality_slots_only() -> None:
    bursty = Request("bursty", 8, Guarantee(10_000_000, 200_000, LINK))
    fast = Request("fast", 8, Guarantee(6_000_000_000, 1_500, LINK))
    for request, expected in (
        (bursty, {"silo": False, "oktopus": True, "okto+": True, "locality": True}),
        (fast, {"silo": False, "oktopus": False, "okto+": False, "locality": True}),
    ):
        for algorithm, admitted in expected.items():
            network = Network(tree(), 4)
            decision = decide(network, request, algorithm)  # type: ignore[arg-type]
            assert (decision.hosts is not None) == admitted, (request.name, algorithm)


def test_vms_are_on_as_many_hosts_as_a_tenant_asks_for() -> None:
    network = Network(tree(), 8)
    small = Guarantee(1_000_000, 1_500, LINK)
    assert find(network, Request("a", 3, small)) == {0: 3}
    assert find(network, Request("a", 3, small, hosts=2)) == {0: 2, 1: 1}
    found = find(network, Request("a", 5, small, hosts=5))
    assert found is not None and len(found) == 5
    assert find(network, Request("a", 9, None, hosts=9)) is None, "there are 8 hosts"


def test_a_name_is_of_one_tenant() -> None:
    network = Network(tree(), 2)
    network.admit(Request("a", 1), {0: 1})
    with pytest.raises(KeyError, match="a tenant 'a' already"):
        network.admit(Request("a", 1), {1: 1})


@pytest.mark.parametrize(
    ("name", "sizes", "rates"),
    [
        ("single-rack", [10], [10**9]),
        ("leaf-spine", [16, 4], [10**9, 10**9]),
        ("fat-tree-k4", [16, 8, 4], [10**9] * 3),
        ("fat-tree-k4-limited", [16, 8, 4], [10**9, 500_000_000, 250_000_000]),
        ("three-tier", [128, 16, 4], [10**9] * 3),
    ],
)
def test_topologies_are_trees(name: str, sizes: list[int], rates: list[int]) -> None:
    topology = load_topology(TOPOLOGIES / f"{name}.toml")
    found = of_topology(topology, 1_000, 2_000, "hashed")
    assert [len(tier) for tier in found.tiers] == sizes
    assert [int(tier.rate_bps[0]) for tier in found.tiers] == rates
    assert [int(tier.queue_bytes[-1]) for tier in found.tiers] == [1_000, 2_000, 2_000][
        : len(sizes)
    ]
    assert sorted(found.hosts) == sorted(host.name for host in topology.hosts)
    for a, b in ((0, 1), (0, len(found.hosts) - 1)):
        hops = topology.distances(found.hosts[b])[found.hosts[a]]
        assert 2 * found.meeting_tier(a, b) + 2 == hops


def test_links_that_share_their_load_count_together() -> None:
    topology = load_topology(TOPOLOGIES / "fat-tree-k4.toml")
    spread = of_topology(topology, 1_000, 2_000, "spread")
    assert [int(tier.rate_bps[0]) for tier in spread.tiers] == [10**9, 2 * 10**9, 4 * 10**9]
    assert [int(tier.queue_bytes[0]) for tier in spread.tiers] == [1_000, 4_000, 8_000]


def test_a_ring_of_switches_is_no_tree() -> None:
    table = {
        "switch": [{"name": f"s{i}"} for i in range(4)],
        "host": [{"name": f"h{i}"} for i in range(4)],
        "link": [{"ends": [f"h{i}", f"s{i}"]} for i in range(4)]
        + [{"ends": [f"s{i}", f"s{(i + 1) % 4}"]} for i in range(4)],
    }
    with pytest.raises(InputError, match="no tree of racks and pods"):
        of_topology(from_table(table, "ring"), 1_000, 1_000, "hashed")


def test_one_request_among_100_000_hosts_takes_less_than_a_second_of_the_processor() -> None:
    many = regular(pods=50, racks_per_pod=50, hosts_per_rack=40, rate_bps=LINK, queue_ns=249_600,
                   oversubscription=(5, 1))  # fmt: skip
    network = Network(many, 8)
    for number in range(40):
        decide(network, Request(f"t{number}", 9 + number, Guarantee(10**8, 3_000, 10**9)))
    for vms, guarantee in ((49, CLASS_A), (400, Guarantee(10**9, 1_500, LINK)), (49, None)):
        before = time.process_time()
        find(network, Request("x", vms, guarantee))
        assert time.process_time() - before < 1.0, "of which it needs about 0.2"


def test_capacities_are_of_whole_bytes() -> None:
    network = Network(tree(queue_ns=249_600), 2)
    assert Fraction(network.path_capacity_ns(0), 2) == 249_600
