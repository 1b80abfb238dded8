"""Capacities, bills and anomalies of traffic whose law is known."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from ebb_topologies.errors import InputError
from ebb_volume import anomalies, billing, laws, provisioning, synthetic
from ebb_volume.fitting import Unfit
from ebb_volume.notes import Notes
from ebb_volume.series import Name, Numbers, Series
from scipy import stats

SLOT_NS = synthetic.SLOT_NS


def traffic(law: str, count: int = 9_000, seed: int = 1) -> Series:
    return synthetic.series(synthetic.of_law(law, count, np.random.default_rng(seed)), law)


def achieved(series: Series, **more: float) -> dict[tuple[str, float], float]:
    found = provisioning.provision(series, **more)  # type: ignore[arg-type]
    return {(each.method, each.epsilon): each.achieved for each in found}


# -- capacity --------------------------------------------------------------------------------------


@pytest.mark.parametrize("law, method", [("log-normal", "log-normal"), ("Weibull", "Weibull")])
def test_the_law_of_the_traffic_achieves_what_is_asked_for(law: str, method: str) -> None:
    """On bins that it has not seen, within four standard errors of either half."""
    found = provisioning.provision(traffic(law, 18_000), learn=0.5)
    for each in found:
        if each.method == method:
            error = sqrt(each.epsilon * (1 - each.epsilon) / each.bins)
            assert abs(each.achieved - each.epsilon) < 4 * sqrt(2) * error


def test_meent_is_a_bound_for_normal_traffic_and_a_poor_one() -> None:
    rates = np.random.default_rng(1).normal(1e9, 1e8, 20_000)
    for epsilon in provisioning.EPSILONS:
        over = float(np.mean(rates >= provisioning.meent_bps(rates, epsilon)))
        assert over < epsilon
        assert over == pytest.approx(stats.norm.sf(sqrt(-2 * log(epsilon))), abs=0.006)


@pytest.mark.parametrize(
    "epsilon, natural, base10",
    [(0.5, 1.177, 0.776), (0.1, 2.146, 1.414), (0.05, 2.448, 1.613), (0.01, 3.035, 2.0)],
)
def test_margins_of_meent_for_either_logarithm(
    epsilon: float, natural: float, base10: float
) -> None:
    assert provisioning.meent_margin(epsilon) == pytest.approx(natural, abs=5e-4)
    assert provisioning.meent_margin(epsilon, base10=True) == pytest.approx(base10, abs=5e-4)


def test_a_hundredth_of_epsilon_takes_a_margin_that_is_root_two_as_wide() -> None:
    """From 10^-2 to 10^-4: by 41 %, which the thesis has as 40 %; with either logarithm."""
    for base10 in (False, True):
        ratio = provisioning.meent_margin(1e-4, base10) / provisioning.meent_margin(1e-2, base10)
        assert ratio == pytest.approx(sqrt(2))


def exceeded_by(margin: float, sigma: float) -> float:
    """Share of log-normal bins above mean + margin standard deviations."""
    law = laws.lognormal_of(-(sigma**2) / 2, sigma)
    return float(law.above(np.array([1 + margin * sqrt(np.expm1(sigma**2))]))[0])


@pytest.mark.parametrize(
    "epsilon, most", [(0.5, 0.122), (0.1, 0.039), (0.05, 0.029), (0.01, 0.018)]
)
def test_the_most_that_lognormal_bins_exceed_meents_capacity(epsilon: float, most: float) -> None:
    """Over all spreads: the thesis' 0.042 at epsilon 0.01 cannot be with the natural logarithm."""
    sigmas = np.linspace(0.01, 3, 600)
    found = max(exceeded_by(provisioning.meent_margin(epsilon), sigma) for sigma in sigmas)
    assert found == pytest.approx(most, abs=1e-3)


def test_the_example_of_the_thesis_holds_for_the_logarithm_to_base_10_alone() -> None:
    """Its figure 5: 344.8 Mbit/s exceeded by 0.042, 444.3 Mbit/s by 0.012, epsilon 0.01. With the
    shares that it achieved, the two capacities are quantiles of a log-normal law; what is left
    open is the margin, which has to be near 3.03 (natural) or 2.00 (base 10)."""
    upper, lower = stats.norm.isf(0.012), stats.norm.isf(0.042)
    sigma = log(444.3 / 344.8) / (upper - lower)
    mu = log(344.8) - sigma * lower
    mean = np.exp(mu + sigma**2 / 2)
    deviation = mean * sqrt(np.expm1(sigma**2))
    margin = (344.8 - mean) / deviation
    assert margin == pytest.approx(provisioning.meent_margin(0.01, base10=True), abs=0.1)
    assert abs(margin - provisioning.meent_margin(0.01)) > 0.9


