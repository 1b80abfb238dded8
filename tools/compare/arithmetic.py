"""Terms of numbers in a normal form: two spellings of one computation give one term.

Normalised: constants are folded; a mask of k ones and a cast to k bits are both `trunc(k)`, which
is dropped where the value has no more bits; other masks go into `|` and into shifts to the left,
and away where they have no effect; `trunc` makes inner truncations of as many bits superfluous;
products with and, for numbers that are not negative, quotients and remainders by powers of two are
shifts and `trunc`; subtraction is addition of the negative; sums, products and bitwise operations
have no order; `(x >> a) >> b` is `x >> (a + b)`, and a truncation moves out of a shift to the
right; shifts and truncations go into bitwise operations, whose complement is `x ^ -1`; negatives go
into sums, out of products, and cancel; saturation where nothing overflows is nothing; a part of a
lookahead is a lookahead; `!=`, `>`, `>=` and `<=` are `==` and `<`; a one-bit
comparison with 0 is the negation of one with 1; what is computed from an undefined value is
undefined.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce

from .diagrams import Diagrams, Node, Term

_COMMUTATIVE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}

_BITWISE = {"&", "|", "^"}


def number_of(term: Term) -> int | None:
    """The value of a constant."""
    if term.op == "const":
        value = term.args[0]
        assert isinstance(value, int)
        return value
    return None


def _parts(term: Term) -> tuple[Term, ...]:
    return tuple(a for a in term.args if isinstance(a, Term))


@dataclass
class Arithmetic:
    """Operations on terms. Numbers are those of BMv2's expressions: unbounded, cut by `trunc`."""

    d: Diagrams

    def width(self, term: Term) -> int | None:
        """How many bits hold the value, which is not negative; `None` if it may be any number."""
        op, args = term.op, term.args
        if op == "const":
            number = number_of(term)
            assert number is not None
            return number.bit_length() if number >= 0 else None
        if op == "usat_cast":
            return number_of(_parts(term)[1])
        if op in ("field", "trunc", "undefined", "argument", "lookahead"):
            width = args[1] if op in ("field", "argument", "lookahead") else args[0]
            return width if isinstance(width, int) else None
        widths = [self.width(a) for a in _parts(term)]
        if op == ">>" and widths[0] is not None:
            by = number_of(_parts(term)[1])
            return widths[0] if by is None else max(0, widths[0] - by)
        if op == "<<" and widths[0] is not None:
            by = number_of(_parts(term)[1])
            return None if by is None else widths[0] + by
        if op == "&":
            known = [w for w in widths if w is not None]
            return min(known) if known else None
        if op in ("|", "^") and None not in widths:
            return max(w for w in widths if w is not None)
        return None

    def signed_width(self, term: Term) -> int | None:
        """How many bits hold the value in two's complement; `None` if it may be any number."""
        width = self.width(term)
        if width is not None:
            return width + 1
        number = number_of(term)
        if number is not None:
            return (~number).bit_length() + 1
        if term.op == "field":
            declared = term.args[2]
            return declared if isinstance(declared, int) else None
        if term.op == "signed":
            assert isinstance(term.args[0], int)
            return term.args[0]
        if term.op == "sat_cast":
            return number_of(_parts(term)[1])
        if term.op == ">>":
            value, by = _parts(term)
            inner, distance = self.signed_width(value), number_of(by)
            return None if inner is None else max(1, inner - (distance or 0))
        if term.op in ("|", "^", "&"):
            widths = [self.signed_width(part) for part in _parts(term)]
            return None if None in widths else max(w for w in widths if w is not None)
        return None

    def bounds(self, term: Term) -> tuple[int, int] | None:
        """The least and the largest number that the value may be."""
        number, width = number_of(term), self.width(term)
        if number is not None:
            return number, number
        if width is not None:
            return 0, (1 << width) - 1
        width = self.signed_width(term)
        return None if width is None else (-(1 << width - 1), (1 << width - 1) - 1)

    def ones(self, term: Term) -> int | None:
        """The bits that may be 1; `None` if any may."""
        parts = _parts(term)
        if term.op in ("<<", ">>"):
            inner, by = self.ones(parts[0]), number_of(parts[1])
            if inner is None or by is None:
                return None
            return inner << by if term.op == "<<" else inner >> by
        if term.op in ("|", "^"):
            inners = [self.ones(p) for p in parts]
            return None if None in inners else reduce(operator.or_, (i for i in inners if i), 0)
        if term.op == "&":
            known = [i for i in (self.ones(p) for p in parts) if i is not None]
            return reduce(operator.and_, known) if known else None
        number = number_of(term)
        if number is not None:
            return number if number >= 0 else None
        width = self.width(term)
        return None if width is None else (1 << width) - 1

    def truncated(self, bits: int, term: Term) -> Term:
        """`term` modulo 2^bits."""
        if term.op == "undefined":
            return term
        if term.op == "lookahead":
            offset, width, packet = term.args
            assert isinstance(offset, int) and isinstance(width, int)
            if width > bits:
                return self.d.term("lookahead", offset + width - bits, bits, packet)
        number = number_of(term)
        if number is not None:
            return self.d.const(number % (1 << bits))
        width = self.width(term)
        if width is not None and width <= bits:
            return term
        if term.op in _BITWISE:
            return self.apply(term.op, *(self.truncated(bits, part) for part in _parts(term)))
        inner = self._inside(bits, term)
        number = number_of(inner)
        if number is not None:
            return self.d.const(number % (1 << bits))
        width = self.width(inner)
        if width is not None and width <= bits:
            return inner
        if inner.op in _BITWISE:
            return self.truncated(bits, inner)
        return self.d.term("trunc", bits, inner)

    def _inside(self, bits: int, term: Term) -> Term:
        """A term that is equal modulo 2^bits, without what only higher bits depend on."""
        number = number_of(term)
        if number is not None:
            return self.d.const(number % (1 << bits))
        if term.op in ("trunc", "signed"):
            kept, inner = term.args
            assert isinstance(kept, int) and isinstance(inner, Term)
            return self._inside(bits, inner) if kept >= bits else term
        if term.op in _COMMUTATIVE or term.op == "negative":
            return self.apply(term.op, *(self._inside(bits, a) for a in _parts(term)), bits=bits)
        if term.op == "<<":
            value, by = _parts(term)
            kept = bits - (number_of(by) or 0)
            return (
                self.apply("<<", self.truncated(kept, value), by) if kept > 0 else self.d.const(0)
            )
        return term

    def as_signed(self, bits: int, term: Term) -> Term:
        """`term` as a number of `bits` bits in two's complement."""
        number = number_of(term)
        if number is not None:
            number %= 1 << bits
            return self.d.const(number - (1 << bits) if number >> (bits - 1) else number)
        if term.op == "undefined":
            return term
        inner = self._inside(bits, term)
        for known in (term, inner):
            width = self.signed_width(known)
            if width is not None and width <= bits:
                return known
        return self.d.term("signed", bits, inner)

    def apply(self, op: str, *args: Term, bits: int | None = None) -> Term:
        """A number from numbers; with `bits` only the lowest bits of the result are asked for."""
        for arg in args:
            if arg.op == "undefined":
                return arg
        numbers = [number_of(a) for a in args]
        if op == "-":
            return self.apply("+", args[0], self.apply("negative", args[1], bits=bits), bits=bits)
        if op == "negative":
            return self._negative(args[0], bits)
        if op == "~":
            return self.apply("^", args[0], self.d.const(-1), bits=bits)
        if op in ("usat_cast", "sat_cast"):
            return self._saturated(op, *args)
        if op in _COMMUTATIVE:
            return self._unordered(op, args, bits)
        if op in ("<<", ">>"):
            return self._shifted(op, *args)
        divisor = numbers[-1]
        if op in ("/", "%") and divisor and not divisor & (divisor - 1):
            power = divisor.bit_length() - 1
            if self.width(args[0]) is not None and op == "/":
                return self._shifted(">>", args[0], self.d.const(power))
            if self.width(args[0]) is not None:
                return self.truncated(power, args[0])
        return self.d.term(op, *args)

    def _negative(self, term: Term, bits: int | None) -> Term:
        number = number_of(term)
        if number is not None:
            return self.d.const(-number if bits is None else -number % (1 << bits))
        if term.op == "negative":
            return _parts(term)[0]
        if term.op == "+":
            return self.apply("+", *(self._negative(p, bits) for p in _parts(term)), bits=bits)
        return self.d.term("negative", term)

    def _saturated(self, op: str, term: Term, by: Term) -> Term:
        bits, number = number_of(by), number_of(term)
        if bits is None:
            return self.d.term(op, term, by)
        half = 1 << bits - 1
        low, high = (0, 2 * half - 1) if op == "usat_cast" else (-half, half - 1)
        if number is not None:
            return self.d.const(min(max(number, low), high))
        width = self.width(term) if op == "usat_cast" else self.signed_width(term)
        if width is not None and width <= bits:
            return term
        if op == "usat_cast" and term.op == "negative" and self.width(_parts(term)[0]) is not None:
            return self.d.const(0)
        return self.d.term(op, term, by)

    def _unordered(self, op: str, args: tuple[Term, ...], bits: int | None) -> Term:
        flat: list[Term] = []
        constant: int | None = None
        fold = _COMMUTATIVE[op]
        pending = list(args)
        while pending:
            arg = pending.pop()
            number = number_of(arg)
            if number is not None:
                constant = number if constant is None else fold(constant, number)
            elif arg.op == op:
                pending.extend(_parts(arg))
            else:
                flat.append(arg)
        if constant is not None and bits is not None:
            constant %= 1 << bits
        if not flat:
            return self.d.const(0 if constant is None else constant)
        if op == "&" and constant is not None and constant >= 0:
            return self._masked(constant, self._unordered("&", tuple(flat), bits))
        if op in ("&", "*") and constant == 0:
            return self.d.const(0)
        if op == "*" and constant is not None and constant > 1 and not constant & (constant - 1):
            product = self._unordered("*", tuple(flat), bits)
            return self._shifted("<<", product, self.d.const(constant.bit_length() - 1))
        if op == "*":
            negative = [f for f in flat if f.op == "negative"]
            if negative:
                rest = [_parts(f)[0] if f in negative else f for f in flat]
                sign = (-1) ** len(negative) * (1 if constant is None else constant)
                product = self._unordered("*", (*rest, self.d.const(abs(sign))), bits)
                return product if sign > 0 else self._negative(product, bits)
        if op == "+":
            flat = _cancelled(flat)
        if op == "^":
            flat = [f for f, times in Counter(flat).items() if times % 2]
        if op in "&|":
            flat = list(dict.fromkeys(flat))
        if op == "|" and constant is not None and constant >= 0:
            flat = [f for f in flat if (ones := self.ones(f)) is None or ones & ~constant]
        neutral = (constant == 0 and op in "+|^") or (constant == 1 and op == "*")
        if constant is not None and not neutral:
            flat.append(self.d.const(constant))
        if not flat:
            return self.d.const(constant or 0)
        if len(flat) == 1:
            return flat[0]
        return self.d.term(op, *sorted(flat, key=id))

    def _masked(self, mask: int, term: Term) -> Term:
        """`term & mask`, moved into sums of bits, and left out where it has no effect."""
        number = number_of(term)
        if number is not None:
            return self.d.const(number & mask)
        ones = self.ones(term)
        if ones is not None:
            if not ones & ~mask:
                return term
            mask &= ones
            if not mask:
                return self.d.const(0)
        if term.op == "|":
            return self._unordered("|", tuple(self._masked(mask, p) for p in _parts(term)), None)
        if term.op == "&":
            known = [n for n in map(number_of, _parts(term)) if n is not None]
            if known:
                rest = tuple(p for p in _parts(term) if p.op != "const")
                return self._masked(reduce(operator.and_, known, mask), self.apply("&", *rest))
        if term.op == "<<":
            value, by = _parts(term)
            distance = number_of(by)
            if distance is not None and _is_mask(mask >> distance):
                return self._shifted("<<", self._masked(mask >> distance, value), by)
        if _is_mask(mask):
            return self.truncated(mask.bit_length(), term)
        cut = self.truncated(mask.bit_length(), term)
        if cut is not term:
            return self._masked(mask, cut)
        return self.d.term("&", *sorted((term, self.d.const(mask)), key=id))

    def _shifted(self, op: str, value: Term, by: Term) -> Term:
        distance, number = number_of(by), number_of(value)
        if number == 0 or distance == 0:
            return value
        if distance is None:
            return self.d.term(op, value, by)
        if number is not None:
            return self.d.const(number << distance if op == "<<" else number >> distance)
        if value.op in _BITWISE:
            return self.apply(value.op, *(self._shifted(op, part, by) for part in _parts(value)))
        if op == ">>":
            signed = None if self.width(value) is not None else self.signed_width(value)
            if signed is not None and distance >= signed:
                return self._shifted(op, value, self.d.const(signed - 1))
            if value.op == "<<":
                shifted, before = _parts(value)
                left = number_of(before)
                if left is not None and left >= distance:
                    return self._shifted("<<", shifted, self.d.const(left - distance))
                if left is not None:
                    return self._shifted(">>", shifted, self.d.const(distance - left))
            width = self.width(value)
            if width is not None and width <= distance:
                return self.d.const(0)
            if value.op == "lookahead":
                offset, all_bits, packet = value.args
                assert isinstance(all_bits, int)
                return self.d.term("lookahead", offset, all_bits - distance, packet)
            if value.op == "trunc":
                bits, inner = value.args
                assert isinstance(bits, int) and isinstance(inner, Term)
                return self.truncated(bits - distance, self._shifted(">>", inner, by))
        if value.op == op:
            inner, before = _parts(value)
            distance_before = number_of(before)
            if distance_before is not None:
                return self._shifted(op, inner, self.d.const(distance + distance_before))
        return self.d.term(op, value, by)

    def equal(self, a: Term, b: Term) -> Node:
        left, right = number_of(a), number_of(b)
        if a is b:
            return self.d.true
        if left is not None and right is not None:
            return self.d.true if left == right else self.d.false
        if left is not None or (right is None and id(a) > id(b)):
            a, b, right = b, a, left
        width = self.width(a)
        if right is not None and width is not None:
            if right < 0 or right.bit_length() > width:
                return self.d.false
            if width == 1 and right == 0:
                return self.d.negated(self.d.condition(self.d.term("==", a, self.d.const(1))))
        return self.d.condition(self.d.term("==", a, b))

    def less(self, a: Term, b: Term) -> Node:
        left, right = number_of(a), number_of(b)
        if a is b:
            return self.d.false
        if left is not None and right is not None:
            return self.d.true if left < right else self.d.false
        least, most = self.bounds(a), self.bounds(b)
        if least and most and least[1] < most[0]:
            return self.d.true
        if least and most and least[0] >= most[1]:
            return self.d.false
        if left == 0 and self.width(b) is not None:
            return self.d.negated(self.equal(b, self.d.const(0)))
        if right == 1 and self.width(a) is not None:
            return self.equal(a, self.d.const(0))
        return self.d.condition(self.d.term("<", a, b))

    def true_if(self, term: Term) -> Node:
        """Whether a number is not 0."""
        return self.d.negated(self.equal(term, self.d.const(0)))

    def all_equal(self, pairs: list[tuple[Node, Node]]) -> Node:
        return reduce(self.d.both, (self.d.lift(self.equal, a, b) for a, b in pairs), self.d.true)


def _cancelled(terms: list[Term]) -> list[Term]:
    """The terms of a sum without those whose negative is there too."""
    left: list[Term] = []
    for term in terms:
        opposite = next(
            (t for t in left if term in _parts(t) and t.op == "negative")
            if term.op != "negative"
            else (t for t in left if t is _parts(term)[0]),
            None,
        )
        if opposite is None:
            left.append(term)
        else:
            left.remove(opposite)
    return left


def _is_mask(number: int) -> bool:
    return number > 0 and number & (number + 1) == 0
