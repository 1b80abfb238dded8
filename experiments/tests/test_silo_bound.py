"""No conforming packet of an admitted tenant is ever later than its bound: pacer, hose, P4 and
traffic manager against the calculus of placement, over random sets of tenants."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from binaries import BINARIES, needs_simulator
from ebb_controller.placement.network import path_bound
from ebb_experiments.results.results import Results
from ebb_experiments.run.run import Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.scenario.loaded import Loaded, scenario
from ebb_topologies.files import InputError

SEEDS = range(60) if os.environ.get("EBB_LONG") else (0, 1, 2, 15, 47)
"""15: a packet without a guarantee leaves a void frame and a bit more of their room. 47: a small
packet comes in front of a full one that has lost its rate."""
LINK = 1_000_000_000
FABRICS: list[dict[str, Any]] = [
    {"single_rack": {"hosts": 6}},
    {"leaf_spine": {"leaves": 3, "spines": 2, "hosts_per_leaf": 2}},
    {"fat_tree": {"k": 4}},
]
PLACEMENT = {"queue_bytes": 62_500, "vms_per_host": 4, "hose_ns": 2_000_000}


def once(pattern: str, size: int, **more: Any) -> dict[str, Any]:
    return {
        "pattern": pattern,
        "size": {"type": "fixed", "bytes": size},
        "arrivals": {"type": "once"},
        **more,
    }


def drawn(rng: random.Random, name: str) -> dict[str, Any]:
    """A tenant; whether the network has room for it is another matter."""
    rate = rng.randrange(20, 120) * 1_000_000
    vms = rng.randint(2, 6)
    pattern = rng.choice(("all-to-one", "all-to-all", "aggregator"))
    return {
        "name": name,
        "vms": vms,
        "rate_bps": rate,
        "burst_bytes": rng.randint(1_538, 9_000),
        "peak_bps": rng.choice((rate, 4 * rate, LINK)),
        "hosts": rng.randint(2, min(vms, 4)),
        "messages": [once(pattern, rng.randint(200, 30_000), start_ns=rng.randrange(2_000_000))],
    }


def admitted(seed: int) -> Loaded:
    """A random set of tenants that is admitted, and one without guarantees that fills the links."""
    rng = random.Random(seed)
    fabric = FABRICS[seed % len(FABRICS)]
    bulk = {"name": "bulk", "vms": 6, "hosts": 6, "messages": [once("all-to-all", 60_000)]}
    while True:
        tenants = [drawn(rng, f"t{number}") for number in range(rng.randint(1, 4))]
        table = {"schemes": ["silo"], "placement": PLACEMENT, "tenant": [*tenants, bulk]}
        try:
            return scenario(table | fabric | {"limit_ns": 2_000_000_000}, f"seed-{seed}")
        except InputError as error:
            assert "refused" in str(error), f"seed {seed}: {error}"


def run(loaded: Loaded, folder: Path) -> Results:
    clock = Virtual(BINARIES, threads=1)
    return Run(loaded, "silo", 1, clock, folder).go()


@needs_simulator
@pytest.mark.parametrize("seed", SEEDS)
def test_no_conforming_packet_is_later_than_its_bound(seed: int, tmp_path: Path) -> None:
    loaded = admitted(seed)
    results = run(loaded, tmp_path)
    assert results.unfinished == 0, (seed, results.reasons)
    rows = [row for row in results.rows("tenants") if row["bound_ns"] is not None]
    assert sum(row["packets"] for row in rows) > 10
    late = [row for row in rows if row["longest_ns"] > row["bound_ns"]]
    assert not late, f"seed {seed}: {late[0]}"
    assert results.total("policed_yellow") == results.total("policed_red") == 0
    sent = sum(each["void_frames"] for each in results.run["hypervisors"])
    assert results.total("void_in") == sent


@needs_simulator
def test_without_the_packet_in_service_the_bound_is_broken(tmp_path: Path) -> None:
    """Three VMs send a full packet each to one whose port is busy with lower priority."""
    sharp = {
        "name": "sharp",
        "vms": 4,
        "rate_bps": 2_000_000,
        "burst_bytes": 1_538,
        "peak_bps": LINK,
        "at": ["h1", "h2", "h3", "h4"],
        "messages": [
            {
                "pattern": "all-to-one",
                "size": {"type": "fixed", "bytes": 1_300},
                "arrivals": {"type": "periodic", "period_ns": 20_000_000},
                "start_ns": 5_000_000,
                "stop_ns": 300_000_000,
            }
        ],
    }
    bulk = {
        "name": "bulk",
        "vms": 2,
        "at": ["h1", "h5"],
        "messages": [once("all-to-one", 30_000_000)],
    }
    table = {
        "schemes": ["silo"],
        "single_rack": {"hosts": 6},
        "placement": PLACEMENT | {"hose_ns": 10_000_000},
        "tenant": [sharp, bulk],
        "limit_ns": 1_000_000_000,
    }
    loaded = scenario(table, "sharp")
    assert loaded.tenancy is not None
    rows = run(loaded, tmp_path).rows("tenants")
    to_first = [row for row in rows if row["destination"] == "sharp-1"]
    hops = path_bound(loaded.tenancy.network, "h2", "h1").hops
    bound = sum(hop.delay_ns for hop in hops)
    longest = max(row["longest_ns"] for row in to_first)
    assert bound - sum(hop.blocking_ns for hop in hops) < longest <= bound
