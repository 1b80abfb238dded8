"""The report: verdict table, figures, tables; one self-contained HTML file and Markdown."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

from ebb_experiments.study.claims import Checked, Estimate, check, estimate
from ebb_experiments.study.figures import Data, draw
from ebb_experiments.study.look import LOOKS
from ebb_experiments.study.metric_spec import Samples
from ebb_experiments.study.metrics import Row, row
from ebb_experiments.study.spec import Experiment, Figure
from ebb_experiments.study.store import Store, Tables
from ebb_experiments.study.trials import Trial

OPENING = {"yes": "reproduced", "no": "not reproduced", "not run": "not run"}


@dataclass(frozen=True)
class Picture:
    figure: Figure
    files: list[Path]

    @property
    def embedded(self) -> str:
        (svg,) = (path for path in self.files if path.suffix == ".svg")
        return "data:image/svg+xml;base64," + base64.b64encode(svg.read_bytes()).decode()


@dataclass(frozen=True)
class Chapter:
    """One experiment at one size."""

    name: str
    size: str
    experiment: Experiment
    trials: list[tuple[Trial, Tables]]
    planned: int
    rows: list[Row]
    checked: list[Checked]
    pictures: list[Picture]
    table: list[list[str]]
    """Means over trials with their intervals; the first line are the headings."""

    @property
    def command(self) -> str:
        return f"make experiment NAME={self.name} SIZE={self.size}"

    @property
    def commits(self) -> list[str]:
        versions = (tables.meta["versions"]["commit"] for _trial, tables in self.trials)
        return sorted({str(commit)[:12] + ("+" if str(commit).endswith("+") else "")
                       for commit in versions})  # fmt: skip

    @property
    def seconds(self) -> float:
        return float(sum(tables.meta["wall_seconds"] for _trial, tables in self.trials))

    @property
    def seeds(self) -> list[int]:
        return sorted({trial.seed for trial, _tables in self.trials})

    @property
    def reduced(self) -> str | None:
        return self.experiment.size[self.size].reduced  # type: ignore[index]


def chapter(
    experiment: Experiment,
    name: str,
    size: str,
    planned: Sequence[tuple[str, Trial]],
    store: Store,
    directory: Path,
) -> Chapter:
    """From the trials that are in the store; figures go to `directory`."""
    trials = [
        (trial, store.read(trial, trial_id))
        for trial_id, trial in planned
        if store.has(trial, trial_id)
    ]
    rows = [
        row(
            experiment.metric,
            tables,
            trial.scheme,
            trial.seed,
            trial.labels,
            trial.loaded.topology,
            trial.loaded.spec.mtu_bytes,
        )
        for trial, tables in trials
    ]
    data = Data(experiment, size, trials, rows)
    pictures = [
        Picture(figure, draw(figure, data, directory / name)) for figure in experiment.figure
    ]
    reduced = experiment.size[size].reduced  # type: ignore[index]
    return Chapter(
        name, size, experiment, trials, len(planned), rows,
        check(experiment, rows, reduced), pictures, table(experiment, rows),
    )  # fmt: skip


def table(experiment: Experiment, rows: Sequence[Row]) -> list[list[str]]:
    """A line for each scheme at each point."""
    metrics = {n: m for n, m in experiment.metric.items() if not isinstance(m, Samples)}
    axes = [axis for axis in experiment.axis]
    head = ["scheme", *(_with_unit(axis.label, axis.unit) for axis in axes), "trials"]
    head += [_with_unit(metric.label, metric.unit) for metric in metrics.values()]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for each in rows:
        points = tuple(each["labels"].get(axis.name, "") for axis in axes)
        groups.setdefault((each["scheme"], *points), []).append(each)
    order = list(experiment.scheme)
    lines = [head]
    for key, members in sorted(groups.items(), key=lambda g: _order(g[0], order)):
        line = [LOOKS[experiment.look(key[0])].label, *(_point(point) for point in key[1:])]
        line.append(str(len(members)))
        for name in metrics:
            numbers = [member[name] for member in members if member[name] is not None]
            line.append(shown(estimate(numbers)) if numbers else "")
        lines.append(line)
    return lines


def _order(key: tuple[Any, ...], schemes: list[str]) -> tuple[Any, ...]:
    points = tuple((isinstance(p, str), p) for p in key[1:])
    return (*points, schemes.index(key[0]))


def _with_unit(label: str, unit: str) -> str:
    return f"{label}, {unit}" if unit else label


def _point(point: Any) -> str:
    return f"{point:g}" if isinstance(point, float) else str(point)


def number(value: float) -> str:
    """Three digits, no powers of ten below a million."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}"


def shown(ours: Estimate) -> str:
    mean = number(ours.mean)
    return mean if ours.half_width is None else f"{mean} ± {number(ours.half_width)}"


def band(limits: tuple[float | None, float | None]) -> str:
    low, high = limits
    if low is None:
        return "any" if high is None else f"≤ {high:g}"
    return f"≥ {low:g}" if high is None else f"{low:g} to {high:g}"


def write(chapters: Sequence[Chapter], directory: Path, command: str) -> list[Path]:
    """report.html, README.md, and for each experiment its metrics as CSV beside the figures."""
    directory.mkdir(parents=True, exist_ok=True)
    for each in chapters:
        (directory / each.name).mkdir(exist_ok=True)
        (directory / each.name / "metrics.csv").write_text(_csv(each))
    counts = {
        verdict: sum(c.verdict == verdict for each in chapters for c in each.checked)
        for verdict in OPENING
    }
    written = []
    for file, template in (("report.html", "report.html.j2"), ("README.md", "report.md.j2")):
        environment = Environment(
            loader=PackageLoader("ebb_experiments.study"),
            autoescape=select_autoescape(["html.j2"], default_for_string=False),
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= {"shown": shown, "band": band, "cell": _cell, "number": _published}
        text = environment.get_template(template).render(
            chapters=chapters, counts=counts, command=command
        )
        (directory / file).write_text(text)
        written.append(directory / file)
    return written


def _published(value: float | str) -> str:
    return value if isinstance(value, str) else number(value)


def _cell(text: str) -> str:
    """Fits into a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def _csv(chapter: Chapter) -> str:
    axes = [axis.name for axis in chapter.experiment.axis]
    metrics = list(chapter.experiment.metric)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["scheme", "seed", *axes, *metrics])
    for each in chapter.rows:
        labels = [each["labels"].get(axis, "") for axis in axes]
        writer.writerow([each["scheme"], each["seed"], *labels, *(each[m] for m in metrics)])
    return text.getvalue()
