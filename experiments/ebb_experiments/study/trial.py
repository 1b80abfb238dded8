"""One trial in the calling process; what it leaves, as bytes that can come over a network."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from ebb_topologies.files import InputError

from ebb_experiments.sim.run import Binaries, Run
from ebb_experiments.study.trials import Trial

META = "meta.json"
NO_INPUT = ("cli", "fabric_cli", "progress", "wall", "ebb_tm_pb2", "ebb_fabric_pb2")
"""Modules that a trial does not use, or that are made from others."""


def inputs(binaries: Binaries) -> str:
    """A fingerprint of what a result depends on beside its scenario: P4, simulator, agent (its
    defaults), controller, the code that runs a scenario. Not of what evaluates it."""
    digest = hashlib.sha256()
    program = binaries.program
    for path in (program.p4info, program.json, binaries.simulator, binaries.agent):
        if not path.exists():
            raise InputError(f"{path} is missing: run `make build`")
        _add(digest, path)
    for path in _sources():
        _add(digest, path)
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    import ebb_controller
    import ebb_topologies

    import ebb_experiments.sim

    found = []
    for package in (ebb_topologies, ebb_controller, ebb_experiments.sim):
        folder = Path(str(package.__file__)).parent
        found += [path for path in folder.glob("*.py") if path.stem not in NO_INPUT]
    return sorted(found, key=lambda path: (path.parent.name, path.name))


def _add(digest: Any, path: Path) -> None:
    with path.open("rb") as file:
        digest.update(hashlib.file_digest(file, "sha256").digest())


def run_trial(trial: Trial, build: Path, expected_inputs: str) -> dict[str, bytes]:
    """Files of the trial by name. Raises what `Run.go` raises."""
    binaries = Binaries(build)
    if inputs(binaries) != expected_inputs:
        raise InputError(f"the worker's {build} is not what the trial was planned with")
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    begun = time.time()
    with tempfile.TemporaryDirectory(prefix="ebb-trial-") as directory:
        run = Run(
            trial.loaded, trial.scheme, trial.seed, binaries, Path(directory), threads=1
        )  # fmt: skip
        results = run.go()
    files = {f"{name}.parquet": _parquet(table) for name, table in results.tables.items()}
    meta = results.run | {
        "experiment": trial.experiment,
        "size": trial.size,
        "labels": trial.labels,
        "inputs": expected_inputs,
        "begun_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begun)),
    }
    return files | {META: (json.dumps(meta, indent=1, default=str) + "\n").encode()}


def _parquet(table: pa.Table) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file)
    return file.getvalue()
