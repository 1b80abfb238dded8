"""Claims on rows made by hand: numbers, doubts and grades."""

from __future__ import annotations

import math
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ebb_experiments.study.claims import (
    Evaluated,
    NotRunError,
    check,
    check_expressions,
    evaluate,
)
from ebb_experiments.study.estimates import (
    Estimate,
    Sample,
    _reach,
    enough,
    estimate,
    on_log_axis,
    possible,
)
from ebb_experiments.study.expression import Expression
from ebb_experiments.study.figures import drawn_interval
from ebb_experiments.study.grades import Grade, Meaning, factor, grade
from ebb_experiments.study.metric_spec import Flows, Jobs, Metric, Tenants
from ebb_experiments.study.spec import (
    Experiment,
    experiment_file,
    known_experiments,
    load_experiment,
)
from ebb_topologies.files import InputError
from study_tables import experiment

FCT: dict[str, Metric] = {"fct": Flows(of="fct", stat="mean", label="FCT", unit="us")}
TAIL: dict[str, Metric] = {"fct": Flows(of="fct", stat="p99.9", label="FCT", unit="us")}


MODEL = r"experiments/digs/\w+\.py"
"""A model that the text of an experiment names."""


def rows(numbers: dict[str, list[Any]], **labels: Any) -> list[dict[str, Any]]:
    return [
        {"scheme": scheme, "seed": seed, "labels": labels, "fct": number}
        for scheme, of_seeds in numbers.items()
        for seed, number in enumerate(of_seeds, start=1)
    ]


def evaluated(
    text: str, data: list[dict[str, Any]], metrics: dict[str, Metric] = FCT, **known: Any
) -> Evaluated:
    return evaluate(Expression.of(text, list(metrics), known), metrics, data)


def value(text: str, data: list[dict[str, Any]], **known: Any) -> Estimate:
    found = evaluated(text, data, **known).ours
    assert found is not None
    return found


# -- numbers --------------------------------------------------------------------------------------


def test_the_interval_is_student_s() -> None:
    ours = estimate([1.0, 2.0, 3.0])
    # t(0.975, 2) = 4.3027, s = 1, n = 3
    assert (ours.mean, ours.half_width) == (2, pytest.approx(2.4841, abs=1e-4))
    assert estimate([5.0]).half_width is None
    single = value('fct("a")', rows({"a": [11, 12, 13]}))
    assert (single.mean, single.half_width) == (pytest.approx(12), pytest.approx(2.4841, abs=1e-4))


LATE: dict[str, Metric] = {"fct": Tenants(of="late", label="late", unit="%", scale=100)}


def test_an_interval_ends_where_no_value_can_be() -> None:
    """A time is not negative and a share is no more than the whole, whatever Student says."""
    time = value('fct("a")', rows({"a": [1, 2, 3]}))
    assert (time.low, time.high) == (0, pytest.approx(4.4841, abs=1e-4))
    share = evaluated('fct("a")', rows({"a": [99, 100, 100]}), LATE).ours
    assert (
        share is not None and share.low is not None and (share.low < 99, share.high) == (True, 100)
    )
    # The scale of a share of jobs is that of the limit above which they are.
    fast = {"of": "job-goodput", "stat": "above-share", "limit": 0.9, "scale": 1e-9}
    above = Jobs(**fast, traffic="reads", label="fast", unit="")
    ours = evaluated('fct("a")', rows({"a": [0.1, 0.2, 0.3]}), {"fct": above}).ours
    assert ours is not None and ours.high == pytest.approx(0.2 + 0.24841, abs=1e-5)
    less = value('fct("a") - fct("b")', rows({"a": [1, 2, 3], "b": [1, 1, 1]}))
    assert less.low == pytest.approx(1 - 2.4841, abs=1e-4)
    total = value('fct("a") + fct("b")', rows({"a": [1, 2, 3], "b": [0, 0, 0]}))
    assert total.low == 0
    # A number beyond the limits, which a fault of the metric would be, stays where it is.
    assert possible(Estimate(101, 100.5, 101.5, 3), 0, 100) == Estimate(101, 100.5, 101, 3)


def test_a_share_of_almost_all_or_nothing_is_decided() -> None:
    """Its band ends where its values do."""
    keys = {"metric": {"fct": {"of": "late", "label": "late", "unit": "%", "scale": 100}}}
    claim = {"text": "c", "expression": 'fct("ndp")', "published": 0.0, "band": [0, 0.15]}
    made = experiment(claim=[claim], **keys)
    (found,) = check(made, rows({"ndp": [0.0, 0.0, 0.001]}), [], None)
    assert found.grade != "undecided" and found.notes == []


