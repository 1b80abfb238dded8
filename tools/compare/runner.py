"""Compiles every program of a list with two compilers and counts what differs."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .program import Unusable, read
from .sections import SECTIONS, Result, compare

SECONDS = 600
"""How long one compilation may take, in seconds."""
DEPTH = 5_000
"""Depth of calls that Python allows: diagrams are as deep as they have conditions."""
VERDICTS = {
    "equal": "no difference",
    "explained": "differences for which neither is wrong, each told with its reason",
    "different": "differences without a reason",
    "not compared": "in a part, for a reason that is told; no differences in the rest",
    "not usable": "a file that is no right BMv2 JSON",
    "refused": "neither compiler takes the program",
    "left only": "only the left compiler takes the program",
    "right only": "only the right compiler takes the program",
}


@dataclass
class Outcome:
    program: str
    verdict: str
    """One of VERDICTS."""
    result: Result = field(default_factory=Result)
    messages: str = ""


def listed(path: Path) -> list[tuple[str, list[str]]]:
    programs = []
    for line in path.read_text().splitlines():
        program, _, options = line.partition("\t")
        if program and not program.startswith("#"):
            programs.append((program, shlex.split(options)))
    return programs


def compiled(compiler: str, program: str, options: list[str], to: Path) -> str | None:
    """Compiles a program; returns what the compiler said if it refused, else `None`."""
    try:
        done = subprocess.run(
            [compiler, *options, "-o", str(to), program],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"no answer in {SECONDS} s"
    if done.returncode == 0 and to.exists():
        return None
    return done.stderr.strip() or f"exit code {done.returncode}"


def one(left: str, right: str, limit: int, entry: tuple[str, list[str]]) -> Outcome:
    program, options = entry
    name = " ".join([program, *options])
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, "left.json"), Path(folder, "right.json")]
        refusals = [
            compiled(c, program, options, p) for c, p in zip((left, right), paths, strict=True)
        ]
        if None not in refusals:
            return Outcome(name, "refused", messages=f"left: {refusals[0]}\nright: {refusals[1]}")
        if refusals[0] is not None:
            return Outcome(name, "right only", messages=refusals[0])
        if refusals[1] is not None:
            return Outcome(name, "left only", messages=refusals[1])
        return Outcome(name, *judged(paths[0], paths[1], limit))


def judged(left: Path, right: Path, limit: int) -> tuple[str, Result, str]:
    """The verdict on two files, and why they cannot be compared if so."""
    sys.setrecursionlimit(DEPTH)
    try:
        result = compare(read(left), read(right), limit)
    except Unusable as problem:
        return "not usable", Result(), str(problem)
    except Exception as problem:  # one program must not take the others with it
        place = traceback.extract_tb(problem.__traceback__)[-1]
        where = f"{place.filename}:{place.lineno}"
        return "not usable", Result(), f"{type(problem).__name__}: {problem} ({where})"
    return verdict(result), result, ""


def verdict(result: Result) -> str:
    if any(not d.reason for d in result.differences):
        return "different"
    if result.not_compared:
        return "not compared"
    return "explained" if result.differences else "equal"


def findings(result: Result) -> list[str]:
    """All that was found, as lines; a reason stands in brackets."""
    lines = []
    for d in result.differences:
        reason = f" [{d.reason}]" if d.reason else ""
        lines.append(f"{d.section}: {d.path}{reason}\n  left:  {d.left}\n  right: {d.right}")
    return lines + [f"{s}: not compared: {why}" for s, why in result.not_compared]


def report(outcomes: list[Outcome]) -> str:
    """The counts, and everything that is not equal."""
    lines = [summary(outcomes)]
    for outcome in outcomes:
        if outcome.verdict == "equal":
            continue
        lines.append(f"== {outcome.verdict}: {outcome.program}")
        if outcome.messages:
            lines.append(outcome.messages)
        lines += findings(outcome.result)
    return "\n".join(lines) + "\n"


def summary(outcomes: list[Outcome]) -> str:
    verdicts = Counter(o.verdict for o in outcomes)
    counts = ", ".join(f"{n} {v}" for v, n in verdicts.most_common())
    lines = [f"{len(outcomes)} programs: {counts}"]
    found = Counter(
        r for o in outcomes for r in {d.reason for d in o.result.differences if d.reason}
    )
    lines += [f"{n:6} with {reason}" for reason, n in found.most_common()]
    columns = ("equal", "explained", "different", "not compared")
    compared = [o.result for o in outcomes if o.verdict in columns]
    lines.append(" ".join([f"{'section':16}", *(f"{c:>12}" for c in columns)]))
    for section in SECTIONS:
        of = Counter(verdict(part(result, section)) for result in compared)
        lines.append(" ".join([f"{section:16}", *(f"{of[c]:12}" for c in columns)]))
    return "\n".join(lines)


def part(result: Result, section: str) -> Result:
    return Result(
        [d for d in result.differences if d.section == section],
        [(s, why) for s, why in result.not_compared if s == section],
    )


def run(options: argparse.Namespace) -> int:
    """The report is written again after every program: a run that is ended leaves what it found."""
    missing = [c for c in (options.left, options.right) if shutil.which(c) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} is not on PATH")
        return 2
    work = partial(one, options.left, options.right, options.limit)
    outcomes = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for done in as_completed([pool.submit(work, entry) for entry in listed(options.programs)]):
            outcomes.append(done.result())
            if options.report:
                options.report.write_text(report(outcomes))
    print(summary(outcomes))
    return 1 if {o.verdict for o in outcomes} - {"equal", "explained", "refused"} else 0
