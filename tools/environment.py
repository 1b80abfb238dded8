"""Commands of this folder that use packages: they run in the environment of the repository."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import moved

PYTHON = Path(__file__).resolve().parents[1] / ".venv" / "bin" / "python"


def enter() -> None:
    """Starts the command again with the Python of `.venv`, which `tools/setup` makes; returns if it
    is that one already, or if there is none. One that was copied with the tree is repaired."""
    moved.repair(PYTHON.parents[1])
    if PYTHON.exists() and Path(sys.executable) != PYTHON:
        os.execv(PYTHON, [str(PYTHON), *sys.argv])
