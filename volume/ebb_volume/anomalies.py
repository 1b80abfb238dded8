"""Bins and stretches of time that leave the law of the others.

The law is log-normal with median and spread that a part of the bins cannot move (median, and 1.4826
times the median absolute deviation of the logarithms). A daily or other period is taken out first.
Limits are such that traffic of the law has a flag of each kind with probability `LEVEL`.
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
FULL = 0.98
"""Share of the capacity from which on a bin is full."""
PILE = 0.01
"""Share of bins that are full, or empty, from which on traffic is said to follow no law for it."""
PERIOD_SHARE = 0.3
"""Share of the variance of logarithms that a period has to explain."""
HARMONICS = 3
LEAST_PERIODS = 2
LEAST_PER_PERIOD = 12
WINDOWS = 60
"""Stretches that a series is divided into, at most."""
Flags = NDArray[np.bool_]
MOST_FLAGS = 1000
"""Flags of a kind that are listed."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that leaves the law."""

    kind: str
    """`bin`, or `stretch` of bins."""
    direction: str
    """`high`, `low`, `empty` or `full`."""
    begin_s: float
    """From the first bin on."""
    end_s: float
    rate_bps: float
    """Mean."""
    expected_bps: float
    """Median of the law there."""
    deviations: float
    """How far the mean logarithm is from the law's, in its standard deviations; 0 for empty and
    full."""


@dataclass(frozen=True, slots=True)
class Period:
    """A component that repeats."""

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
    """As it was given; none: the highest rate, if bins pile up below it."""
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
    """Raises `Unfit` for fewer than 20 bins with traffic."""
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
    """The highest rate, if more bins are just below it than just below that: a tail thins out.
    Where most bins are there, the rate is constant as far as anyone can tell."""
    top = float(rates.max())
    full = np.mean(rates >= FULL * top)
    below = np.mean((rates >= FULL**2 * top) & (rates < FULL * top))
    return top if PILE <= full <= 0.5 and full > 2 * below else None


def _period(logs: Numbers, slot_s: float) -> tuple[Numbers, Period | None]:
    """The periodic part, around 0, and its period: the strongest line of the spectrum with two of
    its
    harmonics, if it explains enough and noise with this autocorrelation would not."""
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
    left = effective_size(centred - cycle)
    by_chance = 2 * HARMONICS / max(left, 2 * HARMONICS)
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
            if empty_expected:  # told once, as a stretch or of the whole
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
    """Stretches whose mean logarithm is too far off, the correlation of bins regarded."""
    count = len(scores)
    windows = min(WINDOWS, count // LEAST_BINS)
    if windows < 3:
        return []
    length = count // windows
    limit = float(stats.norm.isf(LEVEL / 2 / windows))
    clipped = np.clip(scores, -4, 4)  # so that what is flagged does not make itself usual
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
    """Stretches that follow each other and leave the law in the same way as one, with its largest
    deviation."""
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
