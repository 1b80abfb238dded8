"""Storage in the scavenger class makes no switch mark anything, where storage of DCTCP does."""

from __future__ import annotations

from pathlib import Path

import pytest
from binaries import BINARIES, needs_simulator
from ebb_experiments.run.run import Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.scenario.loaded import all_at_once, scenario

pytestmark = needs_simulator


@pytest.mark.parametrize(("scheme", "marks"), [("dctcp-trevi", False), ("dctcp", True)])
def test_marks_are_those_of_the_foreground(tmp_path: Path, scheme: str, marks: bool) -> None:
    # Short flows that alone never have K, 30 KB, in a queue; two objects that meet on their link.
    short = {
        "name": "foreground",
        "pattern": {"type": "random", "from": "client", "to": "server"},
        "arrivals": {"type": "poisson", "rate_per_host_hz": 500},
        "size": {"type": "fixed", "bytes": 10_000},
        "start_ns": 2_000_000,
        "count": 20,
    }
    stored = all_at_once("storage", {"type": "random", "from": "stores", "to": "server"}, 4_000_000)
    groups = {"client": ["h1"], "server": ["h2"], "stores": ["h3", "h4"]}
    table = {
        "single_rack": {"hosts": 4, "rate_bps": 1_000_000_000, "delay_ns": 10_000},
        "schemes": [scheme],
        "workload": {
            "group": [{"name": name, "hosts": hosts} for name, hosts in groups.items()],
            "traffic": [short, stored],
        },
    }
    loaded = scenario(table, "test")
    results = Run(loaded, scheme, loaded.spec.seeds[0], Virtual(BINARIES, 1), tmp_path).go()
    flows = results.flows
    assert {flow["traffic"] for flow in flows} == {"foreground", "storage"}
    assert all(flow["status"] == "finished" for flow in flows)
    assert (results.marks > 0) == marks
