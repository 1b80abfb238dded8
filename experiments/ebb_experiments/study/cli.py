"""`ebb-experiment`: the papers' experiments in virtual time, and the report about them."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from ebb_topologies.arguments import Parser, whole_from
from ebb_topologies.errors import InputError
from ebb_topologies.installation import Version, data, results
from ebb_topologies.interruption import interruptible
from ebb_topologies.own_folder import keep_from_others
from ebb_topologies.processes import interrupted_by_all
from ebb_topologies.text import printable

from ebb_experiments.study.choices import FABRICS, SIZES, Scalar


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Options of `ebb-experiment`."""
    parser = Parser(prog="ebb-experiment", description=__doc__)
    parser.add_argument("--version", action=Version)
    commands = parser.add_subparsers(dest="command", required=True, parser_class=Parser)
    commands.add_parser("list", help="what there is")
    running = commands.add_parser("run", help="trials that have not been run, then the report")
    reporting = commands.add_parser("report", help="from the trials that have been run")
    checking = commands.add_parser(
        "check", help="whether today's programs give again what pages have: a trial of each scheme"
    )
    for each in (running, reporting, checking):
        each.add_argument("names", nargs="*", help="experiments, or files; none: all")
        each.add_argument(
            "--build",
            type=Path,
            help="where the programs are, for the workers, too; none: each its own",
        )
    for each in (running, checking):
        each.add_argument("--cluster", help="address of a Dask scheduler; none: this machine")
        each.add_argument(
            "--workers", type=whole_from(1), help="of this machine; none: one per processor"
        )
    for each in (running, reporting):
        each.add_argument(
            "--results",
            type=Path,
            default=results() / "experiments",
            help="folder of the trials that have been run, and of those that are run now "
            "(default: %(default)s)",
        )
        each.add_argument(
            "--out",
            type=Path,
            default=results() / "report",
            help="folder of the report (default: %(default)s)",
        )
        each.add_argument(
            "--markdown", action="store_true", help="no report.html, figures as PNG only"
        )
        each.add_argument(
            "--keep",
            action="store_true",
            help="what a page's archive has of trials that are not stored stays in the page",
        )
        each.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="PATH=VALUE",
            type=_setting,
            help="what differs from the file, as agent.nic.queue=fifo; may be repeated",
        )
    running.add_argument(
        "--size", choices=SIZES, default="quick", help="that of the file: [size.quick], [size.full]"
    )
    running.add_argument(
        "--stale", action="store_true", help="those whose committed results are of older programs"
    )
    running.add_argument(
        "--fabric", choices=FABRICS, default="virtual", help="mininet: in real time, slowed"
    )
    checking.add_argument(
        "--out", type=Path, default=data() / "docs" / "results", help="folder with the pages"
    )
    checking.add_argument(
        "--seconds",
        type=float,
        default=60,
        help="run no trials of an experiment that took longer together",
    )
    reporting.add_argument("--size", choices=SIZES, help="none: full where there is any of it")
    return parser.parse_args(argv)


def _setting(text: str) -> tuple[str, Scalar]:
    """`PATH=VALUE` of `--set`: a number, true or false as in TOML; anything else is text."""
    path, equals, value = text.partition("=")
    if not (path and equals and value):
        raise argparse.ArgumentTypeError(f"'{printable(text)}' is not PATH=VALUE")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value
    return path, parsed if isinstance(parsed, (bool, int, float)) else value.strip('"')


def main(argv: Sequence[str] | None = None) -> int:
    """The command with its arguments; returns the exit code."""
    interrupted_by_all()
    keep_from_others()
    try:
        return _command(arguments(argv))
    except (InputError, OSError) as error:
        return _failed(error, 1)
    except KeyboardInterrupt:
        return _failed("interrupted; what has ended is stored, run it again to go on", 130)


def _command(options: argparse.Namespace) -> int:
    """Imports of a command come once its arguments are understood: those of all but `list` take
    two seconds."""
    if options.command == "list":
        from ebb_experiments.study import listing

        return listing.main()
    from ebb_experiments.study import commands

    return commands.main(options)


def _failed(why: Exception | str, code: int) -> int:
    from ebb_experiments.results.terminal import print_error

    print_error("ebb-experiment", why)
    return code


if __name__ == "__main__":
    sys.exit(interruptible("ebb-experiment", main))
