"""Fixtures of several tests of the controller."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from built import PROGRAM
from ebb_controller.program import Program


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The P4Info of the program, and nothing to run."""
    (tmp_path / "fabric.json").write_text("{}")
    shutil.copy(PROGRAM.p4info, tmp_path)
    return Program(tmp_path / PROGRAM.p4info.name, tmp_path / "fabric.json")
