"""Commands that go on in `.venv`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import environment
import moved


def test_a_command_goes_on_in_the_environment_if_there_is_one(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    shutil.copy(environment.__file__, folder)
    shutil.copy(moved.__file__, folder)
    command = folder / "command"
    command.write_text("import environment\nenvironment.enter()\nprint('here')\n")

    def said() -> str:
        run = [sys.executable, str(command), "argument"]
        return subprocess.run(run, capture_output=True, text=True, check=True, timeout=30).stdout

    assert said() == "here\n"
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "again: $*"\n')
    python.chmod(0o755)
    assert said() == f"again: {command} argument\n"
    # That Python itself goes on; it is the same program by another name.
    python.unlink()
    python.symlink_to(sys.executable)
    assert said() == "here\n"
