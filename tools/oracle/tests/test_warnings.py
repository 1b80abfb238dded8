"""Warnings read from the messages of both compilers, and how they are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from oracle import warnings

PROGRAM = Path("/samples/a.p4")
THEIRS = """a.p4(3): [--Wwarn=unused] warning: 'x' is unused
bit<8> x;
       ^
/usr/share/p4c/p4include/v1model.p4(9): [--Wwarn=shadow] warning: 'hash' shadows 'hash'
[--Wwarn=uninitialized-use] warning: d_0 may be uninitialized
a.p4(7): [--Wwarn=ignore-prop] warning: KeyElement: constant key element
a.p4(7): [--Wwarn=mismatch] warning: 8w1: Constant key field
a.p4(8): [--Wwarn=mismatch] warning: -8w1: negative value with unsigned type
[--Winfo=removed] info: removing control 'C'
"""
OURS = """{"severity":"warning","code":"unused","message":"x","place":{"file":"a.p4","line":3}}
{"severity":"warning","code":"unused","message":"y","place":{"file":"a.p4","line":4}}
{"severity":"warning","code":"constant-key","message":"k","place":{"file":"a.p4","line":9}}
{"severity":"info","code":"without-effect","message":"-g","place":null}
"""


def test_what_both_say_of_a_line_is_the_same() -> None:
    agreement = warnings.Agreement()
    ours = warnings.of_ours(OURS, PROGRAM)
    agreement.add(PROGRAM, ours, warnings.of_theirs(THEIRS, PROGRAM))
    rows = agreement.table().splitlines()[2:]
    assert rows == [
        "| `mismatch` | 0 | 1 | 0 | 0 |",
        "| `overflow` | 0 | 0 | 1 | 0 |",
        "| `uninitialized-use` | 0 | 0 | 1 | 0 |",
        "| `unused` | 1 | 0 | 0 | 1 |",
    ]
    assert [line.split(":")[:2] for line in agreement.told] == [
        ["theirs /samples/a.p4", "8"],
        ["theirs /samples/a.p4", "0"],
        ["ours   /samples/a.p4", "4"],
    ]


def test_what_is_missing_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("EBB_P4C_TESTDATA", raising=False)
    assert warnings.main(["--build", str(tmp_path)]) == warnings.UNUSABLE
    assert capsys.readouterr().out == (
        "skip: there is no ebb-p4c, no p4c-bm2-ss, "
        "no programs (none given, and EBB_P4C_TESTDATA is not set)\n"
    )
