"""Metrics of the volume that arrives per time bin, and of its law."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from ebb_volume import comparison, goodness, laws
from ebb_volume.fitting import LEAST_BINS

from ebb_experiments.study.arrivals import Arrival, arrivals
from ebb_experiments.study.metric_spec import Volume
from ebb_experiments.study.store import Tables

Numbers = npt.NDArray[np.float64]


def volume(metric: Volume, tables: Tables) -> float | None:
    """None: there are fewer than 20 bins with bytes, or all have the same."""
    found = [
        arrival
        for arrival in arrivals(tables, metric.traffic)
        if metric.destination in (None, arrival.destination)
    ]
    sizes = bins(found, metric.bin_ns, metric.settle_ns)
    values = sizes[sizes > 0]
    if len(values) < LEAST_BINS or values.min() == values.max():
        return None
    if metric.stat == "variation":
        return float(sizes.std() / sizes.mean())
    if metric.stat == "empty":
        return float(np.mean(sizes == 0))
    if metric.stat == "correlation":
        return goodness.plot_correlation(values, laws.FITTERS[metric.law](values))
    fitted = [fitter(values) for fitter in laws.FITTERS.values()]
    pairs = comparison.compare_all(values, fitted)
    if metric.stat == "best":
        return float(comparison.best(pairs, list(laws.FITTERS)) == metric.law)
    return float(metric.law not in comparison.leading(pairs, list(laws.FITTERS)))


def bins(found: list[Arrival], bin_ns: int, settle_ns: int) -> Numbers:
    """Bytes per bin, from the first that begins at `settle_ns` or later to the last that is whole
    before the last arrival. Between samples of an object its bytes come evenly."""
    last = max((float(arrival.at_ns[-1]) for arrival in found), default=0.0)
    first, end = -(-settle_ns // bin_ns), int(last // bin_ns)
    sizes = np.zeros(max(end - first, 0))
    for arrival in found:
        low = max(int(arrival.at_ns[0] // bin_ns), first)
        high = min(int(arrival.at_ns[-1] // bin_ns) + 1, end)
        if low < high:
            edges = np.arange(low, high + 1, dtype=np.float64) * bin_ns
            sizes[low - first : high - first] += np.diff(arrival.by(edges))
    return sizes
