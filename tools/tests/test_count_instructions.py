"""Counts of instructions: what is read from Callgrind, and when a count may not stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from instructions import cli
from instructions.counts import REST, Count, Recorded, table, verdict
from instructions.profile import NATIVE, functions
from instructions.subjects import SUBJECTS

PROFILE = """
# callgrind format
positions: line
events: Ir

ob=(1) /build/ebb-simulator
fl=(1) switch.rs
fn=(1) Switch::receive
10 5
+2 3
fi=(2) vec.rs
7 2
fe=(1)
cfn=(2) Port::enqueue'2
calls=4 20
+1 400
* 1

fn=(2)
20 100

ob=(2) ???
fn=(3) 0x0000000004105000
0 30
cob=(1)
cfn=(1)
calls=1 10
0 11
fn=(4) 0x0000000004106000
0 12
""".splitlines()

WAS = Count("packet", 100.0, {"parse": 60.0, "enqueue": 30.0, REST: 10.0})


def test_a_function_counts_without_those_that_it_calls() -> None:
    assert functions(PROFILE) == {"Switch::receive": 11, "Port::enqueue": 100, NATIVE: 42}


def test_counts_are_per_packet_and_small_functions_are_put_together() -> None:
    count = Count.of("packet", 10, {"small": 1, "less": 2, "large": 997})
    assert count == Count("packet", 100.0, {"large": 99.7, REST: 0.3})


def test_the_same_and_a_little_more_may_stand() -> None:
    for total in (98.1, 100.0, 101.9):
        fine, lines = verdict("tm", WAS, Count("packet", total, {"parse": total}), 0.02)
        assert fine
        assert lines == [
            f"ok   tm: {total:.0f} instructions per packet, 100 are recorded ({total - 100:+.1f}%)"
        ]


def test_a_function_that_grew_is_shown_first() -> None:
    now = Count("packet", 103.0, {"parse": 55.0, "enqueue": 38.0, REST: 10.0})
    fine, lines = verdict("tm", WAS, now, 0.02)
    assert not fine
    assert lines[0].startswith("FAIL tm: 103 instructions per packet, 100 are recorded (+3.0%)")
    assert [line.split() for line in lines[2:]] == [
        ["30.0", "38.0", "+8.0", "enqueue"],
        ["60.0", "55.0", "-5.0", "parse"],
    ]


def test_a_function_that_is_new_was_nothing() -> None:
    now = Count("packet", 120.0, {**WAS.functions, "export": 20.0})
    assert [line.split() for line in table(WAS, now)][1:] == [["0.0", "20.0", "+20.0", "export"]]


def test_far_less_may_stand_and_asks_to_be_recorded() -> None:
    fine, lines = verdict("tm", WAS, Count("packet", 97.0, {"parse": 97.0}), 0.02)
    assert fine
    assert lines[0].endswith("tools/count_instructions --record tm")


def test_a_subject_that_was_never_recorded_fails() -> None:
    fine, lines = verdict("tm", None, WAS, 0.02)
    assert not fine
    assert "nothing is recorded" in lines[0]


def test_what_is_written_can_be_read(tmp_path: Path) -> None:
    recorded = Recorded("rustc 1.95.0", {"tm": WAS})
    recorded.write(tmp_path / "counts.json")
    assert Recorded.read(tmp_path / "counts.json") == recorded


def test_every_subject_is_recorded() -> None:
    assert list(Recorded.read(cli.FILE).subjects) == list(SUBJECTS)


def test_without_valgrind_it_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert cli.main([]) == 0
    assert capsys.readouterr().out.startswith("skip instructions: needs valgrind")


def test_a_subject_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["simulation-xcp"])
    assert "no subject simulation-xcp" in capsys.readouterr().err
