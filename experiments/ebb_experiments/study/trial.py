"""One trial in the calling process; what it leaves, as bytes that can come over a network."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import tempfile
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow.parquet
from ebb_controller.mechanisms import PROGRAMS
from ebb_topologies.files import InputError
from ebb_topologies.installation import commit, compiled, programs, remedy

from ebb_experiments.results import arrow
from ebb_experiments.results.results import Results
from ebb_experiments.results.tables import Rows
from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.study.choices import Fabric
from ebb_experiments.study.trials import Trial
from ebb_experiments.tenants.model import DataCentre, fingerprint
from ebb_experiments.tenants.simulation import simulate

META = "meta.json"
NO_INPUT = (
    "checking",
    "cli",
    "fabric_cli",
    "installation",
    "reference",
    "ebb_tm_pb2",
    "ebb_fabric_pb2",
)
"""Modules that a trial does not use, or that are made from others."""
ONLY_WALL = ("wall", "players", "control", "fault_runner")
"""Modules that only a trial under the wall clock uses."""


class OtherInputsError(InputError):
    """A worker has another Ebb than the trials were planned with."""


def parts(build: Path | None = None, fabric: Fabric = "virtual") -> dict[str, str]:
    """Fingerprints of what a result depends on beside its scenario: P4, simulator, agent (its
    defaults), controller, the code that runs a scenario. Not of what evaluates it. `build`: none
    is the one of this Ebb, wherever that is."""
    binaries = Binaries(build or programs())
    files = [f"{program}.{kind}" for program in PROGRAMS for kind in ("p4info.txtpb", "json")]
    paths = [compiled(binaries.directory) / name for name in files]
    paths += [binaries.simulator, binaries.agent]
    if fabric == "mininet":
        paths.append(binaries.directory / "ebb-switch")
    found = {}
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} is missing: {remedy(path)}")
        about = path.stat()
        found[path.name] = _of_file(path, about.st_mtime_ns, about.st_size)
    for package, paths in _sources(fabric).items():
        digests = (_of_file(path, 0, 0) for path in paths)
        found[package] = hashlib.sha256("".join(digests).encode()).hexdigest()
    return found


def inputs(of: dict[str, str]) -> str:
    """Fingerprint of all parts together."""
    return hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:16]


def differing(expected: dict[str, str], build: Path | None = None) -> str | None:
    """In words, what of this process' Ebb is not as expected; none: nothing."""
    here = parts(build)
    other = [name for name in expected if here.get(name) != expected[name]]
    if not other:
        return None
    return f"{', '.join(other)} in {(build or programs()).parent} differ from the planner's"


def _sources(fabric: Fabric) -> dict[str, list[Path]]:
    import ebb_controller
    import ebb_topologies
    from ebb_controller import mechanisms

    from ebb_experiments import results, run, scenario

    other = NO_INPUT if fabric == "mininet" else (*NO_INPUT, *ONLY_WALL)
    return {
        package.__name__: sorted(
            path
            for kind in ("*.py", "*.p4")  # the P4 that Python reads
            for path in Path(str(package.__file__)).parent.glob(kind)
            if path.stem not in other
        )
        for package in (ebb_topologies, ebb_controller, mechanisms, scenario, results, run)
    }


@cache
def _of_file(path: Path, _changed_ns: int, _size: int) -> str:
    """Fingerprint of a file. A source is what it was when the process imported it; a program may be
    built anew."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Failure:
    """Why a trial has no result; as a value, because Dask logs at length what is raised."""

    why: str
    other_inputs: bool = False


def attempt(
    trial: Trial, build: Path | None, expected: dict[str, str]
) -> dict[str, bytes] | Failure:
    """Does what `run_trial` does, but returns a `Failure` instead of raising."""
    try:
        return run_trial(trial, build, expected)
    except Exception as error:  # any error fails this trial only, with one line
        return Failure(one_line(error), isinstance(error, OtherInputsError))


def one_line(error: BaseException) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def run_trial(trial: Trial, build: Path | None, expected: dict[str, str]) -> dict[str, bytes]:
    """Runs a trial; returns its files by name. Raises what `Run.go` raises."""
    if isinstance(trial.loaded, DataCentre):
        return run_tenants(trial)
    other = differing(expected, build)
    if other:
        raise OtherInputsError(f"this worker has another Ebb: {other}; `make build` of one commit")
    binaries = Binaries(build or programs())
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    begun = time.time()
    with tempfile.TemporaryDirectory(prefix="ebb-trial-") as directory:
        clock = Virtual(binaries, threads=1)
        results = Run(trial.scenario, trial.scheme, trial.seed, clock, Path(directory)).go()
    return files_of(trial, results, inputs(expected), begun)


def run_tenants(trial: Trial) -> dict[str, bytes]:
    """Runs a trial at flow level; returns its files by name."""
    if trial.code != fingerprint():
        raise OtherInputsError("this worker has another Ebb; `make build` of one commit")
    assert isinstance(trial.loaded, DataCentre)
    begun = time.time()
    outcome = simulate(trial.loaded, trial.seed)
    meta = {
        "experiment": trial.experiment,
        "size": trial.size,
        "fabric": trial.fabric,
        "scheme": trial.scheme,
        "seed": trial.seed,
        "labels": trial.labels,
        "inputs": trial.code,
        "parameters": trial.loaded.model_dump(mode="json"),
        "versions": {"commit": commit()},
        "numbers": outcome.numbers,
        "begun_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begun)),
        "wall_seconds": time.time() - begun,
    }
    files = {META: (json.dumps(meta, indent=1) + "\n").encode()}
    if outcome.tenants:
        file = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(outcome.tenants), file)
        files["tenants.parquet"] = file.getvalue()
    return files


def files_of(trial: Trial, results: Results, of_inputs: str, begun: float) -> dict[str, bytes]:
    """Files of a trial by name. `begun`: when it began, in seconds since the epoch."""
    files = {f"{rows.name}.parquet": _parquet(rows) for rows in results.tables.values()}
    meta = results.run | {
        "experiment": trial.experiment,
        "size": trial.size,
        "fabric": trial.fabric,
        "labels": trial.labels,
        "inputs": of_inputs,
        "begun_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(begun)),
    }
    return files | {META: (json.dumps(meta, indent=1, default=str) + "\n").encode()}


def _parquet(rows: Rows) -> bytes:
    file = io.BytesIO()
    pyarrow.parquet.write_table(arrow.table(rows), file)
    return file.getvalue()
