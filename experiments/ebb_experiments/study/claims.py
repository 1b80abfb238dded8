"""Claims of the papers against the metrics of the trials."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from random import Random
from typing import Any, Literal

import numpy as np
from ebb_topologies.files import InputError
from ebb_topologies.nearest import hint
from scipy import stats

from ebb_experiments.study.choices import Scalar
from ebb_experiments.study.metrics import Row
from ebb_experiments.study.spec import Claim, Experiment

CONFIDENCE = 0.95
LEAST_ENDED = 0.99
"""Share of the flows of a metric that must have ended for its number to stand alone."""
Verdict = Literal["yes", "no", "not run"]
OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max}


class NotRunError(Exception):
    """A claim needs trials of which there are none."""


@dataclass(frozen=True)
class Estimate:
    mean: float
    half_width: float | None
    """Half the width of the 95 % confidence interval; none with one trial."""
    trials: int

    @property
    def low(self) -> float:
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.half_width or 0.0)


@dataclass(frozen=True)
class Checked:
    """A row of the verdict table."""

    text: str
    source: str
    published: float | str
    unit: str
    band: tuple[float | None, float | None]
    ours: Estimate | None
    verdict: Verdict
    notes: list[str] = field(default_factory=list)
    """Notes: why it was not run, the reason of a "no", what the interval says."""
    deviations: list[str] = field(default_factory=list)


def estimate(numbers: Sequence[float]) -> Estimate:
    """Mean over trials, with Student's interval."""
    return _interval(float(np.mean(numbers)), numbers)


def _interval(mean: float, numbers: Sequence[float]) -> Estimate:
    n = len(numbers)
    if n < 2:
        return Estimate(mean, None, n)
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
    return Estimate(mean, quantile * float(np.std(numbers, ddof=1)) / math.sqrt(n), n)


def check(experiment: Experiment, rows: Sequence[Row], reduced: str | None) -> list[Checked]:
    found = []
    for claim in experiment.claim:
        for index, (axis, point) in enumerate(_points(claim)):
            published = _nth(claim.published, index)
            band = claim.band[index] if isinstance(claim.band, list) else claim.band
            known = {} if axis is None else {axis: point}
            deviations = [
                *experiment.deviations,
                *claim.deviations,
                *([reduced] if reduced else []),
            ]
            ours: Estimate | None = None
            notes: list[str] = []
            verdict: Verdict = "not run"
            try:
                ours = evaluate(claim.expression, rows, list(experiment.metric), known)
            except NotRunError as error:
                notes.append(str(error))
            else:
                verdict = "yes" if inside(ours.mean, band) else "no"
                edges = {inside(ours.low, band), inside(ours.high, band)}
                if edges != {verdict == "yes"}:
                    notes.append(
                        f"its interval reaches {'out of' if verdict == 'yes' else 'into'} the band"
                    )
                notes += left_out(claim.expression, rows, known)
                if verdict == "no":
                    notes.append(claim.reason or "reason not found yet")
            found.append(
                Checked(
                    text=claim.text.format(
                        **{k: f"{v:g}" if isinstance(v, float) else v for k, v in known.items()}
                    ),
                    source=claim.source or experiment.source,
                    published=published,
                    unit=claim.unit,
                    band=band,
                    ours=ours,
                    verdict=verdict,
                    notes=notes,
                    deviations=deviations,
                )
            )
    return found


def check_expressions(experiment: Experiment, where: str) -> None:
    """Raises `InputError` if a claim names what its experiment does not have: a metric, a scheme,
    an axis or a point of one. Needs no trial."""
    drawn = Random(0)  # in place of means of trials, so that no difference is 0

    def value(_metric: str, scheme: str, labels: Mapping[str, Any]) -> float:
        _check_term(experiment, scheme, labels)
        return drawn.random()

    for claim in experiment.claim:
        try:
            tree = _parse(claim.expression)
            for axis, point in _points(claim):
                known = {} if axis is None else {axis: point}
                _number(tree.body, Terms(list(experiment.metric), known, value))
        except (InputError, NotRunError) as error:
            raise InputError(f"{where}: claim '{claim.text}': {error}") from None


def _check_term(experiment: Experiment, scheme: str, labels: Mapping[str, Any]) -> None:
    if scheme not in experiment.scheme:
        raise InputError(f"there is no scheme '{scheme}'; {hint(scheme, experiment.scheme)}")
    axes = {axis.name: axis for axis in experiment.axis}
    for name, point in labels.items():
        if name not in axes:
            raise InputError(f"there is no axis '{name}'; {hint(name, axes)}")
        of_sizes = (experiment.points(axes[name], size) for size in experiment.size)
        every = {*axes[name].points, *chain.from_iterable(of_sizes)}
        if point not in every:
            known = ", ".join(map(str, sorted(every, key=str)))
            raise InputError(f"axis {name} has no point {point!r}; it has {known}")


def _short(expression: str) -> str:
    return " ".join(expression.split())


def inside(number: float, band: tuple[float | None, float | None]) -> bool:
    low, high = band
    return (low is None or number >= low) and (high is None or number <= high)


def _points(claim: Claim) -> Iterable[tuple[str | None, Scalar | None]]:
    if not claim.each:
        return [(None, None)]
    ((axis, points),) = claim.each.items()
    return [(axis, point) for point in points]


