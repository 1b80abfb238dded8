"""Values that show a difference: numbers for the symbols of two terms under which they differ.

Two terms that are spelled differently may still be one number, and a way through conditions may be
one that no packet goes. So numbers are looked for, at random and by repairing what a condition
asks, that lead along the way and make the terms differ. What is found is proof; if nothing is
found, the difference is told as one that was not shown.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .diagrams import Term

ATTEMPTS = 150
REPAIRS = 40
"""How often one attempt may change a number to go along the way."""
LARGEST_SHIFT = 4096


class _Undefined:
    def __repr__(self) -> str:
        return "undefined"


UNDEFINED = _Undefined()
"""The value of what nobody defined, which may be anything."""

_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "<<": lambda a, b: a << min(b, LARGEST_SHIFT),
    ">>": lambda a, b: a >> b,
    "/": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "usat_cast": lambda a, bits: min(max(a, 0), (1 << bits) - 1),
    "sat_cast": lambda a, bits: min(max(a, -(1 << bits - 1)), (1 << bits - 1) - 1),
}
_SYMBOLS = {"field", "argument", "colour"}
Way = list[tuple[Term, bool]]


def signed(number: int, bits: int) -> int:
    number %= 1 << bits
    return number - (1 << bits) if number >> (bits - 1) else number


def compatible(a: Any, b: Any) -> bool:
    """Whether two values are one; what nobody defined is any."""
    if a is UNDEFINED or b is UNDEFINED:
        return True
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(compatible, a, b))
    return bool(a == b)


@dataclass
class Values:
    """Numbers for symbols, chosen when they are first asked for."""

    rng: random.Random
    interesting: list[int]
    numbers: dict[object, int] = field(default_factory=dict)
    _known: dict[Term, Any] = field(default_factory=dict)
    """Values of terms under these numbers."""

    def number(self, key: object, bits: int | None, is_signed: bool = False) -> int:
        if key not in self.numbers:
            bits = 32 if bits is None else bits
            drawn = self.rng.choice(
                [
                    *(0, 1, (1 << bits) - 1),
                    *(self.rng.getrandbits(bits), self.rng.getrandbits(bits)),
                    *self.rng.sample(self.interesting, min(2, len(self.interesting))),
                ]
            )
            self.numbers[key] = signed(drawn, bits) if is_signed else drawn % (1 << bits)
        return self.numbers[key]

    def put(self, key: object, number: int, bits: int | None, is_signed: bool = False) -> None:
        if bits is not None:
            number = signed(number, bits) if is_signed else number % (1 << bits)
        self.numbers[key] = number
        self._known.clear()

    def of(self, term: Term) -> Any:
        """The value of a term: a number, or a tuple that stands for what is done to an object."""
        if term not in self._known:
            self._known[term] = self._of(term)
        return self._known[term]

    def _of(self, term: Term) -> Any:
        op, args = term.op, term.args
        if op == "const":
            return args[0]
        if op == "undefined":
            return UNDEFINED
        if op in _SYMBOLS:
            return self.number(term, *layout(term))
        parts: list[Any] = [self.of(a) if isinstance(a, Term) else a for a in args]
        if op == "lookahead":
            offset, bits, packet = parts
            return sum(self.number((packet, offset + i), 1) << (bits - 1 - i) for i in range(bits))
        if op not in _ARITHMETIC and op not in ("trunc", "signed", "negative"):
            return (op, *parts)
        if UNDEFINED in parts:
            return UNDEFINED
        numbers = [self.as_number(p) for p in parts]
        if op == "trunc":
            return numbers[1] % (1 << numbers[0])
        if op == "signed":
            return signed(numbers[1], numbers[0])
        if op == "negative":
            return -numbers[0]
        result = numbers[0]
        for number in numbers[1:]:
            result = _ARITHMETIC[op](result, number)
        return result

    def as_number(self, value: Any) -> int:
        """A number for the result of an extern such as a hash, which is a symbol like any other."""
        return value if isinstance(value, int) else self.number(value, 32)

    def holds(self, atom: Term, expected: bool) -> bool:
        """Whether a condition is as the way says. A condition that is not over numbers may be
        either."""
        if atom.op not in ("==", "<"):
            return True
        a, b = (self.of(arg) for arg in atom.args if isinstance(arg, Term))
        if a is UNDEFINED or b is UNDEFINED:
            return False
        a, b = self.as_number(a), self.as_number(b)
        return (a == b if atom.op == "==" else a < b) == expected

    def repair(self, atom: Term, expected: bool) -> None:
        """Tries to make a condition hold, or not."""
        pair = [arg for arg in atom.args if isinstance(arg, Term)]
        place = self.rng.randrange(2)
        this, other = self.of(pair[place]), self.of(pair[1 - place])
        if this is UNDEFINED or other is UNDEFINED:
            return
        wanted = self.as_number(other)
        if atom.op == "==" and not expected:
            wanted = self.rng.choice([wanted + 1, wanted - 1, self.rng.getrandbits(16)])
        elif atom.op == "<" and expected == (place == 0):
            wanted -= self.rng.choice([1, 1, self.rng.randint(0, abs(wanted)) + 1])
            wanted += 0 if expected else 1
        elif atom.op == "<":
            wanted += self.rng.choice([0, 1, self.rng.getrandbits(8)]) + (1 if expected else 0)
        self.force(pair[place], wanted)

    def force(self, term: Term, wanted: int) -> None:
        """Changes one symbol of a term so that the term is, or may be, the number wanted."""
        op, parts = term.op, [a for a in term.args if isinstance(a, Term)]
        if op in _SYMBOLS:
            self.put(term, wanted, *layout(term))
        elif op == "lookahead":
            offset, bits, packet = term.args
            assert isinstance(offset, int) and isinstance(bits, int) and isinstance(packet, Term)
            for i in range(bits):
                self.put((self.of(packet), offset + i), wanted >> (bits - 1 - i), 1)
        elif op in ("trunc", "signed"):
            bits = term.args[0]
            assert isinstance(bits, int)
            now = self.of(parts[0])
            above = self.as_number(now) >> bits << bits if now is not UNDEFINED else 0
            self.force(parts[0], above | wanted % (1 << bits))
        elif op == "negative":
            self.force(parts[0], -wanted)
        elif op in ("usat_cast", "sat_cast"):
            self.force(parts[0], wanted)
        elif op in _ARITHMETIC:
            self.force_part(op, parts, wanted)
        elif op != "const" and op != "undefined":
            self.put(self.of(term), wanted, None)

    def force_part(self, op: str, parts: list[Term], wanted: int) -> None:
        free = [i for i, part in enumerate(parts) if part.op not in ("const", "undefined")]
        if not free:
            return
        place = self.rng.choice(free)
        values = [self.of(part) for part in parts]
        if UNDEFINED in values:
            return
        numbers = [self.as_number(v) for v in values]
        now = numbers.pop(place)
        if op == "+":
            wanted -= sum(numbers)
        elif op == "^":
            for number in numbers:
                wanted ^= number
        elif op == "&":
            for number in numbers:
                wanted = (wanted & number) | (now & ~number)
        elif op == "|":
            for number in numbers:
                wanted = (wanted & ~number) | (now & number)
        elif op == "<<" and place == 0:
            wanted >>= min(numbers[0], LARGEST_SHIFT)
        elif op == ">>" and place == 0:
            by = min(numbers[0], LARGEST_SHIFT)
            wanted = wanted << by | now & ((1 << by) - 1)
        self.force(parts[place], wanted)


def layout(symbol: Term) -> tuple[int | None, bool]:
    """Width of a symbol in bits (`None`: any), and whether it is signed."""
    args = symbol.args
    if symbol.op == "field" and len(args) > 2:
        return (args[2] if isinstance(args[2], int) else None), True
    width = args[1] if len(args) > 1 else None
    return (width if isinstance(width, int) else None), False


def constants(terms: list[Term]) -> list[int]:
    found: dict[int, None] = {}
    seen: set[Term] = set()
    pending = list(terms)
    while pending:
        term = pending.pop()
        if term in seen:
            continue
        seen.add(term)
        pending += [a for a in term.args if isinstance(a, Term)]
        if term.op == "const":
            number = term.args[0]
            assert isinstance(number, int)
            found |= dict.fromkeys((number, number + 1, number - 1))
    return sorted(found)


def shown(left: Term, right: Term, way: Way) -> dict[str, int] | None:
    """Numbers of symbols that lead along the way and make the terms differ, if some are found."""
    rng = random.Random(1)
    interesting = constants([left, right, *(atom for atom, _ in way)])
    for _ in range(ATTEMPTS):
        values = Values(rng, interesting)
        for _ in range(REPAIRS):
            bad = [(atom, holds) for atom, holds in way if not values.holds(atom, holds)]
            if not bad:
                if not compatible(values.of(left), values.of(right)):
                    return {str(k): n for k, n in values.numbers.items() if isinstance(k, Term)}
                break
            values.repair(*rng.choice(bad))
    return None


def contradictory(way: Way) -> bool:
    """Whether a way has one condition both ways: nothing goes there."""
    decided: dict[Term, bool] = {}
    return any(decided.setdefault(atom, holds) != holds for atom, holds in way)


def possible(way: Way) -> bool:
    """Whether numbers are found that lead along the way."""
    return shown(Term("const", (0,)), Term("const", (1,)), way) is not None


def unshown(way: Way) -> str:
    """Why a difference on this way, of which no numbers were found, need not be one."""
    if any("undefined(" in str(atom) for atom, _ in way):
        return "a choice by an invalid header's field, or an element beyond its stack"
    return "no values were found that show it"
