"""Numbers of many flows, and numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest-rank percentile."""
    if not values:
        return math.nan
    return sorted(values)[nearest_rank(len(values), percent) - 1]


def nearest_rank(count: int, percent: float) -> int:
    """Rank, from 1, of the smallest of `count` values that `percent` of them do not exceed. In
    decimal numbers, as people write them: 99.9 % of 1000 values are 999."""
    return max(1, math.ceil(Fraction(str(percent)) * count / 100))


def three_digits(value: float) -> str:
    """A number with three digits, without powers of ten below a million."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
