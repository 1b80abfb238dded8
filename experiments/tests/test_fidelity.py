"""One scenario under both clocks: what is the same, and what only nearly is.

The wall clock runs so slowly here that a late wake-up of a process is small against the time of a
packet: at D = 500 a full-size packet takes 6 ms on the wire, and processes of a busy machine are
late by some 0.1 to 1 ms. What remains: agents start up to a few wake-ups late, the order in which
packets from several hosts meet at a port is not that of virtual time, and with it which of them
are trimmed or marked. So single flows change places, and a median with them (of the five of DCTCP
two are early, three late, or the other way round); the mean, the last end and the sums of counts
move by a few packets. The tolerances are about twice what was seen on a machine with eight times
more to do than processors.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from binaries import BINARIES, needs_root, needs_switches
from ebb_controller.mechanisms.counters import PORT_IN, PORT_OUT
from ebb_controller.mechanisms.trimming import TRIMMED
from ebb_experiments.results.results import Results
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.run import Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.run.wall import FabricSetup, Wall
from ebb_experiments.scenario.loaded import Loaded, all_at_once, scenario
from ebb_topologies.targets import target

pytestmark = [needs_root, needs_switches]

DILATION = 500


@dataclass(frozen=True)
class Tolerance:
    """How much the clocks may differ, as a share."""

    fct: float
    """Tolerance of the mean and of the last completion time."""
    counts: float
    """Tolerance of the trims, or of the marks and drops."""
    few: int = 10
    """Packets that may differ anyway."""


# Short enough that an incast overflows it.
SMALL_BUFFER = {
    "scheme": "tcp-droptail",
    "fabric": {"classes": [{"dscp": 0}], "ports": {"queue": [{"id": 0, "capacity_packets": 20}]}},
}


def load(scheme: str, traffics: list[dict[str, Any]]) -> Loaded:
    table = {
        "leaf_spine": {"leaves": 2, "spines": 1, "hosts_per_leaf": 3},
        "schemes": [scheme],
        "override": {"small-buffer": SMALL_BUFFER} if scheme == "small-buffer" else {},
        "workload": {"traffic": traffics},
        "dilation": DILATION,
    }
    return scenario(table, "fidelity")


def times(results: Results) -> list[float]:
    assert {flow["status"] for flow in results.flows} == {"finished"}, results.flows
    return sorted(flow["fct_ns"] for flow in results.flows)


def both(loaded: Loaded, scheme: str, directory: Path) -> tuple[Results, Results]:
    virtual = Run(loaded, scheme, 1, Virtual(BINARIES), directory / "virtual").go()
    fused = target("ebb", BINARIES.directory, fused=True)
    setup = FabricSetup(fused, BINARIES.program(loaded.topology), BINARIES, directory / "fabric")
    with LoopThread() as loop, Wall(loaded, setup, loop) as wall:
        return virtual, Run(loaded, scheme, 1, wall, directory / "wall").go()


def test_a_lone_flow_takes_the_same_time(tmp_path: Path) -> None:
    """Nothing competes, so only the lateness of processes is left."""
    loaded = load("ndp", [all_at_once("one", {"type": "incast", "senders": 1}, 100_000)])
    virtual, wall = both(loaded, "ndp", tmp_path)
    assert times(wall)[0] == pytest.approx(times(virtual)[0], rel=0.03)
    # Agents leave at the end: the receiver repeats that it has all and asks whether the sender
    # knows, which answers unless it has gone.
    asked = {2, 3}
    for counter in (PORT_IN.name, PORT_OUT.name):
        assert wall.total(counter) - virtual.total(counter) in asked
    assert wall.total(TRIMMED.name) == virtual.total(TRIMMED.name)


@pytest.mark.parametrize(
    ("scheme", "tolerance"),
    [
        ("ndp", Tolerance(fct=0.10, counts=0.15)),
        ("scdp", Tolerance(fct=0.10, counts=0.15)),
        # Windows of a few packets: a mark more or less changes the round after.
        ("dctcp", Tolerance(fct=0.15, counts=0.30)),
    ],
)
def test_an_incast_does_the_same(tmp_path: Path, scheme: str, tolerance: Tolerance) -> None:
    loaded = load(scheme, [all_at_once("incast", {"type": "incast", "senders": 5}, 60_000)])
    virtual, wall = both(loaded, scheme, tmp_path)
    ends = {(flow["source"], flow["destination"]) for flow in virtual.flows}
    assert ends == {(flow["source"], flow["destination"]) for flow in wall.flows}
    here, there = times(virtual), times(wall)
    assert mean(there) == pytest.approx(mean(here), rel=tolerance.fct)
    assert there[-1] == pytest.approx(here[-1], rel=tolerance.fct)
    for counts in (
        [results.total(TRIMMED.name) for results in (virtual, wall)],
        [results.marks for results in (virtual, wall)],
        [sum(results.losses.values()) for results in (virtual, wall)],
    ):
        assert counts[1] == pytest.approx(counts[0], rel=tolerance.counts, abs=tolerance.few)


def test_a_full_queue_drops_as_much(tmp_path: Path) -> None:
    """TCP over 20 packets of buffer. How long each flow takes is not compared: whether it waits
    for a timeout of 10 ms depends on which packets find the queue full, and so on their order."""
    loaded = load(
        "small-buffer", [all_at_once("incast", {"type": "incast", "senders": 20}, 30_000)]
    )
    virtual, wall = both(loaded, "small-buffer", tmp_path)
    assert set(virtual.losses) == set(wall.losses) == {"queue-full"}
    assert virtual.losses["queue-full"] > 100
    assert wall.losses["queue-full"] == pytest.approx(virtual.losses["queue-full"], rel=0.25)
