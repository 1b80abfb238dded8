"""Two commits compared by runs in turn: ratios of what the runs of a pair found.

What disturbs a machine lasts longer than a run, so both runs of a pair suffer from it alike, and
the median of their ratios says more than the ratio of two medians.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

Row = tuple[str, ...]
"""Leading columns, which name the row."""
Figures = dict[tuple[Row, str], float]
"""Numbers of one run, by row and column."""
Table = Mapping[str, Any]
"""A `Section` as `bench.json` has it."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure of this tree over that of the other commit."""

    row: Row
    column: str
    base: float
    """Median of what the other commit's runs found."""
    here: float
    """Median of what ours found."""
    each: tuple[float, ...]
    """Ratio of each pair, ours over theirs."""

    @property
    def median(self) -> float:
        """Median of the ratios."""
        return median(self.each)

    @property
    def spread(self) -> tuple[float, float]:
        """The lowest and the highest ratio."""
        return min(self.each), max(self.each)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A subject, as both commits have it."""

    ratios: list[Ratio]
    only_here: list[Row]
    """Rows that the other commit does not have."""
    only_base: list[Row]
    """Rows that only the other commit has."""
    without_ratio: list[tuple[Row, str]]
    """Figures that were 0 at the other commit at least once: nothing can be divided by it."""


def figures(table: Table, names: int) -> Figures:
    """The numbers of a table, of which this many leading columns name the rows. A second row of the
    same name is another row."""
    columns: Sequence[str] = table["columns"]
    found: Figures = {}
    seen: dict[Row, int] = {}
    for cells in table["rows"]:
        row = tuple("-" if cell is None else f"{cell}" for cell in cells[:names])
        seen[row] = seen.get(row, 0) + 1
        if seen[row] > 1:
            row = (*row, f"#{seen[row]}")
        for column, cell in zip(columns[names:], cells[names:], strict=True):
            if isinstance(cell, int | float) and not isinstance(cell, bool):
                found[row, column] = float(cell)
    return found


def compare(pairs: Sequence[tuple[Table, Table]], names: int) -> Comparison:
    """Compares runs of the other commit with ours, of pairs in that order."""
    numbers = [(figures(base, names), figures(here, names)) for base, here in pairs]
    base_rows, here_rows = _rows(base for base, _ in numbers), _rows(here for _, here in numbers)
    ratios: list[Ratio] = []
    without: list[tuple[Row, str]] = []
    for key in numbers[0][1]:
        if not all(key in base and key in here for base, here in numbers):
            continue
        theirs, ours = [base[key] for base, _ in numbers], [here[key] for _, here in numbers]
        if theirs == ours:
            continue  # a count that is not measured
        if 0.0 in theirs:
            without.append(key)
            continue
        each = tuple(our / their for their, our in zip(theirs, ours, strict=True))
        ratios.append(Ratio(*key, median(theirs), median(ours), each))
    return Comparison(
        ratios,
        [row for row in here_rows if row not in base_rows],
        [row for row in base_rows if row not in here_rows],
        without,
    )


def _rows(runs: Any) -> list[Row]:
    """All rows of several runs, in their order."""
    return list(dict.fromkeys(row for run in runs for row, _column in run))
