"""p4runtime-shell against the real switch, where it is installed.

`P4RUNTIME_SHELL_PYTHON` names the interpreter of an environment that has it (docs/p4runtime.md).
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from p4switch import JSON, P4INFO

PYTHON = os.environ.get("P4RUNTIME_SHELL_PYTHON")


@pytest.mark.skipif(
    PYTHON is None, reason="P4RUNTIME_SHELL_PYTHON does not name a Python with p4runtime-shell"
)
def test_a_session_of_the_shell(address: str) -> None:
    script = Path(__file__).with_name("shell_session.py")
    command = [str(PYTHON), str(script), address, str(P4INFO), str(JSON)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "digests ok"
