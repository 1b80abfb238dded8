"""Trials that are run again, beside what the archive of their page has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ebb_experiments.study import pages
from ebb_experiments.study.archive import Archive, pack, unpack
from ebb_experiments.study.check import Check, RepeatedTrial, choose, differences
from ebb_experiments.study.estimates import Sample
from ebb_experiments.study.metrics import NOTHING, Row
from ebb_experiments.study.report import Maker
from ebb_experiments.study.store import Store
from ebb_experiments.study.trials import Trial, trials
from study_tables import experiment

METRICS = {
    "fct": {"of": "fct", "stat": "p99", "label": "FCT", "unit": "us", "scale": 1e-3},
    "lost": {"of": "lost", "label": "lost", "unit": ""},
}
MADE = experiment(metric=METRICS)


def planned() -> list[Trial]:
    return trials(MADE, "one", "full", Path())


def a_row(trial: Trial, **keys: Any) -> Row:
    of_it = {"scheme": trial.scheme, "seed": trial.seed, "labels": trial.labels, "flows": 3}
    about = {"commit": "0123456789ab", "seconds": 5.0, "late_ns": None}
    return {**NOTHING, **of_it, **about, "fct": 0.1 + 0.2, "lost": 0.0, **keys}


def test_the_shortest_trial_of_each_scheme_is_run_again_as_long_as_time_allows() -> None:
    every = planned()
    rows = [a_row(trial, seconds=10 + number) for number, trial in enumerate(every)]
    schemes = list(dict.fromkeys(trial.scheme for trial in every))
    assert len(schemes) > 1
    pairs, left_out = choose(rows, every, 1000)
    assert [trial.scheme for _row, trial in pairs] == schemes and left_out == []
    assert all(row["seconds"] == min(r["seconds"] for r in rows if r["scheme"] == row["scheme"])
               for row, _trial in pairs)  # fmt: skip
    pairs, left_out = choose(rows, every, 10)
    assert [trial.scheme for _row, trial in pairs] == schemes[:1] and left_out == schemes[1:]
    assert choose(rows, every, 9) == ([], schemes)


def test_a_trial_that_is_no_longer_planned_is_not_chosen() -> None:
    first, *others = planned()
    rows = [a_row(first, seconds=1), *(a_row(trial) for trial in others)]
    pairs, _left_out = choose(rows, others, 1000)
    assert first not in [trial for _row, trial in pairs]


def test_equal_means_every_bit(tmp_path: Path) -> None:
    """The archive keeps numbers as they are, so that the last bit counts."""
    (trial, *_others) = planned()
    before = a_row(trial, ended={"fct": 1.0}, samples={"fct": Sample.of(np.array([0.1, 0.2, 0.3]))})
    file = tmp_path / "trials.parquet"
    file.write_bytes(pack(Archive("full", [before]), MADE.metric))
    (archived,) = unpack(file, MADE.metric).virtual
    assert differences(archived, before, MADE.metric) == []
    assert differences(archived, {**before, "fct": 0.3}, MADE.metric) == [
        "fct 0.30000000000000004, now 0.3"
    ]
    assert differences(archived, {**before, "fct": None}, MADE.metric) == ["fct 0.3, now nothing"]
    assert differences(archived, {**before, "flows": 4}, MADE.metric) == ["flows 3, now 4"]
    more = differences(archived, {**before, "ended": {"fct": 0.5}}, MADE.metric)
    assert more == ["share of the flows of fct that ended 1, now 0.5"]
    others = {"fct": Sample.of(np.array([0.1, 0.2, 0.4]))}
    told = differences(archived, {**before, "samples": others}, MADE.metric)
    assert told == ["the flows behind fct"]


def test_what_an_archive_does_not_have_is_not_compared(tmp_path: Path) -> None:
    (trial, *_others) = planned()
    file = tmp_path / "trials.parquet"
    only = {name: metric for name, metric in MADE.metric.items() if name != "lost"}
    file.write_bytes(pack(Archive("full", [a_row(trial, flows=0)]), only))
    archive = unpack(file, MADE.metric)
    assert archive.lacking == {"lost"}
    now = a_row(trial, lost=4.0, ended={"fct": 0.5})
    assert differences(archive.virtual[0], now, MADE.metric, archive.lacking) == []


def test_the_time_of_a_processor_is_not_compared() -> None:
    (trial, *_others) = planned()
    search = {"of": "placement-time", "stat": "mean", "label": "search", "unit": "ms"}
    metrics = experiment(metric={**METRICS, "search": search}).metric
    rows = [a_row(trial, search=1.0), a_row(trial, search=2.0)]
    assert differences(*rows, metrics) == []


@pytest.mark.parametrize(
    ("again", "left_out", "whole", "told"),
    [
        ([RepeatedTrial(trial="ndp seed=1")], [], True,
         "at commit 0123456789ab bit for bit again: ndp"),
        ([RepeatedTrial(trial="ndp seed=1")], ["tcp"], False, "not run again: tcp"),
        ([RepeatedTrial(trial="ndp seed=1", differs=["fct 1, now 2"])], [], False,
         "not as archived: ndp seed=1 (fct 1, now 2)"),
        ([], ["ndp"], False, "at commit 0123456789ab not run again: ndp"),
    ],
)  # fmt: skip
def test_a_check_is_whole_if_every_scheme_gave_the_same(
    again: list[RepeatedTrial], left_out: list[str], whole: bool, told: str
) -> None:
    check = Check(commit="0123456789abcdef", trials=again, left_out=left_out)
    assert check.whole == whole and told in check.text


def test_a_page_keeps_its_check_as_long_as_it_has_the_same_trials(tmp_path: Path) -> None:
    make = Maker(MADE, "one", "full", Store(tmp_path), tmp_path, ["png"])
    rows = [a_row(trial) for trial in planned()]
    chapter = make.of_archive(len(rows), Archive("full", rows))
    pages.write([chapter], tmp_path, "command", html=False)
    trial = planned()[0].name
    check = Check(commit="0123456789abcdef", trials=[RepeatedTrial(trial=trial)])
    pages.keep_check(tmp_path / "one", check)
    pages.write([chapter], tmp_path, "command", html=False)
    file = tmp_path / "one" / pages.SUMMARY
    assert json.loads(file.read_text())["check"]["trials"] == [{"trial": trial, "differs": []}]
    assert f"bit for bit again: {trial}" in (tmp_path / "one" / pages.PAGE).read_text()
    other = make.of_archive(len(rows), Archive("full", [{**r, "commit": "ab"} for r in rows]))
    pages.write([other], tmp_path, "command", html=False)
    assert json.loads(file.read_text())["check"] is None
