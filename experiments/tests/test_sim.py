"""Virtual time, end to end: the controller configures simulated switches, hosts talk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet
import pytest
from ebb_experiments.sim.progress import expectation
from ebb_experiments.sim.results import SCHEMAS, Results
from ebb_experiments.sim.run import Binaries, Run
from ebb_experiments.sim.scenario import SimScenario, resolve
from ebb_experiments.sim.simulator import SimulatorError
from ebb_topologies.files import validate

ROOT = Path(__file__).resolve().parents[2]
BINARIES = Binaries(ROOT / "build")

needs_simulator = pytest.mark.skipif(
    not BINARIES.simulator.exists(), reason="needs build/ebb-simulator: run `make build`"
)


def incast(senders: int = 5, size: int = 60_000, **pattern: Any) -> dict[str, Any]:
    traffic = {
        "name": "incast",
        "pattern": {"type": "incast", "senders": senders, **pattern},
        "arrivals": {"type": "once"},
        "size": {"type": "fixed", "bytes": size},
    }
    return {"traffic": [traffic]}


def simulate(directory: Path, scheme: str, threads: int = 1, **keys: Any) -> Results:
    table = {"schemes": [scheme], "workload": incast(), **keys}
    if "single_rack" not in keys:
        table["leaf_spine"] = {"leaves": 2, "spines": 2, "hosts_per_leaf": 3}
    loaded = resolve(validate(SimScenario, table, "test"), "test", directory)
    (seed,) = loaded.spec.seeds
    return Run(loaded, scheme, seed, BINARIES, directory, threads=threads).go()


@needs_simulator
@pytest.mark.parametrize("scheme", ["dctcp", "ndp", "scdp"])
def test_the_result_does_not_depend_on_the_number_of_threads(tmp_path: Path, scheme: str) -> None:
    one, two = (simulate(tmp_path / str(threads), scheme, threads) for threads in (1, 2))
    assert [flow["status"] for flow in one.flows] == ["finished"] * 5
    assert one.run["trace_hash"] == two.run["trace_hash"]
    assert one.tables == two.tables
    assert one.run["transfers"] == {"ended": 5, "unfinished": 0}


@needs_simulator
def test_another_seed_is_another_run(tmp_path: Path) -> None:
    """Of the workload too, which has none of its own here."""
    one, two = (simulate(tmp_path / str(seed), "ndp", seed=seed) for seed in (1, 2))
    assert one.run["trace_hash"] != two.run["trace_hash"]
    ends = [[(flow["source"], flow["destination"]) for flow in run.flows] for run in (one, two)]
    assert ends[0] != ends[1]


@needs_simulator
def test_a_lone_packet_takes_the_time_of_the_closed_form(tmp_path: Path) -> None:
    rack = {"hosts": 2, "rate_bps": 1_000_000_000, "delay_ns": 10_000}
    (flow,) = simulate(tmp_path, "ndp", single_rack=rack, workload=incast(1, 1_000)).flows
    # Ethernet, IPv4 and Ebb's header, then the envelope and the content (docs/wire-format.md).
    frame_bytes = 14 + 20 + 48 + flow["stream_bytes"]
    # Store and forward: the host's link and the switch's, 10 us of propagation on each.
    assert flow["fct_ns"] == pytest.approx(2 * (frame_bytes * 8 + 10_000), abs=1)


@needs_simulator
def test_the_files_of_a_run_say_the_same(tmp_path: Path) -> None:
    results = simulate(tmp_path, "ndp", workload=incast(5, 200_000))
    out = tmp_path / "out"
    results.write(out)
    for name, schema in SCHEMAS.items():
        table = pyarrow.parquet.read_table(out / f"{name}.parquet")
        assert table.schema.equals(schema)
        assert table.num_rows == len(results.tables[name])
        types = pyarrow.csv.ConvertOptions(
            column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        assert pyarrow.csv.read_csv(out / f"{name}.csv", convert_options=types).equals(table)
    about = json.loads((out / "run.json").read_text())
    assert about["trace_hash"] == results.run["trace_hash"]
    assert about["parameters"]["workload"]["seed"] == about["seed"] == 1
    assert about["versions"]["simulator"].startswith("ebb-simulator ")
    # What the traffic managers handed back is what the program trimmed or dropped.
    deflected = sum(queue["deflected_packets"] for queue in results.tables["queues"])
    assert results.total("trimmed") == deflected > 0


@needs_simulator
def test_queues_conserve_packets(tmp_path: Path) -> None:
    for queue in simulate(tmp_path, "dctcp").tables["queues"]:
        assert queue["enqueued_packets"] == queue["dequeued_packets"] + queue["depth_packets"]


@needs_simulator
def test_a_simulator_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    workload = incast()
    workload["traffic"][0]["pattern"]["to"] = "nobody"
    with pytest.raises(SimulatorError, match="nobody"):
        simulate(tmp_path, "ndp", workload=workload)


@needs_simulator
def test_an_interrupted_run_leaves_no_process_and_no_results(tmp_path: Path) -> None:
    scenario = tmp_path / "long.json"
    keys = {"single_rack": {"hosts": 6}, "schemes": ["ndp"], "workload": incast(5, 500_000_000)}
    scenario.write_text(json.dumps(keys))
    results = tmp_path / "long" / "ndp"
    results.mkdir(parents=True)
    (results / "run.json").write_text("of an earlier run")
    command = [sys.executable, "-m", "ebb_experiments.sim.cli", str(scenario)]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 30
        while (
            not (simulators := children.read_text().split())
            or not (results / "workload.json").exists()
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert "interrupted" in said
    assert process.returncode == 130
    assert not any(Path(f"/proc/{pid}").exists() for pid in simulators)
    assert not (results / "run.json").exists()


@pytest.mark.parametrize(
    ("ended", "expected"),
    [
        (0, "at most 3:00 to go"),  # a quarter of the limit took a minute
        (10, "about 9:00 to go"),  # a tenth of the transfers did
        (100, "about 0:00 to go"),
    ],
)
def test_the_expected_end(ended: int, expected: str) -> None:
    told = expectation(60.0, 25.0, 100.0, ended, 100 - ended)
    assert str(told) == expected


def test_nothing_is_expected_of_a_run_that_has_just_begun() -> None:
    assert str(expectation(0.5, 0.0, 1e9, 0, 10)) == ""
    assert str(expectation(60.0, 1.0, 1e9, 0, 10)) == ""  # years: the limit is no news
