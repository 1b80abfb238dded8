"""The runner of public programs: that it says when it skips, and how it judges a program."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tna import public

BUILT = pytest.mark.skipif(not public.RUNNER.exists(), reason="no build/ebb-stf; make build")
PROGRAM = public.Program("owner/name", "p4/program.p4", 1)


def test_without_checkouts_it_skips_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert public.main(["--checkouts", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out.startswith("skip: no checkouts of public programs")


def test_the_list_has_each_program_once() -> None:
    names = [program.name for program in public.programs()]
    assert len(set(names)) == len(names) == 254


def test_frames_are_those_of_the_seed() -> None:
    assert public.script(20, 1) == public.script(20, 1) != public.script(20, 2)
    ports = {int(line.split()[1]) for line in public.script(100, 1).splitlines()}
    assert ports == set(public.PORTS)


@pytest.mark.parametrize(
    ("text", "verdict", "code"),
    [
        ("a.p4:1:2: error: no such file [include-not-found]", public.MISSING, "include-not-found"),
        ("a.p4:1:2: error: not yet [unsupported-extern]", public.REFUSED, "unsupported-extern"),
        ("a.p4:1:2: error: what [syntax]\nb.p4:2:1: error: x [y]", public.FAULT, "syntax"),
        ("thread 'main' panicked at a.rs:1", public.FAILED, "compiler"),
    ],
)
def test_a_program_that_is_not_taken_counts_by_its_first_error(
    text: str, verdict: str, code: str
) -> None:
    outcome = public.refusal(PROGRAM, text)
    assert (outcome.verdict, outcome.code) == (verdict, code)


def test_a_lab_has_a_switch_of_each_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those without a checkout are named."""
    listed = [PROGRAM, public.Program("owner/other", "two.p4", 2, "common"),
              public.Program("else/where", "a.p4", 1)]  # fmt: skip
    monkeypatch.setattr(public, "programs", lambda: listed)
    for each in listed[:2]:
        source = tmp_path / each.repository.replace("/", "+") / each.path
        source.parent.mkdir(parents=True)
        source.touch()
    assert public.main(["--checkouts", str(tmp_path), "--lab", str(tmp_path / "lab.toml")]) == 0
    assert capsys.readouterr().out == f"else/where: a.p4: {public.ABSENT}\n"
    lab = tomllib.loads((tmp_path / "lab.toml").read_text())
    assert [switch["name"] for switch in lab["switch"]] == ["s1", "s2"]
    assert [link["ends"] for link in lab["link"] if "h" not in link["ends"][0]] == [["s1", "s2"]]
    other = tmp_path / "owner+other"
    assert lab["program"]["s2"] == {
        "device_id": 0,
        "p4": str(other / "two.p4"),
        "include": [str(other), str(other / "common")],
        "define": ["__TARGET_TOFINO__=2"],
    }


@BUILT
def test_a_program_is_found_compiled_and_run(tmp_path: Path) -> None:
    given = public.ROOT / "switch/ebb-stf/tests/passing/tofino/paths.p4"
    source = tmp_path / "owner+name" / PROGRAM.path
    source.parent.mkdir(parents=True)
    (source.parents[1] / "body.p4").write_text(given.read_text())
    source.write_text('#include "body.p4"\n')
    stf = tmp_path / "packets.stf"
    stf.write_text("packet 3 03 04 00 00\npacket 3 04 02 00 00\n")
    outcome = public.examine(PROGRAM, tmp_path, stf, tmp_path)
    assert (outcome.verdict, outcome.frames) == (public.SURVIVED, 1)
    other = public.Program("owner/other", PROGRAM.path, 1)
    assert public.examine(other, tmp_path, stf, tmp_path).verdict == public.ABSENT
    assert "| compiled, loaded, all packets survived | 1 |" in public.table([outcome])
