"""Laws of a positive number, and their parameters by maximum likelihood from a whole sample.

Where scipy has a closed form or a solver that does not fail on volumes of 10^9, it is used; the
shape of Weibull and gamma is the root of the likelihood equation, which has one (tests compare both
with scipy's general optimiser).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import optimize, special, stats

from ebb_volume.series import Numbers

SHAPES = (1e-3, 1e7)
"""Range in which a shape is looked for."""


@dataclass(frozen=True)
class Law:
    """A law with its parameters."""

    name: str
    parameters: dict[str, float]
    frozen: Any
    """Frozen distribution of scipy.stats."""

    def log_density(self, values: Numbers) -> Numbers:
        """Natural logarithm of the density at each value."""
        found: Numbers = self.frozen.logpdf(values)
        return found

    def below(self, values: Numbers) -> Numbers:
        """Share that is not above each value."""
        found: Numbers = self.frozen.cdf(values)
        return found

    def above(self, values: Numbers) -> Numbers:
        """Share that is above each value; exact far out in the tail."""
        found: Numbers = self.frozen.sf(values)
        return found

    def quantile(self, shares: Numbers) -> Numbers:
        """The values that these shares are not above."""
        found: Numbers = self.frozen.ppf(shares)
        return found

    def draw(self, count: int, rng: np.random.Generator) -> Numbers:
        """A sample of independent values."""
        found: Numbers = self.frozen.rvs(size=count, random_state=rng)
        return found


Fitter = Callable[[Numbers], Law]


def lognormal(values: Numbers) -> Law:
    """Maximum likelihood: mean and deviation of the logarithms."""
    logs = np.log(values)
    return lognormal_of(float(logs.mean()), float(logs.std()))


def lognormal_of(mu: float, sigma: float) -> Law:
    """Mean and standard deviation are those of the natural logarithm."""
    frozen = stats.lognorm(sigma, scale=np.exp(mu))
    return Law("log-normal", {"mu": mu, "sigma": sigma}, frozen)


def lognormal_of_moments(mean: float, variance: float) -> Law:
    """The one with this mean and variance."""
    square = float(np.log1p(variance / mean**2))
    return lognormal_of(float(np.log(mean)) - square / 2, square**0.5)


def normal(values: Numbers) -> Law:
    """Maximum likelihood: mean and deviation of the values."""
    mean, deviation = float(values.mean()), float(values.std())
    return Law("normal", {"mean": mean, "deviation": deviation}, stats.norm(mean, deviation))


def exponential(values: Numbers) -> Law:
    """Maximum likelihood: the mean of the values."""
    mean = float(values.mean())
    return Law("exponential", {"mean": mean}, stats.expon(scale=mean))


def weibull(values: Numbers) -> Law:
    """With the mean logarithm L, the shape k is the root of
    sum x^k ln x / sum x^k - 1 / k - L."""
    logs = np.log(values)
    centred = logs - logs.max()

    def slope(k: float) -> float:
        weights = np.exp(k * centred)
        return float((weights * centred).sum() / weights.sum() - 1 / k - centred.mean())

    # The logarithm of a Weibull variable has the standard deviation pi / (shape sqrt 6).
    shape = _root(slope, guess=float(np.pi / np.sqrt(6) / logs.std()))
    power = np.exp(shape * centred).mean() ** (1 / shape)
    scale = float(power * np.exp(logs.max()))
    return Law("Weibull", {"shape": shape, "scale": scale}, stats.weibull_min(shape, scale=scale))


def gamma(values: Numbers) -> Law:
    """The shape k is the root of ln k - digamma(k) - (ln mean - mean ln)."""
    mean = float(values.mean())
    difference = float(np.log(mean) - np.log(values).mean())
    shape = _root(
        lambda k: float(difference - np.log(k) + special.digamma(k)),
        guess=0.5 / max(difference, 1e-9),
    )
    scale = mean / shape
    return Law("gamma", {"shape": shape, "scale": scale}, stats.gamma(shape, scale=scale))


def _root(slope: Callable[[float], float], guess: float) -> float:
    """Root of a function that increases; the edge of the range if it has none inside. It is sought
    around the guess first."""
    low, high = (min(max(edge, SHAPES[0]), SHAPES[1]) for edge in (guess / 2, guess * 2))
    if slope(low) > 0 or slope(high) < 0:
        low, high = SHAPES
        if slope(low) >= 0:
            return low
        if slope(high) <= 0:
            return high
    return float(optimize.brentq(slope, low, high, xtol=1e-10, rtol=1e-12, maxiter=500))


FITTERS: dict[str, Fitter] = {
    "log-normal": lognormal,
    "normal": normal,
    "Weibull": weibull,
    "gamma": gamma,
    "exponential": exponential,
}
"""Laws of a whole sample, by name."""
NESTED = {("exponential", "Weibull"), ("exponential", "gamma")}
"""Pairs of which the first is a special case of the second, with one parameter fewer."""
