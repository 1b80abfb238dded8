"""`python -m ebb_experiments.bench [SUBJECT...]`."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ebb_controller.reconcile import ControllerError
from ebb_topologies.files import InputError, write
from ebb_topologies.installation import programs, results, work_tree
from ebb_topologies.nearest import hint
from ebb_topologies.own_folder import keep_from_others, own_folder
from ebb_topologies.processes import ProcessDied, interrupted_by_all
from ebb_topologies.text import printable
from rich.console import Console

from ebb_experiments.bench import (
    allocations,
    codec,
    dashboard,
    fabric,
    forward,
    goodput,
    hiding,
    machine,
    pipeline,
    simulation,
    spacing,
    tables,
    writes,
)
from ebb_experiments.bench.section import Context, Section
from ebb_experiments.results.load import MOST_OF_OTHERS, Others
from ebb_experiments.run.agents import AgentError
from ebb_experiments.run.simulator import SimulatorError

SUBJECTS: dict[str, Callable[[Context], Section]] = {
    "goodput": goodput.run,
    "hiding": hiding.run,
    "fabric": fabric.run,
    "dashboard": dashboard.run,
    "forward": forward.run,
    "codec": codec.run,
    "spacing": spacing.run,
    "allocations": allocations.run,
    "pipeline": pipeline.run,
    "simulation": simulation.run,
    "tables": tables.run,
    "writes": writes.run,
}
"""Subjects by name, in the order in which they run."""
EXPECTED = (InputError, ControllerError, SimulatorError, AgentError, ProcessDied)
"""Errors with a message for people."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs subjects. Exit code 2: a benchmark could not run. A missed target is a result, not a
    failure."""
    parser = _parser()
    args = parser.parse_args(argv)
    for name in ("finsy", "ebb_controller"):  # what matters is raised
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    keep_from_others()
    interrupted_by_all()  # networks of namespaces and processes are taken down
    unknown = sorted(set(args.subjects) - set(SUBJECTS))
    if unknown:
        parser.error(f"no subject {unknown[0]}; {hint(unknown[0], SUBJECTS)}")
    try:
        return _run(args)
    except (InputError, OSError) as error:  # a full disk, a folder of others
        print(f"bench: {error}", file=sys.stderr)
        return 2


def _run(args: argparse.Namespace) -> int:
    root = work_tree()
    if root is None:
        print("bench: it compiles examples of the sources: run it in a work tree", file=sys.stderr)
        return 2
    console = Console()
    directory = args.results / time.strftime("bench-%Y%m%d-%H%M%S")
    own_folder(directory)
    context = Context(
        root=root,
        agent=args.agent.absolute(),  # the other binaries of `make build` lie beside it
        directory=directory.resolve(),
        quick=args.quick,
        realtime=args.realtime,
    )
    about = machine.describe() | {"realtime": args.realtime}
    console.print(", ".join(f"{name} {value}" for name, value in about.items()), highlight=False)
    sections: dict[str, Section] = {}
    others: dict[str, float] = {}
    try:
        for name in args.subjects or SUBJECTS:
            meanwhile = Others()
            sections[name] = SUBJECTS[name](context)
            sections[name].print(console)
            others[name] = meanwhile.share()
            if others[name] > MOST_OF_OTHERS:
                console.print(
                    "  this machine was too busy: these rows are not valid: others took "
                    f"{others[name]:.0%} of the processors' time, at most {MOST_OF_OTHERS:.0%}",
                    style="bold yellow",
                    highlight=False,
                )
    except EXPECTED as error:
        print(f"bench: {printable(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    finally:
        result = {
            "machine": about,
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "sections": {name: section.as_json() for name, section in sections.items()},
            "others_share": others,
        }
        write(directory / "bench.json", json.dumps(result, indent=1) + "\n")
    console.print(f"all figures: {directory / 'bench.json'}", highlight=False)
    return 0


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
    return parser
