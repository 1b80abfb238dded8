"""Packets of conforming senders in a network, one by one: none is later than its bound says, and
some are if the bound leaves out what they wait for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import pytest
from ebb_controller.placement.curves import Guarantee
from ebb_controller.placement.explain import violations
from ebb_controller.placement.network import Direction, Network, Port, Request, path_bound
from ebb_controller.placement.tree import Tree, regular
from hypothesis import assume, given, settings
from hypothesis import strategies as st

LINK = 1_000_000_000
PACKET = 1_500
HOSTS = 6
JUMBO = st.integers(8_400, 8_600)
"""Packets of which a burst of 15,000 bytes holds one, but not two."""


def send_ns(data_bytes: int, rate_bps: int) -> Fraction:
    return Fraction(data_bytes * 8 * 10**9, rate_bps)


@dataclass
class Bucket:
    """A token bucket."""

    rate_bps: int
    depth_bytes: int
    full_at: Fraction = Fraction(0)
    """When it would be full, ns."""

    def earliest(self, packet_bytes: int) -> Fraction:
        """From when on it has the tokens of a packet."""
        return self.full_at - send_ns(self.depth_bytes - packet_bytes, self.rate_bps)

    def take(self, now: Fraction, packet_bytes: int) -> None:
        self.full_at = max(self.full_at, now) + send_ns(packet_bytes, self.rate_bps)


@dataclass
class Packet:
    """A packet between two hosts, by their numbers."""

    source: int
    destination: int
    size: int
    """Bytes."""
    conformed: Fraction
    """When its sender was allowed to send it, ns."""
    at: Fraction
    """When its last bit is at the next port."""


@dataclass(frozen=True)
class Tenant:
    """A tenant whose VMs all send to its first one."""

    guarantee: Guarantee
    hosts: tuple[int, ...]
    """Host of each VM."""
    starts: tuple[int, ...]
    """When each VM but the first begins, ns."""
    sizes: tuple[int, ...]
    """Its packets, over and over; bytes."""

    def request(self, name: str) -> Request:
        return Request(name, len(self.hosts), self.guarantee)

    @property
    def vms(self) -> dict[int, int]:
        """How many VMs each host has."""
        return {host: self.hosts.count(host) for host in self.hosts}

    def packets(self, longest: int, count: int) -> Iterable[Packet]:
        """Packets of VMs that send as soon as they may: in the long run each has a part of the
        receiver's rate. `longest`: any packet, bytes."""
        receiver, *senders = self.hosts
        share = self.guarantee.rate_bps // len(senders)
        for source, start in zip(senders, self.starts, strict=True):
            buckets = [Bucket(share, self.guarantee.burst_bytes)]
            buckets.append(Bucket(self.guarantee.peak_bps, longest))
            now = Fraction(start)
            for number in range(count):
                size = self.sizes[number % len(self.sizes)]
                now = max(now, *(bucket.earliest(size) for bucket in buckets))
                for bucket in buckets:
                    bucket.take(now, size)
                if source != receiver:
                    yield Packet(source, receiver, size, now, now)


def pass_port(packets: Iterable[Packet], rate_bps: int, in_service: int) -> Fraction:
    """Sends packets through a port, in the order in which they come, and says how long the slowest
    took. One that finds it idle comes when `in_service` bytes of lower priority have just begun."""
    free, longest = Fraction(-1), Fraction(0)
    for packet in sorted(packets, key=lambda each: each.at):
        if free <= packet.at:
            free = packet.at + send_ns(in_service, rate_bps)
        free += send_ns(packet.size, rate_bps)
        longest = max(longest, free - packet.at)
        packet.at = free
    return longest


def deliver(tree: Tree, packets: Sequence[Packet], in_service: int) -> dict[Port, Fraction]:
    """Sends packets through all ports, a tier after the other, and says how long the slowest took
    at each. What comes from several ports shares the queue of the next one."""
    found: dict[Port, Fraction] = {}
    for tier, direction in ways(tree):
        there: defaultdict[int, list[Packet]] = defaultdict(list)
        for packet in packets:
            if tree.meeting_tier(packet.source, packet.destination) >= tier:
                end = packet.source if direction == "up" else packet.destination
                there[tree.ancestor(end, tier)].append(packet)
        for node, waiting in there.items():
            rate = int(tree.tiers[tier].rate_bps[node])
            found[Port(tier, node, direction)] = pass_port(waiting, rate, in_service)
    return found


