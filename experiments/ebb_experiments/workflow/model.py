"""Workflows of requests that each take one random round-trip time: servers take none, and nothing
is lost.

A parallel workflow asks N workers at once and discards what comes after a deadline. A sequential
one asks one after the other and ends with the last. Zats, "Achieving Consistent Latencies in
Datacenter Networks", section 4.3, draws 10,000 of each. Times are in microseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
from numpy.typing import NDArray

from ebb_experiments.results.numbers import nearest_rank

Times = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Times]

RUNS = 10_000
"""Workflows per configuration, as in the thesis."""
WORKER_DEADLINE_US = 10_000.0
"""Time after which a worker's answer is discarded."""
PAGE_DEADLINE_US = 200_000.0
"""Delay that a user does not notice."""
MEASURED = ((61.0, 0.0), (334.0, 0.5), (1_000.0, 0.9), (10_000.0, 0.985), (13_950.0, 1.0))
"""Round-trip times within a rack, and the share that is not longer: minimum, median, 90th
percentile, the share above 10 ms (1.5 %) and the longest, as the thesis quotes them; the whole
distribution is a figure only."""
MINIMUM_US, MEDIAN_US = MEASURED[0][0], MEASURED[1][0]


def measured_quantile(share: Times) -> Times:
    """The time that `share` of the measured ones do not exceed; straight in the logarithm of time
    between the points that are known."""
    times, shares = zip(*MEASURED, strict=True)
    return np.exp(np.interp(share, shares, np.log(times)))


DEVIATION_US = MEDIAN_US - float(measured_quantile(np.array(0.16)))
"""Standard deviation of the normal distributions: median minus 16th percentile of the measured
times."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution of round-trip times."""

    name: str
    draw: Draw
    """Takes a generator and how many times to draw."""


def measured() -> Distribution:
    """The measured distribution, by its quantiles."""
    return Distribution("measured", lambda rng, n: measured_quantile(rng.random(n)))


def exponential(medians: int) -> Distribution:
    """With this many times the measured median. What is below the measured minimum becomes the
    minimum."""
    mean = medians * MEDIAN_US / log(2)
    return Distribution(
        f"exponential, {medians}x",
        lambda rng, n: np.maximum(rng.exponential(mean, n), MINIMUM_US),
    )


def normal(medians: int) -> Distribution:
    """With this many times the measured median and the measured deviation. What is below the
    measured minimum becomes the minimum."""
    return Distribution(
        f"normal, {medians}x",
        lambda rng, n: np.maximum(rng.normal(medians * MEDIAN_US, DEVIATION_US, n), MINIMUM_US),
    )


def missed(
    distribution: Distribution, workers: int, seed: int, runs: int = RUNS
) -> NDArray[np.int64]:
    """How many of the workers missed the deadline, for each run."""
    rng = np.random.default_rng([seed, workers])
    late = np.empty(runs, np.int64)
    for run in range(runs):
        late[run] = np.count_nonzero(distribution.draw(rng, workers) > WORKER_DEADLINE_US)
    return late


def requests_in_time(
    distribution: Distribution, seed: int, runs: int = RUNS, most: int = 1_000
) -> int:
    """How many requests, one after the other, end before the page's deadline in all but one of a
    thousand runs. `most`: the answer is not above it."""
    rng = np.random.default_rng([seed, most])
    sums = np.zeros(runs)
    for requests in range(1, most + 1):
        sums += distribution.draw(rng, runs)
        if percentile(sums, 99.9) > PAGE_DEADLINE_US:
            return requests - 1
    return most


def percentile(values: NDArray[np.float64] | NDArray[np.int64], percent: float) -> float:
    """The smallest value that `percent` of all do not exceed (nearest rank)."""
    index = nearest_rank(len(values), percent) - 1
    return float(np.partition(values, index)[index])
