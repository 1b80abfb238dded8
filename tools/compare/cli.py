"""`compare_json A.json B.json`, and `compare_json --programs LIST --left A --right B`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import runner

EQUAL, DIFFERENT, UNUSABLE = 0, 1, 2
EXIT = {"equal": EQUAL, "explained": EQUAL, "different": DIFFERENT}


def files(left: Path, right: Path, limit: int) -> int:
    verdict, result, problem = runner.judged(left, right, limit)
    if problem:
        print(problem, file=sys.stderr)
    for line in runner.findings(result):
        print(line)
    return EXIT.get(verdict, UNUSABLE)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="Compares BMv2 JSON files by meaning.",
        epilog="Exit: 0 equal or explained, 1 different, 2 not all compared.",
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