def test_a_ratio_is_of_the_means_and_has_the_interval_of_its_logarithm() -> None:
    ratio = value('fct("a") / fct("b")', rows({"a": [2, 4], "b": [1, 3]}))
    assert ratio.mean == pytest.approx(1.5) and ratio.low is not None and ratio.high is not None
    assert ratio.mean / ratio.low == pytest.approx(ratio.high / ratio.mean)
    same = value('fct("a") / fct("b")', rows({"a": [2, 4], "b": [1, 2]}))
    assert (same.mean, same.half_width) == (pytest.approx(2), pytest.approx(0, abs=1e-9))


def test_a_ratio_over_almost_nothing_never_reaches_below_0() -> None:
    near_0 = value('fct("a") / fct("b")', rows({"a": [50, 60, 55], "b": [0.127, 0.0001, 0.002]}))
    assert near_0.low is not None and 0 < near_0.low < near_0.mean


def test_a_share_that_something_is_shorter_by_is_never_more_than_all() -> None:
    data = rows({"a": [1, 40, 2], "b": [100, 120, 90]})
    shorter = value('1 - fct("a") / fct("b")', data)
    left = value('fct("a") / fct("b")', data)
    assert left.low is not None and left.high is not None
    assert (shorter.low, shorter.high) == (
        pytest.approx(1 - left.high), pytest.approx(1 - left.low)
    )  # fmt: skip
    longer = value('100 * (fct("b") / fct("a") - 1)', data)
    assert longer.low is not None and longer.low > -100


def test_intervals_on_a_logarithmic_axis_end_above_0() -> None:
    wide = estimate([1.0, 2.0, 9.0])
    assert wide.low is not None and wide.low < 0
    drawn = on_log_axis(wide)
    assert drawn.low is not None and 0 < drawn.low < wide.mean


def test_figures_show_intervals_from_three_trials_on() -> None:
    assert drawn_interval(estimate([1.0, 3.0])) is None
    three = drawn_interval(estimate([1.0, 2.0, 3.0]))
    assert three == (pytest.approx(2.4841, abs=1e-4), pytest.approx(2.4841, abs=1e-4))
    log = drawn_interval(estimate([1.0, 2.0, 3.0]), log=True)
    assert log is not None and log[0] < 2 < log[1]


def test_expressions_know_points_numbers_and_nothing_else() -> None:
    data = rows({"a": [2.0]}, load=0.4)
    assert value('-2 * max(fct("a", load=load), 1) + 1', data, load=0.4).mean == -3
    with pytest.raises(NotRunError, match=r"no trial of a with load = 0.9 has fct"):
        evaluated('fct("a", load=0.9)', data)
    for wrong in ('__import__("os")', "fct(a)", 'fct("a").x', "[1]", 'fct("a"'):
        with pytest.raises(InputError, match=r"is not understood|^expression '"):
            evaluated(wrong, data)


def test_a_claim_may_compare_both_clocks() -> None:
    virtual, wall = rows({"a": [2.0, 2.0]}), rows({"a": [3.0, 3.0]})
    both = Expression.of('on_mininet(fct("a")) / fct("a")', ["fct"], {})
    found = evaluate(both, FCT, virtual, wall).ours
    assert found is not None and found.mean == pytest.approx(1.5)
    with pytest.raises(NotRunError, match="no trial of a on Mininet has fct"):
        evaluate(both, FCT, virtual)


# -- nothing disappears ---------------------------------------------------------------------------


def test_a_seed_without_a_trial_is_named() -> None:
    some = evaluated('fct("a") / fct("b")', rows({"a": [2, 4, 100], "b": [1, 3]}))
    assert some.ours is not None and some.ours.mean == pytest.approx(1.5)
    assert some.doubts == ["seed 3 has no trial of b"]
    assert value('fct("a")', rows({"a": [2, 4, 100], "b": [1, 3]})).trials == 3
    # Better than nothing.
    apart = [*rows({"a": [2]}), *({**row, "seed": 2} for row in rows({"b": [4]}))]
    assert value('fct("a") / fct("b")', apart).mean == 0.5
    assert value('fct("a") / fct("b")', apart).low is None


def test_a_seed_whose_denominator_is_0_stays_and_is_named() -> None:
    found = evaluated('fct("a") / fct("b")', rows({"a": [10, 20, 30], "b": [1, 0, 2]}))
    assert found.ours is not None and (found.ours.mean, found.ours.trials) == (20, 3)
    assert found.doubts == ["seed 2: division by 0 in fct('a') / fct('b')"]
    never = evaluated('fct("a") / fct("b")', rows({"a": [1, 2], "b": [0, 0]}))
    assert never.ours is None and "division by 0" in never.doubts[0]


