"""The page of all tables and counters is current, and none of them is without a meaning."""

from __future__ import annotations

from built import NEEDS_PROGRAM, p4info
from ebb_controller.reference import PAGE, renewed

pytestmark = NEEDS_PROGRAM


def test_the_committed_page_is_current() -> None:
    assert PAGE.read_text() == renewed(PAGE.read_text(), p4info()), "run: make pages"


def test_every_table_and_counter_has_a_meaning() -> None:
    program = p4info()
    without = [
        each.preamble.name
        for each in (*program.tables, *program.counters)
        if not each.preamble.doc.brief
    ]
    assert without == [], "write a @brief above each"
