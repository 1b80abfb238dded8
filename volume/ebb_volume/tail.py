"""Laws of the tail above a least value: the power law, with or without an exponential cut.

Clauset, Shalizi and Newman, "Power-law distributions in empirical data", SIAM Review 51 (2009): the
least value is the one from which on the fitted law is nearest to the data (Kolmogorov-Smirnov).
The candidates are bounded: `CANDIDATES` distinct values at ranks that are equally spaced. The
package `powerlaw` tries every one, which is quadratic; it is used for the comparisons above the
least value, where it has laws that are truncated there.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import integrate, optimize

from ebb_volume.series import Numbers

CANDIDATES = 200
"""Number of least values that are tried."""
LEAST_TAIL = 50
"""Least number of values in a tail."""
MOST_TAIL = 20_000
"""Most values of a tail in the comparison of laws; of a longer tail a random sample."""
EXPONENTS = (1.01, 1e3)
"""Range of the exponent for `powerlaw`, whose default ends at 3: tails of traffic have 5 and more,
and against an exponent of 3 every other law wins."""
ALTERNATIVES = {
    "log-normal": "lognormal",
    "exponential": "exponential",
    "Weibull": "stretched_exponential",
}
"""Laws that are compared with the power law in the tail, by their names in `powerlaw`."""


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """p(x) = (alpha - 1) / x_min (x / x_min)^-alpha from x_min on."""

    alpha: float
    x_min: float
    tail: int
    """Number of values from x_min on."""
    distance: float
    """Kolmogorov-Smirnov distance between tail and law."""
    candidates: int
    """Number of least values that were tried."""

    def draw(self, count: int, rng: np.random.Generator) -> Numbers:
        """A sample of independent values."""
        found: Numbers = self.x_min * rng.random(count) ** (-1 / (self.alpha - 1))
        return found


@dataclass(frozen=True, slots=True)
class TruncatedPowerLaw:
    """p(x) proportional to x^-alpha e^(-rate x) from x_min on."""

    alpha: float
    rate: float
    """Per byte."""
    x_min: float
    log_likelihood: float


@dataclass(frozen=True, slots=True)
class TailComparison:
    """Power law against another in the tail."""

    alternative: str
    ratio: float
    """Log-likelihood ratio over its standard deviation: above 0 for the power law."""
    p: float
    """Probability of a ratio at least as far from 0 if both were equally good."""

    def verdict(self, level: float = 0.1) -> str:
        """The law that is closer to the tail, or `undecided`."""
        if not self.p < level:
            return "undecided"
        return "power law" if self.ratio > 0 else self.alternative


def fit(values: Numbers, candidates: int = CANDIDATES) -> PowerLaw | None:
    """The power law whose tail is nearest to the data's; none: no tail is long enough."""
    ordered = np.sort(values)
    last = len(ordered) - LEAST_TAIL
    if last < 0:
        return None
    logs = np.log(ordered)
    sums = np.cumsum(logs[::-1])[::-1]
    ranks = np.unique(np.linspace(0, last, candidates).astype(int))
    starts = np.unique(np.searchsorted(ordered, ordered[ranks], side="left"))
    best: PowerLaw | None = None
    for start in starts.tolist():
        count = len(ordered) - start
        excess = float(sums[start] - count * logs[start])
        if excess <= 1e-9 * count:  # all the same, but for rounding
            continue
        alpha = 1 + count / excess
        law = 1 - np.exp((1 - alpha) * (logs[start:] - logs[start]))
        shares = np.arange(count + 1) / count
        distance = float(max((shares[1:] - law).max(), (law - shares[:-1]).max()))
        if best is None or distance < best.distance:
            best = PowerLaw(alpha, float(ordered[start]), count, distance, len(starts))
    return best


def truncated(values: Numbers, x_min: float) -> TruncatedPowerLaw | None:
    """The fit by maximum likelihood; none: too few values, or the optimiser finds no maximum."""
    tail = values[values >= x_min] / x_min
    if len(tail) < LEAST_TAIL:
        return None
    mean_log, mean = float(np.log(tail).mean()), float(tail.mean())

    def loss(point: Numbers) -> float:
        alpha, rate = float(point[0]), float(np.exp(point[1]))
        return alpha * mean_log + rate * mean + log_exponential_integral(alpha, rate)

    starts = ((1 + 1 / max(mean_log, 1e-9), -6.0), (1.0, -np.log(max(mean - 1, 1e-9))))
    found = min(
        (optimize.minimize(loss, start, method="Nelder-Mead") for start in starts),
        key=lambda result: result.fun,
    )
    if not np.isfinite(found.fun):
        return None
    rate = float(np.exp(found.x[1]))
    likelihood = -len(tail) * (float(found.fun) + float(np.log(x_min)))
    return TruncatedPowerLaw(float(found.x[0]), rate / x_min, x_min, likelihood)


def log_exponential_integral(order: float, argument: float) -> float:
    """ln of the integral of t^-order e^(-argument t) from t = 1 on. scipy has whole orders only."""

    def integrand(s: float) -> float:
        return float(np.exp(s * (1 - order) - argument * np.expm1(s)))

    # t = e^s; beyond the limit the integrand is below e^-700.
    limit = float(np.log1p((700 + 40 * abs(1 - order)) / argument))
    total, _error = integrate.quad(integrand, 0, limit, limit=200)
    return float(np.log(total)) - argument if total > 0 else float("inf")


def p_value(
    values: Numbers, found: PowerLaw, rounds: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Share of samples of the law whose distance is at least that of the data, and its standard
    error. Below 0.1 a power law is ruled out. Samples are drawn from the law above the least value
    and from the data below it (Clauset et al., section 4.1), and fitted anew."""
    body = values[values < found.x_min]
    share = found.tail / len(values)
    worse = 0
    for _ in range(rounds):
        tail = int(rng.binomial(len(values), share)) if len(body) else len(values)
        sample = found.draw(tail, rng)
        if len(body):
            sample = np.concatenate([sample, rng.choice(body, len(values) - tail)])
        again = fit(sample, found.candidates)
        worse += again is None or again.distance >= found.distance
    p = worse / rounds
    return p, max(p * (1 - p), 1 / rounds) ** 0.5 / rounds**0.5


def spread(values: Numbers, rounds: int, rng: np.random.Generator) -> dict[str, float]:
    """Standard deviations of exponent, least value and length of the tail, by resampling."""
    fits = [fit(rng.choice(values, len(values))) for _ in range(rounds)]
    known = np.array([(f.alpha, f.x_min, f.tail) for f in fits if f]).reshape(-1, 3)
    deviations = known.std(axis=0) if len(known) > 1 else np.full(3, np.nan)
    return dict(zip(("alpha", "x_min", "tail"), deviations.tolist(), strict=True))


def compare(values: Numbers, x_min: float, rng: np.random.Generator) -> list[TailComparison]:
    """The power law against the others from the least value on, each fitted there (Vuong, as in
    Clauset et al., appendix C). Values count in units of the least one."""
    tail = values[values >= x_min] / x_min
    if len(tail) > MOST_TAIL:
        tail = rng.choice(tail, MOST_TAIL, replace=False)
    fitted = _powerlaw(tail)
    found = []
    for name, theirs in ALTERNATIVES.items():
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            ratio, p = fitted.distribution_compare("power_law", theirs, normalized_ratio=True)
        found.append(TailComparison(name, float(ratio), float(p)))
    return found


def _powerlaw(tail: Numbers) -> Any:
    import powerlaw

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return powerlaw.Fit(
            tail, xmin=1.0, verbose=False, parameter_ranges={"alpha": list(EXPONENTS)}
        )
