"""Tables on a terminal, or wherever its output goes."""

from __future__ import annotations

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

WIDEST = 10_000
"""Columns that no table needs."""


def print_whole(console: Console, table: Table) -> None:
    """Prints a table without cutting a cell: where there are too few columns, lines are wrapped by
    the terminal, and where there is none they are as long as they are."""
    options = console.options.update(max_width=WIDEST)
    needed = Measurement.get(console, options, table).maximum
    console.width = max(console.width, needed)
    console.print(table)
