"""Rounds that repeat each other are skipped as they run in full, with the program on every hop."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from binaries import BINARIES, needs_simulator
from ebb_experiments.results.results import Results
from ebb_experiments.run.run import Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.scenario.loaded import scenario
from ebb_topologies.files import InputError

SCHEMES = ("ndp", "dctcp", "tcp-droptail", "scdp", "hull", "trevi")
SCENARIOS = range(40 if os.environ.get("EBB_LONG") else 4)


def ring(size_bytes: int, step_ns: int, rate_bps: int = 100_000_000_000) -> dict[str, Any]:
    """A ring all-reduce of the 16 hosts of a fat-tree."""
    part = {
        "name": "ring",
        "pattern": {"type": "ring-all-reduce", "step_ns": step_ns},
        "arrivals": {"type": "once"},
        "size": {"type": "fixed", "bytes": size_bytes},
    }
    return {
        "fat_tree": {"k": 4, "rate_bps": rate_bps, "delay_ns": 1_000},
        "workload": {"traffic": [part]},
    }


def simulate(directory: Path, scheme: str, table: dict[str, Any], **keys: Any) -> Results:
    window = {"ndp": {"agent": {"ndp": {"initial_window_packets": 128}}}}
    override = window if scheme == "ndp" else {}
    loaded = scenario({"schemes": [scheme], "override": override, **table, **keys}, "test")
    (seed,) = loaded.spec.seeds
    return Run(loaded, scheme, seed, Virtual(BINARIES, 1), directory).go()


def assert_like(skipping: Results, full: Results) -> None:
    """Completion times within 1 %, and the order of those that end apart."""
    ours = {flow["transfer"]: flow for flow in skipping.flows}
    assert ours.keys() == {flow["transfer"] for flow in full.flows}
    for flow in full.flows:
        one = ours[flow["transfer"]]
        assert one["status"] == flow["status"] == "finished"
        assert (one["source"], one["destination"]) == (flow["source"], flow["destination"])
        for column in ("fct_ns", "finished_at_ns"):
            assert one[column] == pytest.approx(flow[column], rel=0.01), flow["transfer"]
    in_order = sorted(full.flows, key=lambda flow: flow["finished_at_ns"])
    latest = 0.0
    for flow in in_order:
        end = ours[flow["transfer"]]["finished_at_ns"]
        assert end > latest - flow["fct_ns"] / 4
        latest = max(latest, end)


@needs_simulator
@pytest.mark.parametrize("seed", SCENARIOS)
def test_a_random_ring_is_skipped_as_it_runs_in_full_or_not_at_all(
    tmp_path: Path, seed: int
) -> None:
    draws = random.Random(seed)
    scheme = SCHEMES[seed % len(SCHEMES)]
    table = ring(draws.randrange(12_000_000, 32_000_000), draws.choice([0, 20_000, 20_000]))
    full = simulate(tmp_path / "full", scheme, table, seed=seed)
    ours = simulate(tmp_path / "skip", scheme, table, seed=seed, skip=True)
    assert_like(ours, full)
    (skip,) = ours.run["skipping"]
    skipped = [flow for flow in ours.flows if flow["skipped"]]
    assert len(skipped) == skip["transfers"]
    print(scheme, skip)
    if skip["jumps"]:
        assert ours.run["packet_hops"] < full.run["packet_hops"]
    else:
        assert skip["refused"]
        assert ours.run["trace_hash"] == full.run["trace_hash"]


@needs_simulator
def test_most_of_a_long_ring_is_skipped_and_said_to_be(tmp_path: Path) -> None:
    table = ring(100_000_000, 20_000)
    one = simulate(tmp_path / "1", "ndp", table, skip=True)
    (skip,) = one.run["skipping"]
    assert skip["rounds"] >= 15
    assert skip["bytes"] == skip["transfers"] * 6_250_000
    assert {row["skipped_ns"] for row in one.rows("ports")} == {skip["skipped_ns"]}
    assert max(row["utilisation"] for row in one.rows("ports")) < 1.0
    event = {"at_ns": 9_000_000, "do": "reroute"}
    other = simulate(tmp_path / "2", "ndp", table, skip=True, event=[event])
    (step,) = other.run["steps"]
    assert (step["at_ns"], other.run["skipping"][0]["jumps"] >= 2) == (9_000_000, True)


@pytest.mark.parametrize(
    "keys",
    [
        {"arrivals_every_ns": 1_000_000},
        {"warm_up_ns": 1_000},
        {"volume_slot_ns": 1_000_000},
        {"event": [{"at_ns": 0, "do": "capture", "port": "p0e0:1"}]},
    ],
)
def test_what_would_be_left_out_unseen_is_refused(keys: dict[str, Any]) -> None:
    table = {"schemes": ["ndp"], **ring(1_000_000, 0), **keys}
    scenario(table, "test")
    with pytest.raises(InputError, match="skip: not with"):
        scenario({**table, "skip": True}, "test")
    with pytest.raises(InputError, match="skip: not with"):
        scenario(table, "test").skipping()
