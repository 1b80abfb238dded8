"""Bins and stretches of time that deviate from the law of the others.

The law is log-normal; its median and spread are robust, so that a few outliers cannot move them
(median, and 1.4826 times the median absolute deviation of the logarithms). A daily or other period
is taken out first. Limits are such that traffic of the law has a flag of each kind with probability
`LEVEL`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ebb_volume.dependence import autocorrelation, effective_size
from ebb_volume.fitting import LEAST_BINS, Unfit
from ebb_volume.series import Numbers, Series

LEVEL = 0.01
"""Probability of a false flag, for all bins and for all stretches."""
MAD_TO_DEVIATION = 1.4826
"""Standard deviation of normal values over their median absolute deviation."""
FULL = 0.98
"""Least share of the capacity at which a bin is full."""
PILE = 0.01
"""Least share of full, or empty, bins with which the whole traffic counts as following no law."""
PERIOD_SHARE = 0.3
"""Share of the variance of logarithms that a period has to explain."""
HARMONICS = 3
"""Sine waves of a periodic part: of the period, and of a half and a third of it."""
LEAST_PERIODS = 2
"""Least number of periods in a series."""
LEAST_PER_PERIOD = 12
"""Least number of bins in a period."""
WINDOWS = 60
"""Most stretches that a series is divided into."""
Flags = NDArray[np.bool_]
MOST_FLAGS = 1000
"""Most flags of a series that are listed."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A bin, or stretch of bins, that deviates from the law."""

    kind: str
    """`bin`, or `stretch` of bins."""
    direction: str
    """`high`, `low`, `empty` or `full`."""
    begin_s: float
    """Time since the begin of the first bin."""
    end_s: float
    rate_bps: float
    """Mean rate."""
    expected_bps: float
    """Median of the law there."""
    deviations: float
    """How far the mean logarithm is from the law's, in its standard deviations; 0 for empty and
    full."""


@dataclass(frozen=True, slots=True)
class Period:
    """A periodic component."""

    period_s: float
    explained: float
    """Share of the variance of logarithms."""


@dataclass(frozen=True)
class Anomalies:
    """Anomalies of one series."""

    flags: list[Flag]
    more: int
    """Flags beyond those that are listed."""
    period: Period | None
    empty_share: float
    full_share: float
    capacity_bps: float | None
    """Capacity as given, or else the highest rate if bins pile up just below it; none: neither is
    known."""
    expected_bps: Numbers
    """Median of the law in each bin."""
    spread: float
    """Standard deviation of the logarithms around it."""

    @property
    def findings(self) -> list[str]:
        """Why the whole series may follow no law, a line each."""
        found = []
        if self.empty_share >= PILE:
            found.append(f"{self.empty_share:.1%} of the bins are empty: an outage, or hardly used")
        if self.full_share >= PILE:
            found.append(f"{self.full_share:.1%} of the bins are at the capacity: the link is full")
        if self.period:
            found.append(
                f"a period of {self.period.period_s:.6g} s explains {self.period.explained:.0%} of "
                "the variance: one law for all of the time does not fit"
            )
        return found


def find(series: Series, capacity_bps: float | None = None) -> Anomalies:
    """Anomalies of a series. Raises `Unfit` for fewer than 20 bins with traffic."""
    rates = series.rate_bps
    used = rates > 0
    if used.sum() < LEAST_BINS:
        raise Unfit(
            f"{series.name}: has {int(used.sum())} bins with traffic; at least {LEAST_BINS} are "
            "needed to say which of them are unusual"
        )
    logs = np.log(np.where(used, rates, np.median(rates[used])))
    cycle, period = _period(logs, series.slot_ns / 1e9)
    residual = logs - cycle
    middle = float(np.median(residual[used]))
    spread = float(np.median(np.abs(residual[used] - middle))) * MAD_TO_DEVIATION
    scores = (residual - middle) / spread if spread > 0 else np.zeros(len(logs))
    expected = np.exp(cycle + middle)
    top = capacity_bps or _pile(rates)
    full = rates >= FULL * top if top else np.zeros(len(rates), np.bool_)
    flags = _bins(series, rates, used, scores, expected)
    flags += _joined(_stretches(series, rates, used, full, scores, expected))
    return Anomalies(
        flags=flags[:MOST_FLAGS],
        more=max(len(flags) - MOST_FLAGS, 0),
        period=period,
        empty_share=float(np.mean(~used)),
        full_share=float(np.mean(full)),
        capacity_bps=top,
        expected_bps=expected,
        spread=spread,
    )


def _pile(rates: Numbers) -> float | None:
    """The highest rate, if it looks like a capacity: more bins are just below it than further
    below, as no tail has. None if most bins are there: then the rate may simply be constant."""
    top = float(rates.max())
    full = np.mean(rates >= FULL * top)
    below = np.mean((rates >= FULL**2 * top) & (rates < FULL * top))
    return top if PILE <= full <= 0.5 and full > 2 * below else None


