"""Drawings of figures, from rows alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from ebb_experiments.study import figures
from ebb_experiments.study.archive import Archive
from ebb_experiments.study.estimates import Sample
from ebb_experiments.study.figures import Data, claimed, draw, drawable
from ebb_experiments.study.metrics import NOTHING
from ebb_experiments.study.report import Maker
from ebb_experiments.study.spec import Published
from ebb_experiments.study.store import Store
from study_tables import experiment

BARS = {"name": "bars", "title": "Bars", "kind": "bars", "metric": "fct", "x": "threshold"}
CDF = {"name": "cdf", "title": "CDF", "kind": "cdf", "metric": "fct"}


def a_row(scheme: str = "ndp", **keys: Any) -> dict[str, Any]:
    about = {"commit": "0123456789ab", "seconds": 1.0, "late_ns": None, "delay": None, "fct": 4.0}
    return {**NOTHING, **about, "scheme": scheme, "seed": 1, "labels": {}, **keys}


def test_numbers_of_claims_are_drawn_where_the_figure_shows_just_them() -> None:
    claims = [
        {"expression": 'fct("dctcp", threshold=6_000)', "published": 3},
        {"expression": 'fct("dctcp", threshold=30_000)', "published": "2 to 4", "numbers": [2, 4]},
        {"expression": 'fct("ndp") / fct("dctcp", threshold=6_000)', "published": 2},
        {"expression": 'fct("dctcp", threshold=6_000)', "published": "in words"},
        {"expression": 'max(fct("ndp"), 1)', "published": 2},
        {"expression": 'delay("dctcp", threshold=6_000)', "published": 2},
    ]
    made = experiment(
        figure=[BARS, BARS | {"name": "of-one", "x": None, "at": {"threshold": 6_000}}, CDF],
        claim=[claim | {"text": "c", "band": [0, 9]} for claim in claims],
    )
    of_all, of_one, distribution = made.figure
    assert claimed(of_all, made) == [
        Published(scheme="dctcp", value=3, x=6_000),
        Published(scheme="dctcp", value=3, x=30_000),
    ]
    assert claimed(of_one, made) == [Published(scheme="dctcp", value=3)]
    assert claimed(distribution, made) == []


def test_a_figure_without_its_samples_stays_as_it_was(tmp_path: Path) -> None:
    made = experiment(figure=[CDF])
    maker = Maker(made, "one", "quick", Store(tmp_path), tmp_path, ["png"])
    without, sample = [a_row()], Sample.of(np.array([1.0, 2.0, 3.0]))
    assert not drawable(made.figure[0], Data(made, "quick", without))
    assert maker.of_archive(1, Archive("quick", without)).pictures == []
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "cdf.png").write_bytes(b"earlier")
    (kept,) = maker.of_archive(1, Archive("quick", without)).pictures
    assert kept.shown.read_bytes() == b"earlier"
    maker.of_archive(1, Archive("quick", [a_row(samples={"fct": sample})]))
    assert kept.shown.read_bytes() != b"earlier"


@pytest.fixture
def axes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Axes of figures that are drawn, before they are closed."""
    seen: list[Any] = []
    monkeypatch.setattr(plt, "close", lambda drawn: seen.extend(drawn.axes))
    return seen


def drawn(directory: Path, figure: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    made = experiment(figure=[figure])
    draw(made.figure[0], Data(made, "quick", rows), directory, ["svg"])


def test_intervals_of_schemes_at_one_point_do_not_hide_one_another(
    tmp_path: Path, axes: list[Any]
) -> None:
    rows = [
        a_row(scheme, seed=seed, fct=float(seed), labels={"threshold": at})
        for scheme in ("ndp", "dctcp") for seed in (1, 2, 9) for at in (6_000, 30_000)
    ]  # fmt: skip
    drawn(tmp_path, BARS | {"kind": "line", "log": "y"}, rows)
    (place,) = axes
    first, second = (line for line in place.lines if line.get_marker() in ("v", "s"))
    at = [line.get_transform().transform((6_000, 4))[0] for line in (first, second)]
    assert at[0] != at[1]
    low, _high = place.get_ylim()
    assert low > 0
    assert place.get_xlim()[0] <= 6_000 and place.get_xlim()[1] >= 30_000


def test_a_bar_of_0_is_named(tmp_path: Path, axes: list[Any]) -> None:
    drawn(tmp_path, BARS, [a_row("dctcp", fct=0.0, labels={"threshold": 6_000})])
    assert [text.get_text() for text in axes[0].texts] == ["0"]


def test_an_axis_ends_where_the_figure_says(tmp_path: Path, axes: list[Any]) -> None:
    drawn(tmp_path, BARS | {"most": 2.0}, [a_row("dctcp", labels={"threshold": 6_000})])
    assert axes[0].get_ylim() == (0, 2)


def test_a_tail_is_the_share_above(tmp_path: Path, axes: list[Any]) -> None:
    sample = Sample.of(np.arange(1.0, 11.0))
    drawn(tmp_path, CDF | {"log": "y"}, [a_row(samples={"fct": sample})])
    (line,) = (each for each in axes[0].lines if len(each.get_xdata()) == 9)
    assert line.get_ydata().tolist() == pytest.approx([0.9 - n / 10 for n in range(9)])
    assert axes[0].get_yscale() == "log" and figures._of_tail(experiment(
        figure=[CDF | {"log": "y"}]).figure[0])  # fmt: skip
