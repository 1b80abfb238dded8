"""`compare_json A.json B.json`, and `compare_json --programs LIST --left A --right B`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import runner
from .program import Unusable, read
from .sections import Result, compare

EQUAL, DIFFERENT, UNUSABLE = 0, 1, 2


def show(result: Result) -> None:
    for d in result.differences:
        print(f"{d.section}: {d.path}\n  left:  {d.left}\n  right: {d.right}")
    for section, why in result.not_compared:
        print(f"{section}: not compared: {why}")


def files(left: Path, right: Path, limit: int) -> int:
    try:
        result = compare(read(left), read(right), limit)
    except Unusable as problem:
        print(problem, file=sys.stderr)
        return UNUSABLE
    show(result)
    if result.differences:
        return DIFFERENT
    return UNUSABLE if result.not_compared else EQUAL


def main(arguments: list[str] | None = None) -> int:
    sys.setrecursionlimit(100_000)
    parser = argparse.ArgumentParser(
        description="Compares BMv2 JSON files by meaning. Exit: 0 equal, 1 different, 2 unusable."
    )
    parser.add_argument("json", nargs="*", type=Path, help="the two files")
    parser.add_argument(
        "--programs", type=Path, help="one P4 program per line, a tab, options: compile and compare"
    )
    parser.add_argument("--left", default="ebb-p4c", help="a compiler (default %(default)s)")
    parser.add_argument("--right", default="p4c-bm2-ss", help="a compiler (default %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time")
    parser.add_argument("--report", type=Path, help="where every difference is written")
    parser.add_argument(
        "--limit", type=int, default=400_000, help="nodes of a diagram after which to give up"
    )
    options = parser.parse_args(arguments)
    if options.programs:
        return runner.run(options)
    if len(options.json) != 2:
        parser.error("two JSON files, or --programs LIST, are needed")
    left, right = options.json
    return files(left, right, options.limit)
