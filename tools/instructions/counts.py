"""Counts per packet, the file that has them, and how they compare."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

REST = "(others)"
"""Stands for all functions that take too little to be named."""
LEAST_SHARE = 0.003
"""Share of a packet's instructions from which on a function is named."""
ROWS = 15
"""Functions that are shown of those that differ most."""
TOLERANCE = 0.02
"""More than this above the recorded count is a failure."""
OTHER_COMPILER = 0.10
"""The same where another compiler than the recorded one has built the programs."""
RECORD = "tools/count_instructions --record"


@dataclass(frozen=True)
class Count:
    """Instructions of a packet of a subject."""

    per: str
    """Unit: `packet`, or `packet-hop` (a packet at a switch)."""
    instructions: float
    functions: Mapping[str, float]
    """Those of each function itself, the most first. They add up to `instructions`."""

    @classmethod
    def of(cls, per: str, packets: int, functions: Mapping[str, int]) -> Count:
        """The count of this many packets. Small functions are put together."""
        total = sum(functions.values())
        named = {name: n for name, n in functions.items() if n >= LEAST_SHARE * total}
        ordered = dict(sorted(named.items(), key=lambda item: (-item[1], item[0])))
        ordered[REST] = total - sum(named.values())
        each = {name: round(n / packets, 1) for name, n in ordered.items()}
        return cls(per, round(total / packets, 1), each)


@dataclass(frozen=True)
class Recorded:
    """The content of the file."""

    compiler: str
    """Output of `rustc --version`, without commit and date."""
    subjects: Mapping[str, Count]

    @classmethod
    def read(cls, path: Path) -> Recorded:
        content: dict[str, Any] = json.loads(path.read_text())
        subjects = {name: Count(**count) for name, count in content["subjects"].items()}
        return cls(content["compiler"], subjects)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")


def verdict(
    name: str, recorded: Count | None, now: Count, tolerance: float
) -> tuple[bool, list[str]]:
    """Whether the count may stand, and what to print: a line, and the functions that have changed
    if it may not."""
    amount = f"{now.instructions:.0f} instructions per {now.per}"
    if recorded is None:
        return False, [f"FAIL {name}: {amount}, nothing is recorded; record: {RECORD} {name}"]
    change = now.instructions / recorded.instructions - 1
    told = f"{name}: {amount}, {recorded.instructions:.0f} are recorded ({change:+.1%})"
    if change > tolerance:
        allowed = f"at most {tolerance:+.0%} may be"
        return False, [f"FAIL {told}; {allowed}", *table(recorded, now)]
    if change < -tolerance:
        return True, [f"ok   {told}: so few that it is time to record anew: {RECORD} {name}"]
    return True, [f"ok   {told}"]


def table(recorded: Count, now: Count) -> Iterator[str]:
    """The functions that differ most: what each took and takes, per packet."""
    names = {**recorded.functions, **now.functions}

    def both(name: str) -> tuple[float, float]:
        return recorded.functions.get(name, 0.0), now.functions.get(name, 0.0)

    def change(name: str) -> float:
        was, takes = both(name)
        return takes - was

    yield f"       {'was':>9} {'now':>9} {'change':>9}  function"
    largest = sorted(names, key=lambda name: (-abs(change(name)), name))[:ROWS]
    for name in sorted(largest, key=lambda name: -change(name)):
        was, takes = both(name)
        if was != takes:
            yield f"       {was:9.1f} {takes:9.1f} {change(name):+9.1f}  {name}"
