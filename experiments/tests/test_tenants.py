"""Tenants at flow level: late messages against M/D/1, fair rates, and jobs that end when they
must."""

from __future__ import annotations

from fractions import Fraction
from math import exp, factorial
from pathlib import Path

import numpy as np
import pytest
from ebb_experiments.study.metrics import tenants_row
from ebb_experiments.study.spec import load_experiment
from ebb_experiments.study.store import Store
from ebb_experiments.study.trial import run_tenants
from ebb_experiments.study.trials import trials
from ebb_experiments.tenants.messages import simulated_late_share
from ebb_experiments.tenants.model import DataCentre
from ebb_experiments.tenants.sharing import max_min
from ebb_experiments.tenants.simulation import simulate
from ebb_topologies.files import InputError
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

GUARANTEES = [Fraction(r, 10) for r in (10, 14, 18, 22, 26, 30)]
TABLE = {
    1: (99, 77, 55, 45, 38, 33),
    3: (99, 22, 8, 3.6, 1.9, 1.1),
    5: (99, 6.1, 0.9, 0.2, 0, 0),
    7: (99, 1.4, 0, 0, 0, 0),
    9: (98, 0.4, 0, 0, 0, 0),
}
"""Moncaster table 5.1, per cent."""
EXACT = {(1, Fraction(14, 10)): 71.43, (7, Fraction(14, 10)): 1.75}
"""Cells in which the thesis has something else than M/D/1."""
CLASSES = {
    "a": {"share": 0.5, "rate_bps": 250_000_000, "burst_bytes": 15_000, "peak_bps": 10**9},
    "b": {"share": 0.5, "rate_bps": 2_000_000_000, "burst_bytes": 1_500},
}


def late_share(overprovisioning: Fraction, burst_messages: int) -> float:
    """The share of messages that are late, exactly (Erlang's distribution of the waiting time in
    M/D/1). `overprovisioning`: r; without any (r = 1) no queue is stable, and all are late."""
    if overprovisioning <= 1:
        return 1.0
    load = 1 / overprovisioning
    allowed = burst_messages - 1
    total = 0.0
    for k in range(allowed + 1):
        ahead = load * (k - allowed)
        total += float(ahead**k / factorial(k)) * exp(-float(ahead))
    return 1 - (1 - float(load)) * total


@pytest.mark.parametrize("burst", TABLE)
@pytest.mark.parametrize("guarantee", GUARANTEES[1:])
def test_late_messages_of_a_token_bucket_are_those_of_m_d_1(
    burst: int, guarantee: Fraction
) -> None:
    exact = late_share(guarantee, burst)
    found = [
        simulated_late_share(float(guarantee), burst, 200_000, np.random.default_rng(seed))
        for seed in range(8)
    ]
    error = np.std(found, ddof=1) / len(found) ** 0.5
    assert np.mean(found) == pytest.approx(exact, abs=5 * error + 2e-6)


def waits(messages: int, steps: int) -> list[float]:
    """Share of the first messages of M/D/1 at full load that wait for more than 0, 2, 4, 6 and 8
    services. Waits are multiples of a service over `steps`, and gaps geometric with a mean of one
    service, which is the exponential distribution for ever more steps."""
    fraction = 1 / (1 + steps)
    size = int(8 * messages**0.5) * steps
    wait = np.zeros(size)
    wait[0] = 1
    late = np.zeros(5)
    for _ in range(messages):
        late += [wait[2 * services * steps + 1 :].sum() for services in range(5)]
        served = np.concatenate((np.zeros(steps), wait[: size - steps]))
        # A gap of g moves a wait of x + g to x; all below 0 is none.
        wait = lfilter([fraction], [1, fraction - 1], served[::-1])[::-1]
        wait[0] = 1 - wait[1:].sum()
    return list(late / messages)


def test_without_overprovisioning_the_share_grows_with_the_run_as_in_m_d_1_at_full_load() -> None:
    """Its limit is all messages, in the first column of the table: what counts is the run."""
    messages = 4_000
    coarse, fine = waits(messages, 8), waits(messages, 16)
    for burst, rough, exact in zip(TABLE, coarse, fine, strict=True):
        extrapolated = 2 * exact - rough
        found = [
            simulated_late_share(1, burst, messages, np.random.default_rng(seed))
            for seed in range(60)
        ]
        error = np.std(found, ddof=1) / len(found) ** 0.5
        assert abs(exact - rough) < 0.01
        assert np.mean(found) == pytest.approx(extrapolated, abs=4 * error + 1e-3)


def test_the_thesis_has_these_shares_but_in_two_cells() -> None:
    for burst, row in TABLE.items():
        for guarantee, published in zip(GUARANTEES[1:], row[1:], strict=True):
            expected = EXACT.get((burst, guarantee), published)
            tolerance = max(0.12, 0.06 * expected)
            assert 100 * late_share(guarantee, burst) == pytest.approx(expected, abs=tolerance)
    assert 100 * late_share(Fraction(18, 10), 7) == pytest.approx(0.108, abs=0.001)


