"""Volume per bin of flows that arrive at random, as a small model that shares nothing with Ebb's
programs but the fits: does a log-normal law need flows of different rates?

`.venv/bin/python experiments/digs/volume_rates.py` prints in how many of ten series each law beats
every other one, with flows that all have the same rate and with flows whose rates are log-normal.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
from ebb_volume import comparison, laws

Numbers = npt.NDArray[np.float64]
BIN_S = 0.01
WARM_UP_S = 10.0
LOAD_BPS = 1e9
"""Average of all flows together."""
RATE_BPS = 5e7
"""Rate of a flow; the median of rates that differ."""
SIGMA = 1.5
"""Standard deviation of the logarithm of rates that differ."""


def sizes(draw: np.random.Generator, count: int) -> Numbers:
    """Bits of flows: Pareto from 50 KB to 30 MB with a shape of 1.2, heavy as web search."""
    return np.minimum((draw.pareto(1.2, count) + 1) * 50_000, 30e6) * 8


def volumes(draw: np.random.Generator, bins: int, *, equal: bool) -> Numbers:
    """Bits per bin. Flows begin at instants of a Poisson process, and each has one rate from its
    begin to its end."""
    seconds = WARM_UP_S + bins * BIN_S
    mean = float(sizes(np.random.default_rng(0), 1_000_000).mean())
    count = draw.poisson(LOAD_BPS / mean * seconds)
    begin = draw.uniform(0, seconds, count)
    rate = np.full(count, RATE_BPS)
    if not equal:
        rate = draw.lognormal(np.log(RATE_BPS), SIGMA, count)
    end = begin + sizes(draw, count) / rate
    edges = WARM_UP_S + np.arange(bins + 1) * BIN_S
    found = np.zeros(bins)
    for start, stop, bps in zip(begin, end, rate, strict=True):
        low, high = np.searchsorted(edges, (start, stop))
        inside = np.clip(edges[max(low - 1, 0) : high + 1], start, stop)
        if len(inside) > 1:
            found[max(low - 1, 0) : max(low - 1, 0) + len(inside) - 1] += np.diff(inside) * bps
    return found


def winner(values: Numbers) -> str | None:
    """The law that beats every other one; none: no law does."""
    positive = values[values > 0]
    fitted = [fit(positive) for fit in laws.FITTERS.values()]
    return comparison.best(comparison.compare_all(positive, fitted), list(laws.FITTERS))


def winners(seeds: int, bins: int, *, equal: bool) -> Counter[str | None]:
    """How many series each law wins."""
    return Counter(
        winner(volumes(np.random.default_rng(seed), bins, equal=equal)) for seed in range(seeds)
    )


def main() -> None:
    """A line for each number of bins and kind of rates."""
    for bins in (1000, 2000, 6000):
        for equal in (True, False):
            found = winners(10, bins, equal=equal).most_common()
            text = ", ".join(f"{law or 'none'} {count}" for law, count in found)
            print(f"{bins} bins, {'equal rates' if equal else 'log-normal rates'}: {text}")


if __name__ == "__main__":
    main()
