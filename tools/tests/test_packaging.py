"""Properties of the image that need no build: its files and steps are there, and it checks
every command that is installed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from installing.__main__ import PROGRAMS, STUDIES, commands

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packaging"
STEPS = (FOLDER / "steps").read_text()


@pytest.mark.parametrize("name", ["chroot", "steps"])
def test_scripts_are_well_formed(name: str) -> None:
    script = FOLDER / name
    shell = script.read_text().partition("\n")[0].rpartition("/")[2].split()[-1]
    done = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert script.stat().st_mode & 0o111


@pytest.mark.parametrize("name", ["Containerfile", "chroot"])
def test_steps_that_are_run_are_there(name: str) -> None:
    there = set(re.findall(r"^(\w+)\)$", STEPS, re.MULTILINE))
    run = re.findall(r"(?:packaging/steps|ebb-image-steps) (\w+)", (FOLDER / name).read_text())
    assert {*run} == there


def test_what_is_copied_is_there() -> None:
    lines = re.findall(r"^COPY (\S+) ", (FOLDER / "Containerfile").read_text(), re.MULTILINE)
    assert lines
    assert all((ROOT / line).exists() for line in lines)


def test_every_installed_command_is_checked() -> None:
    listed = re.search(r"for command in (.*?); do", STEPS, re.DOTALL)
    assert listed is not None
    installed = {*PROGRAMS, *commands()} - {*STUDIES}
    assert {*listed[1].replace("\\", "").split()} == installed
