"""Metrics of how objects arrive over time, on tables made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ebb_experiments.study.arrivals import jain, rates
from ebb_experiments.study.metric_spec import ConcurrentGoodput, Fairness, Flows, Rates
from ebb_experiments.study.metrics import sample, value
from ebb_experiments.study.store import Tables
from ebb_topologies.model import Topology, from_table
from study_tables import flow, tables

COMMON: dict[str, Any] = {"label": "", "unit": ""}
MS = 1_000_000.0


@pytest.fixture
def rack() -> Topology:
    links = {"rate_bps": 1_000_000_000, "delay_ns": 10_000}
    return from_table({"single_rack": {"hosts": 3}, "link_defaults": links}, "rack")


def came(transfer: int, points: list[tuple[float, int]]) -> list[dict[str, Any]]:
    return [
        {"transfer": transfer, "destination": "h2", "at_ns": at * MS, "bytes": size}
        for at, size in points
    ]


@pytest.fixture
def two(tmp_path: Path) -> Tables:
    """`a` has all of its 8000 bytes after 4 ms, `b` 3000 by then and 9000 after 7 ms."""
    return tables(
        tmp_path,
        flows=[
            flow(0, traffic="a", bytes=8_000, at=0, took=4 * MS),
            flow(1, traffic="b", bytes=9_000, at=0, took=7 * MS),
        ],
        arrivals=[
            *came(0, [(1, 2_000), (2, 4_000), (3, 6_000)]),
            *came(1, [(t, 1_000 * t) for t in range(1, 4)]),
            *came(1, [(t, 3_000 + 2_000 * (t - 4)) for t in range(4, 7)]),
        ],
    )


def test_goodput_counts_only_while_all_parts_are_under_way(two: Tables, rack: Topology) -> None:
    def goodput(traffic: str, *others: str) -> float | None:
        keys = {"of": "goodput-meanwhile", "traffic": traffic, "while": others, **COMMON}
        return value(ConcurrentGoodput.model_validate(keys), two, rack, 1500)

    assert goodput("a", "b") == pytest.approx(8_000 * 8e9 / (4 * MS))
    assert goodput("b", "a") == pytest.approx(3_000 * 8e9 / (4 * MS))
    assert goodput("b") == pytest.approx(9_000 * 8e9 / (7 * MS))
    assert goodput("a", "none") is None


def test_rates_are_those_between_samples(two: Tables) -> None:
    at, (rate,) = rates(Rates(of="rates", traffic="b", **COMMON), two)
    assert list(at / MS) == [2, 3, 4, 5, 6, 7]
    megabit = 1_000 * 8e9 / MS
    assert list(rate) == pytest.approx([megabit, megabit, 0, 2 * megabit, 2 * megabit, 2 * megabit])


def test_jain() -> None:
    assert jain(np.array([3.0, 3.0, 3.0])) == 1
    assert jain(np.array([1.0, 0.0, 0.0, 0.0])) == 0.25


def test_fairness_after_each_change(tmp_path: Path, rack: Topology) -> None:
    # Alone for 4 ms; then the second gets nothing for 2 ms and half from then on.
    first = [(t, 1_000 * t) for t in range(1, 7)] + [(t, 6_000 + 500 * (t - 6)) for t in (7, 8)]
    second = [(5, 0), (6, 0), (7, 500), (8, 1_000)]
    found = tables(
        tmp_path,
        flows=[
            flow(0, bytes=7_000, at=0, took=8 * MS),
            flow(1, bytes=1_000, at=4 * MS, took=4 * MS),
        ],
        arrivals=[*came(0, first), *came(1, second)],
    )

    def fair(of: str, stat: str, **keys: float) -> float | None:
        keys_of = {"of": of, "stat": stat, "traffic": "t", **COMMON, **keys}
        return value(Fairness.model_validate(keys_of), found, rack, 1500)

    assert fair("jain", "mean") == pytest.approx((0.5 + 0.5 + 1 + 1) / 4)
    assert fair("jain", "min", settle_ns=3 * MS) == 1
    assert fair("convergence", "max") == 2 * MS


def test_goodput_of_what_is_open(tmp_path: Path, rack: Topology) -> None:
    open_ = {"status": "unfinished", "fct_ns": None, "arrived_bytes": 500, "open_ns": MS}
    found = tables(tmp_path, flows=[flow(0, took=MS), flow(1, **open_)])
    metric = Flows(of="goodput", stat="mean", **COMMON)
    assert list(sample(metric, found, rack, 1500)) == [8e6]
    both = metric.model_copy(update={"unfinished": True})
    assert list(sample(both, found, rack, 1500)) == [8e6, 4e6]


def test_surplus_is_what_an_object_did_not_need(tmp_path: Path, rack: Topology) -> None:
    packets = {"stream_bytes": 2 * 1432 + 1, "packets_received": 5}
    found = tables(tmp_path, flows=[flow(0, **packets)])
    assert value(Flows(of="surplus", stat="mean", **COMMON), found, rack, 1500) == 2
