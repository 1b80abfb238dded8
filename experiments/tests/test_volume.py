"""Claims about traffic volume: what may be said of which."""

from __future__ import annotations

import math

import pytest
from ebb_experiments.volume import claims


@pytest.fixture(scope="module")
def rows() -> list[claims.Row]:
    return list(claims.rows(seed=2))


def test_a_claim_about_the_traces_is_never_graded(rows: list[claims.Row]) -> None:
    of_traces = [row for row in rows if row.ground == "traces"]
    assert {row.verdict for row in of_traces} == {"not available"}
    assert all(row.ours is None and row.band is None for row in of_traces)
    assert any("211 of 229" in row.published for row in of_traces)
    others = [row for row in rows if row.ground != "traces"]
    assert {row.verdict for row in others} == {"holds", "does not"}
    assert not any(row.ours is None or math.isnan(row.ours) for row in others)


def test_the_logarithm_of_the_example_is_that_to_base_10(rows: list[claims.Row]) -> None:
    verdicts = {row.text.rpartition(": ")[2]: row.verdict for row in rows if "344.8" in row.text}
    assert [verdicts[key] for key in sorted(verdicts)] == ["holds", "does not"]


def test_a_verdict_is_about_the_band() -> None:
    def verdict(ours: float) -> str:
        return claims.Row("a", "b", "synthetic", ours, (1, 2)).verdict

    assert [verdict(ours) for ours in (0.99, 1, 2, 2.01)] == [
        "does not", "holds", "holds", "does not",
    ]  # fmt: skip