def _nth(value: Any, index: int) -> Any:
    return value[index] if isinstance(value, list) else value


def evaluate(
    expression: str, rows: Sequence[Row], metrics: Sequence[str], known: Mapping[str, Any]
) -> Estimate:
    """The expression of the means over trials. Its interval is from the jackknife over seeds
    (Tukey's pseudo-values): of a single mean that is Student's, and ratios get theirs too. A seed
    counts if all trials of the expression have been run with it; if there is none, each mean is
    over those that have been."""
    tree = _parse(expression)

    def number(of: Sequence[Row]) -> float:
        return _number(tree.body, Terms(metrics, known, partial(mean_of, of)))

    whole = number(rows)
    by_seed: dict[int, list[Row]] = {}
    for row in rows:
        by_seed.setdefault(row["seed"], []).append(row)
    complete = [of_seed for of_seed in by_seed.values() if _is_run(number, of_seed)]
    n = len(complete)
    if n == 0:
        return Estimate(whole, None, 1)
    counted = [row for of_seed in complete for row in of_seed]
    whole = number(counted)
    if n < 2:
        return Estimate(whole, None, n)
    pseudo = []
    for left_out in complete:
        rest = [row for of_seed in complete if of_seed is not left_out for row in of_seed]
        pseudo.append(n * whole - (n - 1) * number(rest))
    return _interval(whole, pseudo)


def _is_run(number: Callable[[Sequence[Row]], float], rows: Sequence[Row]) -> bool:
    try:
        number(rows)
    except NotRunError:
        return False
    return True


def _parse(expression: str) -> ast.Expression:
    try:
        return ast.parse(f"({expression}\n)", mode="eval")  # so that it may go over several lines
    except SyntaxError as error:
        raise InputError(f"expression '{_short(expression)}': {error.msg}") from None


@dataclass(frozen=True)
class Terms:
    """What the names in an expression stand for."""

    metrics: Sequence[str]
    known: Mapping[str, Any]
    """The point of `each`, by the name of its axis."""
    value: Callable[[str, str, Mapping[str, Any]], float]
    """Value of a metric of a scheme at points of axes."""


def _number(node: ast.expr, terms: Terms) -> float:
    match node:
        case ast.Constant(value=int() | float() as constant):
            return float(constant)
        case ast.Name(id=name) if isinstance(terms.known.get(name), int | float):
            return float(terms.known[name])
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            try:
                return OPERATORS[type(op)](_number(left, terms), _number(right, terms))
            except ZeroDivisionError:
                raise NotRunError(f"division by 0 in {ast.unparse(node)}") from None
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, terms)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            return FUNCTIONS[name](*(_number(argument, terms) for argument in arguments))
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str() as scheme)]) if (
            name in terms.metrics
        ):
            labels = {str(k.arg): _point(k.value, terms.known) for k in node.keywords}
            return terms.value(name, scheme, labels)
    near = ""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        near = f" ({hint(node.func.id, [*terms.metrics, *FUNCTIONS])})"
    raise InputError(
        f"`{ast.unparse(node)}` is not understood{near}; metrics of this experiment: "
        f"{', '.join(terms.metrics)}"
    )


def _point(node: ast.expr, known: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=constant):
            return constant
        case ast.Name(id=name) if name in known:
            return known[name]
    raise InputError(f"`{ast.unparse(node)}` is no point of an axis")


def left_out(expression: str, rows: Sequence[Row], known: Mapping[str, Any]) -> list[str]:
    """Notes on schemes of which a trial has a metric of flows not all of which ended."""
    least: dict[str, float] = {}
    for node in ast.walk(_parse(expression)):
        match node:
            case ast.Call(func=ast.Name(id=metric), args=[ast.Constant(value=str() as scheme)]):
                labels = {str(k.arg): _point(k.value, known) for k in node.keywords}
                shares = [row.get("ended", {}).get(metric) for row in _at(rows, scheme, labels)]
                ended = min((share for share in shares if share is not None), default=1.0)
                least[scheme] = min(ended, least.get(scheme, 1.0))
    return [
        f"of a trial of {scheme} only {100 * share:.3g} % of the flows ended; "
        "the others are left out"
        for scheme, share in least.items()
        if share < LEAST_ENDED
    ]


def _at(rows: Sequence[Row], scheme: str, labels: Mapping[str, Any]) -> list[Row]:
    """The trials of a scheme at points; axes that it does not vary along do not matter."""
    return [
        row
        for row in rows
        if row["scheme"] == scheme
        and all(
            name not in row["labels"] or row["labels"][name] == at for name, at in labels.items()
        )
    ]


def mean_of(rows: Sequence[Row], metric: str, scheme: str, labels: Mapping[str, Any]) -> float:
    """Mean over the trials of the scheme at these points; axes that it does not vary along do not
    matter."""
    numbers = [row[metric] for row in _at(rows, scheme, labels) if row[metric] is not None]
    if not numbers:
        where = ", ".join(f"{name} = {at}" for name, at in labels.items())
        raise NotRunError(f"no trial of {scheme}{' with ' + where if where else ''} has {metric}")
    return float(np.mean(numbers))
