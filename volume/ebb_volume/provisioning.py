"""How fast a link has to be so that a share of bins of at most epsilon needs more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, log10, sqrt

import numpy as np

from ebb_volume import laws
from ebb_volume.fitting import Unfit, usable
from ebb_volume.series import Numbers, Series

EPSILONS = (0.5, 0.1, 0.05, 0.01)
"""Those of the thesis."""
MARGIN = 1.3
"""Rule of thumb: 30 % above the mean."""
METHODS = ("meent", "normal", "log-normal", "Weibull", "rule", "observed")
"""In the order of tables; `observed`: the quantile of the data themselves."""


@dataclass(frozen=True, slots=True)
class Provision:
    """A capacity by one method."""

    method: str
    slot_ns: int
    epsilon: float
    """Share of bins that may need more."""
    capacity_bps: float
    achieved: float
    """Share of bins that needed as much or more: epsilon-hat."""
    bins: int
    """Bins of which `achieved` is a share."""


def meent_bps(rates: Numbers, epsilon: float, base10: bool = False) -> float:
    """mean + sqrt(-2 ln(epsilon) variance): a bound by Chernoff for normal traffic (Pras et al.
    2009). `base10`: with the logarithm to base 10, which is no bound."""
    return float(rates.mean() + meent_margin(epsilon, base10) * rates.std())


def meent_margin(epsilon: float, base10: bool = False) -> float:
    """The margin in standard deviations."""
    return sqrt(-2 * (log10 if base10 else log)(epsilon))


def provision(
    series: Series,
    epsilons: Sequence[float] = EPSILONS,
    learn: float = 1.0,
    moments: bool = False,
    base10: bool = False,
) -> list[Provision]:
    """Every method at every epsilon. `learn`: share of the bins, from the first on, of which the
    methods know; below 1 the others are those that capacities are scored on. `moments`: the
    log-normal law is that with mean and variance of the traffic instead of the likeliest. `base10`:
    see `meent_bps`."""
    count = len(series)
    if not count:
        raise Unfit(f"{series.name}: has no whole bin of {series.slot_ns} ns")
    known = series.part(0, max(round(count * learn), 1))
    scored = series.part(len(known), count) if learn < 1 else series
    if not len(scored):
        raise Unfit(f"{series.name}: has no bins left to score capacities on")
    found = []
    for epsilon in epsilons:
        for method, capacity in capacities(known, epsilon, moments, base10).items():
            over = float(np.mean(scored.rate_bps >= capacity))
            found.append(Provision(method, series.slot_ns, epsilon, capacity, over, len(scored)))
    return found


def capacities(
    series: Series, epsilon: float, moments: bool = False, base10: bool = False
) -> dict[str, float]:
    """Capacity by method, bit/s. A law is that of the bins with traffic, and those without are
    counted. Without a law: those methods that need none."""
    rates = series.rate_bps
    mean, variance = float(rates.mean()), float(rates.var())
    found = {
        "meent": meent_bps(rates, epsilon, base10),
        "rule": MARGIN * mean,
        "observed": float(np.quantile(rates, 1 - epsilon)),
    }
    try:
        values = usable(series) * (8e9 / series.slot_ns)
    except Unfit:
        return _ordered(found)
    within = 1 - epsilon * len(series) / len(values)
    by_law = {
        "normal": laws.normal(rates),
        "log-normal": laws.lognormal(values),
        "Weibull": laws.weibull(values),
    }
    if moments:
        by_law["log-normal"] = laws.lognormal_of_moments(mean, variance)
    for name, law in by_law.items():
        whole = name == "normal" or (moments and name == "log-normal")
        share = 1 - epsilon if whole else within
        found[name] = max(float(law.quantile(np.array([share]))[0]), 0.0) if share > 0 else 0.0
    return _ordered(found)


def _ordered(found: dict[str, float]) -> dict[str, float]:
    return {method: found[method] for method in METHODS if method in found}
