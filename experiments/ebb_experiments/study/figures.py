"""Figures of an experiment, by matplotlib; one style per scheme (`plot_style.py`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from ebb_topologies.files import replacing
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation, Transform

from ebb_experiments.study.choices import Scalar
from ebb_experiments.study.estimates import Estimate, Sample, estimate, on_log_axis
from ebb_experiments.study.expression import Expression
from ebb_experiments.study.metric_spec import Rates
from ebb_experiments.study.metrics import Row
from ebb_experiments.study.plot_style import PlotStyle
from ebb_experiments.study.spec import Axis, Experiment, Figure, Published

STYLE: Any = {
    "figure.dpi": 110,
    "savefig.dpi": 180,
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "ebb",
    "svg.fonttype": "path",
    "lines.linewidth": 1.4,
    "lines.markersize": 5,
}
DASHES = ("-", "--", ":", "-.")
"""Line styles of the points of `curves`."""
PANEL_INCHES = (4.2, 3.1)
DECADE = 10.0
APART_POINTS = 2.4
"""How far apart schemes are drawn at one place of a line figure, in points of print."""
BARS_WIDTH = 0.8
"""Width of all bars at one point together; points are 1 apart."""
DRAWN_TRIALS = 3
"""How many trials it takes for an interval to be drawn."""
LABEL_WIDTH = 34
"""How many characters of a label are as long as a panel is high."""


@dataclass(frozen=True)
class Data:
    """Series to draw."""

    experiment: Experiment
    size: str
    rows: Sequence[Row]


def drawable(figure: Figure, data: Data) -> bool:
    """Whether all that it draws is there."""
    schemes = {name for name, _look in _schemes(figure, data)}
    drawn = [r for r in data.rows if r["scheme"] in schemes and _matches(r["labels"], figure.at)]
    if figure.kind == "time":
        return any(row["curves"].get(figure.metric) for row in drawn)
    if not figure.of_samples(first=False):
        return True
    return all(figure.metric in row["samples"] for row in drawn)


def draw(figure: Figure, data: Data, directory: Path, kinds: Sequence[str]) -> list[Path]:
    """The figure as files of these kinds: `svg`, `png`."""
    panels = _points(data, figure.panels)
    with mpl.rc_context(STYLE):
        drawn, places = _grid(len(panels), same_y=figure.kind != "time")
        for number, (place, panel) in enumerate(zip(places, panels, strict=True)):
            _panel(figure, data, place, panel)
            if figure.panels:
                axis = _axis(data, figure.panels)
                place.set_title(f"{axis.label}: {_text(panel)} {axis.unit}".strip(), fontsize=9)
            if number % _columns(len(panels)) and figure.kind != "time":
                place.set_ylabel("")
        if "y" not in figure.log and figure.kind in ("line", "bars", "rank", "time"):
            # Not before all panels are drawn: it ends the scaling, and they may share their axis.
            for place in places:
                place.set_ylim(bottom=0)
        if figure.most is not None:
            for place in places:
                place.set_ylim(top=figure.most)
        handles: dict[str, Any] = {}
        for place in places:
            found, labels = place.get_legend_handles_labels()
            handles |= {
                label: handle for handle, label in zip(found, labels, strict=True)
                if label not in handles
            }  # fmt: skip
        drawn.suptitle(figure.title, fontsize=10)
        if handles:
            drawn.legend(
                handles.values(),
                handles.keys(),
                loc="outside lower center",
                ncols=min(4 if len(places) > 1 else 2, len(handles)),
                fontsize=8,
            )
        directory.mkdir(parents=True, exist_ok=True)
        return save(drawn, directory / figure.name, kinds)


def save(drawn: MplFigure, to: Path, kinds: Sequence[str]) -> list[Path]:
    """Writes a drawing to a file of each kind, and closes it. The files are the same every time."""
    paths = [to.with_name(f"{to.name}.{kind}") for kind in kinds]
    for path in paths:
        metadata = {"Date": None} if path.suffix == ".svg" else None
        with replacing(path) as part:
            drawn.savefig(part, format=path.suffix[1:], bbox_inches="tight", metadata=metadata)
    plt.close(drawn)
    return paths


def _columns(panels: int) -> int:
    """How many panels a page shows side by side."""
    return 2 if panels == 4 else min(panels, 3)


def _grid(panels: int, *, same_y: bool) -> tuple[MplFigure, list[Axes]]:
    columns = _columns(panels)
    rows = -(-panels // columns)
    drawn, axes = plt.subplots(
        rows,
        columns,
        figsize=(PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows),
        squeeze=False,
        sharey=same_y,
        layout="constrained",
    )
    places = list(axes.flat)
    for unused in places[panels:]:
        unused.remove()
    return drawn, places[:panels]


def _panel(figure: Figure, data: Data, place: Axes, panel: Scalar | None) -> None:
    where = figure.at | ({} if figure.panels is None else {figure.panels: panel})
    metric = data.experiment.metric[figure.metric]
    match figure.kind:
        case "line":
            _lines(figure, data, place, where)
        case "bars":
            _bars(figure, data, place, where)
        case "cdf" | "rank":
            _distribution(figure, data, place, where)
        case "box":
            _boxes(figure, data, place, where)
        case "time":
            _times(figure, data, place, where)
    _published(figure, data, place, panel)
    label = figure.label or metric.label
    label = f"{label}\N{NO-BREAK SPACE}({metric.unit})" if metric.unit else label
    if figure.kind == "cdf":
        place.set_xlabel(label)
        place.set_ylabel("share above" if _of_tail(figure) else "share")
        if not _of_tail(figure):
            place.set_ylim(0, 1.02)
    else:
        place.set_ylabel(fill(label, LABEL_WIDTH))
        if figure.x:
            axis = _axis(data, figure.x)
            place.set_xlabel(f"{axis.label} ({axis.unit})" if axis.unit else axis.label)
        elif figure.kind == "rank":
            place.set_xlabel("rank (share of all, worst first)")
        elif figure.kind == "time":
            place.set_xlabel("time (ms)")
    if "x" in figure.log:
        place.set_xscale("log")
        _plain(place.xaxis)
    if "y" in figure.log:
        place.set_yscale("log")
        _plain(place.yaxis)


def _plain(axis: Any) -> None:
    """Writes numbers without powers of ten: below a decade a few of them, below two 1, 2 and 5 of
    each."""
    low, high = axis.get_view_interval()
    if low > 0 and high < low * DECADE:
        axis.set_major_locator(MaxNLocator(4))
    elif low > 0 and high < low * DECADE**2:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def drawn_interval(ours: Estimate, *, log: bool = False) -> tuple[float, float] | None:
    """How far the interval that is drawn reaches down and up; none with few trials. With two, where
    Student's factor is 12.7, a bar says hardly anything and hides everything else; claims show the
    number. `log`: on a logarithmic axis, where it ends above 0."""
    of_axis = on_log_axis(ours) if log else ours
    if ours.trials < DRAWN_TRIALS or of_axis.low is None or of_axis.high is None:
        return None
    return ours.mean - of_axis.low, of_axis.high - ours.mean


def _lines(figure: Figure, data: Data, place: Axes, where: dict[str, Any]) -> None:
    assert figure.x is not None
    axis = _axis(data, figure.x)
    points = data.experiment.points(axis, data.size)
    numeric = all(isinstance(point, int | float) for point in points)
    schemes = _schemes(figure, data)
    for scheme_number, (scheme, look) in enumerate(schemes):
        apart = _apart(place, scheme_number - (len(schemes) - 1) / 2)
        for number, curve in enumerate(_curves(figure, data, scheme)):
            at = where | ({figure.curves: curve} if figure.curves else {})
            xs, ys, errors = [], [], []
            for index, point in enumerate(points):
                values = _values(data, figure.metric, scheme, at | {figure.x: point})
                if not values:
                    continue
                ours = estimate(values)
                xs.append(float(point) if numeric else index)
                ys.append(ours.mean)
                errors.append(drawn_interval(ours, log="y" in figure.log) or (0.0, 0.0))
            if not xs:
                continue
            label, line = _curve(figure, data, look, number, curve)
            place.errorbar(
                xs, ys, yerr=np.transpose(errors) if np.any(errors) else None, label=label,
                color=look.colour, marker=look.marker, linestyle=line, capsize=2,
                elinewidth=0.9, transform=apart,
            )  # fmt: skip
            # The axes do not see what is moved.
            for reach, sign in ((0, -1), (1, 1)):
                ends = [y + sign * error[reach] for y, error in zip(ys, errors, strict=True)]
                place.update_datalim(np.column_stack([xs, ends]))
            place.autoscale_view()
    if not numeric:
        place.set_xticks(range(len(points)), [_text(point) for point in points])


def _apart(place: Axes, steps: float) -> Transform:
    """Shifts marks sideways by some points of print, so that intervals of several schemes at one
    place do not cover each other."""
    figure = place.get_figure()
    assert figure is not None
    sidewards = ScaledTranslation(steps * APART_POINTS / 72, 0, figure.dpi_scale_trans)
    return place.transData + sidewards


def _side_by_side(
    figure: Figure, data: Data, place: Axes, where: dict[str, Any]
) -> Iterator[tuple[str, PlotStyle, float, float, dict[str, Any]]]:
    """For each scheme and point of the x axis, which is labelled: scheme, its style, centre and
    width of its place beside the other schemes, and the point."""
    points, schemes = _points(data, figure.x), _schemes(figure, data)
    width = BARS_WIDTH / len(schemes)
    for number, (scheme, style) in enumerate(schemes):
        for index, point in enumerate(points):
            centre = index + (number - (len(schemes) - 1) / 2) * width
            yield scheme, style, centre, width, where | ({figure.x: point} if figure.x else {})
    place.set_xticks(range(len(points)), [_text(p) if figure.x else "" for p in points])


def _bars(figure: Figure, data: Data, place: Axes, where: dict[str, Any]) -> None:
    for scheme, style, x, width, at in _side_by_side(figure, data, place, where):
        values = _values(data, figure.metric, scheme, at)
        if values:
            ours = estimate(values)
            interval = drawn_interval(ours, log="y" in figure.log)
            place.bar(
                x, ours.mean, width * 0.92,
                yerr=None if interval is None else np.transpose([interval]),
                color=style.colour, label=style.label, capsize=2,
                error_kw={"elinewidth": 0.9, "ecolor": "#555555"},
            )  # fmt: skip
            if ours.mean == 0:  # which has no bar
                place.annotate("0", (x, 0), color=style.colour, ha="center", va="bottom",
                               fontsize=8, xycoords=("data", "axes fraction"))  # fmt: skip
    place.grid(visible=False, axis="x")


def _distribution(figure: Figure, data: Data, place: Axes, where: dict[str, Any]) -> None:
    for scheme, look in _schemes(figure, data):
        for number, curve in enumerate(_curves(figure, data, scheme)):
            at = where | ({figure.curves: curve} if figure.curves else {})
            pooled = _pooled(data, figure.metric, scheme, at)
            if pooled is None:
                continue
            values, share = pooled.values, np.cumsum(pooled.weights) / pooled.size
            if _of_tail(figure):
                values, share = values[:-1], 1 - share[:-1]
            label, line = _curve(figure, data, look, number, curve)
            xs, ys = (values, share) if figure.kind == "cdf" else (share, values)
            place.plot(xs, ys, label=label, color=look.colour, linestyle=line,
                       marker=look.marker, markevery=max(1, len(xs) // 8))  # fmt: skip


def _of_tail(figure: Figure) -> bool:
    """Whether a distribution is drawn as the share above, which a logarithmic axis is for."""
    return figure.kind == "cdf" and "y" in figure.log


def _published(figure: Figure, data: Data, place: Axes, panel: Scalar | None) -> None:
    """The paper's numbers, as hollow diamonds in the colours of the schemes."""
    schemes = _schemes(figure, data)
    names = [name for name, _look in schemes]
    points = _points(data, figure.x)
    for one in [*figure.published, *claimed(figure, data.experiment)]:
        if one.scheme not in names or one.panel not in (None, panel) or one.x not in points:
            continue
        number = names.index(one.scheme)
        index = float(points.index(one.x))
        x, y = index, one.value
        if one.share is not None:
            x, y = one.value, 1 - one.share if _of_tail(figure) else one.share
        elif figure.kind == "bars":
            x += (number - (len(schemes) - 1) / 2) * BARS_WIDTH / len(schemes)
        elif all(isinstance(point, int | float) for point in points):
            x = float(one.x or 0)
        look = schemes[number][1]
        place.plot(
            x, y, label=f"{look.label}, paper", marker="D", markersize=7, linestyle="none",
            markerfacecolor="white", markeredgecolor=look.colour, zorder=5,
        )  # fmt: skip


