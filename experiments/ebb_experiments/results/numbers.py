"""Numbers of many flows, and numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest-rank percentile."""
    if not values:
        return math.nan
    ordered = sorted(values)
    rank = math.ceil(percent / 100 * len(ordered))
    return ordered[max(0, rank - 1)]


def three_digits(value: float) -> str:
    """A number with three digits, without powers of ten below a million."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
