"""P4Info of the programs of p4src/tna, from the front end of p4c (`p4test`).

P4c's own P4Info for TNA comes from its back end, which takes hours to build; the part that makes it
of tables, keys and actions is the front end's. What the front end lacks are the names of TNA's
counters, meters and selectors: it knows those of v1model. So it is given a copy of the sources in
which these declarations are v1model's.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "p4src"
STORED = SOURCES / "tna" / "p4info"
"""What is checked in, a file per program."""

TARGETS = {"fabric_marking": 1, "fabric_trimming": 1, "fabric_adaptive": 2}
"""Programs, and the generation of the chip that each is for."""

_V1MODEL = """
enum CounterType { packets, bytes, packets_and_bytes }
extern counter { counter(bit<32> size, CounterType type); void count<I>(in I index); }
enum MeterType { packets, bytes }
extern meter { meter(bit<32> size, MeterType type); bit<8> execute<I>(in I index); }
enum HashAlgorithm { crc16 }
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}
"""
_CHANGES = (
    (
        r"Counter<[^(]*>\((.*), CounterType_t\.PACKETS_AND_BYTES\)",
        r"counter(\1, CounterType.packets_and_bytes)",
    ),
    (r"Meter<[^(]*>\((.*), MeterType_t\.BYTES\)", r"meter(\1, MeterType.bytes)"),
    (r"ActionSelector\(.*\) ecmp;", "action_selector(HashAlgorithm.crc16, ECMP_MEMBERS, 16) ecmp;"),
    (r"(#include <(tna|t2na)\.p4>\n)", r"\1" + _V1MODEL.replace("\\", r"\\")),
)
_HEAD = "# Made by tools/check_tna --write from p4src/tna; not to be edited.\n"


def options(includes: Iterable[Path]) -> list[str]:
    """Folders with core.p4 and tna.p4, as options of p4c's tools."""
    return [f"-I{folder}" for folder in includes]


def make(program: str, p4test: str, includes: Iterable[Path]) -> str:
    """P4Info of a program, as text. Raises `ValueError` with the errors of the front end."""
    architecture = "tna" if TARGETS[program] == 1 else "t2na"
    with tempfile.TemporaryDirectory(prefix="ebb-tna-") as folder:
        copy = Path(folder) / "p4src"
        shutil.copytree(SOURCES, copy)
        for source in (copy / "tna").rglob("*.p4"):
            text = source.read_text()
            for pattern, new in _CHANGES:
                text = re.sub(pattern, new, text)
            source.write_text(text)
        made = Path(folder) / "p4info.txtpb"
        done = subprocess.run(
            [
                p4test,
                *options(includes),
                f"-D__TARGET_TOFINO__={TARGETS[program]}",
                "--p4runtime-files",
                str(made),
                str(copy / "tna" / f"{program}.p4"),
            ],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode != 0 or not made.exists():
            raise ValueError(
                f"{program}: p4test ended with {done.returncode}:\n{_errors(done.stderr)}"
            )
        return _HEAD + made.read_text().replace('arch: "v1model"', f'arch: "{architecture}"')


def _errors(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "error" in line.lower() or "BUG" in line)


def stored(program: str) -> Path:
    return STORED / f"{program}.p4info.txtpb"