def claimed(figure: Figure, experiment: Experiment) -> list[Published]:
    """The paper's numbers that claims have of just what the figure shows: a metric of a scheme."""
    if figure.kind not in ("line", "bars") or figure.curves is not None:
        return []
    found = []
    for claim in experiment.claim:
        for index, known in enumerate(claim.points):
            expression = Expression.of(claim.expression, list(experiment.metric), known)
            term, paper = expression.single, claim.paper_at(index)
            if term is None or term.metric != figure.metric or paper is None or term.wall:
                continue
            labels = dict(term.labels)
            at = labels.pop(figure.x, None) if figure.x else None
            panel = labels.pop(figure.panels, None) if figure.panels else None
            one = sum(paper) / 2
            if math.isfinite(one) and labels.items() <= figure.at.items():
                found.append(Published(scheme=term.scheme, value=one, x=at, panel=panel))
    return found


def _boxes(figure: Figure, data: Data, place: Axes, where: dict[str, Any]) -> None:
    """Boxes from quartile to quartile, whiskers of 1.5 of their height, outliers as points."""
    for scheme, style, x, width, at in _side_by_side(figure, data, place, where):
        pooled = _pooled(data, figure.metric, scheme, at)
        if pooled is not None:
            place.boxplot(
                np.repeat(pooled.values, pooled.weights), positions=[x],
                widths=width * 0.8, patch_artist=True, manage_ticks=False,
                boxprops={"facecolor": style.colour, "alpha": 0.55},
                medianprops={"color": "black"},
                flierprops={"marker": "_", "markersize": 4, "alpha": 0.25,
                            "markeredgecolor": style.colour},
            )  # fmt: skip
            place.plot([], [], color=style.colour, linewidth=6, alpha=0.55, label=style.label)