def test_moments_and_likelihood_agree_on_lognormal_traffic() -> None:
    series = traffic("log-normal")
    ours = provisioning.capacities(series, 0.01)["log-normal"]
    theirs = provisioning.capacities(series, 0.01, moments=True)["log-normal"]
    assert theirs == pytest.approx(ours, rel=0.03)


def test_capacity_of_constant_traffic_is_its_rate() -> None:
    sizes = np.full(100, 12_500, np.int64)
    series = Series(Name("a"), 0, SLOT_NS, sizes, sizes)
    found = provisioning.capacities(series, 0.01)
    assert set(found) == {"meent", "rule", "observed"}
    assert found["meent"] == found["observed"] == pytest.approx(1e6)


def test_empty_bins_need_no_capacity() -> None:
    """Half of the bins are empty: at epsilon 0.5 every law needs nothing but what it has to."""
    values = synthetic.of_law("log-normal", 4_000, np.random.default_rng(1))
    values[::2] = 0
    series = synthetic.series(values, "a")
    assert provisioning.capacities(series, 0.5)["log-normal"] == 0
    over = np.mean(series.rate_bps >= provisioning.capacities(series, 0.05)["log-normal"])
    assert over == pytest.approx(0.05, abs=0.01)


# -- bills -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("count, rank", [(1, 1), (19, 19), (20, 19), (100, 95), (8640, 8208)])
def test_percentile_is_the_highest_that_is_left(count: int, rank: int) -> None:
    """The highest 5 %, rounded down, are dropped."""
    rates = np.random.default_rng(1).permutation(np.arange(1.0, count + 1))
    assert billing.percentile_bps(rates) == rank
    assert rank == count - count // 20


def test_bill_of_intervals_and_bins() -> None:
    """Ten seconds of 100 ms: intervals of 1 s, of which the highest is left as there are ten."""
    sizes = np.arange(1, 101, dtype=np.int64) * 1_000
    found = billing.bill(Series(Name("a"), 0, SLOT_NS, sizes, sizes), 10**9)
    assert found.intervals == 10
    assert found.billed_bps == pytest.approx(8 * sizes[90:].sum())
    assert found.actual_bps == pytest.approx(80 * 95_000)


def test_the_law_of_the_traffic_predicts_best() -> None:
    """Twenty links of the same law and different rates."""
    rng = np.random.default_rng(2)
    links = [
        synthetic.series(rate * synthetic.of_law("log-normal", 2_000, rng), f"link {rate}")
        for rate in range(1, 21)
    ]
    found = billing.bills(links, 10**9, Notes())
    errors = {model: billing.nrmse(found, model) for model in billing.MODELS}
    assert errors["log-normal"] < 0.03
    assert errors["log-normal"] < errors["Weibull"]
    assert errors["log-normal"] < errors["normal"]


def test_nrmse_by_hand() -> None:
    pairs = ((10.0, 11.0), (20.0, 18.0), (30.0, 30.0))
    found = [billing.Bill("a", None, 0, actual, {"m": predicted}) for actual, predicted in pairs]
    assert billing.nrmse(found, "m") == pytest.approx(sqrt(5 / 3) / 20)


def test_the_bill_of_an_only_series_is_that_of_all_of_it() -> None:
    """Its stretches say how well a law predicts."""
    month = traffic("gamma")
    found = billing.bills([month], 10**9, Notes())
    assert [each.name for each in found[:2]] == [f"{month.name} 1/20", f"{month.name} 2/20"]
    everything = billing.whole([month], found, 10**9)
    assert everything is not None
    assert everything.intervals == len(month.joined(10**9))
    assert everything == billing.bill(month, 10**9)
    assert billing.whole([month, month], found, 10**9) is None
    short = traffic("gamma", 30)
    assert billing.whole([short], billing.bills([short], 10**9, Notes()), 10**9) is None


def test_an_only_series_is_billed_in_stretches_and_unfit_ones_are_remarked() -> None:
    notes = Notes()
    assert len(billing.bills([traffic("gamma")], 10**9, notes)) == billing.STRETCHES
    short = traffic("gamma", 10)
    assert len(billing.bills([traffic("gamma"), short], 10**9, notes)) == 1
    assert "at least 20 are needed" in next(iter(notes))
    with pytest.raises(Unfit):
        billing.bills([short], 10**9, Notes())
    with pytest.raises(InputError, match="multiple"):
        billing.bills([traffic("gamma")], 150 * 10**6, notes)


# -- anomalies -------------------------------------------------------------------------------------


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_traffic_of_the_law_is_rarely_flagged(correlation: float) -> None:
    """One in a hundred by bins and one by stretches; 12 of 200 would be a one in a thousand."""
    rng = np.random.default_rng(3)
    flagged = 0
    for _ in range(200):
        values = synthetic.lognormal(1_500, 1e6, 0.45, rng, correlation)
        found = anomalies.find(synthetic.series(values, "a"))
        flagged += bool(found.flags)
        assert not found.findings
    assert flagged <= 12


