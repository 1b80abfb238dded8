"""A whole fabric in real time: a permutation of full-size packets at line rate, agents included."""

from __future__ import annotations

import shutil
from typing import Any

from ebb_controller.mechanisms import FabricParameters
from ebb_topologies.traffic_manager import PortParameters, QueueParameters

from ebb_experiments.bench.fabric_net import COALESCE_US, BenchFabric, Cpu, Kind, Load
from ebb_experiments.bench.fabric_transports import (
    AGENT_COALESCE_US,
    CATCH_UP_PACKETS,
    SCHEMES,
    WINDOW_PACKETS,
    Transfers,
    permutation,
    transfer,
)
from ebb_experiments.bench.section import Cell, Context, Section

LINE_BPS = 100_000_000
PACKET_BYTES = 1500
TARGET = 0.95
"""Share of the packets that must be delivered."""
QUEUE_PACKETS = 4000
"""Capacity of a queue, so long that queues of chance fit: at full load they grow as a random walk
does."""
PARAMETERS = FabricParameters(
    ports=PortParameters(queue=[QueueParameters(id=0, capacity_packets=QUEUE_PACKETS)])
)
SEARCH_LINK_BPS = 10_000_000_000
"""Rate of the links where the rate that the machine can do is looked for: no limit of their own."""
SEARCH_PRECISION = 0.05
SLOWEST_BPS = 500_000
SHARED = "ebb, shared"
"""The switches whose hosts share memory with them."""
SHARED_AIM_BPS = 250_000_000
LONG_SECONDS = 20.0
"""Length of a second run at line rate: what falls behind slowly has lost packets by then."""
REASONS_SHOWN = 3


def run(context: Context) -> Section:
    """Measures one load after another on each switch, then transfers of the schemes."""
    seconds = 2.0 if context.quick else 5.0
    kinds = [Kind("ebb", "ebb"), Kind(SHARED, "ebb", rings=True)]
    if shutil.which("simple_switch_grpc") is not None:
        kinds.append(Kind("bmv2", "bmv2", fused=False))
    rows: list[tuple[Cell, ...]] = []
    details: dict[str, Any] = {}
    best: dict[str, Load | None] = {}
    at_line: dict[str, Load] = {}
    long_runs: dict[str, Load] = {}
    transfers: list[Transfers] = []
    loaded = permutation(LINE_BPS, 1.0 if context.quick else seconds)
    for kind in kinds:
        switch = kind.name
        with BenchFabric(context, kind, loaded) as fabric:
            fabric.configure(PARAMETERS)
            at_line[switch] = fabric.load(LINE_BPS, seconds, PACKET_BYTES)
            rows.append(_row(switch, "line rate", at_line[switch]))
            if fabric.has_traffic_manager and not context.quick:
                long = fabric.load(LINE_BPS, LONG_SECONDS, PACKET_BYTES)
                rows.append(_row(switch, f"line rate, {LONG_SECONDS:g} s", long))
                long_runs[f"{switch}, {LONG_SECONDS:g} s,"] = long
            if fabric.has_traffic_manager:
                for scheme in SCHEMES:
                    done = transfer(fabric, scheme)
                    rows.append(_transfer_row(switch, done))
                    transfers.append(done)
                fabric.configure(PARAMETERS)
                fabric.set_rate(SEARCH_LINK_BPS, PARAMETERS)
            precision = 0.2 if context.quick else SEARCH_PRECISION
            tried = search(fabric, at_line[switch], seconds / 2.5, precision)
            best[switch] = max(
                (load for load in tried if load.delivered >= TARGET),
                key=lambda load: load.rate_bps,
                default=None,
            )
            if (found := best[switch]) is not None:
                rows.append(_row(switch, "limit", found))
            if kind.rings and not context.quick:
                aim = fabric.load(SHARED_AIM_BPS, LONG_SECONDS, PACKET_BYTES)
                rows.append(_row(switch, f"aim, {LONG_SECONDS:g} s", aim))
                details["aim"] = aim.as_json()
            details[switch] = {
                "line_rate": at_line[switch].as_json(),
                "search": [load.as_json() for load in tried],
            }
    return Section(
        title=f"k=4 fat-tree in real time: 16 hosts, permutation of {PACKET_BYTES}-byte packets",
        parameters={
            "line_bps": LINE_BPS,
            "queue_packets": QUEUE_PACKETS,
            "seconds": seconds,
            "processes": "ebb: 1, bmv2: 20",
            "hosts": f"{SHARED}: agents share memory with the switches; others: veths",
            "transfers": f"windows of ndp and scdp {WINDOW_PACKETS} packets, nic.catch_up_packets "
            f"{CATCH_UP_PACKETS}",
            "coalesce_us": f"switches {COALESCE_US}, agents {AGENT_COALESCE_US} (load: 1000)",
            "limit": f"highest rate with {100 * TARGET:.0f} % delivered, links not limited",
        },
        columns=(
            "switches: load",
            "Mbit/s each",
            "delivered %",
            "packets/s",
            "delay ms",
            "CPUs: switches",
            "agents",
            "all",
            "us/hop",
        ),
        rows=rows,
        verdicts=[*_verdicts(at_line, long_runs, best), *map(_transfer_verdict, transfers)],
        details=details
        | {"long": {name: load.as_json() for name, load in long_runs.items()}}
        | {"transfers": [done.as_json() for done in transfers]},
    )