def test_a_seed_without_a_value_is_named() -> None:
    found = evaluated('fct("a")', rows({"a": [1, None, 3]}))
    assert found.ours is not None and found.ours.mean == 2
    assert found.doubts == ["seed 2: a has no fct"]


def with_samples(sizes: dict[str, int], seeds: int, *, stored: bool = True) -> list[dict[str, Any]]:
    """Rows of a 99.9th percentile, of this many exponential samples in each trial."""
    random = np.random.default_rng(1)
    found = []
    for scheme, size in sizes.items():
        for seed in range(1, seeds + 1):
            numbers = random.exponential(1.0, size)
            row = {"scheme": scheme, "seed": seed, "labels": {}, "fct": float(numbers.max())}
            row |= {"counts": {"fct": size}, "ended": {"fct": 1.0}}
            found.append(row | ({"samples": {"fct": Sample.of(numbers)}} if stored else {}))
    return found


def test_percentiles_of_few_samples_are_of_all_trials_together() -> None:
    data = with_samples({"a": 4_000}, seeds=4)
    found = evaluated('fct("a")', data, TAIL)
    pooled = Sample.pooled([row["samples"]["fct"] for row in data])
    assert (found.samples, found.doubts) == (16_000, [])
    assert found.ours is not None and found.ours.mean == pooled.percentile(99.9)
    assert found.ours.mean < np.mean([row["fct"] for row in data])
    assert found.ours.low is not None and found.ours.high is not None
    assert found.ours.low < found.ours.mean < found.ours.high
    # The bootstrap draws the same again.
    assert evaluated('fct("a")', data, TAIL).ours == found.ours
    # A term that an expression has twice is drawn once.
    same = evaluated('fct("a") / fct("a")', data, TAIL).ours
    assert same is not None and (same.low, same.high) == (1, 1)


def test_less_than_ten_samples_beyond_a_percentile_decide_nothing() -> None:
    few = evaluated('fct("a")', with_samples({"a": 400}, seeds=3), TAIL)
    assert few.doubts == ["99.9th percentile of 1200 samples, 1.2 of them beyond it"]
    lost = evaluated('fct("a")', with_samples({"a": 4_000}, seeds=4, stored=False), TAIL)
    assert lost.doubts == [
        "99.9th percentile of 16000 samples, which are not stored; a trial has 4 beyond it"
    ]
    assert evaluated('fct("a")', with_samples({"a": 10_000}, seeds=2), TAIL).doubts == []


def test_a_long_sample_is_kept_with_its_tail() -> None:
    numbers = np.arange(100_000.0)
    kept = Sample.of(numbers)
    assert (kept.size, len(kept.values)) == (100_000, 2_400)
    assert kept.percentile(99.9) == 99_899
    assert kept.percentile(50) == pytest.approx(50_000, rel=0.01)
    assert Sample.of(numbers[:500]).values.tolist() == numbers[:500].tolist()


# -- grades ---------------------------------------------------------------------------------------


RATIO = Meaning(neutral=1.0)
SHORTER = Meaning(neutral=0.0, whole=1.0)
ANY = (None, None)


@pytest.mark.parametrize(
    ("ours", "paper", "band", "meaning", "expected"),
    [
        (1.25, (1, 1), ANY, Meaning(), "within 25 %"),
        (0.5, (1, 1), ANY, Meaning(), "within a factor of 2"),
        (2.4, (2.1, 4.3), ANY, Meaning(), "within 25 %"),
        (0, (0, 0), (0, 0), Meaning(), "within 25 %"),
        # A ratio far off still says which is the longer one; a plain number says nothing.
        (9.0, (2, 2), ANY, RATIO, "direction"),
        (9.0, (2, 2), ANY, Meaning(), "not reproduced"),
        # In words: the band is all there is.
        (1.1, None, (1, 2), RATIO, "direction"),
        (0.9, None, (1, 2), RATIO, "not reproduced"),
        (1.9, (1, 1), (0.5, 1.5), Meaning(), "not reproduced"),
        # -4 % and +12 %, and a band that has both.
        (0.12, (-0.04, -0.04), (-0.19, 0.16), SHORTER, "not reproduced"),
        (0.98, (1.02, 1.02), (0.5, 2), RATIO, "not reproduced"),
        # Shorter by 68 and by 90 %: 32 and 10 % of the time are left.
        (0.9, (0.68, 0.68), ANY, SHORTER, "direction"),
        (0.6, (0.55, 0.55), ANY, SHORTER, "within 25 %"),
    ],
)
def test_grades(ours: float, paper: Any, band: Any, meaning: Meaning, expected: Grade) -> None:
    assert grade(ours, paper, band, meaning) == expected


