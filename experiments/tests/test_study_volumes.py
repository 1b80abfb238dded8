"""Bytes per bin of objects that arrive, and the law that they follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from ebb_experiments.study import volumes
from ebb_experiments.study.arrivals import Arrival
from ebb_experiments.study.metric_spec import Volume

MS = 1_000_000


def arrival(at_ns: list[float], size: list[float], destination: str = "h1") -> Arrival:
    return Arrival(1, destination, at_ns[0], at_ns[-1], np.array(at_ns), np.array(size))


def test_bytes_come_evenly_between_samples() -> None:
    found = [arrival([0, 20, 40], [0, 100, 140]), arrival([15, 35], [0, 40])]
    assert volumes.bins(found, 10, 0).tolist() == [50, 60, 40, 30]
    assert volumes.bins(found, 10, 5).tolist() == [60, 40, 30]
    assert volumes.bins(found, 20, 0).tolist() == [110, 70]


def test_bytes_are_all_there_but_for_the_ends() -> None:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(50):
        times = np.sort(rng.uniform(0, 1000, 8))
        found.append(arrival(times.tolist(), np.cumsum(rng.uniform(0, 9, 8)).tolist()))
    found.append(arrival([0, 1000], [0, 0]))
    total = sum(float(each.bytes[-1] - each.bytes[0]) for each in found)
    for length in (1, 8, 100, 1000):
        assert volumes.bins(found, length, 0).sum() == pytest.approx(total)


def metric(**more: Any) -> Volume:
    given = {"of": "volume", "label": "a", "unit": "", "bin_ns": MS, "traffic": "flows"}
    return Volume.model_validate(given | more)


def tables(sizes: list[int]) -> Any:
    """An object a bin, the even ones at h1."""
    rows = [
        {
            "traffic": "flows", "transfer": i, "destination": f"h{1 + i % 2}", "bytes": size,
            "offered_at_ns": i * MS, "finished_at_ns": (i + 1) * MS, "status": "finished",
        }
        for i, size in enumerate(sizes)
    ]  # fmt: skip
    empty = pl.DataFrame(schema={"transfer": int, "destination": str, "at_ns": float, "bytes": int})
    return {"flows": pl.LazyFrame(rows), "arrivals": empty.lazy()}


def test_the_law_of_the_sizes_is_found_and_hosts_are_told_apart() -> None:
    sizes = np.exp(np.random.default_rng(2).normal(10, 0.8, 3_000)).astype(int).tolist()
    given = tables(sizes)
    assert volumes.volume(metric(stat="best"), given) == 1
    assert volumes.volume(metric(stat="best", law="normal"), given) == 0
    assert volumes.volume(metric(stat="beaten", law="normal"), given) == 1
    assert volumes.volume(metric(stat="correlation"), given) > 0.98  # type: ignore[operator]
    assert volumes.volume(metric(stat="empty"), given) == 0
    assert volumes.volume(metric(stat="empty", destination="h1"), given) == pytest.approx(
        0.5, abs=1e-3
    )


def test_few_or_equal_bins_have_no_law() -> None:
    assert volumes.volume(metric(stat="best"), tables([1_000 + i for i in range(19)])) is None
    assert volumes.volume(metric(stat="variation"), tables([1_000] * 50)) is None
