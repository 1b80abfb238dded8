"""Processor time and memory of a process so far."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
"""How many clock ticks of the kernel's accounts are a second."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Numbers of one process, threads that have ended included (proc(5))."""

    cpu_seconds: float
    """User and system time."""
    memory_bytes: int
    """Resident memory."""
    peak_bytes: int
    """The most resident memory that it ever had."""

    @classmethod
    def of(cls, pid: int) -> Usage:
        """Usage of a process so far; raises `OSError` if it has gone."""
        proc = Path(f"/proc/{pid}")
        # The name of the program, in parentheses, may contain anything.
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        user, system = int(fields[11]), int(fields[12])
        status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
        # One that has ended and is not waited for has no memory any more.
        now, peak = (int(status.get(k, "0").split()[0]) * 1024 for k in ("VmRSS", "VmHWM"))
        return cls((user + system) / TICKS, now, peak)
