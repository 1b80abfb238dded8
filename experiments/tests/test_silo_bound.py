"""No conforming packet of an admitted tenant is ever later than its bound: pacer, hose, P4 and
traffic manager against the calculus of placement, over random sets of tenants."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
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
JUMBO_SEEDS = range(100, 160) if os.environ.get("EBB_LONG") else (100, 101, 103)
JUMBO_BURST = 15_000
"""A burst of one jumbo packet, but not two, bytes."""
JUMBO_PLACEMENT = PLACEMENT | {"queue_bytes": 150_000, "batch_ns": 140_000}


def once(pattern: str, size: int, **more: Any) -> dict[str, Any]:
    return {
        "pattern": pattern,
        "size": {"type": "fixed", "bytes": size},
        "arrivals": {"type": "once"},
        **more,
    }


def drawn(rng: random.Random, name: str, longest: int = 30_000) -> dict[str, Any]:
    """A tenant with messages of up to `longest` bytes; whether the network has room for it is
    another matter."""
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
        "messages": [once(pattern, rng.randint(200, longest), start_ns=rng.randrange(2_000_000))],
    }


def admitted(seed: int) -> Loaded:
    """A random set of tenants that is admitted, and one without guarantees that fills the links."""
    rng = random.Random(seed)

    def tables() -> dict[str, Any]:
        tenants = [drawn(rng, f"t{number}") for number in range(rng.randint(1, 4))]
        return {"placement": PLACEMENT, "tenant": [*tenants, bulk(60_000)]}

    return first_admitted(seed, tables)


def admitted_jumbo(seed: int) -> Loaded:
    """The same with packets of 8.4 to 8.6 KB."""
    rng = random.Random(seed)
    mtu = rng.randint(8_400, 8_600)

    def tables() -> dict[str, Any]:
        tenants = [drawn(rng, f"t{number}", 100_000) for number in range(rng.randint(1, 4))]
        tenants = [tenant | {"burst_bytes": JUMBO_BURST} for tenant in tenants]
        keys = {"placement": JUMBO_PLACEMENT, "tenant": [*tenants, bulk(100_000)]}
        return keys | {"mtu_bytes": mtu}

    return first_admitted(seed, tables)


def bulk(message_bytes: int) -> dict[str, Any]:
    messages = [once("all-to-all", message_bytes)]
    return {"name": "bulk", "vms": 6, "hosts": 6, "messages": messages}


def first_admitted(seed: int, tables: Callable[[], dict[str, Any]]) -> Loaded:
    fabric = FABRICS[seed % len(FABRICS)]
    keys = {"schemes": ["silo"], "limit_ns": 2_000_000_000}
    while True:
        try:
            return scenario(tables() | fabric | keys, f"seed-{seed}")
        except InputError as error:
            assert "refused" in str(error), f"seed {seed}: {error}"


def run(loaded: Loaded, folder: Path) -> Results:
    clock = Virtual(BINARIES, threads=1)
    return Run(loaded, "silo", 1, clock, folder).go()


@needs_simulator
@pytest.mark.parametrize("seed", SEEDS)
def test_no_conforming_packet_is_later_than_its_bound(seed: int, tmp_path: Path) -> None:
    check(admitted(seed), seed, tmp_path)


@needs_simulator
@pytest.mark.parametrize("seed", JUMBO_SEEDS)
def test_no_jumbo_packet_is_later_than_its_bound(seed: int, tmp_path: Path) -> None:
    check(admitted_jumbo(seed), seed, tmp_path)


def check(loaded: Loaded, seed: int, tmp_path: Path) -> None:
    results = run(loaded, tmp_path)
    assert results.unfinished == 0, (seed, results.reasons)
    rows = [row for row in results.rows("tenants") if row["bound_ns"] is not None]
    assert sum(row["packets"] for row in rows) > 10
    late = [row for row in rows if row["longest_ns"] > row["bound_ns"]]
    assert not late, f"seed {seed}: {late[0]}"
    assert results.total("policed_yellow") == results.total("policed_red") == 0
    hypervisors = results.run["hypervisors"]
    sent = sum(each["void_frames"] for each in hypervisors)
    # Some are on the wire when the run ends: of each host one that leaves, and one that has left.
    assert 0 <= sent - results.total("void_in") <= 2 * len(hypervisors)


@needs_simulator
@pytest.mark.parametrize(
    ("mtu", "message_bytes", "rate_bps", "placement"),
    [(1_500, 1_300, 2_000_000, PLACEMENT), (8_500, 8_300, 12_000_000, JUMBO_PLACEMENT)],
)
def test_without_the_packet_in_service_the_bound_is_broken(
    mtu: int, message_bytes: int, rate_bps: int, placement: dict[str, Any], tmp_path: Path
) -> None:
    """Three VMs send a full packet each to one whose port is busy with lower priority."""
    sharp = {
        "name": "sharp",
        "vms": 4,
        "rate_bps": rate_bps,
        "burst_bytes": mtu + 38,
        "peak_bps": LINK,
        "at": ["h1", "h2", "h3", "h4"],
        "messages": [
            {
                "pattern": "all-to-one",
                "size": {"type": "fixed", "bytes": message_bytes},
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
        "placement": placement | {"hose_ns": 10_000_000},
        "tenant": [sharp, bulk],
        "limit_ns": 1_000_000_000,
    }
    loaded = scenario(table | {"mtu_bytes": mtu}, "sharp")
    assert loaded.tenancy is not None
    rows = run(loaded, tmp_path).rows("tenants")
    to_first = [row for row in rows if row["destination"] == "sharp-1"]
    hops = path_bound(loaded.tenancy.network, "h2", "h1").hops
    bound = sum(hop.delay_ns for hop in hops)
    longest = max(row["longest_ns"] for row in to_first)
    assert bound - sum(hop.blocking_ns for hop in hops) < longest <= bound
