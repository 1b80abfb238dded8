"""`python -m ebb_volume.calibration --part PART`: how often each test is right on traffic whose law
is known, as Markdown (docs/measurements)."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ebb_volume import comparison, dependence, goodness, laws, provisioning, synthetic, tail
from ebb_volume.series import Numbers

LAWS = ("log-normal", "normal", "Weibull", "gamma", "exponential")
SIZES = (180, 900, 9000)
"""Numbers of bins: of 5 s, 1 s and 100 ms in 15 minutes."""
ROUNDS = 40
"""Rounds of a bootstrap: p below 0.1 is at most 3 of 40."""
CORRELATIONS = (0.0, 0.5, 0.9)
TRUE_ALPHA, TRUE_X_MIN = 3.5, 6e5
"""Parameters of `synthetic.of_law`."""
LEVEL = comparison.LEVEL
Row = Sequence[str]


def main() -> None:
    """Prints the rows of one part as a Markdown table."""
    found = argparse.ArgumentParser(description=__doc__)
    found.add_argument("--part", choices=PARTS, required=True)
    found.add_argument("--draws", type=int, default=1000, help="samples per row (%(default)s)")
    found.add_argument("--seed", type=int, default=1)
    options = found.parse_args()
    rows = PARTS[options.part](options.draws, options.seed)
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def _heading(*cells: str) -> Iterator[Row]:
    yield cells
    yield ["---", *["---:"] * (len(cells) - 1)]


def _generator(seed: int, *what: object) -> np.random.Generator:
    """A generator for the row that `what` names: its draws do not depend on other rows."""
    return np.random.default_rng([seed, *(b for part in what for b in str(part).encode())])


def _verdict(values: Numbers) -> str:
    """The law that beats all others; `none`: there is none."""
    fitted = (laws.FITTERS[name](values) for name in LAWS)
    pairs = comparison.compare_all(values, fitted)
    return comparison.best(pairs, list(LAWS)) or "none"


def recovery(draws: int, seed: int) -> Iterator[Row]:
    """Which law wins against all others, on independent bins of each law."""
    yield from _heading("law of the bins", "bins", *(f"{law} wins" for law in LAWS), "undecided")
    for law in (*LAWS, "power law"):
        for size in SIZES:
            rng = _generator(seed, law, size)
            wins = Counter(_verdict(synthetic.of_law(law, size, rng)) for _ in range(draws))
            yield [law, f"{size}", *(_percent(wins[name], draws) for name in (*LAWS, "none"))]


def dependent(draws: int, seed: int) -> Iterator[Row]:
    """Vuong's test of two laws that are equally wrong, and of the right one, on dependent bins."""
    yield from _heading(
        "correlation of neighbours", "bins", "effective", "undecided pair: decided, dependence "
        "ignored", "regarded", "log-normal beats normal, ignored", "regarded",
    )  # fmt: skip
    for correlation in CORRELATIONS:
        for size in SIZES:
            rng = _generator(seed, "dependent", correlation, size)
            sizes, counts = [], np.zeros(4)
            for _ in range(draws):
                noise = synthetic.gaussian(size, correlation, rng)
                sizes.append(dependence.effective_size(noise))
                even = _even(noise)
                right = _right(np.exp(0.4 * noise))
                counts += [even.p < LEVEL, even.p_dependent < LEVEL,
                           right.p < LEVEL and right.log_ratio > 0,
                           right.p_dependent < LEVEL and right.log_ratio > 0]  # fmt: skip
            shares = [_percent(count, draws) for count in counts]
            yield [f"{correlation:g}", f"{size}", f"{np.mean(sizes):.0f}", *shares]


def _even(noise: Numbers) -> comparison.Comparison:
    """Comparison on normal bins of two normal laws, off by the same amount on either side: neither
    is better, so that any decision is a false one."""
    from scipy import stats

    sides = [laws.Law(f"at {shift}", {}, stats.norm(shift, 1)) for shift in (-0.5, 0.5)]
    return comparison.compare(noise, *sides)


def _right(values: Numbers) -> comparison.Comparison:
    """Comparison on log-normal bins of the log-normal law, which is right, and the normal one."""
    return comparison.compare(values, laws.lognormal(values), laws.normal(values))


def fit(draws: int, seed: int) -> Iterator[Row]:
    """How often the log-normal law is refused by its bootstrap, and what gamma says."""
    size = 900
    yield from _heading(
        "law of the bins", "bins", "log-normal refused, p < 0.1", "gamma of log-normal, median",
        "below 0.95", "gamma of normal, median", "below 0.95",
    )  # fmt: skip
    for law in (*LAWS, "power law"):
        rng = _generator(seed, "fit", law)
        refused, correlations = 0, []
        for _ in range(draws):
            values = synthetic.of_law(law, size, rng)
            lognormal = laws.lognormal(values)
            p, _error = goodness.bootstrap_p(values, lognormal, laws.lognormal, ROUNDS, rng)
            refused += p < LEVEL
            plots = (lognormal, laws.normal(values))
            correlations.append([goodness.plot_correlation(values, each) for each in plots])
        table = np.array(correlations)
        cells = [cell for column in table.T for cell in (
            f"{np.median(column):.4f}", _percent(float((column < goodness.STRONG).sum()), draws)
        )]  # fmt: skip
        yield [law, f"{size}", _percent(refused, draws), *cells]


