"""Packets of conforming senders in a rack, one by one: none is later than its bound says, and some
are if the packet of lower priority in service is left out of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import pytest
from ebb_controller.placement.curves import Guarantee
from ebb_controller.placement.explain import decide
from ebb_controller.placement.network import Network, Request, path_bound
from ebb_controller.placement.tree import regular
from hypothesis import assume, given, settings
from hypothesis import strategies as st

LINK = 1_000_000_000
PACKET = 1_500
SEND_NS = Fraction(PACKET * 8 * 10**9, LINK)
HOSTS = 6


@dataclass
class Bucket:
    """A token bucket for packets of one size."""

    rate_bps: int
    depth_bytes: int
    full_at: Fraction = Fraction(0)
    """When it would be full, ns."""

    def earliest(self) -> Fraction:
        """From when on it has the tokens of a packet."""
        spare = self.depth_bytes - PACKET
        return self.full_at - Fraction(spare * 8 * 10**9, self.rate_bps)

    def take(self, now: Fraction) -> None:
        self.full_at = max(self.full_at, now) + Fraction(PACKET * 8 * 10**9, self.rate_bps)


def sent(guarantee: Guarantee, share: int, start: int, packets: int) -> list[Fraction]:
    """When a VM sends: as soon as it may, with a `share`-th of its rate in the long run, as the
    receiver is shared by so many."""
    buckets = [Bucket(guarantee.rate_bps // share, guarantee.burst_bytes)]
    buckets.append(Bucket(guarantee.peak_bps, PACKET))
    times, now = [], Fraction(start)
    for _ in range(packets):
        now = max(now, *(bucket.earliest() for bucket in buckets))
        for bucket in buckets:
            bucket.take(now)
        times.append(now)
    return times


def served(arrivals: list[Fraction], *, blocked: bool) -> list[Fraction]:
    """When packets that come at these times have left a port, in their order. `blocked`: one that
    finds the port idle comes when a packet of lower priority has just begun."""
    left, free = [], Fraction(-1)
    for arrival in arrivals:
        if free <= arrival:
            free = arrival + (SEND_NS if blocked else 0)
        free += SEND_NS
        left.append(free)
    return left


def longest_delay(
    guarantee: Guarantee, starts: list[int], packets: int, *, blocked: bool
) -> Fraction:
    """Packets of VMs on hosts of their own that all send to one other host."""
    there = []
    for start in starts:
        times = sent(guarantee, len(starts), start, packets)
        there += list(zip(served(times, blocked=blocked), times, strict=True))
    there.sort()
    ends = served([arrival for arrival, _ in there], blocked=blocked)
    return max(end - begun for end, (_, begun) in zip(ends, there, strict=True))


def bound(request: Request, *, blocking: bool) -> int | None:
    tree = regular(pods=1, racks_per_pod=1, hosts_per_rack=HOSTS, rate_bps=LINK, queue_ns=2_000_000)
    network = Network(tree, 1, PACKET, blocking=blocking)
    decision = decide(network, request)
    if decision.hosts is None:
        return None
    names = [tree.hosts[host] for host in decision.hosts]
    return path_bound(network, names[0], names[-1]).bound_ns


GUARANTEES = st.builds(
    lambda rate, more, packets: Guarantee(rate, packets * PACKET, min(rate + more, LINK)),
    st.integers(10_000_000, 400_000_000),
    st.integers(0, 900_000_000),
    st.integers(1, 12),
)


@settings(deadline=None, max_examples=150)
@given(GUARANTEES, st.lists(st.integers(0, 300_000), min_size=1, max_size=HOSTS - 1), st.booleans())
def test_no_packet_is_later_than_its_bound(
    guarantee: Guarantee, starts: list[int], at_once: bool
) -> None:
    limit = bound(Request("a", len(starts) + 1, guarantee), blocking=True)
    assume(limit is not None)
    begin = [0] * len(starts) if at_once else starts
    assert limit is not None
    assert longest_delay(guarantee, begin, 40, blocked=True) <= limit


@pytest.mark.parametrize("senders", [1, 3])
def test_without_the_packet_in_service_the_bound_is_broken(senders: int) -> None:
    guarantee = Guarantee(1_000_000, PACKET, LINK)
    request, starts = Request("a", senders + 1, guarantee), [0] * senders
    late = longest_delay(guarantee, starts, 3, blocked=True)
    without, with_it = (bound(request, blocking=blocking) for blocking in (False, True))
    assert without is not None and with_it is not None
    assert without < late <= with_it
    assert longest_delay(guarantee, starts, 3, blocked=False) <= without
