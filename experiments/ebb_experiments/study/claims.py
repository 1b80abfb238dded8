"""Claims of the papers against the metrics of the trials."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from ebb_topologies.files import InputError
from ebb_topologies.nearest import hint

from ebb_experiments.study.estimates import (
    Estimate,
    Sample,
    Tail,
    bootstrap,
    enough,
    jackknife,
    jackknife_of_share,
    possible,
    without_rounding,
)
from ebb_experiments.study.expression import DividedByZeroError, Expression, Term
from ebb_experiments.study.grades import HOLDS, Grade, Meaning, Range, grade, inside, wrong_sign
from ebb_experiments.study.metric_spec import Metric
from ebb_experiments.study.metrics import LEAST_BEYOND, Row, beyond, few_beyond
from ebb_experiments.study.spec import Experiment, Kind

LEAST_ENDED = 0.99
"""Share of the flows of a metric that must have ended for its number to stand alone."""


class NotRunError(Exception):
    """A claim needs trials of which there are none."""


@dataclass(frozen=True)
class Checked:
    """A row of the table of claims."""

    text: str
    kind: Kind
    source: str
    published: float | str
    unit: str
    band: tuple[float | None, float | None]
    paper: Range | None
    meaning: Meaning
    ours: Estimate | None
    grade: Grade
    claim: int
    """Number of the claim in its file, from 0; each of its points (`each`) is a row."""
    headline: str | None = None
    samples: int | None = None
    """Flows or jobs of all trials behind the number with the fewest; none: it counts neither."""
    ended: float | None = None
    """Least share of flows that ended in a trial, over metrics that leave the others out."""
    enough: int | None = None
    """Estimated number of trials that would decide it; none: it is decided, or not known."""
    notes: list[str] = field(default_factory=list)
    """Why it was not run or is not decided, and remarks on our number."""
    reason: str | None = None
    """Cause of a difference from the paper."""
    cause_status: str = ""
    deviations: list[str] = field(default_factory=list)

    @property
    def inside(self) -> bool:
        """Whether our number is inside the band."""
        return self.ours is not None and inside(self.ours.mean, self.band)


@dataclass(frozen=True)
class Evaluated:
    """The number of an expression, and why it may not be enough for a verdict."""

    ours: Estimate | None
    doubts: list[str]
    samples: int | None
    ended: float | None
    enough_samples: int | None = None
    """Number of trials that would have ten samples beyond each percentile; none: these have."""


def check(
    experiment: Experiment, virtual: Sequence[Row], wall: Sequence[Row], reduced: str | None
) -> list[Checked]:
    """The claims on trials in virtual time, and those that name it on Mininet, too."""
    return [
        _checked(experiment, number, index, virtual, wall, reduced)
        for number, claim in enumerate(experiment.claim)
        for index in range(len(claim.points))
    ]


def _checked(
    experiment: Experiment,
    number: int,
    index: int,
    virtual: Sequence[Row],
    wall: Sequence[Row],
    reduced: str | None,
) -> Checked:
    claim = experiment.claim[number]
    known = claim.points[index]
    expression = Expression.of(claim.expression, list(experiment.metric), known)
    meaning = expression.meaning
    if claim.neutral is not None:
        meaning = Meaning(claim.neutral, meaning.whole)
    band, paper = claim.band_at(index), claim.paper_at(index)
    notes: list[str] = []
    found: Evaluated | None = None
    verdict: Grade = "not run"
    try:
        found = evaluate(expression, experiment.metric, virtual, wall)
    except NotRunError as error:
        notes.append(str(error))
    else:
        verdict, why = _judged(found, band, paper, meaning)
        notes += why
    differs = verdict == "not reproduced" or (
        verdict == "undecided"
        and found is not None
        and found.ours is not None
        and not inside(found.ours.mean, band)
    )
    return Checked(
        text=claim.text.format(
            **{k: f"{v:g}" if isinstance(v, float) else v for k, v in known.items()}
        ),
        kind=claim.kind or experiment.kind,
        source=claim.source or experiment.source,
        published=claim.published_at(index),
        unit=claim.unit,
        band=band,
        paper=paper,
        meaning=meaning,
        ours=None if found is None else found.ours,
        grade=verdict,
        claim=number,
        headline=claim.headline,
        samples=None if found is None else found.samples,
        ended=None if found is None else found.ended,
        enough=_enough(found, band, meaning) if verdict == "undecided" and found else None,
        notes=notes,
        reason=claim.reason if differs else None,
        cause_status=claim.cause_status if differs else "",
        deviations=[
            *experiment.deviations, *claim.deviations, *([reduced] if reduced else []),
        ],
    )  # fmt: skip


def _judged(
    found: Evaluated,
    band: tuple[float | None, float | None],
    paper: Range | None,
    meaning: Meaning,
) -> tuple[Grade, list[str]]:
    """The grade, and why it is undecided, or remarks."""
    if found.ours is None:
        return "undecided", found.doubts
    doubts = [*found.doubts, *crossings(found.ours, band, paper, meaning)]
    if found.ours.trials < 2:
        doubts.append("one trial")
    verdict = grade(found.ours.mean, paper, band, meaning)
    notes = []
    if found.ended is not None and found.ended < LEAST_ENDED:
        notes.append(
            f"of a trial only {100 * found.ended:.3g} % of the flows ended; the others are left out"
        )
        if verdict in HOLDS:
            doubts += notes
            notes = []
    return ("undecided" if doubts else verdict), [*doubts, *notes]


def _enough(
    found: Evaluated, band: tuple[float | None, float | None], meaning: Meaning
) -> int | None:
    """Number of trials with which the interval would be narrow enough, and the samples of
    percentiles enough."""
    if found.ours is None:
        return None
    ours, edges = found.ours, [edge for edge in (*band, meaning.neutral) if edge is not None]
    if (whole := meaning.whole) is not None:
        ours, edges = ours.left_of(whole), [1 - edge / whole for edge in edges]
    counts = [found.enough_samples, enough(ours, edges)]
    return max((count for count in counts if count is not None), default=None)


def crossings(
    ours: Estimate,
    band: tuple[float | None, float | None],
    paper: Range | None,
    meaning: Meaning,
) -> list[str]:
    """Doubts because the interval has values for which the claim holds, and others."""
    if ours.low is None or ours.high is None:
        return []
    low, high = (-np.inf if band[0] is None else band[0], np.inf if band[1] is None else band[1])
    meets, leaves = ours.low <= high and ours.high >= low, ours.low < low or ours.high > high
    if meets and leaves:
        way = "out of" if inside(ours.mean, band) else "into"
        return [f"its interval reaches {way} the band"]
    signs = {wrong_sign(each, paper, meaning) for each in (ours.low, ours.high)}
    if wrong_sign(ours.mean, paper, meaning) and signs == {True, False}:
        return ["its interval has both signs"]
    return []


def check_expressions(experiment: Experiment, where: str) -> None:
    """Raises `InputError` if a claim names a metric, a scheme, an axis or a point of one that its
    experiment does not have. Needs no trial."""
    for claim in experiment.claim:
        try:
            for known in claim.points:
                expression = Expression.of(claim.expression, list(experiment.metric), known)
                for term in expression.terms:
                    _check_term(experiment, term)
        except (InputError, DividedByZeroError) as error:
            raise InputError(f"{where}: claim '{claim.text}': {error}") from None


def _check_term(experiment: Experiment, term: Term) -> None:
    if term.scheme not in experiment.scheme:
        raise InputError(
            f"there is no scheme '{term.scheme}'; {hint(term.scheme, experiment.scheme)}"
        )
    axes = {axis.name: axis for axis in experiment.axis}
    for name, point in term.labels:
        if name not in axes:
            raise InputError(f"there is no axis '{name}'; {hint(name, axes)}")
        every = set(experiment.every_point(name))
        if point not in every:
            known = ", ".join(map(str, sorted(every, key=str)))
            raise InputError(f"axis {name} has no point {point!r}; it has {known}")


# -- numbers --------------------------------------------------------------------------------------


def evaluate(
    expression: Expression,
    metrics: Mapping[str, Metric],
    virtual: Sequence[Row],
    wall: Sequence[Row] = (),
) -> Evaluated:
    """The expression of the means over the seeds with which all of its trials have been run. For
    each seed without a trial or a value, or with a denominator of 0, there is a doubt. Where a
    trial has too few samples for a percentile, it is that of the samples of all trials; the
    interval is then that of a bootstrap, otherwise the jackknife's over seeds."""
    data = {term: _at(wall if term.wall else virtual, term) for term in expression.terms}
    for term, rows in data.items():
        if not rows:
            raise NotRunError(f"no trial of {term.where} has {term.metric}")
    numbers = Numbers(expression, metrics, data)
    doubts = [*numbers.gaps(), *numbers.few(), *numbers.not_recorded()]
    try:
        whole = numbers.value(numbers.seeds)
    except DividedByZeroError as error:
        return Evaluated(None, [str(error), *doubts], numbers.samples, numbers.ended)
    ours = without_rounding(numbers.estimate(whole, doubts))
    ours = possible(ours, *_limits(expression, metrics))
    return Evaluated(ours, doubts, numbers.samples, numbers.ended, numbers.enough_samples)


