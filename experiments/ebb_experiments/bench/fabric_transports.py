"""The permutation as transfers: an object from every host to another one, by scheme."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ebb_experiments.bench.fabric_net import BenchFabric, Cpu
from ebb_experiments.results.tables import BY_SENDER
from ebb_experiments.run.run import Run
from ebb_experiments.scenario.loaded import Loaded, all_at_once, scenario

SCHEMES = ("dctcp", "ndp", "scdp")
NOMINAL_BPS = 1_000_000_000
"""Rate of the links for which the parameters of the schemes are."""
NOMINAL_DELAY_NS = 10_000
AGENT_COALESCE_US = 250
"""How long what arrives or is due waits for more at the agents."""
WINDOW_PACKETS = 64
"""Initial window of the receiver-driven schemes: it has to cover the time that processes need to
wake each other, too, which a network of hardware does not have."""
CATCH_UP_PACKETS = 8
"""How many packets a process that comes late may send at once; the queues of ndp hold no more."""
SLOWEST = 20
"""A flow is given up after this many times its duration at line rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """Transfers of one object per host, all at the same time."""

    scheme: str
    object_bytes: int
    goodput_bps: list[float]
    """Goodput of each flow that finished, from its start to its last byte."""
    failed: int
    counters: dict[str, int]
    """Counters of the senders."""
    drops: dict[str, int]
    cpu: Cpu

    @property
    def mean_bps(self) -> float:
        """Mean over the objects; 0 without any."""
        return sum(self.goodput_bps) / max(1, len(self.goodput_bps))

    def as_json(self) -> dict[str, Any]:
        """All fields."""
        return dataclasses.asdict(self)


def permutation(line_bps: int, seconds: float) -> Loaded:
    """A k=4 fat-tree as much slower than nominal as its links are, and objects that take `seconds`
    at line rate."""
    dilation = NOMINAL_BPS / line_bps
    window = {"initial_window_packets": WINDOW_PACKETS}
    agent = {
        "engine": {"coalesce_microseconds": AGENT_COALESCE_US},
        "nic": {"catch_up_packets": CATCH_UP_PACKETS},
        "ndp": window,
        "scdp": window,
    }
    size_bytes = round(line_bps * seconds / 8)
    table = {
        "fat_tree": {"k": 4, "rate_bps": NOMINAL_BPS, "delay_ns": NOMINAL_DELAY_NS},
        "schemes": SCHEMES,
        "override": {scheme: {"agent": agent} for scheme in SCHEMES},
        "workload": {"traffic": [all_at_once("permutation", {"type": "permutation"}, size_bytes)]},
        "dilation": dilation,
        "limit_ns": round((SLOWEST * seconds + 10) * 1e9 / dilation),
    }
    return scenario(table, "bench fabric")


def transfer(fabric: BenchFabric, scheme: str) -> Transfers:
    """Has every host send its object."""
    loaded = fabric.loaded
    results = Run(loaded, scheme, 1, fabric, fabric.directory / scheme).go()
    finished = [flow for flow in results.flows if flow["status"] == "finished"]
    times_ns = [
        loaded.dilation.time(flow["finished_at_ns"] - flow["started_at_ns"]) for flow in finished
    ]
    sizes = [flow["bytes"] for flow in finished]
    return Transfers(
        scheme=scheme,
        object_bytes=max(flow["bytes"] for flow in results.flows),
        goodput_bps=[size * 8e9 / ns for size, ns in zip(sizes, times_ns, strict=True)],
        failed=results.unfinished,
        counters={key: sum(flow[key] or 0 for flow in finished) for key in BY_SENDER},
        drops=results.losses,
        cpu=fabric.metered.cpu,
    )
