"""How fast a fabric is simulated, what memory it takes, and that one seed gives one result."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ebb_experiments.bench.section import Context, Section
from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.scenario.loaded import all_at_once, scenario

RATE_BPS = 100_000_000_000
DELAY_NS = 1_000
MTU_BYTES = 1500
DILATION = 100
"""Dilation of the simulated fabric, which keeps v1model's microseconds fine enough for 100
Gbit/s."""
WINDOW_PACKETS = 128
"""Initial window: more than the 85 packets that are under way in a round trip of six links."""
SENDERS = 16
"""Hosts of an incast."""

HTSIM_K = 8
HTSIM_BYTES = 2_000_000
"""Bytes of a flow. htsim, a simulator in C++ without P4, takes 1.4 s for 128 hosts with one
each."""
PER_HOST_BYTES = {4: 5_000_000, 8: 1_000_000, 10: 1_000_000, 16: 500_000}
"""Bytes from each host by k: every run takes most of a second, so that the clock's ticks do not
matter."""
MEMORY_BYTES = 1_000_000
MEMORY_K = 10

TARGET_HOPS = 500_000
AIM_HOPS = 2_000_000
"""Packet-hops per second and core that are aimed at."""
TARGET_FLAT = 1.5
"""Cost per packet-hop at the largest fabric over that at the smallest, at most."""
TARGET_MB = 2_000


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one run. Set-up is everything until the clock starts."""

    hosts: int
    threads: int
    unfinished: int
    """How many flows failed or did not end."""
    packet_hops: int
    events: int
    simulated_ns: float
    """Nominal."""
    setup_seconds: float
    setup_mb: float
    seconds: float
    cpu_seconds: float
    """User and system time of the simulator while its clock ran."""
    peak_mb: float
    trace_hash: str

    @property
    def hops_per_second(self) -> float:
        """Packet-hops per second of time."""
        return self.packet_hops / max(self.seconds, 1e-9)

    @property
    def hops_per_core(self) -> float:
        """Packet-hops per second of processor time."""
        return self.packet_hops / max(self.cpu_seconds, 1e-9)

    @property
    def ns_per_hop(self) -> float:
        """Processor time per packet-hop, in ns."""
        return 1e9 / self.hops_per_core

    @property
    def cores(self) -> float:
        """Processors in use on average."""
        return self.cpu_seconds / max(self.seconds, 1e-9)


Workload = Callable[[int, int], dict[str, Any]]
"""Gives the keys of a workload for this many hosts, each of which sends this many bytes."""


