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

from ebb_experiments.sim.tables import SCHEMAS
from ebb_experiments.study.trial import META
from ebb_experiments.study.trials import Trial


@dataclass(frozen=True)
class Store:
    directory: Path

    def path(self, trial: Trial, trial_id: str) -> Path:
        folder = trial.size if trial.fabric == "virtual" else f"{trial.size}-{trial.fabric}"
        return self.directory / trial.experiment / folder / trial_id

    def has(self, trial: Trial, trial_id: str) -> bool:
        return (self.path(trial, trial_id) / META).exists()

    def seconds(self, trial: Trial, trial_id: str) -> float | None:
        """Real time that it took; None: it is not there."""
        if not self.has(trial, trial_id):
            return None
        return float(self.read(trial, trial_id).meta["wall_seconds"])

    def write(self, trial: Trial, trial_id: str, files: Mapping[str, bytes]) -> None:
        """meta.json comes last and appears whole: it says that all is there."""
        directory = self.path(trial, trial_id)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        for name, content in files.items():
            if name != META:
                (directory / name).write_bytes(content)
        half = directory / f"{META}.part"
        half.write_bytes(files[META])
        half.rename(directory / META)

    def read(self, trial: Trial, trial_id: str) -> Tables:
        return Tables(self.path(trial, trial_id))


@dataclass(frozen=True)
class Tables:
    """Of one trial, read when they are asked for."""

    directory: Path

    @cached_property
    def meta(self) -> dict[str, Any]:
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
