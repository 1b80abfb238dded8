"""Expressions of claims: metrics as functions of a scheme and of points of axes."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ebb_topologies.files import InputError
from ebb_topologies.nearest import hint

from ebb_experiments.study.grades import Meaning

OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max}
ON_MININET = "on_mininet"
"""Function of a metric's call: the same of the trials under the wall clock."""


@dataclass(frozen=True)
class Term:
    """A metric of a scheme at points of axes."""

    metric: str
    scheme: str
    labels: tuple[tuple[str, Any], ...]
    wall: bool = False
    """Whether of the trials on Mininet."""

    @property
    def where(self) -> str:
        """The labels of the trials, for messages."""
        told = ", ".join(f"{name} = {at}" for name, at in self.labels)
        return f"{self.scheme}{' with ' + told if told else ''}{' on Mininet' if self.wall else ''}"


class DividedByZeroError(Exception):
    """A denominator is 0."""


@dataclass(frozen=True)
class Expression:
    """An arithmetic expression over metrics of trials, as a claim has it."""

    text: str
    tree: ast.expr
    metrics: Sequence[str]
    known: Mapping[str, Any]
    """The point of `each`, by the name of its axis."""

    @classmethod
    def of(cls, text: str, metrics: Sequence[str], known: Mapping[str, Any]) -> Expression:
        """Parses a text; unknown metrics and labels are errors that name it."""
        try:  # in parentheses, so that it may go over several lines
            tree = ast.parse(f"({text}\n)", mode="eval").body
        except SyntaxError as error:
            short = " ".join(text.split())
            raise InputError(f"expression '{short}': {error.msg}") from None
        return cls(text, tree, metrics, known)

    def value(self, of: Callable[[Term], float]) -> float:
        """Its value where `of` gives that of each term."""
        return self._number(self.tree, of, wall=False)

    @property
    def terms(self) -> list[Term]:
        """Each once, in the order of the expression."""
        found: dict[Term, None] = {}
        drawn = Random(0)  # in place of means of trials, so that no difference is 0

        def value(term: Term) -> float:
            found[term] = None
            return drawn.random()

        self.value(value)
        return list(found)

    @property
    def single(self) -> Term | None:
        """The term, if it is all that the expression is."""
        match self.tree:
            case ast.Call(func=ast.Name(id=name)) if name in self.metrics:
                return self.terms[0]
        return None

    @property
    def ratio(self) -> bool:
        """Whether the outermost operation is a division."""
        return isinstance(self.tree, ast.BinOp) and isinstance(self.tree.op, ast.Div)

    @property
    def subtracts(self) -> bool:
        """Whether it has a minus, without which it is never below 0 where its metrics are not."""
        return any(isinstance(each, ast.Sub | ast.USub) for each in ast.walk(self.tree))

    @property
    def meaning(self) -> Meaning:
        """An expression of one metric that is the same whatever unit the metric has compares: its
        value when all terms are equal is that of no effect. It is a relative difference if that is
        0; what it is when one term is nothing is the whole."""
        terms = self.terms
        if len({term.metric for term in terms}) != 1 or len(terms) < 2:
            return Meaning()
        one, two = (self._when(dict.fromkeys(terms, size)) for size in (1.0, 2.0))
        if one is None or one != two:
            return Meaning()
        return Meaning(neutral=one, whole=self._whole(terms) if one == 0 else None)

    def _whole(self, terms: Sequence[Term]) -> float | None:
        for nothing in terms:
            one, two = (
                self._when({term: size * (term != nothing) for term in terms})
                for size in (1.0, 2.0)
            )
            if one and one == two:
                return one
        return None

    def _when(self, values: Mapping[Term, float]) -> float | None:
        try:
            return self.value(values.__getitem__)
        except DividedByZeroError:
            return None

    def _number(self, node: ast.expr, of: Callable[[Term], float], *, wall: bool) -> float:
        match node:
            case ast.Constant(value=int() | float() as constant):
                return float(constant)
            case ast.Name(id=name) if isinstance(self.known.get(name), int | float):
                return float(self.known[name])
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                a, b = (self._number(each, of, wall=wall) for each in (left, right))
                try:
                    return OPERATORS[type(op)](a, b)
                except ZeroDivisionError:
                    raise DividedByZeroError(f"division by 0 in {ast.unparse(node)}") from None
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._number(operand, of, wall=wall)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
                return FUNCTIONS[name](*(self._number(each, of, wall=wall) for each in arguments))
            case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if (
                name == ON_MININET
            ):
                return self._number(argument, of, wall=True)
            case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str() as scheme)]) if (
                name in self.metrics
            ):
                labels = tuple((str(k.arg), self._point(k.value)) for k in node.keywords)
                return of(Term(name, scheme, labels, wall))
        near = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            near = f" ({hint(node.func.id, [*self.metrics, *FUNCTIONS, ON_MININET])})"
        raise InputError(
            f"`{ast.unparse(node)}` is not understood{near}; metrics of this experiment: "
            f"{', '.join(self.metrics)}"
        )

    def _point(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=constant):
                return constant
            case ast.Name(id=name) if name in self.known:
                return self.known[name]
        raise InputError(f"`{ast.unparse(node)}` is no point of an axis")
