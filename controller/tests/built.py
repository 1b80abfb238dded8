"""Programs of p4src as `make build` makes them, for tests that need their names."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.mechanisms.codel import Codel
from ebb_controller.mechanisms.volume_counters import Volume
from ebb_controller.program import Program
from finsy.proto import p4i

BUILD = Path(os.environ.get("EBB_BUILD", Path(__file__).resolve().parents[2] / "build"))
PROGRAM = Program.of(BUILD)
CODEL_PROGRAM = Program.of(BUILD, FabricParameters(codel=Codel()))
TENANTS_PROGRAM = Program.of(BUILD, FabricParameters(void_frames=True))
FULL_PROGRAM = Program.of(BUILD, FabricParameters(volume=Volume()))
PROGRAMS = (PROGRAM, CODEL_PROGRAM, TENANTS_PROGRAM, FULL_PROGRAM)

NEEDS_PROGRAM = pytest.mark.skipif(
    not all(program.json.exists() for program in PROGRAMS),
    reason=f"not all of {PROGRAM.json.parent}/fabric*.json are there: run `make build`",
)


@cache
def p4info(program: Program = PROGRAM) -> p4i.P4Info:
    """The P4Info of a program, which is not to be changed."""
    return program.check()
