"""Means of trials and their 95 % confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from ebb_experiments.results.numbers import nearest_rank

Numbers = npt.NDArray[np.float64]
CONFIDENCE = 0.95
KEPT_BELOW = 400
"""How many values of a long sample stand for those below its tail."""
KEPT_TAIL = 200
"""Least number of largest values of a sample that are kept one by one."""
KEPT_SHARE = 50
"""One in how many values belongs to the tail, where that is more."""


@dataclass(frozen=True)
class Estimate:
    """Mean over trials with its confidence interval."""

    mean: float
    low: float | None
    """Ends of the confidence interval; none with one trial."""
    high: float | None
    trials: int

    @property
    def half_width(self) -> float | None:
        """Half the width of an interval around the mean; none: there is none, or it is skewed."""
        if self.low is None or self.high is None:
            return None
        above, below = self.high - self.mean, self.mean - self.low
        return above if math.isclose(above, below, rel_tol=1e-6, abs_tol=1e-12) else None

    def left_of(self, whole: float) -> Estimate:
        """The ratio that a relative difference leaves: 1 of none at all, 0 of the `whole`."""
        if self.low is None or self.high is None:
            return Estimate(1 - self.mean / whole, None, None, self.trials)
        low, high = sorted(1 - end / whole for end in (self.low, self.high))
        return Estimate(1 - self.mean / whole, low, high, self.trials)

    @classmethod
    def around(cls, mean: float, half_width: float | None, trials: int) -> Estimate:
        """A mean with its interval; none: one trial has no interval."""
        if half_width is None:
            return cls(mean, None, None, trials)
        return cls(mean, mean - half_width, mean + half_width, trials)


def estimate(numbers: Sequence[float]) -> Estimate:
    """Mean over trials, with Student's interval."""
    return Estimate.around(float(np.mean(numbers)), _half(numbers), len(numbers))


def on_log_axis(ours: Estimate) -> Estimate:
    """The same with the interval of its logarithm (delta method), which stays above 0."""
    half = ours.half_width
    if half is None or ours.mean <= 0:
        return ours
    factor = math.exp(half / ours.mean)
    return Estimate(ours.mean, ours.mean / factor, ours.mean * factor, ours.trials)


def possible(ours: Estimate, least: float | None, largest: float | None) -> Estimate:
    """The same with an interval that ends where no value can be; none: there is no such end. Ends
    of the interval alone are moved, and never beyond the mean."""
    if ours.low is None or ours.high is None:
        return ours
    low = ours.low if least is None else max(ours.low, min(least, ours.mean))
    high = ours.high if largest is None else min(ours.high, max(largest, ours.mean))
    return Estimate(ours.mean, low, high, ours.trials)


ROUNDING = 1e-12
"""Relative error that sums of floating-point numbers have at most."""


def without_rounding(ours: Estimate) -> Estimate:
    """The same with the mean for ends of the interval that differ from it by rounding errors only,
    as of trials that all have the same number."""
    if ours.low is None or ours.high is None:
        return ours
    low, high = (
        ours.mean if math.isclose(end, ours.mean, rel_tol=ROUNDING) else end
        for end in (ours.low, ours.high)
    )
    return Estimate(ours.mean, low, high, ours.trials)


MOST_TRIALS = 10_000
"""Number of trials beyond which it is not worth the time to decide a claim."""


def enough(ours: Estimate, edges: Sequence[float]) -> int | None:
    """About how many trials make the interval end before the nearest of the edges that it reaches
    across, if the mean and the spread of trials stay as they are. None: it reaches across none, or
    more than `MOST_TRIALS`."""
    if ours.low is None or ours.high is None:
        return None
    low, high = ours.low, ours.high
    across = [edge for edge in edges if low <= edge <= high and edge != ours.mean]
    if not across:
        return None
    as_logarithm = low > 0 and ours.half_width is None

    def distance(value: float) -> float:
        return abs(math.log(value / ours.mean) if as_logarithm else value - ours.mean)

    wide = max(distance(high if edge > ours.mean else low) / distance(edge) for edge in across)
    allowed = _reach(ours.trials) / wide
    found = range(ours.trials + 1, MOST_TRIALS + 1)
    return next((n for n in found if _reach(n) < allowed), None)


def _reach(trials: int) -> float:
    """Half the width of Student's interval in standard deviations of trials."""
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, trials - 1)) / math.sqrt(trials)


def _half(numbers: Sequence[float]) -> float | None:
    n = len(numbers)
    if n < 2:
        return None
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
    return quantile * float(np.std(numbers, ddof=1)) / math.sqrt(n)


def jackknife(whole: float, without_one: Sequence[float], *, ratio: bool) -> Estimate:
    """Tukey's pseudo-values: `without_one` has the value without each of the trials. Of a single
    mean that is Student's interval. A `ratio` above 0 gets that of its logarithm: one whose
    denominator may be near 0 has no upper end to speak of, but never a negative one."""
    n = len(without_one)
    if n < 2:
        return Estimate(whole, None, None, n)
    if ratio and whole > 0 and min(without_one) > 0:
        log = math.log(whole)
        half = _half([n * log - (n - 1) * math.log(each) for each in without_one])
        assert half is not None
        return Estimate(whole, _exp(log - half), _exp(log + half), n)
    return Estimate.around(whole, _half([n * whole - (n - 1) * each for each in without_one]), n)


