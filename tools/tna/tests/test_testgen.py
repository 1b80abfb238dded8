"""P4Testgen's tests for Tofino: which programs, what is read of the tools, what the table says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tna import testgen
from tna.p4info import TARGETS
from tna.testgen import Outcome, Program


def test_without_the_tool_the_run_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert testgen.main([]) == 0
    assert capsys.readouterr().out == "skipped: p4testgen is not on PATH\n"


def test_p4cs_programs_come_after_ours_each_for_its_generations(tmp_path: Path) -> None:
    folder = tmp_path / testgen.PROGRAMS
    for name in ("both", "tofino1_only/first", "tofino2_only/second", "common/included"):
        path = folder / f"{name}.p4"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = [each.name for each in testgen.programs(tmp_path)]
    assert len(list(testgen.programs(None))) == len(TARGETS)
    theirs = found[len(TARGETS) :]
    assert theirs == ["both (tna)", "first (tna)", "both (t2na)", "second (t2na)"]


def test_the_first_error_is_without_the_folders_before_it() -> None:
    said = "warning: w\n/a/b/tofino.p4(7): [--Werror] error: x: not supported\nerror: y\n"
    assert testgen.first_error(said) == "tofino.p4(7): [--Werror] error: x: not supported"
    assert testgen.first_error("") == "no message"


def test_the_table_has_known_reasons_and_counts_programs_without_tests() -> None:
    def of(name: str, tests: int, passed: int, **more: object) -> Outcome:
        return Outcome(Program(Path(f"{name}.p4"), 1), tests, passed, **more)  # type: ignore[arg-type]

    outcomes = [
        of("whole", 3, 3),
        of("known", 2, 1, failures={"known_1.stf": "mismatch: x"}),
        of("new", 2, 1, failures={"new_2.stf": "mismatch: y"}),
        of("late", 0, 0, seconds=True),
        of("none", 0, 0),
        of("refused", 0, 0, problem="error: e"),
    ]
    rows = testgen.table(outcomes, {"known (tna)": "theirs", "whole (tna)": "old"}).splitlines()
    assert rows[2:6] == [
        "| `whole (tna)` | 3 | 3 |  |",
        "| `known (tna)` | 2 | 1 | theirs |",
        "| `new (tna)` | 2 | 1 | mismatch: y |",
        "| 3 programs | 7 | 5 | |",
    ]
    assert set(rows[9:]) == {
        "| the time was over | 1 |",
        "| P4Testgen found none | 1 |",
        "| error: e | 1 |",
    }


def test_known_reasons_are_of_programs_with_an_architecture() -> None:
    for name, why in testgen.reasons().items():
        assert name.endswith((" (tna)", " (t2na)")), name
        assert len(why) > 10, name


def test_tests_for_ptf_have_the_name_of_their_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "programs" / "one.p4"
    (source.parent / "common").mkdir(parents=True)
    source.touch()
    texts = ["", "bfrt_info_get('{}')\nclass Test1(AbstractTest):\n"]

    def generate(_program: Program, folder: Path, *_: object) -> tuple[str, bool]:
        made = folder / "one.py"
        made.write_text(texts.pop(0).format(made.with_suffix("")))
        return "", True

    monkeypatch.setattr(testgen, "generate", generate)
    options = testgen.Options((), 1, 1, 1, None)
    target = tmp_path / "made"
    target.mkdir()
    assert testgen.write_ptf(Program(source, 1), target, options) == "the time was over"
    assert not any(target.iterdir())
    assert testgen.write_ptf(Program(source, 1), target, options) == ""
    assert "bfrt_info_get('one')" in (target / "one" / "test.py").read_text()
    assert (target / "one" / "one.p4").resolve() == source
    assert (target / "common").is_dir()
