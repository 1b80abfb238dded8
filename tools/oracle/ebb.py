"""ebb-stf: on commands, the packets that leave our switch and the commands that it refuses; on a
folder of STF tests, the verdicts."""

from __future__ import annotations

import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

from .bmv2 import Run, Split, split
from .commands import Command, Script
from .model import Program

TIMEOUT_S = 120


def run(program: Program, commands: list[Command], how: Split, build: Path) -> Run:
    """Runs the commands as `bmv2.run` does; batches only decide which are sent together."""
    text, origins = Script(program).text(commands)
    status, output, problem = call(program, text, build)
    if status:
        return Run(ended=f"ebb-stf ended with {status}: {problem.strip()[-300:]}")
    batches = split(commands, how)
    numbers = [number for number, batch in enumerate(batches) for _ in batch.packets]
    result = Run(frames=[[] for _ in batches])
    for line in output.splitlines():
        if line.startswith("refused "):
            _, number, reason = line.split(" ", 2)
            result.refused[origins[int(number) - 1]] = reason
        else:
            number, port, *frame = line.split()
            data = bytes.fromhex(frame[0]) if frame else b""
            result.frames[numbers[int(number) - 1]].append((int(port), data))
    return result


def call(program: Program, text: str, build: Path) -> tuple[int, str, str]:
    with tempfile.TemporaryDirectory(prefix="ebb-stf-") as folder:
        script = Path(folder) / "script.stf"
        script.write_text(text)
        try:
            done = subprocess.run(
                [build / "ebb-stf", "--print-frames", program.path, script],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return -1, "", f"it was not done after {TIMEOUT_S} s"
    return done.returncode, done.stdout, done.stderr


def failures(text: str) -> dict[str, str]:
    """Verdicts of ebb-stf on the tests that did not pass, by the name of their script. Of a single
    test the reason is the line after its verdict."""
    found = {}
    lines = [*text.splitlines(), ""]
    for line, after in pairwise(lines):
        verdict, path, reason = line[:15].strip(), *line[15:].partition(".json")[::2]
        if line.startswith(" ") or ".json" not in line:
            continue
        told = reason.removeprefix(": ") or after.strip()
        found[f"{Path(path).name}.stf"] = f"{verdict}: {told}"
    return found