def search(fabric: BenchFabric, at_line: Load, seconds: float, precision: float) -> list[Load]:
    """Loads on the way to the highest rate that still arrives: doubled or halved, then halved
    intervals."""
    tried: list[Load] = []

    def arrives(rate_bps: float) -> bool:
        tried.append(fabric.load(rate_bps, seconds, PACKET_BYTES))
        return tried[-1].delivered >= TARGET

    low, high = 0.0, float("inf")
    # Where more arrives than that, it is not tried in vain.
    rate = at_line.rate_bps if at_line.delivered >= TARGET else at_line.rate_bps * at_line.delivered
    while low == 0.0 or high == float("inf"):
        if arrives(rate):
            low, rate = rate, rate * 2 if high == float("inf") else rate
        else:
            high, rate = rate, rate / 2 if low == 0.0 else rate
        if low == 0.0 and rate < SLOWEST_BPS:
            return tried
    while high / low > 1 + precision:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if arrives(middle) else (low, middle)
    return tried


def _row(switch: str, what: str, load: Load) -> tuple[Cell, ...]:
    return (
        f"{switch}: {what}",
        load.rate_bps / 1e6,
        100 * load.delivered,
        round(load.packets_per_second),
        load.delay_p50_ns / 1e6,
        *_shares(load.cpu),
        load.switch_us_per_hop,
    )


def _shares(cpu: Cpu) -> tuple[float, ...]:
    """Processors that switches, agents and all processes kept busy."""
    return tuple(each / cpu.clock for each in (cpu.switches, cpu.agents, cpu.machine))


def _transfer_row(switch: str, done: Transfers) -> tuple[Cell, ...]:
    return (
        f"{switch}: {done.scheme}",
        done.mean_bps / 1e6,
        None,
        None,
        None,
        *_shares(done.cpu),
        None,
    )


def _transfer_verdict(done: Transfers) -> str:
    slowest = min(done.goodput_bps, default=0.0)
    lost = {reason: count for reason, count in done.drops.items() if count > 0}
    return (
        f"{done.scheme}: goodput {100 * done.mean_bps / LINE_BPS:.0f} % of the line on average, "
        f"{100 * slowest / LINE_BPS:.0f} % for the slowest of {len(done.goodput_bps)} flows, "
        f"{done.failed} failed; dropped: {lost or 'none'}"
    )


def _drops(load: Load) -> str:
    """Packets that were lost, by who lost them."""
    lost = dict(load.drops)
    lost["not sent in time"] = load.offered - load.sent
    lost["agents' buffers"] = load.agent_drops
    found = sorted(((n, reason) for reason, n in lost.items() if n > 0), reverse=True)
    return ", ".join(f"{reason} {n}" for n, reason in found[:REASONS_SHOWN]) or "none"


def _verdicts(
    at_line: dict[str, Load], long_runs: dict[str, Load], best: dict[str, Load | None]
) -> list[str]:
    load = at_line["ebb"]
    every = at_line | long_runs
    verdicts = [f"{name} at line rate, lost: {_drops(run)}" for name, run in every.items()]
    for name, ours in every.items():
        if name == "bmv2":
            continue
        reached = ours.delivered >= TARGET and not any(ours.drops.values())
        verdicts.append(
            f"{name}: {100 * ours.delivered:.1f} % delivered at line rate on all hosts in "
            f"{ours.seconds:g} s, {sum(ours.drops.values())} packets dropped by switches; the "
            f"target is {100 * TARGET:.0f} % and none: " + ("reached" if reached else "missed")
        )
    if (found := best[SHARED]) is not None:
        verdicts.append(
            f"limit with shared memory: {found.rate_bps / 1e6:.0f} Mbit/s each; the aim is "
            f"{SHARED_AIM_BPS / 1e6:.0f}: "
            + ("reached" if found.rate_bps >= SHARED_AIM_BPS else "missed")
        )
    if "bmv2" in at_line:
        other = at_line["bmv2"]
        verdicts.append(
            f"packets delivered at that load: {load.received / max(1, other.received):.1f} times "
            "those of BMv2"
        )
        limit, theirs = best["ebb"], best["bmv2"]
        if limit is not None and theirs is not None:
            verdicts.append(f"limit: {limit.rate_bps / theirs.rate_bps:.1f} times that of BMv2")
    return verdicts
