"""Looks of the tests at this machine."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int | str) -> bool:
    """Whether a process exists and is not merely waiting for its parent to notice its end."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def start_time(pid: int) -> int:
    """Field 22 of /proc/PID/stat: when it was started, in clock ticks after boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def interfaces() -> set[str]:
    """The interfaces of our network namespace."""
    return {path.name for path in Path("/sys/class/net").iterdir()}
