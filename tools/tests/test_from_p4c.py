"""The commands of docs/from-p4c-and-bmv2.md are taken as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("EBB_BUILD", ROOT / "build"))
PAGE = ROOT / "docs" / "from-p4c-and-bmv2.md"
EXAMPLE = ROOT / "switch" / "ebb-stf" / "tests" / "passing" / "entries"
USAGE = 2
"""The exit code of ebb-switch for a command line that it does not understand."""


def commands(program: str) -> list[str]:
    """Commands of the page that one types: the last column of its tables, and code blocks."""
    rows = [line.split("|")[-2] for line in PAGE.read_text().splitlines() if line.startswith("|")]
    spans = [span for row in rows for span in re.findall(r"`([^`]+)`", row)]
    return [span for span in spans if span.startswith(f"{program} ")]


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    program, *words = shlex.split(command)
    path = BUILD / program
    if not path.exists():
        pytest.skip(f"no {path}: run `make build`")
    return subprocess.run(
        [str(path), *words], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for suffix in ("p4", "stf"):
        shutil.copyfile(EXAMPLE.with_suffix(f".{suffix}"), tmp_path / f"prog.{suffix}")
    return tmp_path


def test_the_page_has_commands_of_all_programs() -> None:
    for program in ("ebb-p4c", "ebb-switch", "ebb-stf", "ebb-ctl"):
        assert len(commands(program)) > 1, program


@pytest.mark.parametrize("command", [*commands("ebb-p4c"), *commands("ebb-stf")])
def test_the_command_succeeds(command: str, folder: Path) -> None:
    done = run(command, folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "command", [c for c in commands("ebb-switch") if "prog.json" in c or "fabric.toml" in c]
)
def test_the_command_line_is_understood(command: str, folder: Path) -> None:
    """There is no program to load, which is all that is wrong."""
    done = run(command, folder)
    assert done.returncode not in (0, USAGE), done.stderr
    missing = "fabric.toml" if "fabric.toml" in command else "queues.toml|prog.json"
    assert re.search(missing, done.stderr), done.stderr
