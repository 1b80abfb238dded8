"""Large fabrics in virtual time, a small flow from each host: they are set up, run and end, within
bounds of memory.

k = 16 in every run of the tests; k = 24 and 32 with `EBB_LONG=1`, as in `make test-long`.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest
from binaries import BINARIES, needs_simulator
from ebb_controller import reconcile
from ebb_controller.session import Session
from ebb_experiments.run.run import Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.scenario.loaded import all_at_once, scenario

LONG = os.environ.get("EBB_LONG", "0") not in ("", "0")
FLOW_BYTES = 1_000

SIZES = [
    pytest.param(16, 400, id="k16"),
    *(
        pytest.param(
            k, mb, id=f"k{k}", marks=pytest.mark.skipif(not LONG, reason="EBB_LONG=1 runs it")
        )
        for k, mb in ((24, 1_000), (32, 2_000))
    ),
]
"""Ports of a switch of the fat-tree, and megabytes that the simulator may take."""


@needs_simulator
@pytest.mark.parametrize(("k", "most_mb"), SIZES)
def test_a_flow_from_every_host_of_a_large_fabric(
    k: int, most_mb: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushed: list[str] = []

    async def push(session: Session, **_: Any) -> None:
        pushed.append(session.name)

    reads: list[str] = []
    read = reconcile._read

    async def counted(switch: Session, *arguments: Any) -> Any:
        reads.append(switch.name)
        return await read(switch, *arguments)

    monkeypatch.setattr(Session, "_set_pipeline_config_request", push)
    monkeypatch.setattr(reconcile, "_read", counted)
    table = {
        "fat_tree": {"k": k, "rate_bps": 100_000_000_000, "delay_ns": 1_000},
        "schemes": ["ndp"],
        "workload": {"traffic": [all_at_once("all", {"type": "permutation"}, FLOW_BYTES)]},
        "dilation": 100,
    }
    results = Run(scenario(table, "large"), "ndp", 1, Virtual(BINARIES), tmp_path).go()
    hosts = k**3 // 4
    assert results.run["topology"]["switches"] == 5 * k**2 // 4
    assert [flow["status"] for flow in results.flows] == ["finished"] * hosts
    # A pod of racks, an aggregation switch and a core in between, and back.
    assert results.run["packet_hops"] > 3 * hosts
    assert pushed == [], "the switches have the program from the start"
    assert len(reads) == len(set(reads)) == 5 * k**2 // 4, "each once, after it was written to"
    simulator_mb = results.run["peak_bytes"] / 1e6
    our_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
    about = {key: round(results.run[f"{key}_seconds"], 1) for key in ("setup", "clock", "wall")}
    print(f"k = {k}: {about} s; simulator {simulator_mb:.0f} MB, Python {our_mb:.0f} MB")
    assert simulator_mb < most_mb