def _times(figure: Figure, data: Data, place: Axes, where: dict[str, Any]) -> None:
    """Draws values over time, of the first seed; of rates a line for each object, of its own
    lightness and style."""
    several = isinstance(data.experiment.metric[figure.metric], Rates)
    for scheme, look in _schemes(figure, data):
        for row in data.rows:
            lines = row["curves"].get(figure.metric, [])
            if row["scheme"] == scheme and lines and _matches(row["labels"], where):
                colours = mpl.colormaps["viridis"](np.linspace(0, 0.9, len(lines)))
                for number, (at, values) in enumerate(lines):
                    place.plot(
                        at / 1e6, values, linewidth=1.2 if several else 0.8,
                        label=f"{look.label}, flow {number + 1}" if several else look.label,
                        color=colours[number] if several else look.colour,
                        linestyle=DASHES[number % 4] if several else "-",
                    )  # fmt: skip
                break


def _schemes(figure: Figure, data: Data) -> list[tuple[str, PlotStyle]]:
    names = [s for s in data.experiment.schemes(data.size) if s in (figure.schemes or [s])]
    return [(name, data.experiment.style(name)) for name in names]


def _curves(figure: Figure, data: Data, scheme: str) -> list[Scalar | None]:
    """Points of the axis of `curves`; `None` alone for a scheme that does not vary along it."""
    if figure.curves is None:
        return [None]
    only = _axis(data, figure.curves).only
    return _points(data, figure.curves) if only is None or scheme in only else [None]


