"""`tools/warnings [--write] [FOLDER | PROGRAM ...]`: which warnings ebb-p4c and p4c-bm2-ss give.

Both compile every program that includes v1model.p4; a warning is what a compiler says of a line
under a name. The table counts, by name, what both say of a line, of another line of the same
program, and what only one says. A FOLDER stands for the programs in it; without one it is the
samples of p4c in `EBB_P4C_TESTDATA`. What is missing is told as skipped. docs/p4c.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from . import compilers

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "p4c.md"
BEGIN, END = "<!-- made by `tools/warnings --write` -->\n", "<!-- /made -->\n"
SAMPLES = "p4_16_samples"
UNUSABLE = 2
THEIR_LINE = re.compile(
    r"^(?:(?P<file>\S+)\((?P<line>\d+)\): )?\[--Wwarn=(?P<code>[\w -]+)\] warning: (?P<text>.*)$",
    re.MULTILINE,
)
OUR_NAMES = {
    "value-truncated": "overflow",
    "unknown-property": "ignore-prop",
    "constant-key": "mismatch",
    "ignored-annotation": "ignore",
    "empty-field-list": "invalid",
}
"""p4c's name for what has another one of ours."""
NO_LINE = 0


@dataclass(frozen=True, slots=True, order=True)
class Warned:
    """A warning of a compiler."""

    code: str
    line: int
    """0: it belongs to no line of the program."""
    text: str = field(compare=False)


@dataclass(slots=True)
class Agreement:
    same: Counter[str] = field(default_factory=Counter)
    elsewhere: Counter[str] = field(default_factory=Counter)
    theirs: Counter[str] = field(default_factory=Counter)
    ours: Counter[str] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)
    """A line for each warning that only one compiler gives."""

    def add(self, program: Path, ours: set[Warned], theirs: set[Warned]) -> None:
        both = ours & theirs
        self.same.update(w.code for w in both)
        left = {c: sorted(w for w in ours - both if w.code == c) for c in codes(ours)}
        for warned in sorted(theirs - both):
            of_code = left.get(warned.code)
            if of_code:
                of_code.pop(0)
                self.elsewhere[warned.code] += 1
            else:
                self.theirs[warned.code] += 1
                self.told.append(f"theirs {program}:{warned.line}: {warned.code}: {warned.text}")
        for warned in (w for of_code in left.values() for w in of_code):
            self.ours[warned.code] += 1
            self.told.append(f"ours   {program}:{warned.line}: {warned.code}: {warned.text}")

    def table(self) -> str:
        head = "| name | the same line | another line | only p4c-bm2-ss | only ebb-p4c |\n"
        columns = (self.same, self.elsewhere, self.theirs, self.ours)
        names = sorted(set().union(*columns))
        rows = (f"| `{n}` | {' | '.join(str(c[n]) for c in columns)} |\n" for n in names)
        return head + "|---|---|---|---|---|\n" + "".join(rows)


def codes(warned: Iterable[Warned]) -> set[str]:
    return {w.code for w in warned}


def of_theirs(text: str, program: Path) -> set[Warned]:
    """The warnings in what p4c-bm2-ss prints, but for those about its library."""
    found = set()
    for match in THEIR_LINE.finditer(text):
        if match["file"] and Path(match["file"]).name != program.name:
            continue
        code, words = match["code"], match["text"]
        if code == "ignore-prop" and "constant key" in words:
            continue  # The same warning comes as `mismatch`, too.
        if code == "mismatch" and re.search("does not fit|negative value", words):
            code = "overflow"
        found.add(Warned(code, int(match["line"] or NO_LINE), words))
    return found


def of_ours(text: str, program: Path) -> set[Warned]:
    """The warnings in what `ebb-p4c --error-format=json` prints."""
    found = set()
    for line in text.splitlines():
        message = json.loads(line)
        place = message["place"]
        if message["severity"] != "warning" or (place and Path(place["file"]).name != program.name):
            continue
        code = OUR_NAMES.get(message["code"], message["code"])
        found.add(Warned(code, place["line"] if place else NO_LINE, message["message"]))
    return found


def compiled(command: list[str], program: Path) -> str | None:
    """Output of a compiler; None if it refuses the program."""
    done = subprocess.run(
        [*command, "-o", "/dev/null", str(program)],
        capture_output=True,
        timeout=compilers.TIMEOUT_S,
        check=False,
        cwd=program.parent,
        env={**os.environ, "LC_ALL": "C"},
    )
    return done.stderr.decode(errors="replace") if done.returncode == 0 else None


def programs(paths: list[Path]) -> list[Path]:
    """Those that include v1model.p4."""
    files = [f for p in paths for f in (sorted(p.glob("*.p4")) if p.is_dir() else [p])]
    return [f.resolve() for f in files if "v1model.p4" in f.read_text(errors="replace")]


def compared(files: list[Path], ours: str, theirs: str, jobs: int) -> tuple[Agreement, int]:
    """How the compilers agree, and on how many programs, which both take."""

    def both(program: Path) -> tuple[str | None, str | None]:
        left = compiled([ours, "--error-format=json"], program)
        with tempfile.TemporaryDirectory() as folder:
            # Without a P4Info p4c does not say what is wrong for controllers.
            info = ["--p4runtime-files", f"{folder}/p4info.txtpb"]
            return left, compiled([theirs, *info], program)

    agreement, taken = Agreement(), 0
    with ThreadPoolExecutor(jobs) as pool:
        for program, (left, right) in zip(files, pool.map(both, files), strict=True):
            if left is not None and right is not None:
                agreement.add(program, of_ours(left, program), of_theirs(right, program))
                taken += 1
    return agreement, taken


def write(table: str) -> None:
    """Renews the table of the page."""
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(before + BEGIN + table + END + after)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compares warnings with those of p4c-bm2-ss.")
    parser.add_argument("paths", nargs="*", type=Path, help="programs, or folders of them")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="folder of ebb-p4c")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time")
    parser.add_argument("--list", action="store_true", help="what only one compiler says")
    parser.add_argument("--write", action="store_true", help=f"renew the table of {PAGE.name}")
    options = parser.parse_args(arguments)
    testdata = os.environ.get("EBB_P4C_TESTDATA")
    paths = options.paths or ([Path(testdata) / SAMPLES] if testdata else [])
    ours = compilers.command(compilers.OURS, options.build.resolve())
    theirs = compilers.command(compilers.THEIRS, options.build)
    absent = [
        name for name, path in ((compilers.OURS, ours), (compilers.THEIRS, theirs)) if not path
    ]
    if not paths:
        absent.append("programs (none given, and EBB_P4C_TESTDATA is not set)")
    if absent or ours is None or theirs is None:
        print(f"skip: there is no {', no '.join(absent)}")
        return UNUSABLE
    files = programs(paths)
    agreement, taken = compared(files, ours, theirs, options.jobs)
    print(agreement.table(), end="")
    print(f"{len(files)} programs, {len(files) - taken} skipped: one of the compilers refuses them")
    if options.list:
        print("\n".join(agreement.told))
    if options.write:
        write(agreement.table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
