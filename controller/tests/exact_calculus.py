"""Queue bounds from the formulas of docs/silo.md, in fractions and without any of the placement's
own arithmetic: what the placement is checked against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from ebb_controller.placement.network import Network, Request


@dataclass(frozen=True)
class Line:
    """burst + rate t, in bits and seconds."""

    burst: Fraction
    rate: Fraction

    def at(self, time: Fraction) -> Fraction:
        return self.burst + self.rate * time


Curve = tuple[Line, Line]
"""The smaller of both."""
Key = tuple[int, int, str]
"""Tier, node and direction of a port."""


def curve(request: Request, senders: int, upstream: Fraction, packet_bytes: int) -> Curve:
    """min(m Bmax (t + D) + m L, min(m, N - m) B (t + D) + m S)."""
    g, m = request.guarantee, senders
    assert g is not None
    rate = Fraction(min(m, request.vms - m) * g.rate_bps)
    peak = Fraction(m * g.peak_bps)
    return (
        Line(m * packet_bytes * 8 + peak * upstream, peak),
        Line(m * g.burst_bytes * 8 + rate * upstream, rate),
    )


def backlog(curves: Iterable[Curve], service: int) -> Fraction | None:
    """The largest of sum(A) - C t; none: it has no limit. Such a sum has its largest value where
    the two lines of a curve cross."""
    curves = list(curves)
    if sum(min(line.rate for line in each) for each in curves) > service:
        return None
    times = {Fraction(0)}
    for first, second in curves:
        if first.rate != second.rate:
            times.add(max(Fraction(0), (second.burst - first.burst) / (first.rate - second.rate)))
    return max(
        sum((min(line.at(t) for line in each) for each in curves), Fraction(0)) - service * t
        for t in times
    )


def port_curves(network: Network, request: Request, hosts: Mapping[int, int]) -> dict[Key, Curve]:
    """Traffic that a placement adds to ports."""
    tree = network.tree
    level = max(tree.meeting_tier(a, b) for a, b in product(hosts, repeat=2))
    if request.guarantee is None:
        return {}
    wait = [Fraction(int(tier.queue_bytes[0]) * 8, int(tier.rate_bps[0])) for tier in tree.tiers]
    found = {}
    for tier in range(level + 1):
        below: dict[int, int] = {}
        for host, count in hosts.items():
            node = tree.ancestor(host, tier)
            below[node] = below.get(node, 0) + count
        for node, m in below.items():
            up = sum(wait[:tier], Fraction(0))
            down = sum(wait[: level + 1], Fraction(0)) + sum(wait[tier + 1 : level + 1])
            pair = ((m, up, "up"), (request.vms - m, down, "down"))
            for senders, upstream, way in pair:
                found[tier, node, way] = curve(request, senders, upstream, network.packet_bytes)
    return found


def too_much(network: Network, key: Key, curves: Iterable[Curve]) -> bool:
    """Whether a port cannot keep its constraints with these curves."""
    tier = network.tree.tiers[key[0]]
    bound = backlog(curves, int(tier.rate_bps[key[1]]))
    room = int(tier.queue_bytes[key[1]]) - network.blocking_bytes
    return bound is None or bound > room * 8


def valid(network: Network, request: Request, hosts: Mapping[int, int]) -> bool:
    """Whether a placement keeps all constraints beside the tenants that there are."""
    tree = network.tree
    if any(count > network.free[host] for host, count in hosts.items()):
        return False
    if len(hosts) < request.hosts:
        return False
    level = max(tree.meeting_tier(a, b) for a, b in product(hosts, repeat=2))
    if request.guarantee and request.guarantee.delay_ns is not None:
        tiers = tree.tiers[: level + 1]
        ns = sum(2 * Fraction(int(t.queue_bytes[0]) * 8 * 10**9, int(t.rate_bps[0])) for t in tiers)
        if ns > request.guarantee.delay_ns:
            return False
    new = port_curves(network, request, hosts)
    there = all_curves(network)
    return not any(too_much(network, key, [*there.get(key, []), c]) for key, c in new.items())


def all_curves(network: Network) -> dict[Key, list[Curve]]:
    """The curves of all tenants, by port."""
    found: dict[Key, list[Curve]] = {}
    for request, hosts in network.admitted.values():
        for key, each in port_curves(network, request, hosts).items():
            found.setdefault(key, []).append(each)
    return found


def placements(free: list[int], vms: int) -> Iterable[dict[int, int]]:
    """All ways to put VMs on hosts."""
    for counts in product(*(range(min(each, vms) + 1) for each in free)):
        if sum(counts) == vms:
            yield {host: count for host, count in enumerate(counts) if count}
