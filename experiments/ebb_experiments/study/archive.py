"""Numbers of the trials of an experiment in one file, from which its page is made again without
the trials: a row each, with the metrics and the samples that percentiles and figures need."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from ebb_topologies.files import InputError

from ebb_experiments.study.estimates import Sample
from ebb_experiments.study.metric_spec import Metric
from ebb_experiments.study.metrics import Row
from ebb_experiments.study.trials import Trial

ARCHIVE = "trials.parquet"
SIZE = b"ebb.size"
BUSY = b"ebb.busy"
ABOUT = ("flows", "unended", "ended", "counts")
"""Small parts of a row, stored as JSON."""


@dataclass(frozen=True)
class Archive:
    """The numbers of an experiment's trials, from which its page can be made again."""

    size: str
    """`quick` or `full`."""
    virtual: list[Row]
    wall: list[Row] = field(default_factory=list)
    """Trials on Mininet."""
    busy: list[str] = field(default_factory=list)
    """Trials on Mininet that are left out: which, and why."""
    lacking: frozenset[str] = frozenset()
    """Metrics that came into the experiment's file after the trials."""

    def with_kept(self, earlier: Archive, planned: Iterable[Trial]) -> Archive:
        """This one, and of an earlier one what is still planned and not in this one."""
        order = [trial_key(each.scheme, each.seed, each.labels) for each in planned]
        rows = {key_of(row): row for row in [*earlier.virtual, *self.virtual]}
        virtual = [rows[key] for key in order if key in rows]
        if self.wall or self.busy:
            return replace(self, virtual=virtual)
        return replace(self, virtual=virtual, wall=earlier.wall, busy=earlier.busy)


def trial_key(scheme: str, seed: int, labels: Mapping[str, Any]) -> tuple[str, int, str]:
    """The key of a trial among those of its experiment and size."""
    return scheme, seed, json.dumps(labels, sort_keys=True)


def key_of(row: Row) -> tuple[str, int, str]:
    """The same of a row."""
    return trial_key(row["scheme"], row["seed"], row["labels"])


def pack(archive: Archive, metrics: Mapping[str, Metric]) -> bytes:
    """The archive as a Parquet file."""
    bases = representatives(metrics)
    rows = [*archive.virtual, *archive.wall]
    columns: dict[str, Any] = {
        "scheme": [row["scheme"] for row in rows],
        "seed": [row["seed"] for row in rows],
        "fabric": ["virtual"] * len(archive.virtual) + ["mininet"] * len(archive.wall),
        "commit": [row["commit"] for row in rows],
        "seconds": [row["seconds"] for row in rows],
        "late_ns": pa.array([row.get("late_ns") for row in rows], pa.float64()),
        "labels": [json.dumps(row["labels"]) for row in rows],
        "about": [json.dumps({key: row[key] for key in ABOUT}) for row in rows],
    }
    for name in metrics:
        columns[f"metric.{name}"] = pa.array([row[name] for row in rows], pa.float64())
        if bases[name] == name and (of_it := _samples(rows, name, bases)):
            values = [None if s is None else s.values.astype(np.float32) for s in of_it]
            weights = [None if s is None else s.weights.astype(np.int32) for s in of_it]
            columns[f"values.{name}"] = pa.array(values, pa.list_(pa.float32()))
            columns[f"weights.{name}"] = pa.array(weights, pa.list_(pa.int32()))
        if any(row["curves"].get(name) for row in rows):
            lines = [[np.stack(line).ravel() for line in row["curves"].get(name, [])]
                     for row in rows]  # fmt: skip
            columns[f"curves.{name}"] = pa.array(lines, pa.list_(pa.list_(pa.float32())))
    about = {SIZE: archive.size.encode(), BUSY: json.dumps(archive.busy).encode()}
    table = pa.table(columns).replace_schema_metadata(about)
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, compression="zstd", compression_level=19)
    return file.getvalue()


def _samples(rows: Sequence[Row], base: str, bases: Mapping[str, str]) -> list[Sample | None]:
    """The numbers of each row of which `base` is a statistic, whichever of its statistics a row has
    them for: trials that have just run keep them for some, stored ones for all. Empty: no row has
    any."""
    names = [name for name, first in bases.items() if first == base]
    found = [
        next((row["samples"][name] for name in names if name in row["samples"]), None)
        for row in rows
    ]
    return found if any(each is not None for each in found) else []


def unpack(path: Path, metrics: Mapping[str, Metric]) -> Archive:
    """Raises `InputError` naming a file that is none."""
    try:
        table = pyarrow.parquet.read_table(path)
        about = table.schema.metadata
        rows = [_row(each, metrics) for each in table.to_pylist()]
        wall = [each == "mininet" for each in table["fabric"].to_pylist()]
        size, busy = about[SIZE].decode(), json.loads(about[BUSY])
        lacking = {name for name in metrics if f"metric.{name}" not in table.column_names}
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None
    return Archive(
        size,
        [row for row, there in zip(rows, wall, strict=True) if not there],
        [row for row, there in zip(rows, wall, strict=True) if there],
        busy,
        frozenset(lacking),
    )


def _row(stored: dict[str, Any], metrics: Mapping[str, Metric]) -> Row:
    """A metric that came into the file after the trials has no value."""
    bases = representatives(metrics)
    samples, curves = {}, {}
    for name in metrics:
        values = stored.get(f"values.{bases[name]}")
        if values is not None:
            weights = stored[f"weights.{bases[name]}"]
            samples[name] = Sample(np.array(values, float), np.array(weights, np.int64))
        lines = stored.get(f"curves.{name}")
        if lines:
            curves[name] = [tuple(np.array(line, float).reshape(2, -1)) for line in lines]
    return {
        "scheme": stored["scheme"],
        "seed": stored["seed"],
        "labels": json.loads(stored["labels"]),
        "commit": stored["commit"],
        "seconds": stored["seconds"],
        "late_ns": stored["late_ns"],
        **json.loads(stored["about"]),
        "samples": samples,
        "curves": curves,
        **{name: stored.get(f"metric.{name}") for name in metrics},
    }


def representatives(metrics: Mapping[str, Metric]) -> dict[str, str]:
    """For each metric the first one that is a statistic of the same numbers."""
    first: dict[str, str] = {}
    found = {}
    for name, metric in metrics.items():
        basis = metric.model_dump_json(exclude={"stat", "label", "limit"})
        found[name] = first.setdefault(basis, name)
    return found


def commits(rows: Sequence[Row]) -> list[str]:
    """Those that trials ran with; + marks a tree that differed."""
    return sorted({each for row in rows for each in str(row["commit"]).split()})
