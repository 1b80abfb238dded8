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
RESOURCES = {
    "resources": {
        "mau": {
            "mau_stages": [
                {"rams": {"srams": [{}] * 40}, "tcams": {"tcams": [{}] * 3}},
                {"rams": {"srams": [{}] * 21}, "tcams": {"tcams": []}},
            ]
        }
    }
}
PHV = {
    "containers": [
        {"bit_width": 8, "slices": [{}, {}]},
        {"bit_width": 32, "slices": [{}]},
        {"bit_width": 16, "slices": []},
    ]
}


def test_the_last_attempt_of_the_log_counts() -> None:
    assert chip.table_summary(SUMMARY) == (11, 8)
    assert chip.table_summary("") == (None, None)


def test_memories_and_containers_are_read() -> None:
    assert chip.memories(json.dumps(RESOURCES)) == (61, 3)
    assert chip.containers(json.dumps(PHV)) == 8 + 32


def test_all_reports_of_a_folder_are_found(tmp_path: Path) -> None:
    assert chip.reports(tmp_path) == chip.Fit()
    logs = tmp_path / "pipe" / "logs"
    logs.mkdir(parents=True)
    (logs / "table_summary.log").write_text(SUMMARY)
    (logs / "resources.json").write_text(json.dumps(RESOURCES))
    (logs / "phv.json").write_text(json.dumps(PHV))
    assert chip.reports(tmp_path) == chip.Fit(11, 8, 61, 3, 40)


def test_a_program_of_too_many_stages_does_not_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="fabric_marking takes 13 of 12 stages"):
        chip.assemble("fabric_marking", tmp_path, chip.Fit(stages=13))
    with pytest.raises(ValueError, match=r"has left no \.bfa"):
        chip.assemble("fabric_adaptive", tmp_path, chip.Fit(stages=13))


def test_the_p4info_is_what_the_compiler_has_left(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no fabric_marking\.p4info\.txtpb"):
        p4info.made("fabric_marking", tmp_path)
    (tmp_path / p4info.name("fabric_marking")).write_text("tables {}\n")
    assert p4info.made("fabric_marking", tmp_path).endswith("not to be edited.\ntables {}\n")


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
    types: list[str] = []
    lines: list[str] = []
    for line in capsys.readouterr().out.splitlines():
        (types if " types of " in line else lines).append(line)
    assert len(types) == len(p4info.TARGETS)
    assert len(lines) == 4 * len(p4info.TARGETS)
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
