"""How fast a fabric is simulated, what memory it takes, and that one seed gives one result."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ebb_controller.controller import Controller, Program
from ebb_controller.scheme import Scheme, load_scheme
from ebb_controller.traffic_manager import TrafficManagers
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Topology, from_table

from ebb_experiments.bench.section import Context, Section
from ebb_experiments.run.agents import agent_parameters
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.simulator import FlowSpec, Simulator

RATE_BPS = 100_000_000_000
DELAY_NS = 1_000
MTU_BYTES = 1500
DILATION = Dilation(100)
"""Dilation of the simulated fabric, which keeps v1model's microseconds fine enough for 100
Gbit/s."""
WINDOW_PACKETS = 128
"""Initial window: more than the 85 packets that are under way in a round trip of six links."""
SEED = 1
LIMIT_NS = 1_000_000_000
"""Nominal time after which a run is given up."""

HTSIM_K = 8
HTSIM_BYTES = 2_000_000
"""Bytes of a flow. htsim, a simulator in C++ without P4, takes 1.4 s for 128 hosts with one
each."""
PER_HOST_BYTES = {4: 5_000_000, 8: 1_000_000, 10: 1_000_000, 16: 500_000}
"""Bytes from each host by k: so many that every run takes most of a second, and the clock's ticks
do not matter."""
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
    """What one run took. Set-up is everything until the clock starts."""

    hosts: int
    threads: int
    unfinished: int
    """How many flows failed or did not end."""
    packet_hops: int
    events: int
    simulated_us: float
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
        return self.packet_hops / max(self.seconds, 1e-9)

    @property
    def hops_per_core(self) -> float:
        """Packet-hops per second of processor time."""
        return self.packet_hops / max(self.cpu_seconds, 1e-9)

    @property
    def ns_per_hop(self) -> float:
        return 1e9 / self.hops_per_core

    @property
    def cores(self) -> float:
        return self.cpu_seconds / max(self.seconds, 1e-9)


Pattern = Callable[[Topology, int], list[FlowSpec]]
"""Makes the flows of a topology, of so many bytes from each host."""


def run(context: Context) -> Section:
    """Makes all runs one after the other, so that each has the machine for itself."""
    for name in ("finsy", "ebb_controller"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    bench = _Bench(context)
    scale = 10 if context.quick else 1
    rows: list[tuple[str, int, Cost]] = []

    def measure(name: str, k: int, pattern: Pattern, size: int, threads: int = 1) -> Cost:
        topology = fat_tree(k)
        label = f"{name}-k{k}-threads{threads}"
        cost = bench.measure(label, topology, pattern(topology, size), threads)
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
    patterns = {"line rate": permutation, "incast": incast_mix}
    if context.quick:
        del patterns["line rate"]
    memory = [
        measure(name, MEMORY_K, pattern, MEMORY_BYTES // scale)
        for name, pattern in patterns.items()
    ]
    return Section(
        title="Fat-trees in virtual time: NDP, 100 Gbit/s, compiled fabric.p4 on every hop",
        parameters={
            "htsim_bytes": HTSIM_BYTES // scale,
            "mtu_bytes": MTU_BYTES,
            "delay_ns": DELAY_NS,
            "dilation": DILATION.factor,
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


def fat_tree(k: int) -> Topology:
    """Nominal."""
    table = {
        "fat_tree": {"k": k},
        "link_defaults": {"rate_bps": RATE_BPS, "delay_ns": DELAY_NS},
    }
    return from_table(table, f"fat-tree-k{k}")


def permutation(topology: Topology, size: int) -> list[FlowSpec]:
    """Every host sends to another one and hears from another one, all at once."""
    names = [host.name for host in topology.hosts]
    random.Random(SEED).shuffle(names)
    # One cycle through all hosts: nobody sends to itself.
    return [
        FlowSpec(
            id=n, source=source, destination=names[(n + 1) % len(names)], bytes=size, start_at_ns=0
        )
        for n, source in enumerate(names)
    ]


def incast_mix(topology: Topology, size: int, senders: int = 16) -> list[FlowSpec]:
    """Every host sends; half of them in groups of `senders` to one host each."""
    flows = permutation(topology, size)
    half = len(flows) // 2 // senders * senders
    sinks = [flow.destination for flow in flows[half::2]]
    return [
        FlowSpec(
            id=flow.id,
            source=flow.source,
            destination=sinks[flow.id // senders] if flow.id < half else flow.destination,
            bytes=size // senders if flow.id < half else size,
            start_at_ns=0,
        )
        for flow in flows
    ]


@dataclass(slots=True)
class _Bench:
    context: Context

    def measure(
        self, name: str, topology: Topology, flows: Sequence[FlowSpec], threads: int
    ) -> Cost:
        started = time.monotonic()
        build = self.context.agent.parent
        scheme = _scheme()
        slowed = DILATION.topology(topology)
        nominal = agent_parameters(
            self.context.agent, scheme, rate_bps=RATE_BPS, mtu_bytes=MTU_BYTES
        )
        parameters = DILATION.slow(nominal)
        told: list[dict[str, Any]] = []
        simulator = Simulator(
            build / "ebb-simulator",
            slowed,
            scheme.transport,
            parameters,
            scheme.fabric,
            flows,
            self.context.directory / name,
            seed=SEED,
            threads=threads,
            records=told,
        )
        program = Program(build / "fabric.p4info.txtpb", build / "fabric.json")
        with simulator, LoopThread() as loop:
            managers = TrafficManagers(slowed)
            # The controller's own work is no part of what is measured.
            controller = Controller(slowed, program, "bytes", traffic_managers=managers)
            with loop.inside(controller):
                loop.run(controller.configure(scheme.fabric))
            loop.run(managers.close())
            setup, before = time.monotonic() - started, _Usage.of(simulator.pid)
            pause = simulator.run(round(DILATION.time(LIMIT_NS)), until_flows_end=True)
            after = _Usage.of(simulator.pid)
            trace_hash = simulator.report()
        done = [record for record in told if record["role"] == "sender"]
        return Cost(
            hosts=len(topology.hosts),
            threads=threads,
            unfinished=len(flows) - sum(record["status"] == "finished" for record in done),
            packet_hops=pause.packet_hops,
            events=pause.events,
            simulated_us=pause.at_ns / DILATION.factor / 1e3,
            setup_seconds=setup,
            setup_mb=before.peak_mb,
            seconds=pause.seconds,
            cpu_seconds=after.cpu_seconds - before.cpu_seconds,
            peak_mb=after.peak_mb,
            trace_hash=trace_hash,
        )


def _scheme() -> Scheme:
    scheme = load_scheme("ndp")
    agent = scheme.agent | {"ndp": {"initial_window_packets": WINDOW_PACKETS}}
    return scheme.model_copy(update={"agent": agent})


@dataclass(frozen=True, slots=True)
class _Usage:
    """What a process has used, threads that have ended included."""

    cpu_seconds: float
    peak_mb: float

    @classmethod
    def of(cls, pid: int) -> _Usage:
        proc = Path(f"/proc/{pid}")
        # The name of the program, in parentheses, may contain anything.
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        return cls(
            cpu_seconds=(user + system) / os.sysconf("SC_CLK_TCK"),
            peak_mb=int(status["VmHWM"].split()[0]) * 1024 / 1e6,
        )