def diurnal(days: int, rng: np.random.Generator) -> Series:
    """Five-minute bins of a link whose traffic at night is a fifth of that in the evening."""
    slot_ns = 300 * 10**9
    per_day = 86_400 * 10**9 // slot_ns
    hours = np.arange(days * per_day) / per_day
    cycle = np.exp(0.8 * np.sin(2 * np.pi * (hours - 0.5)))
    noise = synthetic.lognormal(len(hours), 1, 0.15, rng, 0.5)
    return synthetic.series(4e9 * cycle * noise, "diurnal", slot_ns)


def test_diurnal_traffic_has_a_period_of_a_day() -> None:
    found = anomalies.find(diurnal(7, np.random.default_rng(1)))
    assert found.period is not None
    assert found.period.period_s == pytest.approx(86_400)
    assert found.period.explained > 0.8
    assert not found.flags
    assert any("a period of 86400 s" in line for line in found.findings)


def test_what_leaves_the_daily_cycle_is_flagged() -> None:
    """At night a rate that is usual in the evening, and an hour of half the rate of its time."""
    series = diurnal(7, np.random.default_rng(1))
    night = 3 * 288 + 72  # 6 h into the fourth day
    series.bytes[night] = series.bytes.max()
    dip = slice(5 * 288 + 100, 5 * 288 + 148)
    series.bytes[dip] //= 3
    found = anomalies.find(series)
    bins = [flag for flag in found.flags if flag.kind == "bin"]
    assert any(flag.begin_s == night * 300 and flag.direction == "high" for flag in bins)
    low = [flag for flag in found.flags if flag.direction == "low"]
    assert low
    begin_s, end_s = dip.start * 300, dip.stop * 300
    assert all(flag.end_s > begin_s and flag.begin_s < end_s for flag in low)


def test_outage_and_full_link_are_found_where_they_are() -> None:
    found = anomalies.find(synthetic.outage(9_000, np.random.default_rng(1)))
    assert found.capacity_bps == pytest.approx(100e6, rel=1e-3)
    assert found.empty_share == pytest.approx(0.1)
    assert found.full_share == pytest.approx(1 / 12, abs=0.01)
    stretches = {flag.direction: flag for flag in found.flags if flag.kind == "stretch"}
    assert (stretches["empty"].begin_s, stretches["empty"].end_s) == (225, 315)
    assert stretches["full"].begin_s == pytest.approx(540, abs=15)
    assert stretches["full"].end_s == pytest.approx(615, abs=15)
    assert len(found.findings) == 2


def test_a_capacity_that_is_given_is_believed() -> None:
    values = np.minimum(synthetic.of_law("log-normal", 5_000, np.random.default_rng(1)), 1.5e6)
    series = synthetic.series(values, "a")
    assert anomalies.find(series).capacity_bps == pytest.approx(1.2e8)
    assert anomalies.find(series, capacity_bps=1e9).full_share == 0


def test_unusual_bins_are_flagged_and_listed_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    series = traffic("log-normal")
    series.bytes[[100, 200]] *= 40
    series.bytes[300] = 0
    flags = {flag.begin_s: flag for flag in anomalies.find(series).flags}
    assert {flags[10.0].direction, flags[20.0].direction} == {"high"}
    assert flags[30.0].direction == "empty"
    monkeypatch.setattr(anomalies, "MOST_FLAGS", 1)
    found = anomalies.find(series)
    assert (len(found.flags), found.more) == (1, len(flags) - 1)


def test_too_few_bins_are_not_judged() -> None:
    with pytest.raises(Unfit, match="at least 20"):
        anomalies.find(traffic("log-normal", 10))


def test_constant_traffic_has_no_anomaly() -> None:
    sizes = np.full(1_000, 12_500, np.int64)
    assert not anomalies.find(Series(Name("a"), 0, SLOT_NS, sizes, sizes)).flags


# -- sources ---------------------------------------------------------------------------------------


def variance_slope(values: Numbers) -> float:
    """Hurst parameter from variances of means of 1 and 64 bins: H = 1 + slope / 2."""
    blocks = values[: len(values) // 64 * 64].reshape(-1, 64).mean(axis=1)
    return 1 + log(blocks.var() / values.var()) / log(64) / 2


def test_on_off_sources_are_self_similar_and_poisson_is_not() -> None:
    """Pareto 1.4: H = (3 - 1.4) / 2 = 0.8 in the limit; independent bins: 0.5."""
    rng = np.random.default_rng(1)
    assert variance_slope(synthetic.on_off(60_000, 30, 1.4, rng, 3)) == pytest.approx(0.8, abs=0.12)
    assert variance_slope(synthetic.poisson(60_000, 50, 1000, rng)) == pytest.approx(0.5, abs=0.05)
