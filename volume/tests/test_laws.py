"""Laws, tests and tails against independent computations."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest
from ebb_volume import comparison, dependence, goodness, laws, synthetic, tail
from ebb_volume.fitting import Unfit, fit, usable
from ebb_volume.notes import Notes
from ebb_volume.series import Name, Numbers, Series
from mpmath import expint, mp
from scipy import integrate, stats
from statsmodels.tsa.stattools import acf

SCALE = 1e9
"""Volumes are as large in fast links: solvers must not depend on the unit."""


def sample(law: str, count: int = 4_000, seed: int = 1) -> Numbers:
    return synthetic.of_law(law, count, np.random.default_rng(seed)) * (SCALE / 1e6)


@pytest.mark.parametrize(
    "name, scipy_law",
    [
        ("log-normal", stats.lognorm),
        ("Weibull", stats.weibull_min),
        ("gamma", stats.gamma),
    ],
)
@pytest.mark.parametrize("data", ["log-normal", "Weibull", "gamma", "exponential"])
def test_likelihood_is_not_below_that_of_scipys_optimiser(
    name: str, scipy_law: stats.rv_continuous, data: str
) -> None:
    values = sample(data)
    ours = laws.FITTERS[name](values)
    # scipy's own is given values near 1, where it does well.
    theirs = scipy_law(*scipy_law.fit(values / SCALE, floc=0))
    at_least = theirs.logpdf(values / SCALE).sum() - len(values) * np.log(SCALE)
    assert ours.log_density(values).sum() >= at_least - 1e-3
    assert ours.log_density(values).sum() == pytest.approx(at_least, abs=1.0)


@pytest.mark.parametrize("name", laws.FITTERS)
def test_density_shares_and_quantiles_belong_together(name: str) -> None:
    law = laws.FITTERS[name](sample("log-normal"))
    shares = np.array([0.01, 0.3, 0.5, 0.9, 0.999])
    quantiles = law.quantile(shares)
    assert law.below(quantiles) == pytest.approx(shares)
    assert law.above(quantiles) == pytest.approx(1 - shares)
    low, high = quantiles[1], quantiles[3]
    area, _error = integrate.quad(lambda x: float(np.exp(law.log_density(np.array(x)))), low, high)
    assert area == pytest.approx(0.6, abs=1e-6)


@pytest.mark.parametrize(
    "law, expected",
    [
        ("log-normal", {"sigma": np.log1p(0.45**2) ** 0.5}),
        ("Weibull", {"shape": 2.4, "scale": 1.13 * SCALE}),
        ("gamma", {"shape": 5.0, "scale": 0.2 * SCALE}),
        ("exponential", {"mean": SCALE}),
    ],
)
def test_parameters_are_found_again(law: str, expected: dict[str, float]) -> None:
    found = laws.FITTERS[law](sample(law, 40_000)).parameters
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=0.03)


def test_lognormal_of_moments_has_them() -> None:
    law = laws.lognormal_of_moments(3e8, (1.2e8) ** 2)
    assert law.frozen.mean() == pytest.approx(3e8)
    assert law.frozen.std() == pytest.approx(1.2e8)


# -- comparison ------------------------------------------------------------------------------------


def test_vuong_is_that_of_the_paper() -> None:
    """R / (sigma sqrt n) and erfc(|R| / (sqrt(2 n) sigma)), by hand."""
    values = sample("gamma")
    first, second = laws.lognormal(values), laws.weibull(values)
    differences = stats.lognorm(
        first.parameters["sigma"], scale=np.exp(first.parameters["mu"])
    ).logpdf(values) - second.frozen.logpdf(values)
    found = comparison.compare(values, first, second)
    z = differences.mean() / (differences.std() / len(values) ** 0.5)
    assert found.ratio == pytest.approx(z)
    assert found.p == pytest.approx(2 * stats.norm.sf(abs(z)), rel=1e-6)
    assert comparison.compare(values, second, first).ratio == pytest.approx(-z)


@pytest.mark.parametrize("law", ["log-normal", "Weibull", "gamma", "exponential"])
def test_the_law_of_the_bins_beats_all_others(law: str) -> None:
    values = sample(law, 9_000)
    fitted = [fitter(values) for fitter in laws.FITTERS.values()]
    found = comparison.compare_all(values, fitted)
    assert len(found) == len(list(combinations(fitted, 2)))
    assert comparison.best(found, list(laws.FITTERS)) == law
    assert comparison.leading(found, list(laws.FITTERS)) == [law]


def test_few_bins_are_undecided() -> None:
    values = sample("log-normal", 40, seed=3)
    found = comparison.compare_all(values, [laws.lognormal(values), laws.gamma(values)])
    assert comparison.best(found, ["log-normal", "gamma"]) is None
    assert comparison.leading(found, ["log-normal", "gamma"]) == ["log-normal", "gamma"]


def test_the_special_case_is_kept_unless_the_general_law_is_clearly_better() -> None:
    """Wilks: twice the log-likelihood ratio is chi-square with one degree of freedom."""
    values = sample("exponential")
    found = comparison.compare(values, laws.exponential(values), laws.gamma(values))
    assert found.log_ratio <= 0
    assert found.p == pytest.approx(stats.chi2.sf(-2 * found.log_ratio, 1))
    assert found.verdict() == "exponential"
    values = sample("gamma")
    assert comparison.compare(values, laws.exponential(values), laws.gamma(values)).verdict() == (
        "gamma"
    )


def test_dependence_makes_a_comparison_less_certain() -> None:
    """Each bin four times over says as much as a quarter of the bins."""
    values = sample("log-normal", 400, seed=5)
    once = comparison.compare(values, laws.lognormal(values), laws.gamma(values))
    four = np.repeat(values, 4)
    often = comparison.compare(four, laws.lognormal(four), laws.gamma(four))
    assert often.p < once.p / 5
    assert often.effective == pytest.approx(once.effective, rel=0.25)
    assert often.p_dependent == pytest.approx(once.p_dependent, rel=0.7)


# -- goodness --------------------------------------------------------------------------------------


def test_plot_correlation_is_that_of_scipy() -> None:
    """scipy's probplot has other plotting positions (Filliben's), which differ little here."""
    values = sample("log-normal", 9_000)
    ours = goodness.plot_correlation(values, laws.normal(values))
    _points, (_slope, _intercept, theirs) = stats.probplot(values)
    assert ours == pytest.approx(theirs, abs=1e-3)


@pytest.mark.parametrize("sigma", [0.1, 0.3, 0.42, 0.6, 0.8])
def test_correlation_of_a_normal_law_with_lognormal_bins(sigma: float) -> None:
    """In the limit corr(e^(sigma Z), Z) = sigma / sqrt(e^(sigma^2) - 1): 0.95 at sigma 0.45."""
    rng = np.random.default_rng(4)
    samples = [np.exp(sigma * rng.standard_normal(9_000)) for _ in range(20)]
    found = np.mean([goodness.plot_correlation(x, laws.normal(x)) for x in samples])
    assert found == pytest.approx(sigma / np.sqrt(np.expm1(sigma**2)), abs=0.006)


def test_distance_is_that_of_scipy() -> None:
    values = sample("gamma")
    law = laws.weibull(values)
    assert goodness.distance(values, law) == pytest.approx(
        stats.kstest(values, law.frozen.cdf).statistic
    )


def test_bootstrap_keeps_the_true_law_and_refuses_another() -> None:
    rng = np.random.default_rng(1)
    values = sample("log-normal", 600)
    kept, _ = goodness.bootstrap_p(values, laws.lognormal(values), laws.lognormal, 100, rng)
    refused, _ = goodness.bootstrap_p(values, laws.normal(values), laws.normal, 100, rng)
    assert kept > 0.1
    assert refused < 0.02


# -- tails -----------------------------------------------------------------------------------------


def test_power_law_is_found_again() -> None:
    """Pareto above a least value, uniform below it, as in Clauset et al."""
    rng = np.random.default_rng(2)
    pure = 5e8 * (1 - rng.random(3_000)) ** (-1 / 1.7)
    values = np.concatenate([pure, rng.uniform(1e7, 5e8, 3_000)])
    found = tail.fit(values)
    assert found is not None
    assert found.alpha == pytest.approx(2.7, abs=0.12)
    assert found.x_min == pytest.approx(5e8, rel=0.3)
    p, error = tail.p_value(values, found, 40, rng)
    assert p > 0.1
    assert error < 0.1


def test_bounded_candidates_come_near_the_package_that_tries_all() -> None:
    """`powerlaw` tries every distinct value; its exponents end at 3 unless told otherwise."""
    import powerlaw

    rng = np.random.default_rng(5)
    values = np.concatenate([(1 - rng.random(500)) ** (-1 / 2.5), rng.uniform(0.05, 1, 1_000)])
    ours = tail.fit(values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = powerlaw.Fit(values, verbose=False, parameter_ranges={"alpha": [1.01, 100]})
    assert ours is not None
    assert ours.alpha == pytest.approx(theirs.power_law.alpha, rel=0.05)
    assert ours.distance >= theirs.power_law.D - 0.01
    assert ours.distance <= theirs.power_law.D + 0.01
    assert ours.candidates <= tail.CANDIDATES


def test_ties_and_short_samples_have_no_tail() -> None:
    assert tail.fit(np.full(1_000, 7.0)) is None
    assert tail.fit(np.arange(1.0, tail.LEAST_TAIL)) is None


def test_lognormal_traffic_is_no_power_law() -> None:
    rng = np.random.default_rng(3)
    values = sample("exponential", 9_000)
    found = tail.fit(values)
    assert found is not None
    against = {each.alternative: each for each in tail.compare(values, found.x_min, rng)}
    assert against["exponential"].verdict() in ("exponential", "undecided")
    whole = {each.alternative: each for each in tail.compare(values, SCALE / 2, rng)}
    assert whole["exponential"].verdict() == "exponential"
    assert whole["Weibull"].verdict() == "Weibull"


def test_tail_comparison_with_the_exponential_by_hand() -> None:
    """Exponents above 3 too, where the package needs another range than its own."""
    values = sample("log-normal", 9_000)
    x_min = float(np.quantile(values, 0.9))
    x = values[values >= x_min] / x_min
    alpha, rate = 1 + len(x) / np.log(x).sum(), 1 / (x.mean() - 1)
    assert alpha > 3
    differences = np.log(alpha - 1) - alpha * np.log(x) - (np.log(rate) - rate * (x - 1))
    z = differences.sum() / (differences.std() * len(x) ** 0.5)
    found = tail.compare(values, x_min, np.random.default_rng(1))
    (exponential,) = [each for each in found if each.alternative == "exponential"]
    assert exponential.ratio == pytest.approx(z, abs=0.02)


@pytest.mark.parametrize("order, argument", [(0.5, 2.0), (2.5, 1e-3), (5.9, 1.1), (-1.0, 0.3)])
def test_exponential_integral_is_that_of_mpmath(order: float, argument: float) -> None:
    mp.dps = 20
    assert tail.log_exponential_integral(order, argument) == pytest.approx(
        float(mp.log(expint(order, argument))), rel=1e-6, abs=1e-8
    )


def test_truncated_power_law_is_found_again() -> None:
    """Drawn by rejection from a power law."""
    rng = np.random.default_rng(6)
    x = (1 - rng.random(200_000)) ** (-1 / 0.8)
    kept = x[rng.random(len(x)) < np.exp(-0.05 * (x - 1))][:20_000]
    found = tail.truncated(kept, 1.0)
    assert found is not None
    assert found.alpha == pytest.approx(1.8, abs=0.05)
    assert found.rate == pytest.approx(0.05, rel=0.15)


# -- dependence ------------------------------------------------------------------------------------


def test_autocorrelation_is_that_of_statsmodels() -> None:
    values = synthetic.gaussian(2_000, 0.7, np.random.default_rng(1))
    assert dependence.autocorrelation(values, 40) == pytest.approx(acf(values, nlags=40, fft=False))
    assert dependence.autocorrelation(np.ones(10), 3).tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_effective_size_of_a_known_process(correlation: float) -> None:
    """n (1 - rho) / (1 + rho) for neighbours that are correlated by rho."""
    rng = np.random.default_rng(2)
    sizes = [
        dependence.effective_size(synthetic.gaussian(5_000, correlation, rng)) for _ in range(20)
    ]
    expected = 5_000 * (1 - correlation) / (1 + correlation)
    assert np.mean(sizes) == pytest.approx(expected, rel=0.12)


def test_stationarity_of_noise_trend_and_walk() -> None:
    rng = np.random.default_rng(3)
    noise = synthetic.gaussian(2_000, 0.5, rng)
    assert dependence.stationarity(noise).verdict() == "stationary"
    assert dependence.stationarity(np.cumsum(noise)).verdict() == "not stationary"
    many = dependence.stationarity(rng.standard_normal(150_000))
    assert many.tested <= dependence.MOST_TESTED


# -- a whole fit -----------------------------------------------------------------------------------


def series(values: list[int] | Numbers) -> Series:
    sizes = np.asarray(values, np.int64)
    return Series(Name("a"), 0, 10**8, sizes, sizes // 1000)


@pytest.mark.parametrize(
    "values, words",
    [
        ([5], "has 1 bins with traffic of 1; at least 20 are needed"),
        ([0] * 500, "has 0 bins with traffic of 500"),
        ([1500] * 500, "constant traffic follows no law"),
        ([0, 1500] * 500, "all 500 bins with traffic have 1500 bytes"),
    ],
)
def test_series_that_no_law_fits(values: list[int], words: str) -> None:
    with pytest.raises(Unfit, match=words):
        usable(series(values))


def test_empty_bins_are_a_share_of_their_own_and_not_in_laws() -> None:
    values = np.rint(sample("log-normal", 2_000) / 1e3)
    full = fit(series(values), Notes(), with_tail=False)
    mixed = np.zeros(4_000)
    mixed[::2] = values
    half = fit(series(mixed), Notes(), with_tail=False)
    assert half.zero_share == 0.5
    law, same = full.laws["log-normal"].law, half.laws["log-normal"].law
    assert same.parameters == law.parameters


def test_a_longer_series_than_is_fitted_is_remarked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebb_volume.fitting.MOST_FITTED", 1_000)
    notes = Notes()
    found = fit(series(sample("gamma", 1_500)), notes, with_tail=False)
    assert len(found.series) == 1_000
    assert "the first 1000 of 1500 bins" in next(iter(notes))