def power(draws: int, seed: int) -> Iterator[Row]:
    """Exponent and least value of a power law found again, and how often it is refused."""
    yield from _heading(
        "law of the bins", "bins", "alpha, mean ± deviation", "x_min / true, median", "in the tail",
        "power law refused, p < 0.1", "log-normal wins the tail", "power law wins it",
    )  # fmt: skip
    for law in ("power law", "log-normal", "exponential"):
        for size in SIZES:
            rng = _generator(seed, "power", law, size)
            found, refused, tested = [], 0, 0
            wins: Counter[str] = Counter()
            tests = draws // 20  # a bootstrap and the optimisers of `powerlaw` are slow
            for draw in range(draws):
                values = synthetic.of_law(law, size, rng)
                each = tail.fit(values)
                if each is None:
                    continue
                found.append((each.alpha, each.x_min, each.tail))
                if draw < tests:
                    tested += 1
                    refused += tail.p_value(values, each, ROUNDS, rng)[0] < LEVEL
                    wins[tail.compare(values, each.x_min, rng)[0].verdict()] += 1
            alpha, x_min, length = np.array(found).T
            yield [
                law, f"{size}", f"{alpha.mean():.3f} ± {alpha.std():.3f}",
                f"{np.median(x_min) / TRUE_X_MIN:.3f}" if law == "power law" else "",
                f"{np.median(length):.0f}", f"{_percent(refused, tested)} of {tested}",
                _percent(wins["log-normal"], tested), _percent(wins["power law"], tested),
            ]  # fmt: skip


def capacity(draws: int, seed: int) -> Iterator[Row]:
    """Achieved exceedance on bins that the capacity was not learned from, epsilon 0.01."""
    methods = ("meent", "normal", "log-normal", "Weibull", "rule")
    yield from _heading("traffic", "bins", *(f"{method}, mean" for method in methods))
    cases: dict[str, Callable[[int, np.random.Generator], Numbers]] = {
        **{law: lambda n, rng, law=law: synthetic.of_law(law, n, rng) for law in LAWS},  # type: ignore[misc]
        "Poisson, 100 packets": lambda n, rng: synthetic.poisson(n, 100, 1000, rng),
        "50 on-off sources, Pareto 1.4": lambda n, rng: synthetic.on_off(n, 50, 1.4, rng),
    }
    for name, draw in cases.items():
        size = 900
        rng = _generator(seed, "capacity", name)
        some = draws if "on-off" not in name else draws // 10
        achieved = []
        for _ in range(some):
            series = synthetic.series(draw(2 * size, rng), name)
            found = provisioning.provision(series, (0.01,), learn=0.5)
            by = {each.method: each.achieved for each in found}
            achieved.append([by[method] for method in methods])
        means = np.mean(achieved, axis=0)
        yield [name, f"{size} + {size}", *(f"{mean:.4f}" for mean in means)]


def stationarity(draws: int, seed: int) -> Iterator[Row]:
    """KPSS and ADF on log-normal bins, with and without a trend."""
    yield from _heading(
        "bins", "of them", "KPSS refuses stationarity", "ADF refuses a unit root", "stationary",
        "not stationary", "undecided",
    )  # fmt: skip
    size = 900
    trend = np.linspace(-0.5, 0.5, size)
    cases: dict[str, Callable[[np.random.Generator], Numbers]] = {
        f"correlation {rho:g}": lambda rng, rho=rho: np.exp(  # type: ignore[misc]
            0.4 * synthetic.gaussian(size, rho, rng)
        )
        for rho in CORRELATIONS
    }
    cases["trend by e"] = lambda rng: np.exp(trend + 0.4 * synthetic.gaussian(size, 0.5, rng))
    cases["random walk"] = lambda rng: np.exp(0.03 * np.cumsum(rng.standard_normal(size)))
    for name, draw in cases.items():
        rng = _generator(seed, "stationarity", name)
        tests = [dependence.stationarity(draw(rng)) for _ in range(draws)]
        verdicts = Counter(each.verdict() for each in tests)
        yield [
            name, f"{size}", _percent(sum(each.kpss_p < 0.05 for each in tests), draws),
            _percent(sum(each.adf_p < 0.05 for each in tests), draws),
            *(_percent(verdicts[v], draws) for v in ("stationary", "not stationary", "undecided")),
        ]  # fmt: skip


def _percent(count: float, of: int) -> str:
    return f"{100 * count / of:.1f} %" if of else ""


PARTS: dict[str, Callable[[int, int], Iterator[Row]]] = {
    "recovery": recovery,
    "dependent": dependent,
    "fit": fit,
    "power": power,
    "capacity": capacity,
    "stationarity": stationarity,
}

if __name__ == "__main__":
    main()
