"""The page of all keys is current, and no key is without a meaning."""

from __future__ import annotations

from pathlib import Path

from ebb_experiments.reference import page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scenarios.md"


def test_the_committed_page_is_current() -> None:
    assert PAGE.read_text() == page(), (
        "run: python -m ebb_experiments.reference > docs/scenarios.md"
    )


def test_every_key_has_a_meaning() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    assert [row for row in rows if row.endswith("|  |")] == []
