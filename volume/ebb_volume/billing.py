"""The 95th percentile, by which traffic is billed, and how well a law predicts it.

An operator measures intervals of five minutes for a month, drops the highest 5 % and bills the
highest rate that is left. A law that is fitted to the short bins of a part predicts the percentile;
each part (a point, or a stretch of the only one) is a pair of actual and predicted. The bill of an
only series is that of all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ebb_volume import laws
from ebb_volume.fitting import LEAST_BINS, Unfit, usable
from ebb_volume.notes import Notes
from ebb_volume.series import Numbers, Series

SHARE = 0.95
INTERVAL_NS = 300 * 10**9
MODELS = ("log-normal", "Weibull", "normal")
STRETCHES = 20
"""Into how many stretches an only series is divided."""


@dataclass(frozen=True, slots=True)
class Bill:
    """The percentile of a part."""

    name: str
    billed_bps: float | None
    """By intervals; none: the part has not one whole interval."""
    intervals: int
    actual_bps: float
    """Rate by the short bins, which is what the laws predict."""
    predicted_bps: dict[str, float]
    """By model."""


def percentile_bps(rates: Numbers, share: float = SHARE) -> float:
    """The highest rate after the highest 1 - share of the rates are dropped: the smallest that
    `share` of all are not above."""
    ordered = np.sort(rates)
    # As 0.95 of 20 is 19.000000000000004, a rank is not rounded up for the last bits.
    rank = int(np.ceil(share * len(ordered) - 1e-9))
    return float(ordered[max(rank, 1) - 1])


def bill(series: Series, interval_ns: int = INTERVAL_NS) -> Bill:
    """Raises `Unfit` and, for an interval that is no multiple of the bins, `InputError`."""
    values = usable(series) * (8e9 / series.slot_ns)
    rates = series.rate_bps
    share = 1 - (1 - SHARE) * len(series) / len(values)
    fitted = {
        "log-normal": laws.lognormal(values),
        "Weibull": laws.weibull(values),
        "normal": laws.normal(values),
    }
    predicted = {
        name: max(float(law.quantile(np.array([share]))[0]), 0.0) if share > 0 else 0.0
        for name, law in fitted.items()
    }
    long = series.joined(interval_ns)
    billed = percentile_bps(long.rate_bps) if len(long) else None
    return Bill(str(series.name), billed, len(long), percentile_bps(rates), predicted)


def bills(series: Sequence[Series], interval_ns: int, notes: Notes) -> list[Bill]:
    """A bill for each series, or of an only one for each of its stretches. Raises `Unfit` if there
    is none."""
    parts = stretches(series[0]) if len(series) == 1 else list(series)
    found, why = [], ""
    for place, part in enumerate(parts, 1):
        try:
            made = bill(part, interval_ns)
            if len(series) == 1 < len(parts):
                made = replace(made, name=f"{made.name} {place}/{len(parts)}")
            found.append(made)
        except Unfit as error:
            why = str(error)
            notes.add(why)
    if not found:
        raise Unfit(why)
    return found


def whole(series: Sequence[Series], bills: Sequence[Bill], interval_ns: int) -> Bill | None:
    """The bill of an only series of which `bills` has the stretches. None: it is among them."""
    if len(series) > 1 or bills[0].name == str(series[0].name):
        return None
    return bill(series[0], interval_ns)


def stretches(series: Series, most: int = STRETCHES) -> list[Series]:
    """Parts of the same length, each with bins enough for a law."""
    count = max(min(most, len(series) // (2 * LEAST_BINS)), 1)
    length = len(series) // count
    parts = [series.part(i * length, (i + 1) * length) for i in range(count)]
    return parts if count > 1 else [series]


def nrmse(bills: Sequence[Bill], model: str) -> float:
    """Root of the mean squared error of the predictions over the mean of what is actual. The
    thesis does not say by what it divides."""
    actual = np.array([each.actual_bps for each in bills])
    predicted = np.array([each.predicted_bps[model] for each in bills])
    return float(np.sqrt(np.mean((predicted - actual) ** 2)) / actual.mean())
