# SPDX-License-Identifier: Apache-2.0
"""The Python names of the drop reasons are those of the P4 program."""

import re
from pathlib import Path

from ebb_controller.drop_reason import DropReason

P4_FILE = Path(__file__).resolve().parents[2] / "p4src" / "include" / "drop_reason.p4"


def test_same_names_and_numbers() -> None:
    in_p4 = re.findall(r"^ +([A-Z0-9_]+) *= *(\d+)", P4_FILE.read_text(), re.MULTILINE)
    assert {name: int(number) for name, number in in_p4} == {r.name: r.value for r in DropReason}