def test_other_signs_are_any_factor_off() -> None:
    assert factor(-1, (1, 1), Meaning()) == math.inf


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ('fct("a") / fct("b")', RATIO),
        ('fct("a") / min(fct("b"), fct("c"))', RATIO),
        ('1 - fct("a") / fct("b")', SHORTER),
        ('100 * (1 - fct("a") / fct("b"))', Meaning(neutral=0.0, whole=100.0)),
        ('fct("a") / fct("b") - 1', Meaning(neutral=0.0, whole=-1.0)),
        ('fct("a") - fct("b")', Meaning(neutral=0.0)),
        ('fct("a")', Meaning()),
        ('fct("a") / other("a")', Meaning()),
        ('fct("a") / max(fct("b"), 0.01)', RATIO),
    ],
)
def test_an_expression_knows_what_no_effect_is(text: str, meaning: Meaning) -> None:
    assert Expression.of(text, ["fct", "other"], {}).meaning == meaning


def claimed(**keys: Any) -> Experiment:
    claim = {"text": "c", "expression": 'fct("ndp") / fct("dctcp")', "published": 2, "band": [1, 4]}
    return experiment(claim=[claim | keys])


def graded(data: list[dict[str, Any]], **keys: Any) -> tuple[Grade, list[str]]:
    (found,) = check(claimed(**keys), data, [], None)
    return found.grade, found.notes


def test_what_is_decided_is_graded() -> None:
    assert graded(rows({"ndp": [4, 4.1, 4], "dctcp": [2, 2, 2.1]})) == ("within 25 %", [])
    assert graded(rows({"ndp": [9, 9.1, 9], "dctcp": [2, 2, 2.1]})) == ("not reproduced", [])


def test_equal_trials_at_the_edge_are_inside() -> None:
    """Means of thirds are not exact."""
    third = rows({"ndp": [0.1 + 0.2, 0.3, 0.3], "dctcp": [0.3, 0.3, 0.3]})
    assert graded(third, published=1, band=[1, 4]) == ("within 25 %", [])


def test_an_interval_across_the_edge_is_undecided() -> None:
    wide = rows({"ndp": [2, 4, 8], "dctcp": [2, 2, 2]})
    assert graded(wide) == ("undecided", ["its interval reaches out of the band"])
    far = rows({"ndp": [4, 12, 16], "dctcp": [2, 2, 2]})
    assert graded(far) == ("undecided", ["its interval reaches into the band"])
    # The band lies inside the interval, whose middle is outside.
    narrow = rows({"ndp": [2, 4, 8], "dctcp": [2, 2, 2]})
    assert graded(narrow, band=[1.9, 2.0])[0] == "undecided"


def test_one_trial_is_undecided() -> None:
    assert graded(rows({"ndp": [4], "dctcp": [2]})) == ("undecided", ["one trial"])


def test_a_seed_less_is_undecided() -> None:
    less = rows({"ndp": [4, 4.1, 4], "dctcp": [2, 2]})
    assert graded(less) == ("undecided", ["seed 3 has no trial of dctcp"])


def test_undecided_claims_say_how_many_trials_would_decide() -> None:
    """That many with the same mean and spread do, one less does not."""
    wide = Estimate.around(3.0, 1.4, 5)
    count = enough(wide, [1.0, 4.0])
    assert count is not None

    def half(trials: int) -> float:
        return 1.4 / _reach(5) * _reach(trials)

    assert half(count) < 1.0 <= half(count - 1)
    assert enough(wide, [1.0, 5.0]) is None and enough(Estimate(3, None, None, 1), [3.1]) is None
    assert enough(wide, [3.000001]) is None
    # A ratio on a logarithmic axis.
    ratio = enough(Estimate(2.0, 1.0, 4.0, 5), [3.0])
    assert ratio is not None and math.log(2) / _reach(5) * _reach(ratio) < math.log(1.5)


def test_percentiles_say_how_many_trials_have_enough_samples() -> None:
    few = evaluated('fct("a")', with_samples({"a": 1_000}, 2), TAIL)
    assert few.enough_samples == 10
    assert evaluated('fct("a")', with_samples({"a": 10_000}, 2), TAIL).enough_samples is None


def test_a_wrong_sign_that_is_not_certain_is_undecided() -> None:
    both = rows({"ndp": [1.9, 2.1, 1.9], "dctcp": [2, 2, 2]})
    assert graded(both, band=[0.5, 4]) == ("undecided", ["its interval has both signs"])


