"""A chapter of the report: verdicts, figures and tables of one experiment."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebb_experiments.results.numbers import three_digits
from ebb_experiments.study.claims import Checked, Estimate, Verdict, check, estimate
from ebb_experiments.study.figures import Data, draw
from ebb_experiments.study.metric_spec import Samples
from ebb_experiments.study.metrics import Row, row, tenants_row
from ebb_experiments.study.mininet import too_busy
from ebb_experiments.study.plot_style import PLOT_STYLES
from ebb_experiments.study.spec import Experiment, Figure
from ebb_experiments.study.store import Store, Tables
from ebb_experiments.study.trials import Trial
from ebb_experiments.tenants.model import DataCentre

NEGLIGIBLE = 1e-4
REASONS = 3
"""Reasons of flows that did not end well that are told of a scheme."""
VERDICTS: tuple[Verdict, ...] = ("yes", "no", "not run")
LONG_NOTE = 80
"""Characters from which on a note that several claims have is printed once, below their table."""


@dataclass(frozen=True)
class Picture:
    figure: Figure
    files: list[Path]

    @property
    def embedded(self) -> str:
        (svg,) = (path for path in self.files if path.suffix == ".svg")
        return "data:image/svg+xml;base64," + base64.b64encode(svg.read_bytes()).decode()

    @property
    def shown(self) -> Path:
        """The picture that Markdown shows: an SVG of many points is longer than its pixels."""
        return next(path for path in self.files if path.suffix == ".png")


@dataclass(frozen=True)
class Wall:
    """What trials gave under the wall clock, on Mininet."""

    trials: list[tuple[Trial, Tables]]
    checked: list[Checked]
    table: list[list[str]]
    busy: list[str]
    """Trials that are left out, because the machine did not keep up: which, and why."""

    @property
    def dilation(self) -> float:
        return self.trials[0][0].scenario.dilation.factor

    @property
    def latest_start_us(self) -> float:
        """How late an agent began, at most, in nominal us."""
        return max(float(tables.meta["latest_start_ns"]) for _t, tables in self.trials) / 1e3


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
    """Means over trials with their intervals; the first row has the headings."""
    wall: Wall

    @property
    def command(self) -> str:
        settings = " ".join(self.experiment.by_hand)
        more = f" SET='{settings}'" if settings else ""
        return f"make experiment NAME={self.name} SIZE={self.size}{more}"

    @property
    def claims(self) -> list[tuple[Checked, Checked]]:
        """The claims, checked in virtual time and on Mininet."""
        return list(zip(self.checked, self.wall.checked, strict=True))

    @property
    def some(self) -> bool:
        """Whether any trial of it has been run."""
        return bool(self.trials or self.wall.trials or self.wall.busy)

    @property
    def commits(self) -> list[str]:
        found = {str(tables.meta["versions"]["commit"]) for _trial, tables in self.trials}
        return sorted(short(commit) for commit in found)

    @property
    def seconds(self) -> float:
        return float(sum(tables.meta["wall_seconds"] for _trial, tables in self.trials))

    @property
    def seeds(self) -> list[int]:
        return sorted({trial.seed for trial, _tables in self.trials})

    @property
    def unended(self) -> list[str]:
        """A line for each scheme of which not all flows ended well: how many, and why."""
        return unended_lines(self.experiment, self.rows)

    @property
    def verdicts(self) -> dict[Verdict, int]:
        return {v: sum(claim.verdict == v for claim in self.checked) for v in VERDICTS}

    @property
    def deviations(self) -> list[str]:
        """Deviations of all claims from the paper, each once; claims name them by their number
        here, from 1."""
        return list(dict.fromkeys(d for claim in self.checked for d in claim.deviations))

    def numbers(self, claim: Checked) -> list[int]:
        return [self.deviations.index(d) + 1 for d in claim.deviations]

    @property
    def reasons(self) -> dict[str, str]:
        """Long notes that several claims have, by their names in tables: R1, R2, .."""
        told = Counter(note for claim in self.checked for note in claim.notes)
        shared = [note for note, claims in told.items() if claims > 1 and len(note) > LONG_NOTE]
        return {f"R{number}": note for number, note in enumerate(shared, 1)}

    def notes(self, claim: Checked) -> list[str]:
        """Notes of a claim, those of `reasons` by their names."""
        names = {note: name for name, note in self.reasons.items()}
        return [names.get(note, note) for note in claim.notes]


@dataclass(frozen=True)
class Maker:
    """Makes the chapter about one experiment at one size, from the trials that are in the store."""

    experiment: Experiment
    name: str
    size: str
    store: Store
    directory: Path
    """Folder for the figures."""
    kinds: Sequence[str]
    """Kinds of figure files: `svg`, `png`."""

    def chapter(
        self,
        planned: int,
        virtual: Sequence[tuple[str, Trial]],
        mininet: Sequence[tuple[str, Trial]],
    ) -> Chapter:
        """The chapter of trials that have been run, with ids; `planned`: how many are to be in
        virtual time."""
        experiment, trials = self.experiment, self._tables(virtual)
        wall, busy = valid(self._tables(mininet))
        rows, wall_rows = self._rows(trials), self._rows(wall)
        data = Data(experiment, self.size, trials, rows)
        figures = experiment.figure if trials else []
        directory = self.directory / self.name
        reduced = experiment.size[self.size].reduced  # type: ignore[index]
        return Chapter(
            self.name, self.size, experiment, trials, planned, rows,
            check(experiment, rows, reduced),
            [Picture(f, draw(f, data, directory, self.kinds)) for f in figures],
            table(experiment, rows),
            Wall(wall, check(experiment, wall_rows, reduced), beside(experiment, wall_rows, rows),
                 busy),
        )  # fmt: skip

    def _tables(self, stored: Sequence[tuple[str, Trial]]) -> list[tuple[Trial, Tables]]:
        return [(trial, self.store.read(trial, trial_id)) for trial_id, trial in stored]

    def _rows(self, trials: Sequence[tuple[Trial, Tables]]) -> list[Row]:
        return [
            tenants_row(self.experiment.metric, tables, trial.scheme, trial.seed, trial.labels)
            if isinstance(trial.loaded, DataCentre)
            else row(
                self.experiment.metric,
                tables,
                trial.scheme,
                trial.seed,
                trial.labels,
                trial.loaded.topology,
                trial.loaded.spec.mtu_bytes,
            )
            for trial, tables in trials
        ]


def valid(
    trials: list[tuple[Trial, Tables]],
) -> tuple[list[tuple[Trial, Tables]], list[str]]:
    """The trials whose machine kept up, and what is to be said of the others."""
    why = [too_busy(tables.meta) for _trial, tables in trials]
    good = [each for each, reason in zip(trials, why, strict=True) if reason is None]
    told = zip(trials, why, strict=True)
    return good, [f"{trial.name}: {reason}" for (trial, _t), reason in told if reason is not None]


def beside(experiment: Experiment, wall: Sequence[Row], virtual: Sequence[Row]) -> list[list[str]]:
    """The table of those on Mininet, in parentheses what the same seeds gave in virtual time."""
    points = [(each["scheme"], each["seed"], each["labels"]) for each in wall]
    same = [row for row in virtual if (row["scheme"], row["seed"], row["labels"]) in points]
    first = len(experiment.axis) + 2
    known = {tuple(line[: first - 1]): line for line in table(experiment, same)[1:]}
    head, *lines = table(experiment, wall)
    return [head] + [
        line[:first]
        + [
            f"{here} ({there})" if here and there else here or (there and f"({there})")
            for here, there in zip(
                line[first:],
                known.get(tuple(line[: first - 1]), [""] * len(line))[first:],
                strict=True,
            )
        ]
        for line in lines
    ]


def unended_lines(experiment: Experiment, rows: Sequence[Row]) -> list[str]:
    lines = []
    for scheme in experiment.scheme:
        of_scheme = [each for each in rows if each["scheme"] == scheme]
        why: Counter[str] = Counter()
        for each in of_scheme:
            why.update(each["unended"])
        if why:
            told = "; ".join(f"{reason} ({count})" for reason, count in why.most_common(REASONS))
            flows = sum(each["flows"] for each in of_scheme)
            label = PLOT_STYLES[experiment.look(scheme)].label
            lines.append(f"{label}: {why.total()} of {flows} flows. {told}")
    return lines


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
        line = [PLOT_STYLES[experiment.look(key[0])].label, *(_point(point) for point in key[1:])]
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


def shown(ours: Estimate) -> str:
    """A mean and its interval; one far below the digits that are shown is 0."""
    mean, half = three_digits(ours.mean), ours.half_width
    if half is None:
        return mean
    return f"{mean} ± {three_digits(half if half > abs(ours.mean) * NEGLIGIBLE else 0)}"


def band(limits: tuple[float | None, float | None]) -> str:
    low, high = limits
    high = None if high == math.inf else high
    if low is None:
        return "any" if high is None else f"≤ {high:g}"
    return f"≥ {low:g}" if high is None else f"{low:g} to {high:g}"


def short(commit: str) -> str:
    return commit[:12] + ("+" if commit.endswith("+") else "")
