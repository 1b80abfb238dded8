"""What the figures were measured on, and the time of its processors."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

TICKS = os.sysconf("SC_CLK_TCK")


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


def process_cpu_s(pid: int) -> float:
    """User and system time of all threads of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = int(fields[11]), int(fields[12])
    return (user + system) / TICKS


def machine_cpu_s() -> float:
    """Time in which the machine's processors were not idle, in seconds."""
    name, *fields = Path("/proc/stat").read_text().splitlines()[0].split()
    assert name == "cpu"
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, fields)
    return (user + nice + system + irq + softirq) / TICKS