def jackknife_of_share(value: float, without_one: Sequence[float], whole: float) -> Estimate:
    """The jackknife of a relative difference, from the ratio that is left of the `whole`: of a
    share that something is shorter by, the interval never reaches beyond 1."""
    left = jackknife(1 - value / whole, [1 - each / whole for each in without_one], ratio=True)
    if left.low is None or left.high is None:
        return Estimate(value, None, None, left.trials)
    low, high = sorted(whole * (1 - end) for end in (left.low, left.high))
    return Estimate(value, low, high, left.trials)


def _exp(power: float) -> float:
    return math.exp(power) if power < np.log(np.finfo(float).max) else math.inf


@dataclass(frozen=True)
class Sample:
    """Values of the flows or jobs of a trial, in order; each stands for as many as its weight."""

    values: Numbers
    weights: npt.NDArray[np.int64]

    @classmethod
    def of(cls, numbers: Numbers) -> Sample:
        """All values of a short sample; of a long one its tail, and enough of the others for a
        figure of the distribution to look the same."""
        values = np.sort(numbers)
        n = len(values)
        tail = max(KEPT_TAIL, n // KEPT_SHARE)
        if n <= KEPT_BELOW + tail:
            return cls(values, np.ones(n, dtype=np.int64))
        below = np.linspace(0, n - tail - 1, KEPT_BELOW).astype(np.int64)
        ranks = np.concatenate([below, np.arange(n - tail, n)])
        return cls(values[ranks], np.diff(ranks, prepend=-1))

    @classmethod
    def pooled(cls, samples: Sequence[Sample]) -> Sample:
        """The samples of several trials as one."""
        values = np.concatenate([each.values for each in samples])
        order = np.argsort(values, kind="stable")
        return cls(values[order], np.concatenate([each.weights for each in samples])[order])

    @property
    def size(self) -> int:
        """Number of samples, weights included."""
        return int(self.weights.sum())

    def percentile(self, percent: float) -> float:
        """A nearest rank, as everywhere in Ebb."""
        return self.at(nearest_rank(self.size, percent))

    def at(self, rank: int) -> float:
        """The value of a rank, from 1."""
        return float(self.values[np.searchsorted(np.cumsum(self.weights), rank)])

    def split(self, least: float) -> tuple[Sample, Sample]:
        """The values below this one, and the others."""
        at = np.searchsorted(self.values, least)
        return (
            Sample(self.values[:at], self.weights[:at]),
            Sample(self.values[at:], self.weights[at:]),
        )

    def drawn(self, count: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
        """How often each value comes in `count` draws with replacement."""
        if count == 0:
            return np.zeros(len(self.values), dtype=np.int64)
        return random.multinomial(count, self.weights / self.size)


TAIL_REACH = 3
"""How many times as many values as lie beyond a percentile belong to the tail."""


class Tail:
    """The largest values of several trials, from which a percentile is read where trials and their
    flows are drawn anew. The values below are drawn only where the percentile is one of them."""

    def __init__(self, trials: Sequence[Sample], percent: float) -> None:
        self._percent = percent
        whole = Sample.pooled(trials)
        beyond = whole.size - nearest_rank(whole.size, percent) + 1
        least = whole.at(max(1, whole.size - TAIL_REACH * beyond))
        parts = [each.split(least) for each in trials]
        self._below, self._above = [below for below, _ in parts], [above for _, above in parts]
        self._sizes = np.array([each.size for each in trials], dtype=np.int64)
        self._shares = [each.size for each in self._above] / np.maximum(self._sizes, 1)
        values = np.concatenate([each.values for each in self._above])
        self._order = np.argsort(values, kind="stable")
        self._values = values[self._order]

    def drawn(self, times: Sequence[int], random: np.random.Generator) -> float:
        """The percentile with each trial drawn this many times, with as many flows as it has, drawn
        with replacement. NaN: these trials have no flows."""
        sizes = self._sizes * np.asarray(times, dtype=np.int64)
        if not sizes.any():
            return math.nan
        above = random.binomial(sizes, self._shares)
        counts = [each.drawn(n, random) for each, n in zip(self._above, above, strict=True)]
        tail = Sample(self._values, np.concatenate(counts)[self._order])
        beyond = int(sizes.sum()) - nearest_rank(int(sizes.sum()), self._percent)
        if beyond < tail.size:
            return tail.at(tail.size - beyond)
        below = [
            Sample(each.values, each.drawn(n, random))
            for each, n in zip(self._below, sizes - above, strict=True)
        ]
        return Sample.pooled([*below, tail]).percentile(self._percent)


REPLICATES = 1_000
"""How many times a bootstrap draws."""


def bootstrap(whole: float, trials: int, again: Callable[[np.random.Generator], float]) -> Estimate:
    """Percentile interval of what `again` gives with trials and their flows drawn anew, of draws
    that have flows."""
    random = np.random.default_rng(0)
    found = [again(random) for _ in range(REPLICATES)]
    low, high = np.nanquantile(found, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return Estimate(whole, float(low), float(high), trials)
