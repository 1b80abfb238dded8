"""How the reports of p4c's back end are read, and what is told where it is not there."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tna import check, chip, p4info

SUMMARY = """Number of stages in table allocation: 14
  Number of stages for ingress table allocation: 14
Critical path length through the table dependency graph: 9
Number of stages in table allocation: 11
  Number of stages for ingress table allocation: 11
Critical path length through the table dependency graph: 8
"""
METRICS = {
    "mau": {"srams": 61, "tcams": 40},
    "phv": {
        "normal": [
            {"bit_width": 8, "containers_occupied": 3},
            {"bit_width": 32, "containers_occupied": 2},
        ],
        "tagalong": [{"bit_width": 16, "containers_occupied": 1}],
    },
}


def test_the_last_attempt_of_the_log_counts() -> None:
    assert chip.table_summary(SUMMARY) == (11, 8)
    assert chip.table_summary("") == (None, None)


def test_memories_and_containers_are_read() -> None:
    assert chip.resources_of(json.dumps(METRICS)) == (61, 40, 3 * 8 + 2 * 32 + 16)


def test_rows_of_the_page_are_renewed_in_order_and_others_stay() -> None:
    fits = {"fabric_marking": chip.Fit(11, 8, 61, 40, 1000)}
    page = f"a\n{check.BEGIN}old\n{check.END}z\n"
    once = check.renewed(page, {"fabric_adaptive": chip.Fit()})
    both = check.renewed(once, fits)
    assert both.startswith("a\n") and both.endswith("z\n")
    rows = both.splitlines()[4:6]
    assert rows == [
        "| `fabric_marking` | 12 | 11 | 8 | 61 | 40 | 1000 |",
        "| `fabric_adaptive` | 20 | - | - | - | - | - |",
    ]


def test_what_is_not_there_is_told_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("P4C_TNA_INCLUDE", raising=False)
    assert check.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 * len(p4info.TARGETS)
    assert all(line.startswith("skip ") for line in lines)
    assert "skip fabric_marking on the chip: no p4c-barefoot, bfas on PATH" in lines


def test_every_program_of_the_folder_is_checked() -> None:
    there = {path.stem for path in (p4info.SOURCES / "tna").glob("*.p4")}
    assert (
        there
        == set(p4info.TARGETS)
        == {path.name.split(".")[0] for path in p4info.STORED.iterdir()}
    )


def test_folders_with_headers_are_given_as_a_list(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = [tmp_path / "core", tmp_path / "tna"]
    monkeypatch.setenv("P4C_TNA_INCLUDE", os.pathsep.join(map(str, given)))
    assert check.include_folders() == []
    given[1].mkdir()
    (given[1] / "tna.p4").touch()
    assert check.include_folders() == given
    assert p4info.options(given) == [f"-I{folder}" for folder in given]
