"""A chapter of the report: claims, figures and tables of one experiment."""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ebb_experiments.results.numbers import three_digits
from ebb_experiments.study.archive import Archive, commits
from ebb_experiments.study.claims import Checked, check
from ebb_experiments.study.estimates import Estimate, estimate
from ebb_experiments.study.figures import Data, draw, drawable
from ebb_experiments.study.grades import GRADES, Grade
from ebb_experiments.study.metric_spec import Samples
from ebb_experiments.study.metrics import Row, row, tenants_row
from ebb_experiments.study.mininet import too_busy
from ebb_experiments.study.overview import draw_overview
from ebb_experiments.study.spec import Experiment, known_experiments
from ebb_experiments.study.store import Store, Tables
from ebb_experiments.study.trials import Trial
from ebb_experiments.tenants.model import DataCentre

NEGLIGIBLE = 1e-4
"""Share of a mean up to which half an interval is shown as 0."""
REASONS = 3
"""Most reasons of failed flows that are shown for a scheme."""
MOST_LINES = 12
"""Most claims in the first table of a page; all of them are in the second."""


@dataclass(frozen=True)
class Picture:
    """A figure with its files."""

    title: str
    note: str
    files: list[Path]

    @property
    def embedded(self) -> str:
        """For report.html; a picture of an earlier run may be there in pixels only."""
        path = next((p for p in self.files if p.suffix == ".svg"), self.files[0])
        kind = "svg+xml" if path.suffix == ".svg" else "png"
        return f"data:image/{kind};base64," + base64.b64encode(path.read_bytes()).decode()

    @property
    def shown(self) -> Path:
        """The picture that Markdown shows: an SVG of many points is longer than its pixels."""
        return next(path for path in self.files if path.suffix == ".png")


@dataclass(frozen=True)
class Wall:
    """Results of trials under the wall clock, on Mininet."""

    rows: list[Row]
    checked: list[Checked]
    table: list[list[str]]
    busy: list[str]
    """Trials that are left out, because the machine did not keep up: which, and why."""

    @property
    def latest_start_us(self) -> float:
        """Greatest lateness of the start of an agent, nominal us."""
        return max(float(row["late_ns"]) for row in self.rows) / 1e3


@dataclass(frozen=True)
class Line:
    """A claim with all its points in one line."""

    text: str
    kind: str
    paper: str
    ours: str
    grades: str
    causes: str


@dataclass(frozen=True)
class Chapter:
    """One experiment at one size."""

    name: str
    size: str
    experiment: Experiment
    planned: int
    rows: list[Row]
    checked: list[Checked]
    overview: Picture | None
    pictures: list[Picture]
    table: list[list[str]]
    """Means over trials with their intervals; the first row has the headings."""
    wall: Wall

    @property
    def command(self) -> str:
        """The command that runs the experiment: one of Ebb's by name, another in its folder."""
        if self.name not in known_experiments():
            more = "".join(f" --set {setting}" for setting in self.experiment.by_hand)
            return f"ebb-experiment run {self.name}.toml --size {self.size}{more}"
        settings = " ".join(self.experiment.by_hand)
        more = f" SET='{settings}'" if settings else ""
        return f"make experiment NAME={self.name} SIZE={self.size}{more}"

    @property
    def archive(self) -> Archive:
        """The numbers that the page is made of."""
        return Archive(self.size, self.rows, self.wall.rows, self.wall.busy)

    @property
    def claims(self) -> list[tuple[Checked, Checked]]:
        """The claims, checked in virtual time and on Mininet."""
        return list(zip(self.checked, self.wall.checked, strict=True))

    @property
    def some(self) -> bool:
        """Whether any trial of it has been run."""
        return bool(self.rows or self.wall.rows or self.wall.busy)

    @property
    def commits(self) -> list[str]:
        """Commits of the trials, shortened."""
        return sorted({short(each) for each in commits(self.rows)})

    @property
    def seconds(self) -> float:
        """Time that the trials took, in sum."""
        return float(sum(row["seconds"] for row in self.rows))

    @property
    def seeds(self) -> list[int]:
        """Seeds of the trials."""
        return sorted({row["seed"] for row in self.rows})

    @property
    def unended(self) -> list[str]:
        """A line for each scheme of which not all flows ended well: how many, and why."""
        return unended_lines(self.experiment, self.rows)

    @property
    def counted(self) -> str:
        """Flows of the trials, planned and ended."""
        return counted(self.experiment, self.rows)

    @property
    def grades(self) -> dict[Grade, int]:
        """Claims by grade."""
        return {g: sum(claim.grade == g for claim in self.checked) for g in GRADES}

    @property
    def lines(self) -> list[Line]:
        """Claims of the first table, in the order of the file. Where it cannot have all, headlines
        are preferred, then claims with published values."""
        groups: dict[int, list[Checked]] = {}
        for each in self.checked:
            groups.setdefault(each.claim, []).append(each)
        order = sorted(groups, key=lambda n: (groups[n][0].headline is None,
                                              groups[n][0].kind != "published", n))  # fmt: skip
        return [self._line(groups[number]) for number in sorted(order[:MOST_LINES])]

    def _line(self, rows: list[Checked]) -> Line:
        claim, first = self.experiment.claim[rows[0].claim], rows[0]
        names = {axis: ", ".join(f"{p:g}" if isinstance(p, float) else str(p) for p in points)
                 for axis, points in claim.each.items()}  # fmt: skip
        return Line(
            claim.text.format(**names),
            first.kind,
            _joined(_measured(published(each.published), each.unit) for each in rows),
            ", ".join("" if each.ours is None else three_digits(each.ours.mean) for each in rows)
            + (f" {first.unit}" if first.unit else ""),
            _joined(each.grade for each in rows),
            ", ".join(dict.fromkeys(name for each in rows for name in self.causes_of(each))),
        )

    @property
    def left_out(self) -> int:
        """Claims that only the second table has."""
        return max(0, len(self.experiment.claim) - MOST_LINES)

    @property
    def deviations(self) -> list[str]:
        """Deviations of all claims from the paper, each once; claims name them by their number
        here, from 1."""
        return list(dict.fromkeys(d for claim in self.checked for d in claim.deviations))

    def numbers(self, claim: Checked) -> list[int]:
        """Numbers, from 1, of the deviations that concern a claim."""
        return [self.deviations.index(d) + 1 for d in claim.deviations]

    @property
    def causes(self) -> dict[str, tuple[str, str]]:
        """Causes of differences from the paper with their status, by names in tables: R1, R2, .."""
        causes = dict.fromkeys(
            (each.cause_status, each.reason) for each in self.checked if each.reason is not None
        )
        return {f"R{number}": cause for number, cause in enumerate(causes, 1)}

    def causes_of(self, claim: Checked) -> list[str]:
        """Numbers of the causes of a claim."""
        cause = (claim.cause_status, claim.reason)
        return [name for name, each in self.causes.items() if each == cause]