def ways(tree: Tree) -> Iterator[tuple[int, Direction]]:
    """Tiers and directions in the order of a path."""
    tiers = range(len(tree.tiers))
    yield from ((tier, "up") for tier in tiers)
    yield from ((tier, "down") for tier in reversed(tiers))


def admitted(
    tree: Tree, tenants: Sequence[Tenant], packet_bytes: int, *, blocking: bool = True
) -> Network | None:
    """The network with these tenants; none: it has no room for one of them."""
    network = Network(tree, len(tenants) * HOSTS, packet_bytes, blocking=blocking)
    for number, tenant in enumerate(tenants):
        request = tenant.request(f"t{number}")
        if any(violations(network, request, tenant.vms)):
            return None
        network.admit(request, tenant.vms)
    return network


Way = tuple[int, int] | Port
"""From a host to another, or through a port."""


def longest_delays(
    tree: Tree, tenants: Sequence[Tenant], longest: int, count: int, in_service: int
) -> dict[Way, Fraction]:
    """The longest delay of a packet from each host to each other and at each port, ns."""
    packets = [each for tenant in tenants for each in tenant.packets(longest, count)]
    found: dict[Way, Fraction] = dict(deliver(tree, packets, in_service))
    for packet in packets:
        pair = packet.source, packet.destination
        found[pair] = max(found.get(pair, Fraction(0)), packet.at - packet.conformed)
    return found


def bound_ns(network: Network, way: Way) -> int:
    if isinstance(way, Port):
        return network.hop(way).delay_ns
    return path_bound(network, *(network.tree.hosts[host] for host in way)).bound_ns


def late(network: Network, delays: Mapping[Way, Fraction]) -> list[Way]:
    """Where a packet took longer than its bound."""
    return [way for way, delay in delays.items() if delay > bound_ns(network, way)]


def paths(ways: Iterable[Way]) -> list[Way]:
    """Those of them that are whole paths."""
    return [way for way in ways if not isinstance(way, Port)]


def rack(queue_ns: int = 2_000_000) -> Tree:
    return regular(pods=1, racks_per_pod=1, hosts_per_rack=HOSTS, rate_bps=LINK, queue_ns=queue_ns)


def three_racks() -> Tree:
    """Three racks of two hosts, whose links up have the rate of one host's."""
    return regular(
        pods=1,
        racks_per_pod=3,
        hosts_per_rack=2,
        rate_bps=LINK,
        queue_ns=2_000_000,
        oversubscription=(2, 1),
    )


def guarantees(bursts: st.SearchStrategy[int]) -> st.SearchStrategy[Guarantee]:
    return st.builds(
        lambda rate, more, burst: Guarantee(rate, burst, min(rate + more, LINK)),
        st.integers(10_000_000, 400_000_000),
        st.integers(0, 900_000_000),
        bursts,
    )


@st.composite
def tenants_of(
    draw: Callable[..., int], guarantee: st.SearchStrategy[Guarantee], longest: int
) -> Tenant:
    """VMs on any hosts, which begin together or not, with packets up to `longest` bytes."""
    vms = draw(st.integers(2, HOSTS))
    together = draw(st.booleans())
    start = st.just(0) if together else st.integers(0, 300_000)
    sizes = st.lists(st.integers(84, longest) | st.just(longest), min_size=1, max_size=3)
    return Tenant(
        draw(guarantee),
        tuple(draw(st.integers(0, HOSTS - 1)) for _ in range(vms)),
        tuple(draw(start) for _ in range(vms - 1)),
        tuple(draw(sizes)),
    )


@settings(deadline=None, max_examples=150)
@given(
    guarantees(st.integers(1, 12).map(lambda packets: packets * PACKET)),
    st.lists(st.integers(0, 300_000), min_size=1, max_size=HOSTS - 1),
    st.booleans(),
)
def test_no_packet_is_later_than_its_bound(
    guarantee: Guarantee, starts: list[int], at_once: bool
) -> None:
    begin = (0,) * len(starts) if at_once else tuple(starts)
    tenant = Tenant(guarantee, tuple(range(len(starts) + 1)), begin, (PACKET,))
    check([tenant], rack(), PACKET)


