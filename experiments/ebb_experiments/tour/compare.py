"""`make compare`: two runs side by side.

python -m ebb_experiments.tour.compare [--a RUN] [--b RUN]    # none: the last two
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from ebb_topologies.files import InputError
from ebb_topologies.installation import results
from ebb_topologies.text import printable
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ebb_experiments.results.terminal import print_error, print_whole
from ebb_experiments.tour.runs import Summary, chosen, settings, summary_of

WIDTH = 132
"""Columns that the table needs."""


def main(argv: Sequence[str] | None = None) -> int:
    """Prints two runs side by side. Exit code 2: a run is not there."""
    parser = argparse.ArgumentParser(prog="make compare", description=__doc__)
    parser.add_argument(
        "--a", help="name of a run in results/runs, or the folder of one, of a simulation too"
    )
    parser.add_argument("--b", help="likewise; the later one")
    parser.add_argument("--runs", type=Path, default=results() / "runs")
    options = parser.parse_args(argv)
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.width = max(console.width, WIDTH)
    try:
        paths = chosen(options.runs, (options.a or None, options.b or None))
        summaries = [summary_of(path) for path in paths]
    except InputError as error:
        print_error("ebb", error)
        return 1
    for letter, path in zip("AB", paths, strict=True):
        console.print(f"{letter}: {printable(path.name)}")
    for line in differences(*summaries):
        console.print(line, style="yellow")
    print_whole(console, table(*summaries))
    return 0


def differences(a: Summary, b: Summary) -> list[str]:
    """Lines about settings that alone make the numbers of the two runs differ."""
    before, after = settings(a), settings(b)
    found = [f"{name}: {before[name]}, then {after[name]}" for name in before]
    lines = [line for line, name in zip(found, before, strict=True) if before[name] != after[name]]
    for letter, summary in (("A", a), ("B", b)):
        if summary.busy:
            lines.append(f"{letter}: the machine was too busy for {', '.join(summary.busy)}")
    return lines


def table(a: Summary, b: Summary) -> Table:
    """Three rows for each scheme that both ran: A, B, and by how much B differs."""
    columns = [name for name in a.columns if name in b.columns]
    drawn = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    drawn.add_column("scheme", no_wrap=True)
    drawn.add_column("", no_wrap=True)
    for name in columns:
        drawn.add_column(name, justify="right", overflow="fold")
    for scheme in [name for name in a.rows if name in b.rows]:
        cells = [[_cell(each, scheme, name) for name in columns] for each in (a, b)]
        drawn.add_row(scheme, "A", *cells[0])
        drawn.add_row("", "B", *cells[1])
        drawn.add_row("", "", *(change(*pair) for pair in zip_longest(*cells)), style="dim")
    return drawn


def _cell(summary: Summary, scheme: str, column: str) -> str:
    return summary.rows[scheme][summary.columns.index(column)]


def change(before: str, after: str) -> str:
    """Difference in percent; empty where there is none, or none is known."""
    try:
        first, then = float(before), float(after)
    except ValueError:
        return ""
    if first == then or not (math.isfinite(first) and math.isfinite(then)):
        return ""
    return f"{(then - first) / first:+.0%}" if first else "new"


if __name__ == "__main__":
    sys.exit(main())
