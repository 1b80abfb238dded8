"""The time of each file of tests, from lines and when they came."""

from __future__ import annotations

from pathlib import Path

from durations import cargo, rows, unittest, verdicts
from durations import pytest as of_pytest


def test_an_executable_is_named_by_its_source(tmp_path: Path) -> None:
    executable = tmp_path / "main-0f5"
    listed = tmp_path / "main-0f5.d"
    listed.write_text(
        f"{listed}: sans-io.toml p4c/tests/main.rs p4c/tests/x.rs\n\n{executable}: ..\n"
    )
    lines = [
        (10.0, "    Finished `test` profile"),
        (11.0, f"     Running tests/main.rs ({executable})"),
        (11.5, "test a::b ... ok"),
        (14.0, "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; finished in 2.98s"),
        (14.0, "     Running unittests src/lib.rs (target/debug/deps/ebb_unlisted-1)"),
        (14.5, "test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; finished in 0.50s"),
    ]
    assert cargo(lines) == {"p4c/tests/main.rs": 3.0, "ebb_unlisted-1": 0.5}


def test_a_file_of_pytest_may_have_several_lines() -> None:
    lines = [
        (2.0, "a/test_a.py ..s.F.                                      [ 50%]"),
        (3.0, "b/test_b.py ......................................................"),
        (7.0, "......                                                  [100%]"),
        (8.0, "SKIPPED [1] a/test_a.py:3: needs root"),
    ]
    assert of_pytest(lines) == {"a/test_a.py": 2.0, "b/test_b.py": 5.0}


def test_others_print_a_line_per_result() -> None:
    lines = [(1.0, "arp.Answered ... ok"), (1.5, "arp.Asked ... ok"), (4.0, "hull.Paced ... ok")]
    assert unittest(lines) == {"ptf-tests/tests/arp.py": 1.5, "ptf-tests/tests/hull.py": 2.5}
    lines = [(1.0, "ok   ruff"), (1.2, "All done"), (6.0, "FAIL types of tools")]
    assert verdicts(lines) == {"ruff": 1.0, "types of tools": 5.0}


def test_the_slowest_is_first() -> None:
    table = list(rows({"lint": verdicts([(1.0, "ok ruff")]), "e2e": verdicts([(3.0, "ok run")])}))
    assert [row.split()[-1] for row in table] == ["file", "run", "ruff"]
    assert table[1].split()[0] == "3.0"
