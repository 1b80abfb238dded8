"""Hand-made experiments and tables for the tests of `ebb_experiments.study`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from ebb_experiments.results.arrow import SCHEMAS
from ebb_experiments.scenario.loaded import all_at_once
from ebb_experiments.study.spec import Experiment
from ebb_experiments.study.store import Tables
from ebb_topologies.files import validate


def table(**keys: Any) -> dict[str, Any]:
    """An experiment file: two schemes, one of which varies along an axis, two seeds."""
    traffic = all_at_once("incast", {"type": "incast", "senders": 2}, 20_000)
    return {
        "title": "A small incast",
        "source": "nowhere",
        "scenario": {
            "single_rack": {"hosts": 4, "rate_bps": 1_000_000_000, "delay_ns": 10_000},
            "workload": {"traffic": [traffic]},
        },
        "scheme": {"dctcp": {}, "ndp": {}},
        "axis": [
            {
                "name": "threshold",
                "label": "K",
                "unit": "bytes",
                "set": "fabric.step_marking.threshold_bytes",
                "values": [6_000, 30_000],
                "only": ["dctcp"],
            }
        ],
        "size": {"quick": {"seeds": 2, "reduced": "2 trials"}, "full": {"seeds": [7]}},
        "metric": {
            "fct": {"of": "fct", "stat": "mean", "label": "FCT", "unit": "us", "scale": 1e-3},
            "delay": {
                "of": "switch-delay",
                "stat": "p99",
                "label": "delay",
                "unit": "us",
                "scale": 1e-3,
            },
        },
        **keys,
    }


def experiment(**keys: Any) -> Experiment:
    return validate(Experiment, table(**keys), "test")


def tables(directory: Path, **rows: list[dict[str, Any]]) -> Tables:
    for name, content in rows.items():
        file = pa.Table.from_pylist(content, schema=SCHEMAS[name])
        pyarrow.parquet.write_table(file, directory / f"{name}.parquet")
    (directory / "meta.json").write_text(json.dumps({"wall_seconds": 1}))
    return Tables(directory)


def flow(transfer: int = 0, **keys: Any) -> dict[str, Any]:
    """1000 bytes in 10 us."""
    begun = float(keys.pop("at", 0))
    took = float(keys.pop("took", 10_000))
    return {
        "transfer": transfer,
        "job": transfer,
        "traffic": "t",
        "kind": "send-one-to-one",
        "source": "h1",
        "destination": "h2",
        "bytes": 1_000,
        "offered_at_ns": begun,
        "started_at_ns": begun,
        "finished_at_ns": begun + took,
        "fct_ns": took,
        "status": "finished",
        "decodes": 0,
        **keys,
    }
