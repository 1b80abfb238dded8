"""Traffic whose law is known: for tests, the calibration table and the examples."""

from __future__ import annotations

import numpy as np
from scipy import signal, stats

from ebb_volume.series import Name, Numbers, Series

SLOT_NS = 100_000_000


def series(volumes: Numbers, name: str, slot_ns: int = SLOT_NS) -> Series:
    """Bytes per bin as a series that begins at 0; packets of 1000 bytes."""
    sizes = np.rint(np.maximum(volumes, 0)).astype(np.int64)
    return Series(Name(name), 0, slot_ns, sizes, sizes // 1000)


def gaussian(count: int, correlation: float, rng: np.random.Generator) -> Numbers:
    """Standard normal, each value correlated with the one before it (autoregressive)."""
    noise = rng.standard_normal(count) * (1 - correlation**2) ** 0.5
    noise[0] = rng.standard_normal()
    found: Numbers = signal.lfilter([1], [1, -correlation], noise)
    return found


def lognormal(
    count: int, mean: float, variation: float, rng: np.random.Generator, correlation: float = 0
) -> Numbers:
    """`variation`: standard deviation over mean. `correlation`: of the logarithms of neighbours."""
    square = np.log1p(variation**2)
    found: Numbers = np.exp(
        np.log(mean) - square / 2 + square**0.5 * gaussian(count, correlation, rng)
    )
    return found


def of_law(law: str, count: int, rng: np.random.Generator) -> Numbers:
    """Draws of mean about 10^6 with a variation near 0.45 where the law has a shape."""
    if law == "log-normal":
        return lognormal(count, 1e6, 0.45, rng)
    frozen = {
        "normal": stats.truncnorm(-1 / 0.3, np.inf, 1e6, 3e5),
        "Weibull": stats.weibull_min(2.4, scale=1.13e6),
        "gamma": stats.gamma(5, scale=2e5),
        "exponential": stats.expon(scale=1e6),
        "power law": stats.pareto(2.5, scale=6e5),
    }[law]
    found: Numbers = frozen.rvs(size=count, random_state=rng)
    return found


def poisson(count: int, packets: float, size_bytes: int, rng: np.random.Generator) -> Numbers:
    """Packets of one size that arrive independently; `packets`: mean per bin."""
    found: Numbers = rng.poisson(packets, count).astype(np.float64) * size_bytes
    return found


def on_off(
    count: int, sources: int, shape: float, rng: np.random.Generator, mean_bins: float = 10
) -> Numbers:
    """Sources that send 10^5 bytes per bin while on; on and off times are Pareto with this shape
    (below 2: the sum is self-similar, Willinger et al. 1997)."""
    parts = []
    least = mean_bins * (shape - 1) / shape
    warm_up = count // 2
    for _ in range(sources):
        periods = 8 + int(3 * (count + warm_up) / mean_bins)
        ends = np.cumsum(least * (1 - rng.random(periods)) ** (-1 / shape))
        at = np.arange(warm_up, warm_up + count + 1)
        # Time on until each instant: periods alternate, and the first is on or off by chance.
        first = int(rng.integers(2))
        lengths = np.diff(ends, prepend=0)
        on = np.cumsum(np.where((np.arange(periods) + first) % 2 == 0, lengths, 0))
        so_far = np.interp(at, np.concatenate(([0], ends)), np.concatenate(([0], on)))
        parts.append(np.diff(so_far))
    found: Numbers = np.sum(parts, axis=0) * 1e5
    return found


def outage(count: int, rng: np.random.Generator) -> Series:
    """A link of 100 Mbit/s that is full for a while, and another while down: the anomalous traces
    of the thesis (figure 3a)."""
    capacity = 100e6 / 8 * SLOT_NS / 1e9
    volumes = lognormal(count, 0.4 * capacity, 0.4, rng, 0.3)
    volumes[count // 4 : count // 4 + count // 10] = 0
    full = slice(count * 6 // 10, count * 6 // 10 + count // 12)
    volumes[full] = capacity * (1 - 0.004 * rng.random(volumes[full].size))
    return series(np.minimum(volumes, capacity), "outage")
