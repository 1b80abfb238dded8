"""Reads the output of Callgrind: the instructions that each function took itself."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

NATIVE = "(native code of P4 programs)"
"""Stands for all functions that the pipeline has compiled."""

_FUNCTION = re.compile(r"(c?)fn=\((\d+)\)(?: (.*))?")
_COST = re.compile(r"[+\-*\d]\S* (\d+)")


def functions(lines: Iterable[str]) -> Counter[str]:
    """Instructions by function, without those of functions that it calls; inlined code counts for
    the function that it is in."""
    names: dict[str, str] = {}
    counts: Counter[str] = Counter()
    current, is_call = "", False
    for line in lines:
        if found := _FUNCTION.match(line):
            called, number, name = found.groups()
            if name:
                names[number] = _plain(name)
            if not called:
                current = names[number]
        elif line.startswith("calls="):
            is_call = True
        elif found := _COST.match(line):
            # The line after `calls=` has the instructions of the called function.
            if not is_call:
                counts[current] += int(found[1])
            is_call = False
    return +counts


def _plain(name: str) -> str:
    """The name without the number of a recursion (`'2`)."""
    return NATIVE if name.startswith("0x") else re.sub(r"'\d+$", "", name)
