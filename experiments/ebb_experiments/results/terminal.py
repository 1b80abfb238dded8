"""Tables and errors on a terminal, or wherever its output goes."""

from __future__ import annotations

from ebb_topologies.text import printable
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


def print_error(command: str, error: Exception | str) -> None:
    """Says on standard error why a command failed, in one line."""
    text = f"{command}: {printable(error)}"
    console = Console(stderr=True, highlight=False)
    console.print(text, style="bold red", markup=False, soft_wrap=True)