def _limits(
    expression: Expression, metrics: Mapping[str, Metric]
) -> tuple[float | None, float | None]:
    """Least and greatest possible value of an expression: a time is not negative, nor is a ratio of
    times, and a share is no more than the whole. A difference may be anything."""
    if expression.single is not None:
        return metrics[expression.single.metric].limits
    negative = any(metrics[term.metric].limits[0] != 0 for term in expression.terms)
    return (None if negative or expression.subtracts else 0.0), None


@dataclass(frozen=True)
class Numbers:
    """Inputs of the terms of an expression."""

    expression: Expression
    metrics: Mapping[str, Metric]
    data: Mapping[Term, Sequence[Row]]

    @property
    def seeds(self) -> list[int]:
        """Seeds with which all terms have been run; if there are none, those of any term."""
        of_terms = [{row["seed"] for row in rows} for rows in self.data.values()]
        return sorted(set.intersection(*of_terms) or set.union(*of_terms))

    @property
    def trials(self) -> int:
        """Number of trials of the estimate: seeds that all terms have, or 1 without any."""
        of_terms = [{row["seed"] for row in rows} for rows in self.data.values()]
        return len(set.intersection(*of_terms)) or 1

    def gaps(self) -> list[str]:
        """A doubt for each seed without a trial or a value of a term."""
        found = []
        of_terms = {term: {row["seed"] for row in rows} for term, rows in self.data.items()}
        every = sorted(set.union(*of_terms.values()))
        for seed in every:
            lacking = next((term for term, seeds in of_terms.items() if seed not in seeds), None)
            if lacking is not None:
                found.append(f"seed {seed} has no trial of {lacking.where}")
                continue
            empty = next((term for term in self.data if self._empty(term, seed)), None)
            if empty is not None:
                found.append(f"seed {seed}: {empty.where} has no {empty.metric}")
                continue
            try:
                self.value([seed])
            except DividedByZeroError as error:
                found.append(f"seed {seed}: {error}")
        return found

    def _empty(self, term: Term, seed: int) -> bool:
        return any(row[term.metric] is None for row in self.data[term] if row["seed"] == seed)

    def few(self) -> list[str]:
        """Doubts about percentiles beyond which there are too few samples."""
        found = []
        for term in self.data:
            metric, sizes = self.metrics[term.metric], self._sizes(term)
            if not sizes or not few_beyond(metric, min(sizes)):
                continue
            percent, all_of = metric.percentile or 0, sum(sizes)
            which = f"{percent:g}th percentile of {all_of} samples"
            if few_beyond(metric, all_of):
                found.append(f"{which}, {beyond(percent, all_of):.2g} of them beyond it")
            elif not self._pooled(term):
                found.append(
                    f"{which}, which are not stored; a trial has {beyond(percent, min(sizes)):.2g} "
                    "beyond it"
                )
        return list(dict.fromkeys(found))

    @property
    def enough_samples(self) -> int | None:
        """Number of trials that would have enough samples beyond every percentile; none: these
        have."""
        found = []
        for term in self.data:
            metric, sizes = self.metrics[term.metric], self._sizes(term)
            if sizes and few_beyond(metric, sum(sizes)):
                past = beyond(metric.percentile or 0, sum(sizes))
                found.append(math.ceil(round(LEAST_BEYOND / past * len(sizes), 6)))
        return max(found, default=None)

    def not_recorded(self) -> list[str]:
        """A doubt if it is not known how many flows a number leaves out."""
        every = (row.get("ended", {}).get(t.metric, 1) for t, rows in self.data.items()
                 for row in rows)  # fmt: skip
        lacking = any(share is None for share in every)
        return ["the share of the flows that ended was not recorded"] if lacking else []

    def _sizes(self, term: Term) -> list[int]:
        """Number of flows or jobs of a term in each trial, if it counts these."""
        of_each = (row.get("counts", {}).get(term.metric) for row in self.data[term])
        return [count for count in of_each if count is not None]

    def _pooled(self, term: Term) -> bool:
        """Whether a term is a percentile of the flows of all trials together."""
        sizes = self._sizes(term)
        return (
            bool(sizes)
            and few_beyond(self.metrics[term.metric], min(sizes))
            and all(term.metric in row.get("samples", {}) for row in self.data[term])
        )

    @property
    def samples(self) -> int | None:
        """Samples of the term that has the fewest; none: no samples are stored."""
        sizes = [sum(sizes) for sizes in map(self._sizes, self.data) if sizes]
        return min(sizes, default=None)

    @property
    def ended(self) -> float | None:
        """The smallest share of flows that ended; none: it is not recorded."""
        shares = [
            row.get("ended", {}).get(term.metric) for term, rows in self.data.items()
            for row in rows
        ]  # fmt: skip
        return min((share for share in shares if share is not None), default=None)

    def value(self, seeds: Sequence[int]) -> float:
        """Value from the trials with these seeds, each as often as it is listed."""
        return self.expression.value(lambda term: self._term(term, seeds))

    def _term(self, term: Term, seeds: Sequence[int]) -> float:
        rows = [row for seed in seeds for row in self.data[term] if row["seed"] == seed]
        if self._pooled(term):
            return Sample.pooled(self._samples(term, rows)).percentile(self._percent(term))
        numbers = [row[term.metric] for row in rows if row[term.metric] is not None]
        if not numbers:
            raise NotRunError(f"no trial of {term.where} has {term.metric}")
        return float(np.mean(numbers))

    def _percent(self, term: Term) -> float:
        percent = self.metrics[term.metric].percentile
        assert percent is not None
        return percent

    @staticmethod
    def _samples(term: Term, rows: Iterable[Row]) -> list[Sample]:
        return [row["samples"][term.metric] for row in rows]

    def estimate(self, whole: float, doubts: list[str]) -> Estimate:
        """The estimate of `whole` with its interval. Adds a doubt if a denominator of 0 prevents
        that."""
        seeds, n = self.seeds, self.trials
        if n < 2:
            return Estimate(whole, None, None, n)
        if any(map(self._pooled, self.data)):
            return bootstrap(whole, n, self._resampled(seeds))
        try:
            without = [self.value([s for s in seeds if s != left_out]) for left_out in seeds]
        except (DividedByZeroError, NotRunError) as error:
            doubts.append(f"no interval: {error}")
            return Estimate(whole, None, None, n)
        if (all_of := self.expression.meaning.whole) is not None:
            return jackknife_of_share(whole, without, all_of)
        return jackknife(whole, without, ratio=self.expression.ratio)

    def _resampled(self, seeds: Sequence[int]) -> Callable[[np.random.Generator], float]:
        """A function that resamples: the value from seeds drawn with replacement, and from flows
        of theirs for pooled percentiles. A term that the expression has twice is drawn once."""
        rows = {
            term: [row for seed in seeds for row in rows if row["seed"] == seed]
            for term, rows in self.data.items()
        }
        tails = {
            term: Tail(self._samples(term, of), self._percent(term))
            for term, of in rows.items()
            if self._pooled(term)
        }

        def resample(random: np.random.Generator) -> float:
            drawn = Counter(random.choice(seeds, len(seeds)).tolist())
            values = {
                term: tail.drawn([drawn[row["seed"]] for row in rows[term]], random)
                for term, tail in tails.items()
            }
            every = list(drawn.elements())
            try:
                return self.expression.value(
                    lambda term: values[term] if term in values else self._term(term, every)
                )
            except DividedByZeroError:
                return np.inf

        return resample


def _at(rows: Iterable[Row], term: Term) -> list[Row]:
    """The trials of a term: of its scheme, at its points. Axes along which a trial does not vary do
    not count."""
    return [
        row
        for row in rows
        if row["scheme"] == term.scheme
        and all(name not in row["labels"] or row["labels"][name] == at for name, at in term.labels)
    ]
