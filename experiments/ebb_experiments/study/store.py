"""Results of trials: DIRECTORY/EXPERIMENT/SIZE/TRIAL/, or SIZE-mininet/TRIAL/; a trial with
meta.json is complete."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet
from ebb_topologies.files import naming

from ebb_experiments.results.arrow import SCHEMAS
from ebb_experiments.study.trial import META
from ebb_experiments.study.trials import Trial


@dataclass(frozen=True)
class Store:
    """Results of trials, a folder for each."""

    directory: Path

    def path(self, trial: Trial, trial_id: str) -> Path:
        """Folder of a trial."""
        folder = trial.size if trial.fabric == "virtual" else f"{trial.size}-{trial.fabric}"
        return self.directory / trial.experiment / folder / trial_id

    def has(self, trial: Trial, trial_id: str) -> bool:
        """Whether the trial has been run."""
        return (self.path(trial, trial_id) / META).exists()

    def damage(self, trial: Trial, trial_id: str) -> str | None:
        """Damage of a stored result, with the file's path: something has cut it short.
        None: nothing, or there is none. Only the ends of tables are looked at."""
        if not self.has(trial, trial_id):
            return None
        directory = self.path(trial, trial_id)
        for path in sorted(directory.iterdir()):
            try:
                if path.name == META:
                    json.loads(path.read_text())["wall_seconds"]
                elif path.suffix == ".parquet":
                    pyarrow.parquet.read_metadata(path)
            except (OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid) as error:
                return f"{path}: {' '.join(str(error).split())}"
        return None

    def seconds(self, trial: Trial, trial_id: str) -> float | None:
        """Real time that a stored trial took, in seconds; none: it is not there."""
        if not self.has(trial, trial_id):
            return None
        return float(self.read(trial, trial_id).meta["wall_seconds"])

    def write(self, trial: Trial, trial_id: str, files: Mapping[str, bytes]) -> None:
        """Stores a trial: all files appear at once or none does. An `OSError` names the file that
        did not fit."""
        directory = self.path(trial, trial_id)
        part = directory.with_name(f".{trial_id}.part")
        shutil.rmtree(part, ignore_errors=True)  # left by a process that was killed
        try:
            part.mkdir(parents=True)
            for name, content in files.items():
                with naming(directory / name):
                    (part / name).write_bytes(content)
            shutil.rmtree(directory, ignore_errors=True)
            part.rename(directory)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise

    def read(self, trial: Trial, trial_id: str) -> Tables:
        """Tables of a trial that has been run."""
        return Tables(self.path(trial, trial_id))


@dataclass(frozen=True)
class Tables:
    """The tables of one trial, each read when it is asked for."""

    directory: Path

    @cached_property
    def meta(self) -> dict[str, Any]:
        """Versions, machine and times of the run."""
        meta: dict[str, Any] = json.loads((self.directory / META).read_text())
        return meta

    def __getitem__(self, name: str) -> pl.LazyFrame:
        """Nothing is read before it is collected, and then only the columns that are needed."""
        path = self.directory / f"{name}.parquet"
        if path.exists():
            return pl.scan_parquet(path)
        empty = pl.from_arrow(SCHEMAS[name].empty_table())
        assert isinstance(empty, pl.DataFrame)
        return empty.lazy()
