"""How bins depend on those before them: autocorrelation, effective sample size, stationarity."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import fft

from ebb_volume.series import Numbers

MOST_TESTED = 20_000
"""Values that the tests of stationarity look at; more are joined to as many neighbours' means. The
regression of ADF needs memory for values times lags."""
LAGS = (1, 10, 100)
"""Lags of which the autocorrelation is reported."""


@dataclass(frozen=True, slots=True)
class Stationarity:
    """Two tests with opposite hypotheses. KPSS assumes that the series is stationary, ADF that it
    has a unit root."""

    kpss: float
    kpss_p: float
    """Between 0.01 and 0.1, at which its table ends."""
    adf: float
    adf_p: float
    tested: int
    """Values that were tested."""

    def verdict(self, level: float = 0.05) -> str:
        """`stationary`, `not stationary`, or `undecided` where the two tests disagree."""
        steady, rooted = self.kpss_p >= level, self.adf_p >= level
        if steady and not rooted:
            return "stationary"
        if not steady and rooted:
            return "not stationary"
        return "undecided"


def stationarity(values: Numbers) -> Stationarity:
    """KPSS around a level with n^0.5 lags, ADF with 12 (n / 100)^0.25 lags (Schwert)."""
    from statsmodels.tsa.stattools import adfuller, kpss

    tested = thinned(values, MOST_TESTED)
    count = len(tested)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a p-value is at the end of the table
        level, level_p, *_ = kpss(tested, regression="c", nlags=int(count**0.5))
        lags = min(int(12 * (count / 100) ** 0.25), count // 2 - 2)
        root, root_p, *_ = adfuller(tested, maxlag=lags, autolag=None)
    return Stationarity(float(level), float(level_p), float(root), float(root_p), count)


def thinned(values: Numbers, most: int) -> Numbers:
    """Means of neighbours, so that there are at most this many."""
    step = -(-len(values) // most)
    whole = len(values) // step * step
    found: Numbers = values[:whole].reshape(-1, step).mean(axis=1)
    return found


def autocorrelation(values: Numbers, most_lag: int | None = None) -> Numbers:
    """At lags from 0 on, by the fast Fourier transform; all 0 but the first if nothing varies."""
    count = len(values)
    lags = min(count - 1, most_lag if most_lag is not None else count - 1)
    centred = values - values.mean()
    size = int(fft.next_fast_len(2 * count - 1, real=True))
    power = np.abs(fft.rfft(centred, size)) ** 2
    found: Numbers = fft.irfft(power, size)[: lags + 1]
    if not found[0] > 0:
        return np.eye(1, lags + 1, dtype=np.float64).reshape(-1)
    return np.asarray(found / found[0], np.float64)


def effective_size(values: Numbers) -> float:
    """How many independent values have a mean as certain as that of these: n / (1 + 2 sum rho).
    The sum ends where two neighbours together are not positive (Geyer 1992)."""
    count = len(values)
    rho = autocorrelation(values)
    pairs = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs <= 0)
    used = pairs[: negative[0]] if len(negative) else pairs
    time = max(2 * float(np.minimum.accumulate(used).sum()) - 1, 1 / count) if len(used) else 1.0
    return min(count / time, float(count)) if time >= 1 else float(count)
