"""Ordered decision diagrams over symbolic terms.

A value that depends on branches taken is a diagram: inner nodes ask an atom (a condition that is
not known), leaves hold a term. Terms and nodes are unique, so equal diagrams are one object, in
whatever order two programs asked their conditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_LEAF = 1 << 60
"""Place of a leaf in the order of atoms: behind all of them."""
MOST_WAYS = 8


class TooLarge(Exception):
    """A diagram has more nodes than the limit: what it stands for was not compared."""


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """An operation on terms, numbers and names; constants are `const` with one number."""

    op: str
    args: tuple[Term | int | str | None, ...]

    def __str__(self) -> str:
        if self.op == "const":
            return str(self.args[0])
        if self.op == "field":
            return str(self.args[0])
        return f"{self.op}({', '.join(str(a) for a in self.args)})"


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """A leaf (`term`), or a question: does `atom` (its number in the order) hold?"""

    atom: int
    term: Term | None = None
    high: Node | None = None
    low: Node | None = None

    def when(self, atom: int, holds: bool) -> Node:
        """This diagram with `atom`, which no atom of it precedes, decided."""
        if self.atom != atom:
            return self
        node = self.high if holds else self.low
        assert node is not None
        return node


@dataclass
class Diagrams:
    """Makes terms and nodes; raises `TooLarge` when there are more than `limit` nodes."""

    limit: int = 400_000
    _terms: dict[tuple[object, ...], Term] = field(default_factory=dict)
    _nodes: dict[tuple[object, ...], Node] = field(default_factory=dict)
    _atoms: dict[Term, int] = field(default_factory=dict)
    _choices: dict[tuple[Node, Node, Node], Node] = field(default_factory=dict)
    atom_terms: list[Term] = field(default_factory=list)

    def term(self, op: str, *args: Term | int | str | None) -> Term:
        key = (op, *args)
        found = self._terms.get(key)
        if found is None:
            found = self._terms[key] = Term(op, args)
        return found

    def const(self, number: int) -> Term:
        return self.term("const", number)

    def leaf(self, term: Term) -> Node:
        found = self._nodes.get((term,))
        if found is None:
            found = self._nodes[(term,)] = Node(_LEAF, term)
        return found

    def number(self, number: int) -> Node:
        return self.leaf(self.const(number))

    @property
    def true(self) -> Node:
        return self.number(1)

    @property
    def false(self) -> Node:
        return self.number(0)

    @property
    def dead(self) -> Node:
        """The value of a variable on ways that do not lead here."""
        return self.leaf(self.term("dead"))

    def condition(self, term: Term) -> Node:
        """1 if the atom `term` holds, else 0."""
        atom = self._atoms.get(term)
        if atom is None:
            atom = self._atoms[term] = len(self.atom_terms)
            self.atom_terms.append(term)
        return self._branch(atom, self.true, self.false)

    def _branch(self, atom: int, high: Node, low: Node) -> Node:
        if high is low:
            return high
        key = (atom, high, low)
        found = self._nodes.get(key)
        if found is None:
            if len(self._nodes) >= self.limit:
                raise TooLarge(f"more than {self.limit} nodes")
            found = self._nodes[key] = Node(atom, None, high, low)
        return found

    def choose(self, condition: Node, then: Node, otherwise: Node) -> Node:
        """`then` where the condition is 1, `otherwise` where it is not."""
        if then is otherwise:
            return then
        if condition.term is not None:
            return then if condition is self.true else otherwise
        key = (condition, then, otherwise)
        found = self._choices.get(key)
        if found is None:
            atom = min(condition.atom, then.atom, otherwise.atom)
            found = self._choices[key] = self._branch(
                atom,
                self.choose(*(n.when(atom, True) for n in key)),
                self.choose(*(n.when(atom, False) for n in key)),
            )
        return found

    def numbers(self, node: Node) -> set[int]:
        """The first arguments of the terms in the leaves."""
        found: set[int] = set()
        seen: set[Node] = set()
        pending = [node]
        while pending:
            here = pending.pop()
            if here in seen:
                continue
            seen.add(here)
            if here.term is not None:
                number = here.term.args[0]
                assert isinstance(number, int)
                found.add(number)
            else:
                assert here.high and here.low
                pending += [here.high, here.low]
        return found

    def both(self, a: Node, b: Node) -> Node:
        return self.choose(a, b, self.false)

    def either(self, a: Node, b: Node) -> Node:
        return self.choose(a, self.true, b)

    def negated(self, a: Node) -> Node:
        return self.choose(a, self.false, self.true)

    def lift(self, function: Callable[..., Node], *args: Node) -> Node:
        """`function` of the terms that the arguments have together, on every way."""
        memo: dict[tuple[Node, ...], Node] = {}

        def go(nodes: tuple[Node, ...]) -> Node:
            found = memo.get(nodes)
            if found is not None:
                return found
            if any(n is self.dead for n in nodes):
                result = self.dead
            else:
                atom = min((n.atom for n in nodes), default=_LEAF)
                if atom == _LEAF:
                    result = function(*(n.term for n in nodes))
                else:
                    high = go(tuple(n.when(atom, True) for n in nodes))
                    low = go(tuple(n.when(atom, False) for n in nodes))
                    result = self.choose(self._branch(atom, self.true, self.false), high, low)
            memo[nodes] = result
            return result

        return go(args)

    def make(self, op: str, *args: Node) -> Node:
        """The term `op` of the arguments, on every way."""
        return self.lift(lambda *terms: self.leaf(self.term(op, *terms)), *args)

    def with_known(self, term: Term, known: dict[Term, int]) -> Term:
        """`term` with constants for what is known."""
        memo: dict[Term, Term] = {t: self.const(n) for t, n in known.items()}

        def go(part: Term) -> Term:
            found = memo.get(part)
            if found is None:
                args = tuple(go(a) if isinstance(a, Term) else a for a in part.args)
                found = memo[part] = self.term(part.op, *args)
            return found

        return go(term)

    def pairs(self, a: Node, b: Node) -> Iterator[tuple[Term, Term, list[tuple[Term, bool]]]]:
        """The terms that `a` and `b` have together, and a way that leads there.

        Ways on which a value equals two constants are left out, and values that a way fixes are
        constants in the terms. A pair comes with `MOST_WAYS` of its ways at most.
        """
        seen: set[tuple[Node, Node, tuple[tuple[Term, int], ...]]] = set()
        given: Counter[tuple[Term, Term]] = Counter()
        stack: list[tuple[Node, Node, dict[Term, int], list[tuple[Term, bool]]]] = [(a, b, {}, [])]
        while stack:
            left, right, known, way = stack.pop()
            key = (left, right, tuple(known.items()))
            if key in seen:
                continue
            seen.add(key)
            if len(seen) > self.limit:
                raise TooLarge(f"more than {self.limit} ways")
            if left.term is not None and right.term is not None:
                if given[left.term, right.term] < MOST_WAYS:
                    x, y = left.term, right.term
                    if x is not y:
                        x, y = self.with_known(x, known), self.with_known(y, known)
                    if x is not y:
                        given[left.term, right.term] += 1
                    yield x, y, way
                continue
            atom = min(left.atom, right.atom)
            term = self.atom_terms[atom]
            for holds in (False, True):
                if decided(term, known) in (None, holds):
                    stack.append(
                        (
                            left.when(atom, holds),
                            right.when(atom, holds),
                            learned(term, holds, known),
                            [*way, (term, holds)],
                        )
                    )


def one_bit(term: Term) -> bool:
    return term.op == "field" and term.args[1] == 1


def decided(atom: Term, known: dict[Term, int]) -> bool | None:
    """Value of `atom` that follows from values that are known; `None` if nothing does."""
    if atom.op not in ("==", "<") or len(atom.args) != 2:
        return None
    numbers = []
    for arg in atom.args:
        assert isinstance(arg, Term)
        number = arg.args[0] if arg.op == "const" else known.get(arg)
        if number is None:
            return None
        assert isinstance(number, int)
        numbers.append(number)
    return numbers[0] == numbers[1] if atom.op == "==" else numbers[0] < numbers[1]


def learned(atom: Term, holds: bool, known: dict[Term, int]) -> dict[Term, int]:
    """`known`, and what it says that `atom` holds or not."""
    if atom.op == "==":
        value, number = atom.args
        assert isinstance(value, Term) and isinstance(number, Term)
        if number.op == "const":
            assert isinstance(number.args[0], int)
            if holds:
                return {**known, value: number.args[0]}
            if one_bit(value):
                return {**known, value: 1 - number.args[0]}
    return known
