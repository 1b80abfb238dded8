"""`python -m ebb_experiments.bench [SUBJECT...]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ebb_topologies.errors import InputError
from ebb_topologies.installation import programs, results, work_tree
from ebb_topologies.nearest import hint
from ebb_topologies.own_folder import keep_from_others
from ebb_topologies.processes import interrupted_by_all

SUBJECTS = (
    "goodput",
    "codec_overlap",
    "fabric",
    "dashboard",
    "forward",
    "codec",
    "spacing",
    "allocations",
    "pipeline",
    "simulation",
    "htsim",
    "tables",
    "writes",
)
"""Subjects in the order in which they run: a module of each has `run`."""
OLD_NAMES = {"hiding": "codec_overlap"}
"""Former names of subjects, which are taken until the release after this one."""
MTU_BYTES = 1500
LEAST_MTU_BYTES, MOST_MTU_BYTES = 576, 9216
PAIRS, QUICK_PAIRS = 5, 3
"""How many pairs of runs `--base` makes of a subject."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs subjects. Exit code 2: a benchmark could not run. A missed target is a result, not a
    failure."""
    parser = _parser()
    args = parser.parse_args(argv)
    for old in OLD_NAMES.keys() & args.subjects:
        print(f"bench: {old} is now {OLD_NAMES[old]}", file=sys.stderr)
    args.subjects = [OLD_NAMES.get(name, name) for name in args.subjects]
    unknown = sorted(set(args.subjects) - set(SUBJECTS))
    if unknown:
        parser.error(f"no subject {unknown[0]}; {hint(unknown[0], SUBJECTS)}")
    if args.pairs is not None and args.pairs < 1:
        parser.error(f"--pairs {args.pairs}: at least 1")
    if args.pairs is not None and not args.base:
        parser.error("--pairs needs --base: pairs are of runs of two commits")
    if not LEAST_MTU_BYTES <= args.mtu <= MOST_MTU_BYTES:
        parser.error(f"--mtu {args.mtu}: {LEAST_MTU_BYTES} to {MOST_MTU_BYTES}")
    if args.base and args.agent != programs() / "ebb-agent":
        parser.error("--agent: not with --base, where each commit runs its own")
    args.subjects = args.subjects or list(SUBJECTS)
    keep_from_others()
    interrupted_by_all()  # networks of namespaces and processes are taken down
    root = work_tree()
    if root is None:
        print("bench: it compiles examples of the sources: run it in a work tree", file=sys.stderr)
        return 2
    try:
        if args.base:
            from ebb_experiments.bench import against

            args.pairs = args.pairs or (QUICK_PAIRS if args.quick else PAIRS)
            return against.run(args, root)
        from ebb_experiments.bench import running

        return running.run(args, root)
    except (InputError, OSError) as error:  # a full disk, a folder of others
        print(f"bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ebb_experiments.bench", description=__doc__)
    parser.add_argument(
        "subjects", nargs="*", metavar="SUBJECT", help=f"of {', '.join(SUBJECTS)}; all without"
    )
    parser.add_argument("--agent", type=Path, default=programs() / "ebb-agent")
    parser.add_argument("--results", type=Path, default=results())
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs")
    parser.add_argument(
        "--realtime",
        action="store_true",
        help="agents run before all other processes: for a machine that others use too",
    )
    parser.add_argument(
        "--mtu",
        type=int,
        metavar="BYTES",
        default=MTU_BYTES,
        help=f"of the veths of goodput, and of its agents' packets ({MTU_BYTES})",
    )
    parser.add_argument(
        "--base",
        metavar="COMMIT",
        help="build that commit beside, run its subjects and ours in turn, print the ratios",
    )
    parser.add_argument(
        "--pairs", type=int, help=f"of runs, with --base ({PAIRS}; quick {QUICK_PAIRS})"
    )
    return parser