def check(tenants: Sequence[Tenant], tree: Tree, longest: int) -> None:
    network = admitted(tree, tenants, longest)
    assume(network is not None)
    assert network is not None
    delays = longest_delays(tree, tenants, longest, 20, in_service=longest)
    assert not late(network, delays)


@settings(deadline=None, max_examples=100)
@given(st.data(), st.integers(84, PACKET) | JUMBO)
def test_tenants_share_queues_that_several_ports_fill(data: st.DataObject, longest: int) -> None:
    burst = st.integers(longest, 20 * longest)
    one = tenants_of(guarantees(burst), longest)
    check(data.draw(st.lists(one, min_size=1, max_size=3)), three_racks(), longest)


@settings(deadline=None, max_examples=100)
@given(st.data(), JUMBO)
def test_a_burst_that_does_not_hold_two_packets(data: st.DataObject, longest: int) -> None:
    one = tenants_of(guarantees(st.just(15_000)), longest)
    check(data.draw(st.lists(one, min_size=1, max_size=3)), three_racks(), longest)


@pytest.mark.parametrize("senders", [1, 3])
def test_without_the_packet_in_service_the_bound_is_broken(senders: int) -> None:
    guarantee = Guarantee(1_000_000, PACKET, LINK)
    hosts = tuple(range(senders + 1))
    tenant, tree = Tenant(guarantee, hosts, (0,) * senders, (PACKET,)), rack()
    busy, idle = (longest_delays(tree, [tenant], PACKET, 3, size) for size in (PACKET, 0))
    without, with_it = (
        admitted(tree, [tenant], PACKET, blocking=blocking) for blocking in (False, True)
    )
    assert without is not None and with_it is not None
    assert paths(late(without, busy))
    assert not late(with_it, busy) and not late(without, idle)


def test_without_the_tenant_of_another_port_the_bound_is_broken() -> None:
    """Two tenants with a sender in a rack of its own each send to the same host: packets of both
    wait before the link down to its rack, and come there from two ports."""
    tree = three_racks()
    guarantee = Guarantee(100_000, PACKET, LINK)
    tenants = [Tenant(guarantee, (4, sender), (0,), (PACKET,)) for sender in (0, 2)]
    delays = longest_delays(tree, tenants, PACKET, 1, in_service=0)
    network = admitted(tree, tenants, PACKET, blocking=False)
    assert network is not None
    assert not late(network, delays)
    slowest = max(paths(delays), key=lambda way: delays[way])
    network.release("t0" if slowest == (2, 4) else "t1")
    assert slowest in late(network, delays)


@pytest.mark.parametrize("longest", [8_400, 8_538, 8_600])
def test_with_the_usual_packet_the_bound_of_longer_ones_is_broken(longest: int) -> None:
    tree, guarantee = three_racks(), Guarantee(1_000_000, 15_000, 200_000_000)
    tenant = Tenant(guarantee, (4, 0), (0,), (longest,))
    delays = longest_delays(tree, [tenant], longest, 2, in_service=longest)
    right, wrong = (admitted(tree, [tenant], size) for size in (longest, PACKET))
    assert right is not None and wrong is not None
    assert not late(right, delays)
    assert paths(late(wrong, delays))


def test_without_the_growth_of_bursts_in_queues_the_bound_is_broken() -> None:
    """Bursts of others hold back three senders that have used up their own and send at their rates:
    what they send meanwhile comes to their receiver's port at once, S + B D and not S."""
    hosts = 1, 2, 3
    senders = Tenant(Guarantee(300_000_000, PACKET, 300_000_000), (0, *hosts), (0,) * 3, (PACKET,))
    bursts = [
        Tenant(
            Guarantee(1_000_000, 18 * PACKET, LINK), (to, *(host,) * 5), (100_000,) * 5, (PACKET,)
        )
        for host, to in zip(hosts, (2, 3, 1), strict=True)
    ]
    tenants, tree = [senders, *bursts], rack()
    delays = longest_delays(tree, tenants, PACKET, 18, in_service=0)
    network = admitted(tree, tenants, PACKET, blocking=False)
    assert network is not None
    assert not late(network, delays)
    # Queues that hold nothing make no burst grow. Nobody asks whether they can hold these.
    without = Network(rack(queue_ns=1), len(tenants) * HOSTS, blocking=False)
    for number, tenant in enumerate(tenants):
        without.admit(tenant.request(f"t{number}"), tenant.vms)
    assert Port(0, 0, "down") in late(without, delays)
