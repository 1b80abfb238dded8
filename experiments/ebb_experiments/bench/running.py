"""Runs subjects one after another, prints what they say, and writes it to `bench.json`."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time
from importlib import import_module
from pathlib import Path

from ebb_controller.errors import ControllerError
from ebb_topologies.files import InputError, write
from ebb_topologies.own_folder import own_folder
from ebb_topologies.processes import ProcessDied
from ebb_topologies.text import printable
from rich.console import Console

from ebb_experiments.bench import machine
from ebb_experiments.bench.section import Context, Section
from ebb_experiments.results.load import MOST_OF_OTHERS, OtherProcesses
from ebb_experiments.run.agents import AgentError
from ebb_experiments.run.conversation import SimulatorError

EXPECTED = (InputError, ControllerError, SimulatorError, AgentError, ProcessDied)
"""Errors with a message for people."""


def run(args: argparse.Namespace, root: Path) -> int:
    """Runs the subjects in a work tree; returns the exit code."""
    for name in ("finsy", "ebb_controller"):  # what matters is raised
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    console = Console()
    directory = args.results / time.strftime("bench-%Y%m%d-%H%M%S")
    own_folder(directory)
    context = Context(
        root=root,
        agent=args.agent.absolute(),  # the other binaries of `make build` lie beside it
        directory=directory.resolve(),
        quick=args.quick,
        realtime=args.realtime,
        mtu_bytes=args.mtu,
    )
    about = machine.describe() | {"realtime": args.realtime, "mtu_bytes": args.mtu}
    console.print(", ".join(f"{name} {value}" for name, value in about.items()), highlight=False)
    sections: dict[str, Section] = {}
    others: dict[str, float] = {}
    try:
        for name in args.subjects:
            meanwhile = OtherProcesses()
            sections[name] = import_module(f"ebb_experiments.bench.{name}").run(context)
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
