"""P4Info of the programs of p4src/tna, as p4c's back end for the chip gives it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "p4src"
STORED = SOURCES / "tna" / "p4info"
"""Files that are checked in, one per program."""

TARGETS = {
    "fabric_marking": 1,
    "fabric_trimming": 1,
    "fabric_notification": 1,
    "fabric_adaptive": 2,
    "fabric_tenants": 1,
}
"""Programs, and the generation of the chip that each is for."""

_HEAD = "# Made by tools/check_tna --write from p4src/tna; not to be edited.\n"


def options(includes: Iterable[Path]) -> list[str]:
    """Folders with core.p4 and tna.p4, as options of p4c's tools."""
    return [f"-I{folder}" for folder in includes]


def name(program: str) -> str:
    return f"{program}.p4info.txtpb"


def made(program: str, folder: Path) -> str:
    """Files of the compiler in the folder. Raises `ValueError` where it has left nothing."""
    path = folder / name(program)
    if not path.exists():
        raise ValueError(f"the compiler has left no {path.name}")
    return _HEAD + path.read_text()


def stored(program: str) -> Path:
    return STORED / name(program)
