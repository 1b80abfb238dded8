"""Tables for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table


def drawn(
    columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str, title: str | None = None
) -> Table:
    """A table for a terminal: numbers to the right, names of schemes to the left."""
    table = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title=title,
        title_justify="left",
        title_style="",
        caption=caption,
        caption_justify="left",
    )
    for heading in columns:
        table.add_column(heading, justify="left" if "scheme" in heading else "right", no_wrap=True)
    for cells in rows:
        table.add_row(*cells)
    return table


def plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table as Markdown."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)
