# SPDX-License-Identifier: Apache-2.0
"""The reasons are those of the P4 program, under the names of results and messages."""

from pathlib import Path

import pytest
from ebb_controller.drop_reason import REASONS, named, parse, reason

P4_FILE = Path(__file__).resolve().parents[2] / "p4src" / "include" / "drop_reason.p4"


def test_they_come_from_the_p4_file() -> None:
    assert parse(P4_FILE.read_text()) == REASONS
    assert REASONS["none"] == 0
    assert REASONS["no-route"] == 9
    # A number has one meaning, and the program counts in 256 cells.
    assert sorted(REASONS.values()) == list(range(len(REASONS)))


def test_every_number_has_a_name() -> None:
    assert reason(9) == "no-route"
    assert reason(200) == "reason-200"


def test_a_name_that_is_none_is_an_error() -> None:
    assert named("no-route", "truncated") == ("no-route", "truncated")
    with pytest.raises(ValueError, match="no drop reason 'no-rout' in"):
        named("no-rout")


def test_another_file_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no `enum"):
        parse("enum bit<8> DropReason {\n}\n")
