"""docs/columns.md has every column of every table of results, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from ebb_experiments.results.tables import COLUMNS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "columns.md"


def named(section: str) -> list[str]:
    """Names in the first cells of a section's table."""
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


def test_the_page_has_every_column_of_every_table() -> None:
    common, *sections = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    every = named(common)
    of_tables = {text.split("\n", 1)[0]: every + named(text) for text in sections}
    assert {name: sorted(columns) for name, columns in of_tables.items()} == {
        name: sorted(columns) for name, columns in COLUMNS.items()
    }
