"""The lists of tables, counters and entries are current, and none of them is without a meaning."""

from __future__ import annotations

from built import FULL_PROGRAM, NEEDS_PROGRAM, p4info
from ebb_controller.mechanisms import MECHANISMS
from ebb_controller.reference import pages

pytestmark = NEEDS_PROGRAM


def test_the_committed_pages_are_current() -> None:
    for path, text in pages(p4info(FULL_PROGRAM)).items():
        assert path.read_text() == text, "run: make pages"


def test_all_entries_have_a_meaning() -> None:
    assert [each.name for each in MECHANISMS if not each.entries.__doc__] == []


def test_every_table_and_counter_has_a_meaning() -> None:
    program = p4info(FULL_PROGRAM)
    without = [
        each.preamble.name
        for each in (*program.tables, *program.counters)
        if not each.preamble.doc.brief
    ]
    assert without == [], "write a @brief above each"
