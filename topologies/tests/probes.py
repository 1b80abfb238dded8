"""What the tests look at on this machine."""

from __future__ import annotations

from pathlib import Path


def runs(pid: int | str) -> bool:
    """Whether a process exists and is not merely waiting for its parent to notice its end."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def interfaces() -> set[str]:
    """The interfaces of our network namespace."""
    return {path.name for path in Path("/sys/class/net").iterdir()}
