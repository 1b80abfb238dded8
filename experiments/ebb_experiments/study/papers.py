"""The papers, their headline numbers and the grades of their claims: what the first page says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from ebb_topologies.files import load, validate
from ebb_topologies.installation import data
from pydantic import BaseModel, ConfigDict

from ebb_experiments.results.numbers import three_digits
from ebb_experiments.study.claims import Checked
from ebb_experiments.study.estimates import Estimate
from ebb_experiments.study.grades import GRADES, HOLDS, Grade
from ebb_experiments.study.spec import KINDS, Kind

FILE = data() / "experiments" / "papers.toml"
NOT_DECIDED: tuple[Grade, ...] = ("undecided", "not run")


class Paper(BaseModel):
    """A paper whose claims experiments test."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    """Author, title, year and section."""
    claims: str
    """Its subject, in a sentence or two."""
    experiments: list[str]
    """Their names; * stands for any characters."""

    def has(self, experiment: str) -> bool:
        """Whether the experiment is of this paper."""
        return any(fnmatch(experiment, pattern) for pattern in self.experiments)


class ClaimRow(BaseModel):
    """A claim at one point, as summary.json has it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str
    kind: Kind
    source: str
    paper: float | str
    numbers: tuple[float | None, float | None] | None = None
    """The paper's number, from and to, none of them: no limit on that side; none: it has words
    only."""
    unit: str
    band: tuple[float | None, float | None]
    ours: float | None
    low: float | None
    high: float | None
    grade: Grade
    trials: int | None
    samples: int | None
    """Flows or jobs behind the least of its numbers."""
    ended: float | None
    """Least share of the flows of a trial that ended."""
    enough: int | None = None
    """About how many trials would decide it."""
    headline: str | None = None
    notes: list[str] = []
    reason: str | None = None
    cause: str = ""
    """Status of the reason: seen, unknown, or tested by a file."""

    @classmethod
    def of(cls, row: Checked) -> ClaimRow:
        """The row of a claim that was checked."""
        ours = row.ours or Estimate(0, None, None, 0)
        there = row.ours is not None
        return cls(
            text=row.text, kind=row.kind, source=row.source, paper=row.published,
            numbers=row.paper and (_limit(row.paper[0]), _limit(row.paper[1])),
            unit=row.unit, band=row.band, ours=ours.mean if there else None,
            low=ours.low, high=ours.high,
            grade=row.grade, trials=ours.trials if there else None, samples=row.samples,
            ended=row.ended, enough=row.enough, headline=row.headline, notes=row.notes,
            reason=row.reason, cause=row.cause_status,
        )  # fmt: skip

    @property
    def number(self) -> str:
        """Our number, with its interval."""
        if self.ours is None:
            return ""
        told = three_digits(self.ours)
        if self.low is not None and self.high is not None:
            told += f" ({three_digits(self.low)} to {three_digits(self.high)})"
        return f"{told} {self.unit}".rstrip()

    @property
    def published(self) -> str:
        """The paper's value as text."""
        told = self.paper if isinstance(self.paper, str) else three_digits(self.paper)
        return f"{told} {self.unit}".rstrip() if told else told


def papers() -> dict[str, Paper]:
    """The papers of `papers.toml`, by name."""
    return {name: validate(Paper, table, f"{FILE}: {name}") for name, table in load(FILE).items()}


@dataclass(frozen=True)
class Headline:
    """A number that the paper is known for, with the experiment that has it."""

    experiment: str
    row: ClaimRow


@dataclass(frozen=True)
class Record:
    """Results of the experiments for a paper."""

    paper: Paper
    claims: Mapping[str, Sequence[ClaimRow]]
    """By experiment."""
    stale: frozenset[str] = frozenset()
    """Experiments whose trials are not of today's programs."""

    @property
    def rows(self) -> list[ClaimRow]:
        """All claims of all experiments."""
        return [row for rows in self.claims.values() for row in rows]

    def count(self, kind: Kind = "published") -> dict[Grade, int]:
        """Claims of a kind by grade."""
        counts = Counter(row.grade for row in self.rows if row.kind == kind)
        return {grade: counts[grade] for grade in GRADES}

    @property
    def kinds(self) -> dict[Kind, int]:
        """Claims by kind."""
        counts = Counter(row.kind for row in self.rows)
        return {kind: counts[kind] for kind in KINDS}

    @property
    def numeric(self) -> Counter[Grade]:
        """Published rows for which the paper has a number, by grade."""
        return Counter(
            row.grade for row in self.rows if row.kind == "published" and row.numbers is not None
        )

    @property
    def of_stale(self) -> int:
        """Published rows whose trials are not of today's programs."""
        return sum(
            row.kind == "published" for name in self.stale for row in self.claims.get(name, ())
        )

    @property
    def headlines(self) -> list[Headline]:
        """Claims that are headlines, in the order of the files."""
        return [
            Headline(name, row) for name, rows in self.claims.items() for row in rows
            if row.headline
        ]  # fmt: skip

    def headlines_that(self, verdict: Literal["holds", "differs", "open"]) -> list[str]:
        """Headlines of which a point holds, does not, or is undecided; with how many do, unless it
        is all."""
        wanted: tuple[Grade, ...] = {
            "holds": HOLDS, "differs": ("not reproduced",), "open": NOT_DECIDED,
        }[verdict]  # fmt: skip
        points = Counter(each.row.headline for each in self.headlines)
        found = Counter(each.row.headline for each in self.headlines if each.row.grade in wanted)
        return [
            str(name) if count == points[name] else f"{name} (at {count} of {points[name]} points)"
            for name, count in found.items()
        ]

    @property
    def grades(self) -> str:
        """Published rows by grade, in words; those of no row are left out."""
        words = {"direction": "of the right direction"}
        counts = [
            f"{count} {words.get(grade, grade)}" for grade, count in self.count().items() if count
        ]
        return f"{self.kinds['published']} published rows: {', '.join(counts)}"


def _limit(number: float) -> float | None:
    """An end of the paper's numbers as JSON has it."""
    return number if math.isfinite(number) else None


def records(
    claims: Mapping[str, Sequence[ClaimRow]], stale: Iterable[str] = ()
) -> dict[str, Record]:
    """Rows of all papers with experiments among these; last those of no paper."""
    found, old, left = {}, frozenset(stale), dict(claims)
    for name, paper in papers().items() if Path(FILE).exists() else ():
        of_it = {each: left.pop(each) for each in list(left) if paper.has(each)}
        if of_it:
            found[name] = Record(paper, of_it, old)
    if left:
        other = Paper(title="Other experiments", claims="", experiments=list(left))
        found["others"] = Record(other, left, old)
    return found


# -- causes ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cause:
    """A cause of deviations, with its status and its rows."""

    text: str
    status: str
    rows: list[tuple[str, ClaimRow]]
    """Experiment and claim of each row that it explains."""


def causes(claims: Mapping[str, Sequence[ClaimRow]]) -> list[Cause]:
    """Each cause once, most rows first; last the rows that have none."""
    found: dict[tuple[str, str], list[tuple[str, ClaimRow]]] = {}
    for name, rows in claims.items():
        for row in rows:
            if row.cause:
                found.setdefault((row.reason or "", row.cause), []).append((name, row))
    ordered = sorted(found.items(), key=lambda each: (not each[0][0], -len(each[1])))
    return [Cause(text, status, rows) for (text, status), rows in ordered]
