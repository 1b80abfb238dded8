"""The machine of the figures, and how commands are run there."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from ebb_topologies.files import InputError

from ebb_experiments.bench.section import Context
from ebb_experiments.results.load import read_stat
from ebb_experiments.run.usage import TICKS

REALTIME_PRIORITY = 10
"""Priority (SCHED_RR) of what is measured with `--realtime`."""


def describe() -> dict[str, Any]:
    """The machine: its kind of processor and kernel, not its name."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    hypervisor = "hypervisor" in Path("/proc/cpuinfo").read_text()
    return {
        "processors": os.cpu_count(),
        "model": model,
        "virtual": hypervisor,
        "kernel": platform.release(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def busy_seconds() -> float:
    """Time in which the machine's processors were not idle, interrupts included, in seconds."""
    busy, _all = read_stat()
    return busy / TICKS


def realtime(context: Context) -> list[str]:
    """Beginning of a command that with `--realtime` runs before all other processes: all its
    threads, unlike with `engine.realtime_priority`."""
    return ["chrt", "--rr", str(REALTIME_PRIORITY)] if context.realtime else []


def example(context: Context, package: str, name: str, *arguments: str) -> str:
    """Builds and runs an example of a crate; returns what it prints."""
    command = ["cargo", "run", "--quiet", "--locked", "-p", package, "--example", name, "--"]
    return output_of(*command, *arguments, folder=context.root)


def output_of(*command: str, folder: Path | None = None) -> str:
    """Runs a command in a folder (none: the current one); returns what it prints."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(f"{' '.join(command)} failed: {(done.stdout + done.stderr).strip()}")
    return done.stdout
