"""Commands of this folder that use packages: they run in the environment of the repository."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ENVIRONMENT = Path(__file__).resolve().parents[1] / ".venv"


def enter() -> None:
    """Starts the command again with the Python of `.venv`, which `tools/setup` makes; goes on if it
    runs there already, or if there is none."""
    python = ENVIRONMENT / "bin" / "python"
    if python.exists() and Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
        os.execv(python, [str(python), *sys.argv])
