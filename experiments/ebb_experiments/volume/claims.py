"""Claims of the chapter beside what we find: formulas, and methods on synthetic traffic.

The chapter's 229 traces are not available. A row that needs them has no value of ours; a row on
synthetic traffic says what the method does there, which is no reproduction of what it did on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Literal

import numpy as np
from ebb_volume import (
    anomalies,
    billing,
    comparison,
    goodness,
    laws,
    provisioning,
    synthetic,
    tail,
)
from ebb_volume.fitting import fit
from ebb_volume.notes import Notes
from ebb_volume.series import Numbers, Series
from scipy import stats

MS = 10**6
SLOTS_NS = (5 * MS, 100 * MS, 1_000 * MS, 5_000 * MS)
"""Lengths of bins in the chapter, for 15 minutes."""
TRACE_S = 900
Ground = Literal["formula", "synthetic", "traces"]
Draw = Callable[[int, np.random.Generator], Numbers]


@dataclass(frozen=True, slots=True)
class Row:
    """A claim with what we found."""

    text: str
    published: str
    ground: Ground
    """Ground of our value; `traces`: it needs captures that are not available, so there is none."""
    ours: float | None = None
    band: tuple[float, float] | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """`holds` and `does not` are about formulas and synthetic traffic."""
        if self.ours is None or self.band is None:
            return "not available"
        return "holds" if self.band[0] <= self.ours <= self.band[1] else "does not"


SOURCES: dict[str, Draw] = {
    "log-normal, neighbours correlated by 0.9": lambda n, rng: synthetic.lognormal(
        n, 2e5, 0.6, rng, 0.9
    ),
    "50 on-off sources, Pareto 1.4": lambda n, rng: synthetic.on_off(n, 50, 1.4, rng, 200),
    "Poisson, 40 packets per 5 ms": lambda n, rng: synthetic.poisson(n, 40, 1000, rng),
}
"""Traffic in bins of 5 ms, by name."""


def rows(seed: int) -> Iterator[Row]:
    """All claims of the chapter, with synthetic traffic of this seed."""
    yield from _formulas()
    yield from _laws(seed)
    yield from _correlations(seed)
    yield from _capacities(seed)
    yield from _bills(seed)
    yield from _unusual(seed)


def trace(name: str, seed: int) -> dict[int, Series]:
    """15 minutes of a source, by length of bins."""
    rng = np.random.default_rng([seed, *name.encode()])
    short = synthetic.series(SOURCES[name](TRACE_S * 200, rng), name, SLOTS_NS[0])
    return {slot_ns: short.joined(slot_ns) for slot_ns in SLOTS_NS}


# -- formulas --------------------------------------------------------------------------------------


def _formulas() -> Iterator[Row]:
    margin = provisioning.meent_margin
    yield Row(
        "Meent's margin grows from epsilon 10^-2 to 10^-4 by", "40 %", "formula",
        100 * (margin(1e-4) / margin(1e-2) - 1), (35, 45),
    )  # fmt: skip
    upper, lower = float(stats.norm.isf(0.012)), float(stats.norm.isf(0.042))
    sigma = log(444.3 / 344.8) / (upper - lower)
    mean = np.exp(log(344.8) - sigma * lower + sigma**2 / 2)
    implied = float((344.8 - mean) / (mean * sqrt(np.expm1(sigma**2))))
    text = "margin that follows from 344.8 and 444.3 Mbit/s, exceeded by 0.042 and 0.012"
    natural, base10 = margin(0.01), margin(0.01, base10=True)
    yield Row(
        f"{text}: that of the natural logarithm, {natural:.3f}", "sqrt(-2 log 0.01)", "formula",
        implied, (natural - 0.1, natural + 0.1), "the text does not say which logarithm",
    )  # fmt: skip
    yield Row(
        f"{text}: that of the logarithm to base 10, {base10:.3f}", "sqrt(-2 log 0.01)", "formula",
        implied, (base10 - 0.1, base10 + 0.1),
    )  # fmt: skip
    yield Row(
        "Meent misses epsilon = 0.5: most that any log-normal traffic exceeds it by",
        "above 0.5", "formula", _most_exceeded(0.5), (0.5, 1),
        "natural logarithm; with base 10 it is " f"{_most_exceeded(0.5, base10=True):.3f}",
    )  # fmt: skip
    yield Row(
        "Meent misses epsilon = 0.01: most that any log-normal traffic exceeds it by",
        "above 0.01 (0.042)", "formula", _most_exceeded(0.01), (0.01, 1),
    )  # fmt: skip


def _most_exceeded(epsilon: float, base10: bool = False) -> float:
    """Over all spreads, in the limit of many bins."""
    margin, sigma = provisioning.meent_margin(epsilon, base10), np.linspace(0.01, 3, 600)
    level = np.log1p(margin * np.sqrt(np.expm1(sigma**2))) + sigma**2 / 2
    return float(stats.norm.sf(level / sigma).max())


# -- laws ------------------------------------------------------------------------------------------


def _laws(seed: int) -> Iterator[Row]:
    yield Row("log-normal is best by likelihood ratio, 100 ms", "211 of 229 traces", "traces")
    for data in ("CAIDA 26/27", "Waikato 28/30", "Auckland 24/25", "Twente 35/40", "MAWI 98/107"):
        name, _, count = data.partition(" ")
        yield Row(f"the same, {name}", count, "traces")
    yield Row("power law beats exponential for the vast majority", "ordering", "traces")
    yield Row(
        "tail of a MAWI trace, 100 ms: alpha, x_min, bins",
        "5.69 ± 0.45, 202 ± 29 Mbit/s, 1746 ± 791", "traces",
    )  # fmt: skip
    for name in SOURCES:
        by_slot = trace(name, seed)
        for slot_ns, series in by_slot.items():
            found = fit(series, Notes(), with_tail=False)
            wins = float(found.best == "log-normal")
            beaten = float("log-normal" not in found.leading)
            told = found.best or f"undecided: {', '.join(found.leading)}"
            yield Row(
                f"log-normal beats every other law: {name}, {_length(slot_ns)}",
                "all lengths of bins", "synthetic", wins, (1, 1),
                told if not beaten else f"{told} beats it",
            )  # fmt: skip
    yield from _against_power_law(seed)


def _against_power_law(seed: int) -> Iterator[Row]:
    """The chapter's own test, on log-normal traffic: every alternative against the power law, in
    the tail."""
    series = trace("log-normal, neighbours correlated by 0.9", seed)[100 * MS]
    values = series.bytes.astype(np.float64)
    law = tail.fit(values)
    assert law is not None
    for each in tail.compare(values, law.x_min, np.random.default_rng(seed)):
        yield Row(
            f"{each.alternative} beats the power law in the tail of log-normal traffic, 100 ms: "
            "Vuong's ratio",
            "below 0, p < 0.1", "synthetic", each.ratio, (-np.inf, -1.645),
            f"{law.tail} bins from x_min on, alpha {law.alpha:.2f}: {each.verdict()}",
        )  # fmt: skip


# -- correlation of the probability plot -----------------------------------------------------------


def _correlations(seed: int) -> Iterator[Row]:
    yield Row("gamma of log-normal above 0.95 for most (CAIDA, MAWI)", "ordering", "traces")
    yield Row("gamma of normal mostly below 0.9", "ordering", "traces")
    yield Row("v_gamma of log-normal below 0.045", "all traces", "traces")
    for name in SOURCES:
        gammas: dict[str, list[float]] = {"log-normal": [], "normal": []}
        for series in trace(name, seed).values():
            values = series.bytes[series.bytes > 0].astype(np.float64)
            for law, found in gammas.items():
                found.append(goodness.plot_correlation(values, laws.FITTERS[law](values)))
        least, most = min(gammas["log-normal"]), max(gammas["normal"])
        yield Row(f"least gamma of log-normal over lengths: {name}", "above 0.95", "synthetic",
                  least, (0.95, 1))  # fmt: skip
        yield Row(f"most gamma of normal over lengths: {name}", "below 0.9", "synthetic",
                  most, (0, 0.9))  # fmt: skip
        spread = float(np.std(gammas["log-normal"], ddof=1))
        yield Row(f"v_gamma of log-normal: {name}", "below 0.045", "synthetic", spread, (0, 0.045))


# -- capacity --------------------------------------------------------------------------------------


def _capacities(seed: int) -> Iterator[Row]:
    yield Row("log-normal meets epsilon on all sets, Weibull between, Meent misses", "ordering",
              "traces")  # fmt: skip
    for name in SOURCES:
        series = trace(name, seed)[100 * MS]
        found = provisioning.provision(series, (0.1, 0.05, 0.01))
        for method in ("log-normal", "Weibull", "meent"):
            ratios = [each.achieved / each.epsilon for each in found if each.method == method]
            band = (0.0, 1.2) if method == "log-normal" else (1.2, np.inf)
            says = "meets epsilon" if method == "log-normal" else "misses epsilon"
            yield Row(
                f"{method} {says}, 0.1 s: most that it is exceeded by, over epsilon: {name}",
                "1" if method == "log-normal" else "above 1", "synthetic", max(ratios), band,
                "at epsilon 0.1, 0.05, 0.01: " + ", ".join(f"{ratio:.2f}" for ratio in ratios),
            )  # fmt: skip


# -- bills -----------------------------------------------------------------------------------------


PUBLISHED_NRMSE = {
    "log-normal": (0.0399, 0.0401, 0.1058, 0.0979, 0.1528),
    "Weibull": (0.2410, 0.1148, 0.2984, 0.2123, 0.4145),
    "normal": (0.5544, 0.4193, 0.6866, 0.5741, 0.9828),
}
"""CAIDA, Waikato, Auckland, Twente, MAWI."""


def _bills(seed: int) -> Iterator[Row]:
    for model, values in PUBLISHED_NRMSE.items():
        told = ", ".join(f"{value:.4f}" for value in values)
        yield Row(f"NRMSE of the 95th percentile, {model}: CAIDA, Waikato, Auckland, Twente, MAWI",
                  told, "traces")  # fmt: skip
    rng = np.random.default_rng([seed, 95])
    links = [
        synthetic.series(rate * synthetic.lognormal(9_000, 1e6, variation, rng, 0.5), f"{rate}")
        for rate, variation in zip(range(1, 41), np.linspace(0.2, 0.9, 40), strict=True)
    ]
    bills = billing.bills(links, 10 * 10**9, Notes())
    errors = {model: billing.nrmse(bills, model) for model in billing.MODELS}
    text = "40 log-normal links with variations of 0.2 to 0.9"
    for better, worse in (("log-normal", "Weibull"), ("Weibull", "normal")):
        yield Row(
            f"NRMSE of {worse} over {better}: {text}", "1.1 to 6" if worse == "Weibull" else
            "2.3 to 3.7", "synthetic", errors[worse] / errors[better], (1, np.inf),
            ", ".join(f"{model} {error:.4f}" for model, error in errors.items()),
        )  # fmt: skip
    yield Row(
        f"NRMSE of a normal law: {text}", "0.42 to 0.98", "synthetic", errors["normal"],
        (0.42, 0.98), "the quantile of a normal law is off by less",
    )  # fmt: skip


# -- anomalies -------------------------------------------------------------------------------------


def _unusual(seed: int) -> Iterator[Row]:
    yield Row("traces that are not log-normal are full, or broken, for part of the time",
              "all 18", "traces")  # fmt: skip
    rng = np.random.default_rng([seed, 3])
    outage = synthetic.outage(9_000, rng)
    found = anomalies.find(outage)
    values = outage.bytes[outage.bytes > 0].astype(np.float64)
    pairs = comparison.compare_all(values, (fitter(values) for fitter in laws.FITTERS.values()))
    best = comparison.best(pairs, list(laws.FITTERS))
    yield Row(
        "log-normal bins with an outage and a full link are not log-normal: its distance, over "
        "that of the same without",
        "no law fits", "synthetic", _distance(values) / _distance(_clean(outage)), (3, np.inf),
        f"best is {best}; " + "; ".join(found.findings),
    )  # fmt: skip


def _distance(values: Numbers) -> float:
    return goodness.distance(values, laws.lognormal(values))


def _clean(series: Series) -> Numbers:
    """Bins that are neither empty nor full."""
    rates: Sequence[float] = series.rate_bps  # type: ignore[assignment]
    inside = (np.asarray(rates) > 0) & (np.asarray(rates) < anomalies.FULL * max(rates))
    found: Numbers = series.bytes[inside].astype(np.float64)
    return found


def _length(slot_ns: int) -> str:
    return f"{slot_ns // MS} ms" if slot_ns < 1000 * MS else f"{slot_ns // (1000 * MS)} s"
