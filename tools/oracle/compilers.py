"""From a P4 program to BMv2 JSON and P4Info, with either compiler."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

OURS, THEIRS = "ebb-p4c", "p4c-bm2-ss"
TIMEOUT_S = 300


@dataclass(frozen=True, slots=True)
class Compiled:
    """Output of a compiler for a program."""

    json: Path | None
    """BMv2 JSON; none: the compiler refused the program."""
    p4info: Path
    problem: str
    """The first line that says why; empty if it did not refuse."""


def command(compiler: str, build: Path) -> str | None:
    """Path of a compiler; None if it is not there."""
    if compiler == OURS and (build / OURS).exists():
        return str(build / OURS)
    return shutil.which(compiler)


def compile_program(
    compiler: str, build: Path, program: Path, flags: tuple[str, ...], folder: Path
) -> Compiled:
    """Compiles a program into the folder, which is made. Raises `TimeoutError`, which says nothing
    of the program."""
    path = command(compiler, build)
    assert path, compiler
    folder.mkdir(parents=True, exist_ok=True)
    json, p4info = folder / "program.json", folder / "program.p4info.txtpb"
    arguments = [path, "--std", "p4-16", "-o", str(json), "--p4runtime-files", str(p4info)]
    arguments += flags
    try:
        done = subprocess.run(
            [*arguments, str(program)],
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{compiler} was not done after {TIMEOUT_S} s") from None
    text = (done.stderr + done.stdout).decode(errors="replace")
    if done.returncode == 0 and json.exists():
        return Compiled(json, p4info, "")
    return Compiled(None, p4info, first_error(text) or f"it ended with {done.returncode}")


def first_error(text: str) -> str:
    """The first message of either compiler, or the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = (line for line in lines if re.search(r"error:|Compiler Bug|panicked", line))
    return next(errors, lines[0] if lines else "")