def _period(logs: Numbers, slot_s: float) -> tuple[Numbers, Period | None]:
    """The periodic part, around 0, and its period: the strongest line of the spectrum with its next
    two harmonics, if they explain enough, and more than they would of noise with this
    autocorrelation."""
    count = len(logs)
    centred = logs - logs.mean()
    total = float(centred @ centred)
    nothing = np.zeros(count)
    if count < LEAST_PERIODS * LEAST_PER_PERIOD or not total > 0:
        return nothing, None
    power = np.abs(np.fft.rfft(centred)) ** 2
    candidates = np.arange(LEAST_PERIODS, count // LEAST_PER_PERIOD + 1)
    strongest = int(candidates[np.argmax(power[candidates])])
    angle = 2 * np.pi * strongest * np.arange(count) / count
    waves = np.array([f(h * angle) for h in range(1, HARMONICS + 1) for f in (np.cos, np.sin)])
    weights, *_ = np.linalg.lstsq(waves.T, centred, rcond=None)
    cycle = weights @ waves
    explained = 1 - float(((centred - cycle) ** 2).sum()) / total
    # Correlated noise has few independent values, of which waves explain much by chance.
    independent = effective_size(centred - cycle)
    by_chance = 2 * HARMONICS / max(independent, 2 * HARMONICS)
    if explained < max(PERIOD_SHARE, 3 * by_chance):
        return nothing, None
    return cycle, Period(count * slot_s / strongest, explained)


def _bins(
    series: Series, rates: Numbers, used: Flags, scores: Numbers, expected: Numbers
) -> list[Flag]:
    limit = float(stats.norm.isf(LEVEL / 2 / len(scores)))
    slot_s = series.slot_ns / 1e9
    empty_expected = np.mean(~used) >= PILE
    found = []
    for index in np.flatnonzero((np.abs(scores) > limit) | ~used).tolist():
        if not used[index]:
            if empty_expected:  # reported once, for the stretch or the whole
                continue
            direction, score = "empty", 0.0
        else:
            score = float(scores[index])
            direction = "high" if score > 0 else "low"
        found.append(
            Flag("bin", direction, index * slot_s, (index + 1) * slot_s, float(rates[index]),
                 float(expected[index]), score)
        )  # fmt: skip
    return found


def _stretches(
    series: Series, rates: Numbers, used: Flags, full: Flags, scores: Numbers, expected: Numbers
) -> list[Flag]:
    """Stretches that are mostly empty or full, or whose mean logarithm is too far off, given the
    correlation of bins."""
    count = len(scores)
    windows = min(WINDOWS, count // LEAST_BINS)
    if windows < 3:
        return []
    length = count // windows
    limit = float(stats.norm.isf(LEVEL / 2 / windows))
    clipped = np.clip(scores, -4, 4)  # so that outliers do not widen their own limit
    rho = autocorrelation(clipped, length - 1)
    negative = np.flatnonzero(rho <= 0)
    used_lags = rho[1 : negative[0]] if len(negative) else rho[1:]
    weights = 1 - np.arange(1, len(used_lags) + 1) / length
    deviation = sqrt((1 + 2 * float((used_lags * weights).sum())) / length)
    slot_s = series.slot_ns / 1e9
    found = []
    for window in range(windows):
        part = slice(window * length, (window + 1) * length)
        begin_s, end_s = part.start * slot_s, part.stop * slot_s
        mean_bps, usual = float(rates[part].mean()), float(np.median(expected[part]))
        state = (
            "empty" if np.mean(used[part]) < 0.5 else "full" if np.mean(full[part]) > 0.5 else ""
        )
        if state:
            found.append(Flag("stretch", state, begin_s, end_s, mean_bps, usual, 0.0))
            continue
        score = float(scores[part].mean()) / deviation
        if abs(score) > limit:
            direction = "high" if score > 0 else "low"
            found.append(Flag("stretch", direction, begin_s, end_s, mean_bps, usual, score))
    return found


def _joined(flags: list[Flag]) -> list[Flag]:
    """The flags, with consecutive stretches of one direction merged; the deviation of such a one is
    the largest of its stretches."""
    found: list[Flag] = []
    for flag in flags:
        last = found[-1] if found else None
        if last and last.end_s == flag.begin_s and last.direction == flag.direction:
            lengths = np.array([last.end_s - last.begin_s, flag.end_s - flag.begin_s])
            rates = np.array([last.rate_bps, flag.rate_bps])
            found[-1] = replace(
                last, end_s=flag.end_s, rate_bps=float(rates @ lengths / lengths.sum()),
                deviations=max(last.deviations, flag.deviations, key=abs),
            )  # fmt: skip
        else:
            found.append(flag)
    return found
