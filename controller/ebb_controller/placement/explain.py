"""Why a tenant is where it is, or which constraint refuses it, with the numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from ebb_controller.placement.curves import NANOBITS_PER_BYTE, Curve, send_ns
from ebb_controller.placement.network import Hop, Network, Path, Port, Request
from ebb_controller.placement.search import Algorithm, find

MOST_HOSTS = 100
"""Most hosts of a tenant whose paths are listed."""
PATHS = 6
"""Paths of a tenant that text names, the longest first."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A constraint that fails, and its arithmetic."""

    constraint: Literal["slots", "hosts", "delay", "rate", "queue"]
    """`slots` and `hosts`: there are not enough; `delay`: constraint 5.3 of the thesis; `rate`:
    guaranteed rates of a port; `queue`: constraint 5.2."""
    where: str
    """The port, or the part of the network."""
    needed: int
    """Amount needed: VMs, hosts, ns, bit/s, or bytes."""
    available: int
    """Amount available, in the same unit."""
    text: str
    """The arithmetic in words."""
    port: Port | None = None
    """The port, where it is one's."""
    hosts: Mapping[int, int] | None = None
    """VMs by host in the placement that was tried."""


@dataclass(frozen=True, slots=True)
class Decision:
    """Outcome of a request."""

    request: Request
    hosts: Mapping[int, int] | None
    """VMs by host; none: it was refused."""
    refused: tuple[Violation, ...] = ()
    """For each level of the tree, from the lowest, what was in the way there."""


def decide(network: Network, request: Request, algorithm: Algorithm = "silo") -> Decision:
    """Places a tenant, or says why not; what is refused changes nothing."""
    hosts = find(network, request, algorithm)
    if hosts is None:
        return Decision(request, None, tuple(_reasons(network, request, algorithm)))
    network.admit(request, hosts)
    return Decision(request, hosts)


def violations(
    network: Network, request: Request, hosts: Mapping[int, int], algorithm: Algorithm = "silo"
) -> Iterator[Violation]:
    """The constraints of ports that this placement of a tenant would break."""
    if algorithm == "locality":
        return
    for port, curve in network.entries(request, hosts):
        table = network.tables[port.tier, port.direction]
        rate = int(table.rate_bps[port.node])
        used = int(table.used_bps[port.node])
        name = network.port_name(port)
        if used + curve.rate_bps > rate:
            text = (
                f"guaranteed rates {used:,} + {curve.rate_bps:,} = {used + curve.rate_bps:,} bit/s "
                f"> {rate:,} bit/s of the link"
            )
            yield Violation("rate", name, used + curve.rate_bps, rate, text, port, hosts)
        elif algorithm == "silo":
            nodes = np.array([port.node])
            backlog = int(table.backlog_nb(nodes, [curve])[0, 0])
            if backlog > table.room_nb[port.node]:
                yield _queue(network, port, curve, backlog, hosts)


