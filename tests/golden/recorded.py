"""Results of runs of this repository, in a form that depends on no clock, thread or processor."""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
from pathlib import Path
from typing import Any

from ebb_controller.mechanisms import PROGRAMS
from ebb_experiments.results.results import Results
from ebb_experiments.results.tables import COLUMNS
from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.scenario.loaded import load_scenario
from ebb_experiments.sim.pictures import Pictures

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
SCENARIOS = ROOT / "experiments" / "scenarios" / "sim"

NOT_RECORDED = ("phase", "round", "payload_bytes_sent", "skipped", "skipped_ns")
"""Columns of tables: what a scenario calls the run, what follows from the trace, and what is empty
unless rounds are skipped."""

Golden = dict[str, Any]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def simulated(scenario: str, scratch: Path) -> Golden:
    """Runs a scenario: the hash of the trace and a digest of the rows of every table, by scheme and
    seed. Its figures are in `scratch`."""
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    loaded = load_scenario(SCENARIOS / f"{scenario}.toml", None)
    found = {}
    pictures = Pictures(loaded.name, scratch, loaded.colours)
    for scheme in loaded.schemes:
        for seed in loaded.spec.seeds:
            folder = scratch / f"{scheme}-{seed}"
            folder.mkdir()
            results = Run(loaded, scheme, seed, Virtual(Binaries(BUILD)), folder).go()
            if seed == loaded.spec.seeds[0]:
                pictures.add(scheme, results)
            found[f"{scheme}, seed {seed}"] = summary(results)
    pictures.write()
    return found


def summary(results: Results) -> Golden:
    """Digests of the tables of a run; tables without rows are left out."""
    tables = {}
    for name in COLUMNS:
        if rows := [
            {key: value for key, value in row.items() if key not in NOT_RECORDED}
            for row in results.rows(name)
        ]:
            tables[name] = f"{len(rows)} rows, {digest(json.dumps(rows).encode())}"
    return {"trace": results.run["trace_hash"], **tables}


def program(scratch: Path) -> Golden:
    """Digests of what ebb-p4c makes of the programs of p4src."""
    found: Golden = {}
    for name in PROGRAMS:
        program, p4info = scratch / f"{name}.json", scratch / f"{name}.p4info.txtpb"
        compiler: list[str | Path] = [BUILD / "ebb-p4c", "-o", program, "--p4runtime-files", p4info]
        subprocess.run([*compiler, f"p4src/{name}.p4"], cwd=ROOT, check=True)
        found |= {file.name: digest(file.read_bytes()) for file in (program, p4info)}
    return found