def _curve(
    figure: Figure, data: Data, look: PlotStyle, number: int, point: Scalar | None
) -> tuple[str, Any]:
    """Label and line style of a scheme at a point of the axis of `curves`, if there is one."""
    if figure.curves is None or point is None:
        return look.label, look.line
    return f"{look.label}, {_axis(data, figure.curves).label} {_text(point)}", DASHES[number % 4]


def _axis(data: Data, name: str) -> Axis:
    return next(axis for axis in data.experiment.axis if axis.name == name)


def _points(data: Data, name: str | None) -> list[Scalar | None]:
    return [None] if name is None else list(data.experiment.points(_axis(data, name), data.size))


def _values(data: Data, metric: str, scheme: str, at: dict[str, Any]) -> list[float]:
    """Values of the trials there; a scheme that does not vary along an axis is the same
    everywhere."""
    return [
        row[metric]
        for row in data.rows
        if row["scheme"] == scheme and row[metric] is not None and _matches(row["labels"], at)
    ]


def _pooled(data: Data, metric: str, scheme: str, at: dict[str, Any]) -> Sample | None:
    found = [
        row["samples"][metric]
        for row in data.rows
        if row["scheme"] == scheme and _matches(row["labels"], at) and metric in row["samples"]
    ]
    pooled = Sample.pooled(found) if found else None
    return pooled if pooled is not None and pooled.size else None


def _matches(labels: dict[str, Any], at: dict[str, Any]) -> bool:
    return all(name not in labels or labels[name] == point for name, point in at.items())


def _text(point: Scalar | None) -> str:
    if isinstance(point, float):
        return f"{point:g}"
    # A bool is an int, too.
    return f"{point:,}" if type(point) is int else str(point)
