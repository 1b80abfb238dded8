"""The programs of p4src/tna through p4c's back end for the chip, and its reports on resources."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import generated
from .p4info import ROOT, SOURCES, TARGETS, name, options

COMPILER, ASSEMBLER, TESTGEN = "p4c-barefoot", "bfas", "p4testgen"
TYPE_CHECKER = ROOT / "build" / "ebb-p4c"
TIMEOUT_S = 1800
"""Timeout of a tool; fitting a large program takes minutes."""
STAGES = {1: 12, 2: 20}
"""Stages of the chip, by generation."""
ARCHITECTURES = {1: ("tofino", "tna"), 2: ("tofino2", "t2na")}
"""Target and architecture for the tools, by generation."""
DETOURS = {1: (), 2: ("--disable-dark-allocation", "--no-clot")}
"""Options around faults of the tools, by generation: with a ghost thread the compiler ends with an
internal error when it lets fields share dark containers, and it lets headers that are only written
stay in packet buffers (CLOTs) of which the assembler then knows nothing."""


@dataclass(frozen=True)
class Fit:
    """Resources of the chip that a program takes. None: the installed tools do not report it."""

    stages: int | None = None
    critical_path: int | None = None
    """Stages that the dependencies alone need."""
    srams: int | None = None
    tcams: int | None = None
    phv_bits: int | None = None

    def row(self, program: str) -> str:
        numbers = (self.stages, self.critical_path, self.srams, self.tcams, self.phv_bits)
        limit = STAGES[TARGETS[program]]
        cells = ["-" if number is None else str(number) for number in numbers]
        return f"| `{program}` | {limit} | " + " | ".join(cells) + " |"


HEAD = (
    "| program | stages of the chip | stages used | critical path | SRAMs | TCAMs | bits of PHV |",
    "|---|---|---|---|---|---|---|",
)


def missing(*tools: str) -> str:
    """Those of the tools that are not on PATH; empty: all are there."""
    return ", ".join(tool for tool in tools if shutil.which(tool) is None)


def run(arguments: list[str]) -> str:
    """Runs a tool; returns what it prints. Raises `ValueError` with its errors if it fails."""
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"{arguments[0]} was not done after {TIMEOUT_S} s") from None
    text = done.stdout + done.stderr
    if done.returncode != 0:
        lines = [line for line in text.splitlines() if re.search(r"error|BUG|Exception", line)]
        errors = "\n".join(lines[:20]) or text[-2000:]
        raise ValueError(f"{arguments[0]} ended with {done.returncode}:\n{errors}")
    return text


def check_types(program: str) -> str:
    """Runs the program through our compiler. Raises `ValueError` with its errors."""
    return run([str(TYPE_CHECKER), "--Wdisable", str(SOURCES / "tna" / f"{program}.p4")])


def compiled(program: str, folder: Path, includes: Iterable[Path]) -> Fit:
    """Compiles a program. Raises `ValueError` if it is refused; one that takes more stages than the
    chip has is not."""
    generation = TARGETS[program]
    target, architecture = ARCHITECTURES[generation]
    run(
        [
            *(COMPILER, "--target", target, "--arch", architecture, *DETOURS[generation]),
            *options(includes),
            *(f"-D__TARGET_TOFINO__={generation}", "-g", "--create-graphs", "--verbose"),
            "-Ttable_summary:1",
            "--p4runtime-force-std-externs",
            *("--p4runtime-files", str(folder / name(program))),
            *("-o", str(folder), str(SOURCES / "tna" / f"{program}.p4")),
        ]
    )
    return reports(folder)


def assemble(program: str, folder: Path, found: Fit) -> None:
    """Assembles what was compiled into the folder. Raises `ValueError` if it does not fit."""
    generation = TARGETS[program]
    target, _architecture = ARCHITECTURES[generation]
    if found.stages is not None and found.stages > STAGES[generation]:
        raise ValueError(f"{program} takes {found.stages} of {STAGES[generation]} stages")
    assembly = sorted(folder.rglob("*.bfa"))
    if not assembly:
        raise ValueError(f"{COMPILER} has left no .bfa in {folder}")
    for each in assembly:
        run([ASSEMBLER, "--target", target, "-o", str(each.parent), str(each)])


def reports(folder: Path) -> Fit:
    """Reports in the output of the compiler."""

    def text(name: str) -> str | None:
        found = sorted(folder.rglob(name))
        return found[0].read_text() if found else None

    summary, resources, phv = text("table_summary.log"), text("resources.json"), text("phv.json")
    stages, critical = table_summary(summary) if summary else (None, None)
    srams, tcams = memories(resources) if resources else (None, None)
    return Fit(stages, critical, srams, tcams, containers(phv) if phv else None)


def table_summary(text: str) -> tuple[int | None, int | None]:
    """Stages and length of the critical path in the last attempt of the log."""

    def last(pattern: str) -> int | None:
        found = re.findall(pattern, text)
        return int(found[-1]) if found else None

    return (
        last(r"Number of stages in table allocation: (\d+)"),
        last(r"Critical path length through the table dependency graph: (\d+)"),
    )


def memories(text: str) -> tuple[int, int]:
    """SRAMs and TCAMs of all stages, by resources.json."""
    stages = json.loads(text)["resources"]["mau"]["mau_stages"]
    return (
        sum(len(stage["rams"]["srams"]) for stage in stages),
        sum(len(stage["tcams"]["tcams"]) for stage in stages),
    )


def containers(text: str) -> int:
    """Bits of the containers that hold something, by phv.json."""
    return sum(each["bit_width"] for each in json.loads(text)["containers"] if each["slices"])


def generate_tests(program: str, folder: Path, includes: Iterable[Path], most: int) -> str:
    """Makes STF tests of a program by P4Testgen, in the folder; returns the summary of
    `generated.compared`. Raises `ValueError` if it makes none, or that refuses some."""
    generation = TARGETS[program]
    target, architecture = ARCHITECTURES[generation]
    folder.mkdir(parents=True, exist_ok=True)
    run(
        [
            *(TESTGEN, "--target", target, "--arch", architecture, *options(includes)),
            *(f"-D__TARGET_TOFINO__={generation}", "--test-backend", "STF", "--seed", "1"),
            # Depth first, its default, stays for minutes among paths of which it makes no test.
            *("--path-selection", "RANDOM_BACKTRACK"),
            *("--max-tests", str(most), "--out-dir", str(folder)),
            str(SOURCES / "tna" / f"{program}.p4"),
        ]
    )
    tests = [generated.parsed(path.read_text()) for path in sorted(folder.rglob("*.stf"))]
    if not tests:
        raise ValueError(f"{TESTGEN} has made no test of {program}")
    return generated.compared(tests)
