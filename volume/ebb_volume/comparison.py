"""Two laws on the same sample: Vuong's test, with and without regard to dependence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from math import erfc, sqrt

import numpy as np
from scipy import stats

from ebb_volume.dependence import effective_size
from ebb_volume.laws import NESTED, Law
from ebb_volume.series import Numbers

LEVEL = 0.1
"""p below which a comparison decides, as in the thesis."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The first law against the second."""

    first: str
    second: str
    log_ratio: float
    """Sum of the differences of log-likelihoods: above 0 for the first."""
    ratio: float
    """`log_ratio` over its standard deviation, as if bins were independent."""
    p: float
    """Probability of a ratio at least as far from 0 if both were equally good. Of two laws of which
    one is a special case of the other, by the chi-square of Wilks instead."""
    effective: float
    """How many independent differences have a mean as certain as that of these."""
    p_dependent: float
    """`p` with the effective sample size."""

    nested: bool = False
    """Whether one is a special case of the other."""

    def verdict(self, level: float = LEVEL) -> str:
        """The better law by `p_dependent`, or `undecided`. A special case is better unless the
        general law is so by more than chance gives it."""
        if self.p_dependent < level:
            return self.first if self.log_ratio > 0 else self.second
        if self.nested:
            return self.first if (self.first, self.second) in NESTED else self.second
        return "undecided"


def compare(values: Numbers, first: Law, second: Law) -> Comparison:
    """Vuong (1989): the mean difference of log-likelihoods over its standard error."""
    densities = first.log_density(values), second.log_density(values)
    return _compare(first.name, densities[0], second.name, densities[1])


def compare_all(values: Numbers, laws: Iterable[Law]) -> list[Comparison]:
    """Every law with every later one."""
    densities = [(law.name, law.log_density(values)) for law in laws]
    return [_compare(*first, *second) for first, second in combinations(densities, 2)]


def _compare(first: str, of_first: Numbers, second: str, of_second: Numbers) -> Comparison:
    differences = of_first - of_second
    count, total = len(differences), float(differences.sum())
    deviation = float(differences.std())
    effective = effective_size(differences)
    nested = (first, second) in NESTED or (second, first) in NESTED
    if not deviation > 0:
        return Comparison(first, second, total, 0.0, 1.0, effective, 1.0, nested)
    ratio = total / (deviation * sqrt(count))
    shares = (1.0, effective / count)
    if nested:
        p, p_dependent = (_wilks(total, share) for share in shares)
    else:
        p, p_dependent = (erfc(abs(ratio) * sqrt(share / 2)) for share in shares)
    return Comparison(first, second, total, ratio, p, effective, p_dependent, nested)


def _wilks(log_ratio: float, share: float) -> float:
    """p of a special case with one parameter fewer, if `share` of the values were independent."""
    return float(stats.chi2.sf(2 * abs(log_ratio) * share, 1))


def best(comparisons: list[Comparison], names: list[str]) -> str | None:
    """The law that beats every other one; none: there is none such."""
    for name in names:
        against = [c for c in comparisons if name in (c.first, c.second)]
        if against and all(comparison.verdict() == name for comparison in against):
            return name
    return None


def leading(comparisons: list[Comparison], names: list[str]) -> list[str]:
    """Laws that none beats."""
    beaten = {
        ({c.first, c.second} - {c.verdict()}).pop()
        for c in comparisons
        if c.verdict() != "undecided"
    }
    return [name for name in names if name not in beaten]


def likelihood(values: Numbers, law: Law) -> float:
    """The logarithm of the likelihood of a law."""
    return float(np.sum(law.log_density(values)))
