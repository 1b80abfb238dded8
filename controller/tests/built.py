"""What `make build` makes of the programs of p4src, for tests that need their names."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
from ebb_controller.controller import Program
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.mechanisms.codel import Codel
from finsy.proto import p4i

BUILD = Path(os.environ.get("EBB_BUILD", Path(__file__).resolve().parents[2] / "build"))
PROGRAM = Program.of(BUILD)
CODEL_PROGRAM = Program.of(BUILD, FabricParameters(codel=Codel()))

NEEDS_PROGRAM = pytest.mark.skipif(
    not all(program.json.exists() for program in (PROGRAM, CODEL_PROGRAM)),
    reason=f"no {PROGRAM.json} or {CODEL_PROGRAM.json}: run `make build`",
)


@cache
def p4info(program: Program = PROGRAM) -> p4i.P4Info:
    """The P4Info of a program, which is not to be changed."""
    return program.check()
