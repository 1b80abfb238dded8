"""Compiles every program of a list with two compilers and counts what differs."""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .program import Unusable, read
from .sections import SECTIONS, Result, compare

SECONDS = 120
"""For one compilation."""


@dataclass
class Outcome:
    program: str
    verdict: str
    """`equal`, `different`, `not compared`, `refused`, `left only`, `right only`, `failed`."""
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
    """Compiles; what the compiler said if it refused."""
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
    sys.setrecursionlimit(100_000)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, "left.json"), Path(folder, "right.json")]
        refusals = [
            compiled(c, program, options, p) for c, p in zip((left, right), paths, strict=True)
        ]
        name = " ".join([program, *options])
        if None not in refusals:
            return Outcome(name, "refused", messages=f"left: {refusals[0]}\nright: {refusals[1]}")
        if refusals[0] is not None:
            return Outcome(name, "right only", messages=refusals[0])
        if refusals[1] is not None:
            return Outcome(name, "left only", messages=refusals[1])
        try:
            result = compare(read(paths[0]), read(paths[1]), limit)
        except (Unusable, RecursionError, KeyError, ValueError, StopIteration) as problem:
            return Outcome(name, "failed", messages=f"{type(problem).__name__}: {problem}")
    if result.differences:
        return Outcome(name, "different", result)
    return Outcome(name, "not compared" if result.not_compared else "equal", result)


def write_report(path: Path, outcomes: list[Outcome]) -> None:
    lines = []
    for outcome in outcomes:
        if outcome.verdict == "equal":
            continue
        lines.append(f"== {outcome.verdict}: {outcome.program}")
        if outcome.messages:
            lines.append(outcome.messages)
        for d in outcome.result.differences:
            lines.append(f"{d.section}: {d.path}\n  left:  {d.left}\n  right: {d.right}")
        lines += [f"{s}: not compared: {why}" for s, why in outcome.result.not_compared]
    path.write_text("\n".join(lines) + "\n")


def run(options: argparse.Namespace) -> int:
    missing = [c for c in (options.left, options.right) if shutil.which(c) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} is not on PATH")
        return 2
    programs = listed(options.programs)
    work = partial(one, options.left, options.right, options.limit)
    with ProcessPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(work, programs))
    if options.report:
        write_report(options.report, outcomes)
    verdicts = Counter(o.verdict for o in outcomes)
    print(f"{len(outcomes)} programs: " + ", ".join(f"{n} {v}" for v, n in verdicts.most_common()))
    compared = [o for o in outcomes if o.verdict in ("equal", "different", "not compared")]
    print(f"{'section':16} {'equal':>6} {'differ':>6} {'not compared':>12}")
    for section in SECTIONS:
        differ = sum(any(d.section == section for d in o.result.differences) for o in compared)
        left_out = sum(any(s == section for s, _ in o.result.not_compared) for o in compared)
        print(f"{section:16} {len(compared) - differ - left_out:6} {differ:6} {left_out:12}")
    bad = verdicts.keys() - {"equal", "refused"}
    return 1 if bad else 0
