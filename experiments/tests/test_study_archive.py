"""Numbers of trials, packed and unpacked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ebb_experiments.study.archive import Archive, pack, unpack
from ebb_experiments.study.estimates import Sample
from ebb_experiments.study.metrics import NOTHING, Row, row
from ebb_experiments.study.trials import trials
from ebb_topologies.files import InputError
from ebb_topologies.model import from_table
from study_tables import experiment, flow, tables

METRICS = experiment(
    metric={
        "fct": {"of": "fct", "stat": "mean", "label": "FCT", "unit": "us", "scale": 1e-3},
        "tail": {"of": "fct", "stat": "p99", "label": "FCT", "unit": "us", "scale": 1e-3},
        "depth": {"of": "samples", "peer": "h1", "label": "depth", "unit": "bytes"},
    }
).metric


def a_row(**keys: object) -> Row:
    about = {"commit": "0123456789ab+", "seconds": 2.5, "late_ns": None}
    of_it = {"scheme": "ndp", "seed": 3, "labels": {"load": 0.4, "case": "a"}}
    return {**NOTHING, **of_it, **about, "fct": 1.5, "tail": None, "depth": None, **keys}


def test_what_is_packed_comes_out_again(tmp_path: Path) -> None:
    at = np.arange(3.0)
    virtual = a_row(
        flows=7,
        unended={"reset": 1},
        ended={"fct": 6 / 7},
        counts={"fct": 6, "tail": 6},
        samples={"tail": Sample.of(np.array([3.0, 1.0, 2.0]))},
        curves={"depth": [(at, at * 2)]},
    )
    wall = a_row(seed=4, late_ns=12.0)
    (tmp_path / "a.parquet").write_bytes(
        pack(Archive("full", [virtual], [wall], ["b: busy"]), METRICS)
    )
    found = unpack(tmp_path / "a.parquet", METRICS)
    assert (found.size, found.busy, len(found.virtual), len(found.wall)) == (
        "full",
        ["b: busy"],
        1,
        1,
    )
    (back,) = found.virtual
    for key in (
        "scheme",
        "seed",
        "labels",
        "flows",
        "unended",
        "ended",
        "counts",
        "fct",
        "tail",
        "commit",
    ):
        assert back[key] == virtual[key]
    # Both statistics are of the same numbers, which are stored once.
    assert (
        back["samples"]["fct"].values.tolist()
        == back["samples"]["tail"].values.tolist()
        == [1, 2, 3]
    )
    ((xs, ys),) = back["curves"]["depth"]
    assert (xs.tolist(), ys.tolist()) == ([0, 1, 2], [0, 2, 4])
    assert [each["late_ns"] for each in found.wall] == [12]


def test_each_row_keeps_its_samples_whichever_metric_has_them(tmp_path: Path) -> None:
    sample = Sample.of(np.array([3.0, 1.0, 2.0]))
    stored = a_row(samples={"fct": sample, "tail": sample})
    new = [a_row(seed=4, samples={"fct": sample}), a_row(seed=5, samples={"tail": sample})]
    (tmp_path / "a.parquet").write_bytes(pack(Archive("full", [stored, *new]), METRICS))
    for back in unpack(tmp_path / "a.parquet", METRICS).virtual:
        assert back["samples"]["tail"].values.tolist() == [1, 2, 3]


def test_a_metric_that_came_later_has_no_value(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(pack(Archive("full", [a_row()]), METRICS))
    later = METRICS | {"new": METRICS["fct"]}
    assert unpack(tmp_path / "a.parquet", later).virtual[0]["new"] is None


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"a\.parquet: "):
        unpack(tmp_path / "a.parquet", METRICS)


def test_samples_are_kept_where_percentiles_or_figures_need_them(tmp_path: Path) -> None:
    links = {"rate_bps": 1_000_000_000, "delay_ns": 10_000}
    rack = from_table({"single_rack": {"hosts": 3}, "link_defaults": links}, "rack")
    few = tables(tmp_path, flows=[flow(i) for i in range(20)])
    made = row(METRICS, few, "ndp", 1, {}, rack, 1500)
    assert (made["counts"], list(made["samples"])) == ({"fct": 20, "tail": 20}, ["tail"])
    assert list(row(METRICS, few, "ndp", 1, {}, rack, 1500, ["fct"])["samples"]) == ["fct", "tail"]
    many = tables(tmp_path, flows=[flow(i) for i in range(1_000)])
    assert list(row(METRICS, many, "ndp", 1, {}, rack, 1500)["samples"]) == []


def test_what_was_not_run_again_stays_if_it_is_still_planned() -> None:
    keys = {"size": {"quick": {"seeds": 3, "schemes": ["ndp"]}}, "axis": []}
    planned = trials(experiment(**keys), "one", "quick", Path())

    def of(seed: int, commit: str) -> Row:
        return a_row(seed=seed, labels={}, commit=commit)

    earlier = Archive("quick", [of(seed, "a") for seed in (4, 2, 1)], [of(1, "wall")])
    now = Archive("quick", [of(3, "b"), of(2, "b")])
    kept = now.with_kept(earlier, planned)
    assert [(row["seed"], row["commit"]) for row in kept.virtual] == [(1, "a"), (2, "b"), (3, "b")]
    assert [row["commit"] for row in kept.wall] == ["wall"]
