"""`ebb-sim SCENARIO`: runs schemes in virtual time, writes results, prints what became of flows."""

from __future__ import annotations

import argparse
import gc
import os
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ebb_topologies import installation
from ebb_topologies.arguments import Parser, whole_from
from ebb_topologies.errors import InputError
from ebb_topologies.interruption import interruptible
from ebb_topologies.own_folder import keep_from_others
from ebb_topologies.processes import interrupted_by_all

from ebb_experiments.scenario.architecture import ARCHITECTURES, P4_HELP
from ebb_experiments.scenario.volume import VOLUME_HELP


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Options of `ebb-sim`."""
    parser = Parser(prog="ebb-sim", description=__doc__)
    parser.add_argument(
        "scenario", type=Path, help="file, or name as sim/incast (docs/simulation.md)"
    )
    parser.add_argument("--schemes", help="comma-separated, instead of the scenario's")
    parser.add_argument("--threads", type=whole_from(0), default=0, help="0: one per processor")
    parser.add_argument(
        "--skip",
        action="store_true",
        help="skip rounds that repeat each other, as the scenario's key (docs/simulation.md)",
    )
    parser.add_argument("--volume", help=VOLUME_HELP)
    parser.add_argument("--p4", choices=ARCHITECTURES, default="v1model", help=P4_HELP)
    parser.add_argument(
        "--out",
        type=Path,
        default=installation.results() / "sim",
        help="folder; results are in SCENARIO/TIME below it (default: %(default)s)",
    )
    parser.add_argument(
        "--build",
        type=Path,
        default=installation.programs(),
        help="where ebb-simulator and ebb-agent are",
    )
    parser.add_argument("--version", action=installation.Version)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Loads the modules of a run once its arguments are understood: they take most of a second."""
    interrupted_by_all()
    keep_from_others()
    try:
        options = arguments(argv)
    except InputError as error:
        from ebb_experiments.results.terminal import print_error

        print_error("ebb-sim", error)
        return 1
    # pydantic would look for plugins in all installed packages.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Nor has it to look among those that are imported, all of which stay.
    gc.disable()
    from ebb_experiments.sim import running

    gc.freeze()
    gc.enable()
    return running.main(options)


def command() -> NoReturn:
    """`ebb-sim`, which ends as soon as it has done its work: Python would take apart first what it
    has imported, one object after the other."""
    code = interruptible("ebb-sim", main)
    for thread in threading.enumerate():
        if not (thread.daemon or thread is threading.main_thread()):
            thread.join()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    command()
