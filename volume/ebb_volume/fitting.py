"""Fits of one series: laws, their comparisons, tail, dependence of bins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebb_volume import comparison, dependence, goodness, tail
from ebb_volume.comparison import Comparison
from ebb_volume.laws import FITTERS, Law
from ebb_volume.notes import Notes
from ebb_volume.series import Numbers, Series

LEAST_BINS = 20
"""Least number of bins with traffic for a fit."""
MOST_FITTED = 1_000_000
"""Most bins that laws are fitted to; of a longer series the first ones."""
MOST_BOOTSTRAPPED = 10_000
"""Most bins of a bootstrap; of a longer series bins at equal distances."""


class Unfit(Exception):
    """A series that no law can be fitted to. The message is one line."""


@dataclass(frozen=True)
class LawFit:
    """A fitted law, and measures of its fit."""

    law: Law
    log_likelihood: float
    aic: float
    """Akaike's information criterion: 2 parameters - 2 log-likelihood; the least is best."""
    correlation: float
    """Correlation of the probability plot."""
    distance: float
    """Kolmogorov-Smirnov distance."""
    p: float | None = None
    """p-value by bootstrap; none: not computed."""
    p_error: float | None = None


@dataclass(frozen=True)
class TailFit:
    """The tail of a series."""

    power_law: tail.PowerLaw
    p: float | None
    p_error: float | None
    spread: dict[str, float]
    truncated: tail.TruncatedPowerLaw | None
    comparisons: list[tail.TailComparison]


@dataclass(frozen=True)
class Fit:
    """Laws of a series."""

    series: Series
    values: Numbers
    """Bytes of the bins with traffic, to which the laws are fitted."""
    zero_share: float
    """Share of the bins without traffic."""
    laws: dict[str, LawFit]
    comparisons: list[Comparison]
    tail: TailFit | None
    autocorrelation: dict[int, float]
    effective_bins: float
    stationarity: dependence.Stationarity | None

    @property
    def best(self) -> str | None:
        """The law that beats every other one; none: undecided."""
        return comparison.best(self.comparisons, list(self.laws))

    @property
    def leading(self) -> list[str]:
        """Laws that no other law beats."""
        return comparison.leading(self.comparisons, list(self.laws))


def usable(series: Series) -> Numbers:
    """Bytes of the bins with traffic. Raises `Unfit` for too few of them, or constant ones."""
    values = series.bytes[series.bytes > 0].astype(np.float64)
    if len(values) < LEAST_BINS:
        raise Unfit(
            f"{series.name}: has {len(values)} bins with traffic of {len(series)}; at least "
            f"{LEAST_BINS} are needed to fit a law: capture for longer, or take shorter bins"
        )
    if values.min() == values.max():
        raise Unfit(
            f"{series.name}: all {len(values)} bins with traffic have {values[0]:.0f} bytes; "
            "constant traffic follows no law: what it needs is its rate"
        )
    return values


def fit(
    series: Series, notes: Notes, rounds: int = 0, seed: int = 1, with_tail: bool = True
) -> Fit:
    """Fits all laws to a series. `rounds`: of each bootstrap; 0: no p-values. Raises `Unfit`."""
    if len(series) > MOST_FITTED:
        notes.add(
            f"{series.name}: laws are fitted to the first {MOST_FITTED} of {len(series)} bins"
        )
        series = series.part(0, MOST_FITTED)
    values = usable(series)
    rng = np.random.default_rng(seed)
    laws = {name: _law_fit(values, name, rounds, rng) for name in FITTERS}
    pairs = comparison.compare_all(values, (each.law for each in laws.values()))
    sizes = series.bytes.astype(np.float64)
    rho = dependence.autocorrelation(sizes, max(dependence.LAGS))
    return Fit(
        series=series,
        values=values,
        zero_share=1 - len(values) / len(series),
        laws=laws,
        comparisons=pairs,
        tail=_tail_fit(values, rounds, rng) if with_tail else None,
        autocorrelation={lag: float(rho[lag]) for lag in dependence.LAGS if lag < len(rho)},
        effective_bins=dependence.effective_size(sizes),
        stationarity=dependence.stationarity(sizes) if with_tail else None,
    )


def _law_fit(values: Numbers, name: str, rounds: int, rng: np.random.Generator) -> LawFit:
    law = FITTERS[name](values)
    likelihood = comparison.likelihood(values, law)
    p, p_error = None, None
    if rounds:
        some = _some(values)
        p, p_error = goodness.bootstrap_p(some, FITTERS[name](some), FITTERS[name], rounds, rng)
    return LawFit(
        law, likelihood, 2 * len(law.parameters) - 2 * likelihood,
        goodness.plot_correlation(values, law), goodness.distance(values, law), p, p_error,
    )  # fmt: skip


def _tail_fit(values: Numbers, rounds: int, rng: np.random.Generator) -> TailFit | None:
    found = tail.fit(values)
    if found is None:
        return None
    p, p_error = None, None
    spread: dict[str, float] = {}
    if rounds:
        some = _some(values)
        of_some = tail.fit(some) or found
        p, p_error = tail.p_value(some, of_some, rounds, rng)
        spread = tail.spread(some, rounds, rng)
    return TailFit(
        found, p, p_error, spread, tail.truncated(values, found.x_min),
        tail.compare(values, found.x_min, rng),
    )  # fmt: skip


def _some(values: Numbers) -> Numbers:
    return values[:: -(-len(values) // MOST_BOOTSTRAPPED)]
