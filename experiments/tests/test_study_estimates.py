"""Percentiles of trials and flows that are drawn anew."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from ebb_experiments.study.estimates import Sample, Tail, bootstrap

DRAWS = 2_000


def drawn_whole(
    trials: Sequence[Sample], times: Sequence[int], percent: float, random: np.random.Generator
) -> float:
    """As `Tail.drawn`, with all values of each trial."""
    again = [each for n, each in zip(times, trials, strict=True) for _ in range(n)]
    return Sample.pooled(
        [Sample(each.values, each.drawn(each.size, random)) for each in again]
    ).percentile(percent)


@pytest.mark.parametrize("percent", [50.0, 99.0, 99.9])
@pytest.mark.parametrize("factors", [(1, 1, 1, 1), (1, 1, 1, 100)])
@pytest.mark.parametrize("flows", [300, 20_000])
def test_a_tail_gives_what_all_values_give(
    percent: float, factors: tuple[float, ...], flows: int
) -> None:
    random = np.random.default_rng(1)
    trials = [Sample.of(random.exponential(factor, flows)) for factor in factors]
    tail = Tail(trials, percent)
    draws = random.multinomial(len(trials), [1 / len(trials)] * len(trials), DRAWS)
    ours = [tail.drawn(times.tolist(), random) for times in draws]
    plain = [drawn_whole(trials, times.tolist(), percent, random) for times in draws]
    for share in (0.05, 0.5, 0.95):
        assert np.quantile(ours, share) == pytest.approx(np.quantile(plain, share), rel=0.1)


def test_a_tail_that_was_not_drawn() -> None:
    low, high = Sample.of(np.arange(1000.0)), Sample.of(np.arange(1000.0) + 1e6)
    tail = Tail([low, high], 99.9)
    random = np.random.default_rng(1)
    assert 990 <= tail.drawn([2, 0], random) < 1000
    assert tail.drawn([0, 2], random) >= 1e6 + 990


def test_a_trial_without_flows() -> None:
    tail = Tail([Sample.of(np.array([])), Sample.of(np.arange(100.0))], 99.0)
    random = np.random.default_rng(1)
    assert 90 <= tail.drawn([1, 1], random) < 100
    assert math.isnan(tail.drawn([2, 0], random))
    interval = bootstrap(99, 2, lambda random: tail.drawn([2, int(random.integers(2))], random))
    assert interval.low is not None and interval.low > 90
