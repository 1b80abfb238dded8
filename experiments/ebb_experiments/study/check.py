"""Archived trials that are run again with today's programs, and compared number by number. Virtual
time is deterministic: the numbers are equal, or something that they depend on has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict

from ebb_experiments.results.numbers import three_digits
from ebb_experiments.study.archive import key_of, trial_key
from ebb_experiments.study.metric_spec import Metric
from ebb_experiments.study.metrics import Row
from ebb_experiments.study.trials import Trial

OF_THE_MACHINE = ("placement-time",)
"""Metrics that are processor times, which no second run repeats."""
DIFFERENCES = 3
"""Most differences of a trial that are stored."""
Pair = tuple[Row, Trial]
"""A trial of an archive, and the same one planned with today's file."""


class RepeatedTrial(BaseModel):
    """A trial that was run again."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    trial: str
    """Scheme, points and seed."""
    differs: list[str] = []
    """Numbers that are not as in the archive; empty: all are equal, bit for bit."""


class Check(BaseModel):
    """Outcome of trials that were run again; part of summary.json."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    commit: str
    """Commit of the programs that ran them again."""
    trials: list[RepeatedTrial]
    left_out: list[str] = []
    """Schemes whose shortest trial takes longer than was allowed."""

    @property
    def equal(self) -> list[str]:
        """Trials whose numbers are the archived ones."""
        return [each.trial for each in self.trials if not each.differs]

    @property
    def differing(self) -> list[RepeatedTrial]:
        """Trials that gave something else."""
        return [each for each in self.trials if each.differs]

    @property
    def whole(self) -> bool:
        """Whether a trial of every scheme gave the archived numbers again."""
        return bool(self.trials) and not self.differing and not self.left_out

    @property
    def text(self) -> str:
        """Outcome in words, for a page."""
        parts = []
        if self.equal:
            parts.append(f"bit for bit again: {', '.join(self.equal)}")
        for each in self.differing:
            parts.append(f"not as archived: {each.trial} ({'; '.join(each.differs)})")
        if self.left_out:
            parts.append(f"not run again: {', '.join(self.left_out)}")
        return f"at commit {self.commit[:12]} {'; '.join(parts)}"


def choose(
    rows: Sequence[Row], planned: Iterable[Trial], seconds: float
) -> tuple[list[Pair], list[str]]:
    """The shortest trial of each scheme that is archived and still planned, the shortest first, as
    long as all of them together took no more than `seconds` when they were run; and the schemes
    that are left out. Of trials of one duration the one with the fewest flows is taken."""
    today = {trial_key(trial.scheme, trial.seed, trial.labels): trial for trial in planned}
    pairs = [(row, today.get(key_of(row))) for row in rows]
    ordered = sorted(pairs, key=lambda pair: (pair[0]["seconds"], pair[0]["flows"]))
    shortest: dict[str, Pair] = {}
    for row, trial in ordered:
        if trial is not None:
            shortest.setdefault(trial.scheme, (row, trial))
    chosen, spent = [], 0.0
    for row, trial in shortest.values():
        spent += row["seconds"]
        if spent <= seconds:
            chosen.append((row, trial))
    with_one = {trial.scheme for _row, trial in chosen}
    schemes = dict.fromkeys(str(row["scheme"]) for row in rows)
    return chosen, [scheme for scheme in schemes if scheme not in with_one]


def differences(
    archived: Row, now: Row, metrics: Mapping[str, Metric], lacking: Iterable[str] = ()
) -> list[str]:
    """Numbers of a trial that are not as in the archive: metrics, the share of their flows that
    ended, and the flows behind percentiles and figures. `lacking`: metrics that the file of the
    experiment has and the archive has not. 0 flows in an archive: they were not counted."""
    found = [
        f"{name} {_pair(archived[name], now[name])}"
        for name, metric in metrics.items()
        if name not in lacking and metric.of not in OF_THE_MACHINE and archived[name] != now[name]
    ]
    if archived["flows"] not in (0, now["flows"]):
        found.append(f"flows {_pair(archived['flows'], now['flows'])}")
    found += [
        f"share of the flows of {name} that ended {_pair(share, now['ended'].get(name))}"
        for name, share in archived["ended"].items()
        if share is not None and share != now["ended"].get(name)
    ]
    found += [
        f"the flows behind {name}"
        for name, sample in archived["samples"].items()
        if name in now["samples"]
        and not np.array_equal(sample.values.astype(np.float32),
                               now["samples"][name].values.astype(np.float32))
    ]  # fmt: skip
    more = len(found) - DIFFERENCES
    return found[:DIFFERENCES] + ([f"and {more} more"] if more > 0 else [])


def _pair(before: float | None, after: float | None) -> str:
    """Both numbers with three digits; with all of them if they look the same otherwise."""
    shown = ["nothing" if each is None else three_digits(each) for each in (before, after)]
    if shown[0] == shown[1]:
        shown = [repr(before), repr(after)]
    return f"{shown[0]}, now {shown[1]}"