def _queue(
    network: Network, port: Port, curve: Curve, backlog_nb: int, hosts: Mapping[int, int]
) -> Violation:
    tier, blocking = network.tree.tiers[port.tier], network.blocking_at(port)
    what = "a packet of lower priority"
    if blocking > network.blocking_bytes:
        what += " and a batch"
    rate, capacity = int(tier.rate_bps[port.node]), int(tier.queue_bytes[port.node])
    needed = -(-backlog_nb // NANOBITS_PER_BYTE) + blocking
    now = network.backlog_bytes(port)
    text = (
        f"queue bound {needed:,} bytes > queue capacity {capacity:,} bytes"
        f"{f'; of them {blocking:,} are of {what}' if blocking else ''}"
        f"; at {rate:,} bit/s a packet would wait {_us(send_ns(needed, rate))}, and the queue "
        f"holds {_us(network.hop(port).capacity_ns)}; without the tenant {now:,} bytes wait"
        f"; it adds {_curve(curve)}"
    )
    return Violation("queue", network.port_name(port), needed, capacity, text, port, hosts)


def _curve(curve: Curve) -> str:
    burst = f"{curve.burst_nb / NANOBITS_PER_BYTE:,.0f} bytes at once"
    if curve.knee_ns == 0:
        return f"{burst} and {curve.rate_bps:,} bit/s"
    early = f"{burst}, {curve.peak_bps:,} bit/s for {_us(curve.knee_ns)}"
    return f"{early} and {curve.rate_bps:,} bit/s after"


def _reasons(network: Network, request: Request, algorithm: Algorithm) -> Iterator[Violation]:
    """Constraints that are violated, from the lowest level up."""
    tree, wanted = network.tree, request.vms
    total = int(network.free.sum())
    if request.hosts > wanted:
        text = f"{request.hosts:,} hosts > {wanted:,} VMs"
        yield Violation("hosts", "all hosts", request.hosts, wanted, text)
        return
    if total < wanted:
        text = f"{wanted:,} VMs > {total:,} free slots of all hosts"
        yield Violation("slots", "all hosts", wanted, total, text)
        return
    with_room = int(np.count_nonzero(network.free))
    if with_room < request.hosts:
        text = f"{request.hosts:,} hosts > {with_room:,} with free slots"
        yield Violation("hosts", "all hosts", request.hosts, with_room, text)
        return
    limit = request.guarantee.delay_ns if request.guarantee else None
    for level in range(len(tree.tiers)):
        capacity = network.path_capacity_ns(level)
        if limit is not None and algorithm == "silo" and capacity > limit:
            each = " + ".join(_us(each) for each in network.capacities_ns[: level + 1])
            text = (
                f"queue capacities of a path of {2 * level + 2} ports, 2 x ({each}), and its links "
                f"= {_us(capacity)} > d = {_us(limit)}"
            )
            yield Violation("delay", _part(level), capacity, limit, text)
            continue
        free = network.free_below(level + 1)
        root = int(np.argmax(free))
        if free[root] < wanted:
            text = f"{wanted:,} VMs > {int(free[root]):,} free slots {_part(level)}, at most"
            yield Violation("slots", _part(level), wanted, int(free[root]), text)
            continue
        tried = _by_slots(network, request, level, root)
        if tried is None:
            below = network.tree.hosts_below(level + 1, root)
            some = int(np.count_nonzero(network.free[below.start : below.stop]))
            text = f"{request.hosts:,} hosts > {some:,} with free slots {_part(level)}"
            yield Violation("hosts", _part(level), request.hosts, some, text)
            continue
        if network.level(tried) == level:
            yield from _worst(violations(network, request, tried, algorithm))


def _worst(found: Iterator[Violation]) -> Iterator[Violation]:
    """The constraint that is missed by the largest factor."""
    every = list(found)
    if every:
        yield max(every, key=lambda each: each.needed / max(each.available, 1))


def _by_slots(network: Network, request: Request, level: int, root: int) -> dict[int, int] | None:
    """A placement below a root that looks for slots only, on as many hosts as are needed, and
    that uses links of `level`."""
    below = network.tree.hosts_below(level + 1, root)
    hosts = [host for host in below if network.free[host]]
    found: dict[int, int] = {}
    rest = request.vms
    needed = max(request.hosts, 2)
    for host in hosts:
        kept_back = max(needed - len(found) - 1, 0)
        found[host] = min(int(network.free[host]), rest - kept_back)
        rest -= found[host]
        if rest == 0:
            break
    return found if rest == 0 and len(found) >= request.hosts else None


def _part(level: int) -> str:
    return ("in a rack", "in a pod", "across pods")[level]


def paths(network: Network, hosts: Mapping[int, int]) -> list[tuple[int, int, Path]]:
    """The bound between each two hosts of a tenant, in each direction, the longest first; of its
    first `MOST_HOSTS` hosts."""
    told = list(hosts)[:MOST_HOSTS]
    hops: dict[Port, Hop] = {}
    every = [(a, b, network.path(a, b, hops)) for a in told for b in told if a != b]
    return sorted(every, key=lambda each: (-each[2].bound_ns, each[0], each[1]))


def as_json(network: Network, decision: Decision, *, explain: bool) -> dict[str, Any]:
    """The explanation as JSON has it."""
    request, names = decision.request, network.tree.hosts
    about: dict[str, Any] = {"tenant": request.name, "vms": request.vms}
    if request.guarantee:
        about["guarantee"] = asdict(request.guarantee)
    if decision.hosts is None:
        refused = []
        for each in decision.refused:
            one = {key: getattr(each, key) for key in ("constraint", "where", "needed")}
            one |= {"available": each.available, "arithmetic": each.text}
            refused.append(one)
        return about | {"admitted": False, "refused": refused}
    found = []
    for source, destination, path in paths(network, decision.hosts):
        one = {"from": names[source], "to": names[destination], "bound_ns": path.bound_ns}
        one["capacity_ns"] = path.capacity_ns
        if explain:
            one["hops"] = [
                {
                    "port": network.port_name(hop.port),
                    "backlog_bytes": network.backlog_bytes(hop.port),
                    **{key: value for key, value in asdict(hop).items() if key != "port"},
                }
                for hop in path.hops
            ]
        found.append(one)
    placed = {names[host]: count for host, count in decision.hosts.items()}
    about["hosts_without_paths"] = max(0, len(placed) - MOST_HOSTS)
    return about | {"admitted": True, "hosts": placed, "paths": found}


def as_text(network: Network, decision: Decision, *, explain: bool) -> Iterator[str]:
    """The explanation for people, line by line."""
    request, names = decision.request, network.tree.hosts
    if decision.hosts is None:
        yield f"{request.name}: refused"
        for each in decision.refused:
            first, *more = each.text.split("; ")
            yield f"  {each.where}: {first}"
            yield from (f"    {line}" for line in more)
        return
    where = ", ".join(f"{names[host]} {count}" for host, count in decision.hosts.items())
    yield f"{request.name}: {request.vms} VMs: {where}"
    if request.guarantee is None:
        yield "  no guarantees: lower priority"
        return
    limit = request.guarantee.delay_ns
    kept = "" if limit is None else f", d = {_us(limit)}"
    found = paths(network, decision.hosts)
    for source, destination, path in found[:PATHS]:
        yield (
            f"  {names[source]} -> {names[destination]}: at most {_us(path.bound_ns)} now, "
            f"{_us(path.capacity_ns)} with any tenants{kept}"
        )
        if explain:
            yield from (f"    {_hop(network, hop)}" for hop in path.hops)
    if len(found) > PATHS:
        yield f"  and {len(found) - PATHS:,} paths with no higher bounds (--json has them)"
    if len(decision.hosts) > MOST_HOSTS:
        yield f"  paths are listed for the first {MOST_HOSTS} of {len(decision.hosts):,} hosts"


def _hop(network: Network, hop: Hop) -> str:
    table = network.tables[hop.port.tier, hop.port.direction]
    node = hop.port.node
    tenants = int(table.curves[node])
    of = f"{tenants} tenant{'' if tenants == 1 else 's'}"
    return (
        f"{network.port_name(hop.port)}: {_us(hop.delay_ns)} = {_us(hop.queue_ns)} queue "
        f"({network.backlog_bytes(hop.port):,} bytes of {of}) + {_us(hop.blocking_ns)} lower "
        f"priority + {_us(hop.propagation_ns)} link"
    )


def _us(time_ns: int) -> str:
    return f"{time_ns / 1e3:,.10g} us"