def test_flows_share_a_port_and_take_what_others_cannot() -> None:
    # One flow alone on a slow port 0 (1) and on 1 (10); two more on port 1: 1 and twice 4.5.
    ports = np.array([[0, 1], [1, 2]])
    rates = max_min(ports, np.array([1.0, 2.0]), np.array([1.0, 10.0, np.inf]))
    assert rates.tolist() == [1.0, 4.5]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), min_size=1),
    st.lists(st.integers(1, 100), min_size=4, max_size=4),
)
def test_no_flow_can_have_more_without_one_that_has_no_more_having_less(
    flows: list[tuple[int, int, int]], capacity: list[int]
) -> None:
    ports = np.array([(a, b if b != a else 4) for a, b, _ in flows])
    weights = np.array([float(weight) for *_, weight in flows])
    rates = max_min(ports, weights, np.array([*map(float, capacity), np.inf]))
    for group, row in enumerate(ports):
        bottleneck = False
        for port in row[row < 4]:
            on_it = (ports == port).any(axis=1)
            load = float((rates * weights)[on_it].sum())
            assert load <= capacity[port] * (1 + 1e-9)
            full = load >= capacity[port] * (1 - 1e-9)
            bottleneck |= bool(full and rates[group] >= rates[on_it].max() * (1 - 1e-9))
        assert bottleneck


def centre(**more: object) -> DataCentre:
    table: dict[str, object] = {"racks_per_pod": 2, "hosts_per_rack": 5, "tenants": 60}
    return DataCentre.model_validate(table | {"mean_vms": 8, "classes": CLASSES} | more)


def test_jobs_with_guarantees_take_their_least_time_and_a_seed_is_one_result() -> None:
    first, again = simulate(centre(), 3), simulate(centre(), 3)
    drop = [{k: v for k, v in row.items() if k != "placement_ns"} for row in first.tenants]
    assert drop == [{k: v for k, v in row.items() if k != "placement_ns"} for row in again.tenants]
    assert first.numbers == again.numbers
    ended = [row["stretch"] for row in first.tenants if row["stretch"] is not None]
    assert len(first.tenants) == 60 and ended
    assert ended == pytest.approx([1.0] * len(ended))


def test_a_job_that_shares_a_slow_network_takes_longer() -> None:
    slow = centre(algorithm="locality", rack_oversubscription=20, occupancy=0.9, mean_vms=20)
    found = [row["stretch"] for row in simulate(slow, 1).tenants if row["stretch"] is not None]
    assert max(found) > 1.5
    assert min(found) >= 0.5, "computing alone is half of the least time or more"


def test_utilisation_is_what_was_sent_over_what_the_links_could(tmp_path: Path) -> None:
    sure = {"a": {"share": 1, "rate_bps": 10**9, "burst_bytes": 1_500}}
    found = simulate(centre(classes=sure, algorithm="locality", network_share=0), 1)
    assert found.numbers["utilisation"] == 0.0 < found.numbers["occupancy"] <= 1.0


EXPERIMENT = """
title = "x"
source = "x"
[tenants]
hosts_per_rack = 4
tenants = 30
mean_vms = 6
classes.a = { share = 1, rate_bps = 1_000_000_000, burst_bytes = 30_000 }
[scheme.silo]
[scheme.locality]
set = { algorithm = "locality" }
[[axis]]
name = "burst"
label = "burst"
set = "classes.a.burst_bytes"
values = [3_000, 300_000]
[size.quick]
seeds = 2
[metric.refused]
of = "rejected"
class = "a"
label = "x"
unit = "%"
scale = 100
[metric.longest]
of = "placement-time"
stat = "max"
label = "x"
unit = "ns"
"""


def test_an_experiment_has_its_trials_stored_and_measured(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text(EXPERIMENT)
    experiment = load_experiment(tmp_path / "x.toml")
    planned = trials(experiment, "x", "quick", tmp_path)
    assert len({trial.id("any") for trial in planned}) == len(planned) == 8
    assert [t.id("other") for t in planned] == [t.id("any") for t in planned], "no P4 is run"
    store, rows = Store(tmp_path / "results"), []
    for trial in planned:
        store.write(trial, trial.id(""), run_tenants(trial))
        tables = store.read(trial, trial.id(""))
        rows.append(tenants_row(experiment.metric, tables, trial.scheme, trial.seed, trial.labels))
    refused = {(r["scheme"], r["labels"]["burst"], r["seed"]): r["refused"] for r in rows}
    for seed in (1, 2):
        assert refused["silo", 300_000, seed] > refused["silo", 3_000, seed]
        assert refused["locality", 300_000, seed] == refused["locality", 3_000, seed]
    assert all(row["longest"] > 0 for row in rows)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("share = 1", "share = 0.5", "shares of the classes must add up to 1"),
        ("hosts_per_rack = 4", "hosts_per_rack = 0", "hosts_per_rack"),
        ("hosts_per_rack = 4", "host_per_rack = 4", "did you mean 'hosts_per_rack'"),
        ("[tenants]", "[scenario]\nx = 1\n[tenants]", "either .scenario. or .tenants."),
        ('of = "rejected"', 'of = "placement-time"', "need `stat`"),
    ],
)
def test_what_is_wrong_in_a_file_is_one_line(
    before: str, after: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "x.toml").write_text(EXPERIMENT.replace(before, after))
    with pytest.raises(InputError, match=said) as found:
        trials(load_experiment(tmp_path / "x.toml"), "x", "quick", tmp_path)
    assert "\n" not in str(found.value)