def run(context: Context) -> Section:
    """Makes all runs one after the other, so that each has the machine for itself."""
    scale = 10 if context.quick else 1
    rows: list[tuple[str, int, Cost]] = []

    def measure(name: str, k: int, workload: Workload, size: int, threads: int = 1) -> Cost:
        cost = simulate(context, f"{name}-k{k}-threads{threads}", k, workload, size, threads)
        rows.append((name, k, cost))
        return cost

    size = HTSIM_BYTES // scale
    threads = (1, 2) if context.quick else (1, 2, 3)
    by_threads = {t: measure("htsim", HTSIM_K, permutation, size, t) for t in threads}
    sizes = list(PER_HOST_BYTES.items())
    flat = {
        k: measure("per host", k, permutation, size // scale)
        for k, size in sizes[: 2 if context.quick else None]
    }
    workloads: dict[str, Workload] = {"line rate": permutation, "incast": incasts}
    if context.quick:
        del workloads["line rate"]
    memory = [
        measure(name, MEMORY_K, workload, MEMORY_BYTES // scale)
        for name, workload in workloads.items()
    ]
    return Section(
        title="Fat-trees in virtual time: NDP, 100 Gbit/s, compiled fabric.p4 on every hop",
        parameters={
            "htsim_bytes": HTSIM_BYTES // scale,
            "mtu_bytes": MTU_BYTES,
            "delay_ns": DELAY_NS,
            "dilation": DILATION,
            "initial_window_packets": WINDOW_PACKETS,
        },
        columns=(
            "traffic",
            "k",
            "threads",
            "k hops",
            "k events",
            "s",
            "k hops/s",
            "per core",
            "ns/hop",
            "set-up s",
            "MB",
            "trace",
        ),
        names=3,
        rows=[
            (
                name,
                k,
                cost.threads,
                cost.packet_hops / 1e3,
                cost.events / 1e3,
                cost.seconds,
                cost.hops_per_second / 1e3,
                cost.hops_per_core / 1e3,
                cost.ns_per_hop,
                cost.setup_seconds,
                cost.peak_mb,
                cost.trace_hash[:4],
            )
            for name, k, cost in rows
        ],
        verdicts=_verdicts(by_threads, flat, memory),
        details=[{"traffic": name, "k": k} | asdict(cost) for name, k, cost in rows],
    )


def _verdicts(
    by_threads: dict[int, Cost], flat: dict[int, Cost], memory: Sequence[Cost]
) -> list[str]:
    one, two = by_threads[1], by_threads[2]
    ratio = flat[max(flat)].ns_per_hop / flat[min(flat)].ns_per_hop
    peak = max(cost.peak_mb for cost in memory)
    failed = [cost for cost in (*by_threads.values(), *flat.values(), *memory) if cost.unfinished]
    hashes = {cost.trace_hash for cost in by_threads.values()}
    return [
        f"{one.hops_per_core / 1e3:.0f}k packet-hops/s per core; the target is "
        f"{TARGET_HOPS / 1e3:.0f}k: {_reached(one.hops_per_core >= TARGET_HOPS)}, the aim "
        f"{AIM_HOPS / 1e3:.0f}k: {_reached(one.hops_per_core >= AIM_HOPS)}",
        f"two threads: {one.seconds / two.seconds:.2f} times as fast as one, {two.cores:.2f} "
        f"processors of {os.cpu_count()} used",
        f"the same trace with {', '.join(map(str, by_threads))} threads: "
        + ("yes" if len(hashes) == 1 else "NO"),
        *(f"{cost.unfinished} flows of {cost.hosts} did NOT finish" for cost in failed),
        f"cost per packet-hop from k = {min(flat)} to {max(flat)}: times {ratio:.2f}; the "
        f"target is flat, {TARGET_FLAT} at most: {_reached(ratio <= TARGET_FLAT)}",
        f"peak memory at k = {MEMORY_K}, all hosts busy: {peak:.0f} MB; the target is below "
        f"{TARGET_MB}: {_reached(peak < TARGET_MB)}",
    ]


def _reached(yes: bool) -> str:
    return "reached" if yes else "missed"


def permutation(hosts: int, size: int) -> dict[str, Any]:
    """Every host sends to another one and hears from another one, all at once."""
    return {"traffic": [all_at_once("permutation", {"type": "permutation"}, size)]}


def incasts(hosts: int, size: int) -> dict[str, Any]:
    """Every host sends, all at once: half of them in groups of `SENDERS` to one host each, the
    others a permutation."""
    groups = [f"incast-{number}" for number in range(hosts // 2 // SENDERS)]
    many: dict[str, Any] = {"type": "incast", "senders": SENDERS, "to": "others"}
    return {
        "group": [
            *({"name": group, "count": SENDERS} for group in groups),
            {"name": "others", "rest": True},
        ],
        "traffic": [
            *(all_at_once(group, many | {"from": group}, size // SENDERS) for group in groups),
            all_at_once("others", {"type": "permutation", "hosts": "others"}, size),
        ],
    }


def simulate(
    context: Context, name: str, k: int, workload: Workload, size: int, threads: int
) -> Cost:
    """Runs a scenario once."""
    scheme = {"agent": {"ndp": {"initial_window_packets": WINDOW_PACKETS}}}
    table = {
        "fat_tree": {"k": k, "rate_bps": RATE_BPS, "delay_ns": DELAY_NS},
        "schemes": ["ndp"],
        "override": {"ndp": scheme},
        "workload": workload(k**3 // 4, size),
        "dilation": DILATION,
        "mtu_bytes": MTU_BYTES,
    }
    directory = context.directory / name
    directory.mkdir()
    clock = Virtual(Binaries(context.agent.parent), threads)
    results = Run(scenario(table, name), "ndp", 1, clock, directory).go()
    run = results.run
    return Cost(
        hosts=run["topology"]["hosts"],
        threads=threads,
        unfinished=results.unfinished,
        packet_hops=run["packet_hops"],
        events=run["events"],
        simulated_ns=run["simulated_ns"],
        setup_seconds=run["setup_seconds"],
        setup_mb=run["setup_peak_bytes"] / 1e6,
        seconds=run["clock_seconds"],
        cpu_seconds=run["clock_cpu_seconds"],
        peak_mb=run["peak_bytes"] / 1e6,
        trace_hash=run["trace_hash"],
    )
