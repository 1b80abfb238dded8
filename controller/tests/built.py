"""What `make build` makes of p4src/fabric.p4, for tests that need the names of the program."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
from ebb_controller.controller import Program
from finsy.proto import p4i

BUILD = Path(os.environ.get("EBB_BUILD", Path(__file__).resolve().parents[2] / "build"))
PROGRAM = Program(BUILD / "fabric.p4info.txtpb", BUILD / "fabric.json")

NEEDS_PROGRAM = pytest.mark.skipif(
    not PROGRAM.json.exists(), reason=f"no {PROGRAM.json}: run `make build`"
)


@cache
def p4info() -> p4i.P4Info:
    """The P4Info of the program, which is not to be changed."""
    return PROGRAM.check()