def _joined(texts: Any) -> str:
    """Texts after one another; once if they are all the same."""
    found = list(texts)
    return ", ".join(found if len(set(found)) > 1 else found[:1])


def published(value: float | str) -> str:
    """The paper's value as text."""
    return value if isinstance(value, str) else three_digits(value)


def _measured(text: str, unit: str) -> str:
    return f"{text} {unit}" if unit and text else text


@dataclass(frozen=True)
class Maker:
    """Makes the chapter about one experiment at one size, from trials or from their archive."""

    experiment: Experiment
    name: str
    size: str
    store: Store
    directory: Path
    """Folder for the figures."""
    kinds: Sequence[str]
    """Kinds of figure files: `svg`, `png`."""

    def archive(
        self, virtual: Sequence[tuple[str, Trial]], mininet: Sequence[tuple[str, Trial]]
    ) -> Archive:
        """The numbers of trials that have been run, with ids."""
        wall, busy = valid(self._tables(mininet))
        return Archive(self.size, self._rows(self._tables(virtual)), self._rows(wall), busy)

    def of_archive(self, planned: int, archive: Archive) -> Chapter:
        """The chapter of the numbers of trials; `planned`: how many are to be in virtual time."""
        experiment, rows, wall = self.experiment, archive.virtual, archive.wall
        reduced = experiment.size[self.size].reduced  # type: ignore[index]
        checked = check(experiment, rows, wall, reduced)
        chapter = Chapter(
            self.name, self.size, experiment, planned, rows, checked, None, [],
            table(experiment, rows),
            Wall(wall, check(experiment, wall, [], reduced), beside(experiment, wall, rows),
                 archive.busy),
        )  # fmt: skip
        return replace(chapter, overview=self._overview(checked), pictures=self._pictures(rows))

    def _overview(self, checked: Sequence[Checked]) -> Picture | None:
        files = draw_overview(checked, self.directory / self.name, self.kinds)
        return Picture("The claims beside the paper's numbers", "", files) if files else None

    def _pictures(self, rows: Sequence[Row]) -> list[Picture]:
        """A figure whose samples the archive lacks is that of an earlier run, if there is one."""
        data = Data(self.experiment, self.size, rows)
        directory = self.directory / self.name
        found = []
        for figure in self.experiment.figure if rows else []:
            old = directory / f"{figure.name}.png"
            if drawable(figure, data):
                files = draw(figure, data, directory, self.kinds)
            elif old.exists():
                files = [old]
            else:
                continue
            found.append(Picture(figure.title, figure.note, files))
        return found

    def _tables(self, stored: Sequence[tuple[str, Trial]]) -> list[tuple[Trial, Tables]]:
        return [(trial, self.store.read(trial, trial_id)) for trial_id, trial in stored]

    def _rows(self, trials: Sequence[tuple[Trial, Tables]]) -> list[Row]:
        first = min((trial.seed for trial, _tables in trials), default=0)
        return [self.row(trial, tables, first=trial.seed == first) for trial, tables in trials]

    def row(self, trial: Trial, tables: Tables, *, first: bool) -> Row:
        """The numbers of a trial. Curves over time are kept of the `first` seed."""
        metrics = self.experiment.metric
        if isinstance(trial.loaded, DataCentre):
            found = tenants_row(metrics, tables, trial.scheme, trial.seed, trial.labels)
        else:
            found = row(
                metrics,
                tables,
                trial.scheme,
                trial.seed,
                trial.labels,
                trial.loaded.topology,
                trial.loaded.spec.mtu_bytes,
                kept={f.metric for f in self.experiment.figure if f.of_samples(first=first)},
            )
        return found | {
            "commit": tables.meta["versions"]["commit"] or "",
            "seconds": float(tables.meta["wall_seconds"]),
            "late_ns": tables.meta.get("latest_start_ns"),
        }


