"""Lines that are too wide are told, but for those that cannot be broken."""

from __future__ import annotations

import pytest
import widths
from widths import ROOT, is_checked, too_wide, tracked

WIDE = "word " * 25


def test_a_line_may_have_120_columns() -> None:
    assert not [*too_wide("page.md", "x " * 60)]
    assert [*too_wide("page.md", f"short\n{'x ' * 60}x\n")] == [2]


@pytest.mark.parametrize("line", [f"| {WIDE} |", "<https://example.org/" + "x" * 120 + ">"])
def test_rows_of_tables_and_addresses_stay_whole(line: str) -> None:
    assert not [*too_wide("page.md", line)]
    assert not [*too_wide("lib.rs", f"//! {line}")]
    assert not [*too_wide("lib.py", f"# {line}")]


def test_code_fences_of_pages_end_where_they_end() -> None:
    assert [*too_wide("page.md", f"```\n{WIDE}\n```\n{WIDE}")] == [4]
    assert [*too_wide("lib.rs", f"/// ```text\n/// {WIDE}\n/// ```")] == [2]


def test_a_table_in_rust_ends_with_its_bracket() -> None:
    text = f"#[rustfmt::skip]\nconst T: &[u8] = &[\n    {WIDE}\n];\n{WIDE}"
    assert [*too_wide("lib.rs", text)] == [5]


@pytest.mark.parametrize(
    ("path", "text", "checked"),
    [
        ("switch/src/lib.rs", "", True),
        ("docs/ndp.md", "", True),
        ("Makefile", "", True),
        ("tools/setup", "#!/bin/sh\n", True),
        ("p4src/fabric.p4", "", True),
        ("switch/p4c/tests/programs/x.p4", "", False),
        ("docs/results/README.md", "", False),
        ("docs/wire-vectors.json", "", False),
    ],
)
def test_what_is_a_source(path: str, text: str, checked: bool) -> None:
    assert is_checked(path, text) is checked


def test_this_repository_is_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"Makefile", "tools/widths.py", "docs/bench.md"} <= {*tracked()}
    monkeypatch.setattr(widths, "WIDEST", 20)
    assert widths.main() == 1
    assert "Makefile:1: wider than 20 columns" in capsys.readouterr().err
    assert (ROOT / "Makefile").exists()
