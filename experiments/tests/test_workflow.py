"""Zats' model of workflows: against binomials, and sums whose distribution is known."""

from __future__ import annotations

import numpy as np
import pytest
from ebb_experiments.workflow.claims import Row, rows
from ebb_experiments.workflow.model import (
    MEASURED,
    Distribution,
    exponential,
    measured,
    measured_quantile,
    missed,
    normal,
    percentile,
    requests_in_time,
)
from scipy.stats import binom, gamma


def test_the_measured_distribution_goes_through_its_points() -> None:
    times, shares = zip(*MEASURED, strict=True)
    assert measured_quantile(np.array(shares)) == pytest.approx(times)
    drawn = measured().draw(np.random.default_rng(1), 200_000)
    assert np.mean(drawn > 10_000) == pytest.approx(0.015, abs=0.001)
    assert np.median(drawn) == pytest.approx(334, rel=0.02)


@pytest.mark.parametrize("medians", [1, 2, 3])
def test_medians_are_those_asked_for(medians: int) -> None:
    for distribution in (exponential(medians), normal(medians)):
        drawn = distribution.draw(np.random.default_rng(2), 100_000)
        assert np.median(drawn) == pytest.approx(334 * medians, rel=0.02)
        assert drawn.min() >= 61


@pytest.mark.parametrize("workers", [40, 400])
def test_missed_deadlines_are_binomial(workers: int) -> None:
    late = missed(measured(), workers, seed=3, runs=4_000)
    expected = binom(workers, 0.015)
    assert late.mean() == pytest.approx(expected.mean(), abs=4 * expected.std() / 4_000**0.5)
    assert abs(percentile(late, 99.9) - expected.ppf(0.999)) <= 1


def test_a_sum_of_exponential_times_is_a_gamma_variate() -> None:
    mean = 1_000.0
    distribution = Distribution("exponential", lambda rng, n: rng.exponential(mean, n))
    found = requests_in_time(distribution, seed=4, runs=4_000)
    exact = max(n for n in range(1, 300) if gamma(n, scale=mean).ppf(0.999) <= 200_000)
    assert abs(found - exact) <= 4


def test_times_that_never_vary_fill_the_page_exactly() -> None:
    distribution = Distribution("constant", lambda rng, n: np.full(n, 1_000.0))
    assert requests_in_time(distribution, seed=5, runs=10) == 200
    assert requests_in_time(distribution, seed=5, runs=10, most=50) == 50


def test_a_claim_holds_within_its_band_only() -> None:
    assert Row("text", "3", (2, 4), 4.0).holds
    assert not Row("text", "3", (2, 4), 4.1).holds


def test_the_claims_of_the_thesis() -> None:
    missing = [row.text for row in rows(seed=1) if not row.holds]
    assert missing == ["requests within 200 ms at the 99.9th percentile, normal, 3x"]
