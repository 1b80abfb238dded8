"""Numbers that several modules compute, the same in all of them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from ebb_experiments.results.numbers import nearest_rank, percentile
from ebb_experiments.study.metrics import statistic
from ebb_experiments.workflow import model

PERCENTS = {"p50": 50, "p90": 90, "p99": 99, "p99.9": 99.9}


@pytest.mark.parametrize(("stat", "percent"), PERCENTS.items())
def test_percentiles_are_nearest_ranks_everywhere(stat: str, percent: float) -> None:
    """Counts at which 99.9 / 100 * count is above the whole number that it should be are in it."""
    for count in (1, 2, 7, 10, 100, 999, 1000, 1001, 2000, 3000, 7000, 10_000):
        values = [float(value) for value in range(1, count + 1)]
        # The smallest rank whose share of all values is not below the percentage.
        expected = next(
            r for r in range(1, count + 1) if Fraction(100 * r, count) >= Fraction(str(percent))
        )
        assert nearest_rank(count, percent) == expected
        assert percentile(values, percent) == expected
        assert model.percentile(np.array(values), percent) == expected
        assert statistic(np.array(values), stat) == expected  # type: ignore[arg-type]
