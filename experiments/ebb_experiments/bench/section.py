"""Output of a benchmark: a table, and the same as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ebb_experiments.results.numbers import three_digits
from ebb_experiments.results.terminal import print_whole

Cell = str | float | int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The result of one subject."""

    title: str
    parameters: dict[str, Any]
    """Parameters that are not the programs' defaults."""
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    names: int = 1
    """How many columns, the leading ones, say which row it is; the others are what was found."""
    verdicts: list[str] = field(default_factory=list)
    """A line per target: what was asked for, and what it is."""
    details: Any = None
    """Records of the single runs, for the JSON file only; none: there are none."""

    def print(self, console: Console) -> None:
        """Prints the table, then verdicts."""
        table = Table(title=self.title, title_justify="left", box=SIMPLE_HEAD)
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="left" if number == 0 else "right")
        for row in self.rows:
            table.add_row(*map(_text, row))
        print_whole(console, table)
        for verdict in self.verdicts:
            console.print(f"  {verdict}", highlight=False)
        for name, value in self.parameters.items():
            console.print(f"  {name} = {value}", style="dim", highlight=False)

    def as_json(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Options and paths for every subject."""

    root: Path
    """Top of the repository."""
    agent: Path
    """Path of `ebb-agent`."""
    directory: Path
    """Folder for parameter files and the like, which stays beside the results."""
    quick: bool
    """Whether runs are shorter, for a first look."""
    realtime: bool
    """Whether agents run before all other processes of the machine."""
    mtu_bytes: int
    """MTU of the veths between hosts, for subjects that do without a fabric."""


def _text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return three_digits(cell)
    return str(cell)
