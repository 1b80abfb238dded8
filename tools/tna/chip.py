"""The programs of p4src/tna through p4c's back end for the chip, and what its reports say."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .p4info import SOURCES, TARGETS, options

COMPILER, ASSEMBLER, SUMMARY, TESTGEN = "p4c-barefoot", "bfas", "p4c-build-logs", "p4testgen"
TIMEOUT_S = 1800
"""How long one tool may take for one program; fitting a large program takes minutes."""
STAGES = {1: 12, 2: 20}
"""Stages of the chip, by generation."""
ARCHITECTURES = {1: ("tofino", "tna"), 2: ("tofino2", "t2na")}
"""Target and architecture for the tools, by generation."""


@dataclass(frozen=True)
class Fit:
    """What a program takes of the chip. None: the tools that are there do not tell."""

    stages: int | None = None
    critical_path: int | None = None
    """Stages that the dependencies alone need."""
    srams: int | None = None
    tcams: int | None = None
    phv_bits: int | None = None

    def row(self, program: str) -> str:
        told = (self.stages, self.critical_path, self.srams, self.tcams, self.phv_bits)
        limit = STAGES[TARGETS[program]]
        cells = ["-" if number is None else str(number) for number in told]
        return f"| `{program}` | {limit} | " + " | ".join(cells) + " |"


HEAD = (
    "| program | stages of the chip | stages used | critical path | SRAMs | TCAMs | bits of PHV |",
    "|---|---|---|---|---|---|---|",
)


def missing(*tools: str) -> str:
    """Which of the tools are not on PATH; empty: none."""
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
        told = "\n".join(lines[:20]) or text[-2000:]
        raise ValueError(f"{arguments[0]} ended with {done.returncode}:\n{told}")
    return text


def fit(program: str, folder: Path, includes: Iterable[Path]) -> Fit:
    """Compiles and assembles a program. Raises `ValueError` if it does not fit, or is refused."""
    generation = TARGETS[program]
    target, architecture = ARCHITECTURES[generation]
    run(
        [
            *(COMPILER, "--target", target, "--arch", architecture, *options(includes)),
            *(f"-D__TARGET_TOFINO__={generation}", "-g", "--verbose", "-Ttable_summary:1"),
            "--p4runtime-force-std-externs",
            *("--p4runtime-files", str(folder / f"{program}.p4info.txtpb")),
            *("-o", str(folder), str(SOURCES / "tna" / f"{program}.p4")),
        ]
    )
    assembly = sorted(folder.rglob("*.bfa"))
    if not assembly:
        raise ValueError(f"{COMPILER} has left no .bfa in {folder}")
    for each in assembly:
        run([ASSEMBLER, "--target", target, "-o", str(each.parent), str(each)])
    found = reports(folder)
    if found.stages is not None and found.stages > STAGES[generation]:
        raise ValueError(f"{program} takes {found.stages} of {STAGES[generation]} stages")
    return found


def reports(folder: Path) -> Fit:
    """What the reports in the output of the compiler say."""
    logs = sorted(folder.rglob("table_summary*.log"))
    stages, critical = table_summary(logs[-1].read_text()) if logs else (None, None)
    context = sorted(folder.rglob("context.json"))
    if context and not missing(SUMMARY):
        resources = sorted(folder.rglob("resources.json"))
        given = ["-r", str(resources[0])] if resources else []
        run([SUMMARY, str(context[0]), *given, "-o", str(folder / "summary"), "--disable-phv-json"])
    metrics = sorted(folder.rglob("metrics.json"))
    srams, tcams, phv = resources_of(metrics[0].read_text()) if metrics else (None, None, None)
    return Fit(stages, critical, srams, tcams, phv)


def table_summary(text: str) -> tuple[int | None, int | None]:
    """Stages and length of the critical path, of the last attempt that the log tells of."""

    def last(pattern: str) -> int | None:
        found = re.findall(pattern, text)
        return int(found[-1]) if found else None

    return (
        last(r"Number of stages in table allocation: (\d+)"),
        last(r"Critical path length through the table dependency graph: (\d+)"),
    )


def resources_of(text: str) -> tuple[int, int, int]:
    """SRAMs, TCAMs, and bits of containers that hold something."""
    metrics = json.loads(text)
    containers = [each for kind in metrics["phv"].values() for each in kind]
    bits = sum(each["containers_occupied"] * each["bit_width"] for each in containers)
    return metrics["mau"]["srams"], metrics["mau"]["tcams"], bits


def generate_tests(program: str, folder: Path, includes: Iterable[Path], most: int) -> int:
    """How many STF tests P4Testgen makes of a program, into the folder. Raises `ValueError`
    where it makes none."""
    generation = TARGETS[program]
    target, architecture = ARCHITECTURES[generation]
    folder.mkdir(parents=True, exist_ok=True)
    run(
        [
            *(TESTGEN, "--target", target, "--arch", architecture, *options(includes)),
            *(f"-D__TARGET_TOFINO__={generation}", "--test-backend", "STF", "--seed", "1"),
            *("--max-tests", str(most), "--out-dir", str(folder)),
            str(SOURCES / "tna" / f"{program}.p4"),
        ]
    )
    made = len(list(folder.rglob("*.stf")))
    if made == 0:
        raise ValueError(f"{TESTGEN} has made no test of {program}")
    return made
