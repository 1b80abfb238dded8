"""How well a result agrees with what a paper says."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

Grade = Literal[
    "within 25 %", "within a factor of 2", "direction", "undecided", "not reproduced", "not run"
]
GRADES: tuple[Grade, ...] = get_args(Grade)
HOLDS: tuple[Grade, ...] = GRADES[:3]
"""Grades of a claim that was reproduced."""
Range = tuple[float, float]
"""The paper's numbers: from, to; the same one twice where it has a single one."""
CLOSE, NEAR = 1.25, 2.0


@dataclass(frozen=True)
class Meaning:
    """Meaning of an expression's number for its terms."""

    neutral: float | None = None
    """Value without any effect: 1 of a ratio, 0 of a difference. None: it is a plain number."""
    whole: float | None = None
    """Value of a relative difference if there were nothing left (1 for a share that something is
    shorter by, 100 in %, -1 for one that it is longer by). None: it is none."""


def inside(number: float, band: tuple[float | None, float | None]) -> bool:
    """Whether a number is in a band, both ends included; none: no limit on that side."""
    low, high = band
    return (low is None or number >= low) and (high is None or number <= high)


def grade(
    ours: float, paper: Range | None, band: tuple[float | None, float | None], meaning: Meaning
) -> Grade:
    """Grade of a decided result. `paper`: none if it has words only, which the band stands for.
    The wrong sign is not reproduced whatever the band says."""
    if wrong_sign(ours, paper, meaning) or not inside(ours, band):
        return "not reproduced"
    if paper is None:
        return "direction"
    off = factor(ours, paper, meaning)
    if off <= CLOSE:
        return "within 25 %"
    if off <= NEAR:
        return "within a factor of 2"
    # A plain number that is far off has no direction that would be right.
    return "direction" if _sign(paper, meaning) else "not reproduced"


def wrong_sign(ours: float, paper: Range | None, meaning: Meaning) -> bool:
    """Whether the paper sees an effect and we see the opposite one."""
    sign = _sign(paper, meaning)
    return sign != 0 and (ours - _neutral(meaning)) * sign < 0


def _neutral(meaning: Meaning) -> float:
    return 0.0 if meaning.neutral is None else meaning.neutral


def _sign(paper: Range | None, meaning: Meaning) -> int:
    """On which side of no effect the paper is; 0: on none, or there is no such side."""
    if paper is None or meaning.neutral is None:
        return 0
    low, high = paper
    return (low > meaning.neutral) - (high < meaning.neutral)


def factor(ours: float, paper: Range, meaning: Meaning) -> float:
    """How far off it is, 1 or more; of a range the distance to its nearer end. Of a relative
    difference the worse of that and of the ratio of what is left."""
    low, high = paper
    near = min(max(ours, low), high)
    off = _ratio(ours, near)
    if meaning.whole is not None:
        off = max(off, _ratio(meaning.whole - ours, meaning.whole - near))
    return off


def _ratio(a: float, b: float) -> float:
    if a == b:
        return 1.0
    if a * b <= 0:
        return math.inf
    return max(a / b, b / a)
