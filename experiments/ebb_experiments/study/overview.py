"""The figure that a page begins with: our numbers over the paper's, on a logarithmic axis. The
paper is a hollow diamond, or a bar where it gives a range; shades are 25 % and a factor of 2."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten

import matplotlib as mpl
import matplotlib.pyplot as plt
from ebb_topologies.palette import BLUE, GREEN, GREY, ORANGE, RED
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter

from ebb_experiments.study.claims import Checked
from ebb_experiments.study.figures import STYLE, save
from ebb_experiments.study.grades import CLOSE, NEAR, Grade

NAME = "paper-and-ours"
COLOURS: dict[Grade, str] = {
    "within 25 %": GREEN,
    "within a factor of 2": BLUE,
    "direction": ORANGE,
    "undecided": GREY,
    "not reproduced": RED,
}
FARTHEST = 50.0
"""Factor at which an interval or a number leaves the figure."""
MOST_ROWS = 24
LABEL_CHARACTERS = 78


@dataclass(frozen=True)
class Place:
    """A row of the figure; all numbers are over the paper's."""

    label: str
    grade: Grade
    paper: tuple[float, float]
    ours: float
    low: float | None
    high: float | None


def places(checked: Sequence[Checked]) -> list[Place]:
    """The rows that can be drawn: numbers of ours and of the paper, both above 0."""
    found = []
    for each in checked:
        if each.ours is None or each.paper is None or each.kind == "ours":
            continue
        low, high = each.paper
        one = low if math.isinf(high) else high if low <= 0 else math.sqrt(low * high)
        if not (0 < one < math.inf and each.ours.mean > 0):
            continue
        interval = each.ours.low, each.ours.high
        found.append(
            Place(
                shorten(each.text, LABEL_CHARACTERS, placeholder=" .."),
                each.grade,
                (max(low, 0) / one, high / one),
                each.ours.mean / one,
                *(None if end is None else end / one for end in interval),
            )
        )
    return found


def draw_overview(checked: Sequence[Checked], directory: Path, kinds: Sequence[str]) -> list[Path]:
    """As files of these kinds; none if nothing can be drawn. Rows that agree best are left out if
    there are too many."""
    rows = places(checked)
    if len(rows) > MOST_ROWS:
        worst = sorted(rows, key=lambda row: -abs(math.log(row.ours)))[:MOST_ROWS]
        rows = [row for row in rows if row in worst]
    if not rows:
        return []
    directory.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        drawn, place = plt.subplots(figsize=(9.5, 1.1 + 0.24 * len(rows)), layout="constrained")
        for reach, alpha in ((NEAR, 0.10), (CLOSE, 0.16)):
            place.axvspan(1 / reach, reach, color=GREEN, alpha=alpha, linewidth=0)
        for y, row in enumerate(reversed(rows)):
            _draw(place, y, row)
        place.set_xscale("log")
        least = min(min(r.ours, r.low or r.ours) for r in rows)
        most = max(max(r.ours, r.high or r.ours) for r in rows)
        place.set_xlim(
            max(min(least / 1.2, 0.4), 1 / FARTHEST), min(max(most * 1.2, 2.5), FARTHEST)
        )
        place.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
        place.xaxis.set_minor_formatter(NullFormatter())
        place.set_xticks([t for t in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
                          if place.get_xlim()[0] <= t <= place.get_xlim()[1]])  # fmt: skip
        place.set_yticks(range(len(rows)), [row.label for row in reversed(rows)], fontsize=7.5)
        place.set_ylim(-0.7, len(rows) - 0.3)
        place.set_xlabel("ours over the paper's number, 95 % confidence")
        place.grid(visible=False, axis="y")
        _legend(drawn, rows)
        return save(drawn, directory / NAME, kinds)


def _draw(place: Axes, y: int, row: Place) -> None:
    colour = COLOURS[row.grade]
    low, high = row.paper
    if low != high:
        ends = [max(low, 1 / FARTHEST), min(high, FARTHEST)]
        place.plot(ends, [y, y], color="black", linewidth=5, alpha=0.25, solid_capstyle="butt")
    else:
        place.plot(1, y, marker="D", markersize=6, markerfacecolor="white",
                   markeredgecolor="black", linestyle="none", zorder=3)  # fmt: skip
    if row.low is not None and row.high is not None:
        ends = [max(row.low, 1 / FARTHEST), min(row.high, FARTHEST)]
        place.plot(ends, [y, y], color=colour, linewidth=1.3, zorder=4)
    beyond = row.ours > FARTHEST or row.ours < 1 / FARTHEST
    marker = (">" if row.ours > 1 else "<") if beyond else "o"
    at = min(max(row.ours, 1 / FARTHEST), FARTHEST)
    place.plot(at, y, marker=marker, markersize=5, color=colour, linestyle="none", zorder=5,
               clip_on=False)  # fmt: skip


def _legend(drawn: mpl.figure.Figure, rows: Sequence[Place]) -> None:
    graded = [grade for grade in COLOURS if any(row.grade == grade for row in rows)]
    handles = [Line2D([], [], marker="D", markersize=6, markerfacecolor="white", linestyle="none",
                      markeredgecolor="black", label="the paper")]  # fmt: skip
    handles += [Line2D([], [], marker="o", color=COLOURS[g], label=g) for g in graded]
    drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
