"""`tools/count_instructions`: what a packet costs, in instructions, against what is recorded.

    tools/count_instructions [SUBJECT ..]             # a line for each; none: all
    tools/count_instructions --record [SUBJECT ..]    # writes the counts, in a commit that says why

Callgrind counts, native code of P4 programs included, so neither the machine nor what else runs on
it matters.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from instructions.counts import OTHER_COMPILER, TOLERANCE, Count, Recorded, verdict
from instructions.subjects import ROOT, SUBJECTS, CountError

FILE = ROOT / "tests" / "instructions.json"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/count_instructions", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the counts")
    parser.add_argument("subject", nargs="*", help=f"of {', '.join(SUBJECTS)}; none: all")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.subject if name not in SUBJECTS]:
        parser.error(f"no subject {unknown[0]}; there are {', '.join(SUBJECTS)}")
    if not shutil.which("valgrind"):
        print("skip instructions: needs valgrind, which tools/setup installs")
        return 0
    subjects = options.subject or list(SUBJECTS)
    return record(subjects) if options.record else compare(subjects)


def compare(subjects: Sequence[str]) -> int:
    """Prints a verdict for each subject. Fails if one costs more than it may."""
    recorded, used = Recorded.read(FILE), compiler()
    tolerance = TOLERANCE if used == recorded.compiler else OTHER_COMPILER
    if used != recorded.compiler:
        print(f"     recorded with {recorded.compiler}, built with {used}: more may differ")
    good = True
    for name, count in counts(subjects):
        fine, lines = False, [f"FAIL {name}: {count}"]
        if isinstance(count, Count):
            fine, lines = verdict(name, recorded.subjects.get(name), count, tolerance)
        print("\n".join(lines), flush=True)
        good &= fine
    return int(not good)


def record(subjects: Sequence[str]) -> int:
    """Writes the counts of these subjects; others stay."""
    kept = Recorded.read(FILE).subjects if FILE.exists() else {}
    found: dict[str, Count] = {}
    for name, count in counts(subjects):
        if not isinstance(count, Count):
            print(f"{name}: {count}; nothing is written", file=sys.stderr)
            return 1
        found[name] = count
        print(f"{name}: {count.instructions:.0f} instructions per {count.per}", flush=True)
    known = {**kept, **found}
    Recorded(compiler(), {name: known[name] for name in SUBJECTS if name in known}).write(FILE)
    return 0


def counts(subjects: Sequence[str]) -> Iterator[tuple[str, Count | CountError]]:
    """The count of each subject, as many at a time as there are processors."""

    def count(name: str) -> Count | CountError:
        try:
            return SUBJECTS[name].count()
        except CountError as error:
            return error

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from zip(subjects, pool.map(count, subjects), strict=True)


def compiler() -> str:
    """The compiler by its version, without commit and date."""
    done = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True)
    return " ".join(done.stdout.split()[:2])