@pytest.mark.parametrize("share", [0.989, 1.0])
def test_nothing_holds_that_leaves_flows_out(share: float) -> None:
    data = rows({"ndp": [4, 4.1, 4], "dctcp": [2, 2, 2.1]})
    of_them = [row | {"ended": {"fct": share if row["seed"] == 1 else 1.0}} for row in data]
    found, notes = graded(of_them)
    assert found == ("undecided" if share < 0.99 else "within 25 %")
    assert ("of a trial only 98.9 % of the flows ended; the others are left out" in notes) == (
        share < 0.99
    )
    not_known = [row | {"ended": {"fct": None}} for row in data]
    assert graded(not_known) == (
        "undecided", ["the share of the flows that ended was not recorded"],
    )  # fmt: skip


def test_a_claim_about_flows_that_end_may_say_that_some_do_not() -> None:
    """Its metric leaves none out, and so has no share of those that ended."""
    data = [row | {"ended": {}} for row in rows({"ndp": [0.8, 0.81, 0.8]})]
    made = experiment(
        metric={"fct": {"of": "finished", "label": "ended", "unit": ""}},
        claim=[{"text": "c", "expression": 'fct("ndp")', "published": 0.8, "band": [0.7, 0.9]}],
    )
    assert check(made, data, [], None)[0].grade == "within 25 %"


def test_texts_bands_reasons_and_deviations() -> None:
    axis = {"name": "load", "label": "load", "set": "agent.tcp.x", "values": [0.4, 0.6]}
    claim = {
        "text": "load {load}",
        "expression": 'fct("ndp", load=load)',
        "each": {"load": [0.4, 0.6]},
        "published": [3, 5],
        "band": [[1, 3], [1, 3]],
        "kind": "variant",
        "deviations": ["this one"],
        "reason": "because",
    }
    made = experiment(axis=[axis], claim=[claim], deviations=["all"])
    data = rows({"ndp": [2.5, 2.5]}, load=0.4) + rows({"ndp": [5.0, 5.0]}, load=0.6)
    first, second = check(made, data, [], "small")
    assert (first.text, first.published, first.grade) == ("load 0.4", 3, "within 25 %")
    assert (first.kind, first.reason) == ("variant", None)
    assert first.deviations == ["all", "this one", "small"]
    assert (second.text, second.grade, second.reason) == ("load 0.6", "not reproduced", "because")
    (nothing, _) = check(made, [], [], None)
    assert (nothing.grade, nothing.ours) == ("not run", None)


@pytest.mark.parametrize(
    ("keys", "status"),
    [
        ({}, "unknown"),
        ({"reason": "r"}, "seen"),
        ({"reason": "r", "unexplained": True}, "unknown"),
        ({"reason": "r", "tested_by": "experiments/papers/x.toml"},
         "tested by experiments/papers/x.toml"),
    ],
)  # fmt: skip
def test_a_cause_says_how_sure_it_is(keys: dict[str, Any], status: str) -> None:
    data = rows({"ndp": [9, 9.1, 9], "dctcp": [2, 2, 2.1]})
    assert check(claimed(**keys), data, [], None)[0].cause_status == status


def test_files_that_test_causes_are_experiments_with_claims_or_models() -> None:
    """Files that papers name are such, and all of experiments/digs are named: by a paper, or a
    model by the experiment that it stands beside."""
    claims = [c for n in known_experiments() for c in load_experiment(experiment_file(n)).claim]
    named = {claim.tested_by for claim in claims if claim.tested_by is not None}
    root = Path(__file__).resolve().parents[2]
    folder = root / "experiments" / "digs"
    experiments = {path: load_experiment(path) for path in folder.glob("*.toml")}
    named |= {name for each in experiments.values() for name in re.findall(MODEL, each.about)}
    digs = {str(path.relative_to(root)) for path in (*experiments, *folder.glob("*.py"))}
    assert digs <= named
    for name in named:
        if name.endswith(".py"):
            assert "main" in runpy.run_path(str(root / name)), f"{name} is a model that runs"
            continue
        made = load_experiment(root / name)
        check_expressions(made, name)
        assert made.claim


def test_numbers_stand_beside_words() -> None:
    data = rows({"ndp": [4, 4.1, 4], "dctcp": [2, 2, 2.1]})
    assert graded(data, published="about twice")[0] == "direction"
    assert graded(data, published="about twice", numbers=[2, 2])[0] == "within 25 %"
    assert graded(data, published="above 3", numbers=[3, math.inf])[0] == "within a factor of 2"