def valid(
    trials: list[tuple[Trial, Tables]],
) -> tuple[list[tuple[Trial, Tables]], list[str]]:
    """The trials whose machine kept up, and a line about each of the others."""
    why = [too_busy(tables.meta) for _trial, tables in trials]
    good = [each for each, reason in zip(trials, why, strict=True) if reason is None]
    pairs = zip(trials, why, strict=True)
    return good, [f"{trial.name}: {reason}" for (trial, _t), reason in pairs if reason is not None]


def beside(experiment: Experiment, wall: Sequence[Row], virtual: Sequence[Row]) -> list[list[str]]:
    """The table of trials on Mininet, with the values of the same seeds in virtual time in
    parentheses."""
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


def counted(experiment: Experiment, rows: Sequence[Row]) -> str:
    """Number of flows of a trial, and the least share that ended among those that metrics count."""
    sizes = sorted(each["flows"] for each in rows if each["flows"])
    parts = []
    if sizes:
        few, many = f"{sizes[0]:,}", f"{sizes[-1]:,}"
        parts.append(f"A trial has {few if few == many else f'{few} to {many}'} flows")
    shares = [(share, each) for each in rows for share in each["ended"].values()]
    known = [(share, each) for share, each in shares if share is not None]
    if len(known) < len(shares):
        parts.append("how many of them ended was not recorded of all that metrics count")
    elif known:
        share, least = min(known, key=lambda one: one[0])
        points = "".join(f", {name} {_point(at)}" for name, at in least["labels"].items())
        label = experiment.style(least["scheme"]).label
        which = f"at least {100 * share:.3g} % ended ({label}{points}, seed {least['seed']})"
        parts.append(f"of those that metrics count {'all ended' if share == 1 else which}")
    text = "; ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""


def unended_lines(experiment: Experiment, rows: Sequence[Row]) -> list[str]:
    """A line per scheme with flows that failed or did not end, with the reasons."""
    lines = []
    for scheme in experiment.scheme:
        of_scheme = [each for each in rows if each["scheme"] == scheme]
        why: Counter[str] = Counter()
        for each in of_scheme:
            why.update(each["unended"])
        if why:
            reasons = "; ".join(f"{why_} ({n})" for why_, n in why.most_common(REASONS))
            flows = sum(each["flows"] for each in of_scheme)
            label = experiment.style(scheme).label
            lines.append(f"{label}: {why.total()} of {flows} flows. {reasons}")
    return lines


def table(experiment: Experiment, rows: Sequence[Row]) -> list[list[str]]:
    """The table of means: headings, then a line for each scheme at each point."""
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
        line = [experiment.style(key[0]).label, *(_point(point) for point in key[1:])]
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
    """A mean and its interval, which is shown as 0 where it is negligible."""
    mean, half = three_digits(ours.mean), ours.half_width
    if half is None:
        if ours.low is None or ours.high is None:
            return mean
        return f"{mean} ({three_digits(ours.low)} to {three_digits(ours.high)})"
    return f"{mean} ± {three_digits(half if half > abs(ours.mean) * NEGLIGIBLE else 0)}"


def band(limits: tuple[float | None, float | None]) -> str:
    """A band for people."""
    low, high = limits
    high = None if high == math.inf else high
    if low is None:
        return "any" if high is None else f"≤ {high:g}"
    return f"≥ {low:g}" if high is None else f"{low:g} to {high:g}"


def short(commit: str) -> str:
    """A commit with 12 digits, and `+` if the tree had changes."""
    return commit[:12] + ("+" if commit.endswith("+") else "")
