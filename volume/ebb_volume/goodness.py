"""How well a law fits: correlation of the probability plot, Kolmogorov-Smirnov with a bootstrap."""

from __future__ import annotations

import numpy as np

from ebb_volume.laws import Fitter, Law
from ebb_volume.series import Numbers

STRONG = 0.95
"""Least correlation of a fit that is called strong."""


def plot_correlation(values: Numbers, law: Law) -> float:
    """Correlation of the ordered values with the law's quantiles at i / (n + 1): gamma of the
    thesis, after Kilpi and Norros."""
    count = len(values)
    quantiles = law.quantile(np.arange(1, count + 1) / (count + 1))
    return float(np.corrcoef(np.sort(values), quantiles)[0, 1])


def distance(values: Numbers, law: Law) -> float:
    """Kolmogorov-Smirnov distance: the largest difference between the distribution functions of the
    data and of the law."""
    count = len(values)
    shares = law.below(np.sort(values))
    ranks = np.arange(count + 1) / count
    return float(max((ranks[1:] - shares).max(), (shares - ranks[:-1]).max()))


def bootstrap_p(
    values: Numbers, law: Law, fitter: Fitter, rounds: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Share of samples of the law, each fitted anew, that are at least as far from their fit as the
    data from theirs; and its standard error. Samples are independent, and bins are not: the more
    they depend on each other, the more often a law that holds is refused."""
    own = distance(values, law)
    worse = 0
    for _ in range(rounds):
        sample = law.draw(len(values), rng)
        if law.name == "normal":  # others are fitted to positive values only
            sample = np.where(sample > 0, sample, law.parameters["mean"])
        worse += distance(sample, fitter(sample)) >= own
    p = worse / rounds
    return p, max(p * (1 - p), 1 / rounds) ** 0.5 / rounds**0.5
