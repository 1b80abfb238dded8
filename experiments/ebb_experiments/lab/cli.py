"""`ebb-lab FILE [SCRIPT ..]`: switches with your programs and hosts in Python, in virtual time.

SCRIPT, a Python program, has a function main(lab, ..), which is given the lab and the arguments
that follow. Without one, a terminal gets a prompt.
"""

from __future__ import annotations

import argparse
import code
import runpy
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ebb_topologies import installation
from ebb_topologies.arguments import Parser, whole_from
from ebb_topologies.errors import InputError
from ebb_topologies.processes import interrupted_by_all
from ebb_topologies.text import printable

from ebb_experiments.lab.lab import FIRST_PORT, Lab
from ebb_experiments.run.conversation import SimulatorError

BANNER = """\
lab.run(UNTIL_NS)  lab.send(HOST, FRAME)  lab.attach(HOST, f): f(AT_NS, FRAME)  lab.call(AT_NS, f)
help(lab) says more; Ctrl-D ends."""


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Options of `ebb-lab`."""
    parser = Parser(prog="ebb-lab", description=__doc__)
    parser.add_argument("file", type=Path, help="file of the lab (docs/lab.md)")
    parser.add_argument("script", nargs="?", type=Path, help="Python program")
    rest = parser.add_argument("args", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False  # argparse would list it among those that are missing
    parser.add_argument(
        "--first-port",
        type=whole_from(1),
        default=FIRST_PORT,
        help="TCP port of the first switch, on 127.0.0.1; the others follow (default: %(default)s)",
    )
    parser.add_argument(
        "--build", type=Path, default=installation.programs(), help="where ebb-simulator is"
    )
    parser.add_argument("--version", action=installation.Version)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Starts the lab and hands it to the script, or to who sits at the terminal."""
    started = time.monotonic()
    interrupted_by_all()
    try:
        options = arguments(argv)
        with Lab.open(options.file, first_port=options.first_port, build=options.build) as lab:
            for switch, address in lab.addresses.items():
                print(f"{switch:9} {address}")
            print(f"up in {time.monotonic() - started:.1f} s", flush=True)
            play(lab, options.script, options.args)
    except (InputError, SimulatorError, OSError) as error:
        print(f"ebb-lab: {printable(error)}", file=sys.stderr)
        return 1
    return 0


def play(lab: Lab, script: Path | None, args: Sequence[str]) -> None:
    """Calls the script's `main`, or has a prompt where there is no script."""
    if script is not None:
        if not script.is_file():
            raise InputError(f"{script} is no file")
        sys.path.insert(0, str(script.parent))
        function = runpy.run_path(str(script)).get("main")
        if function is None:
            raise InputError(f"{script} has no function main(lab, ..)")
        function(lab, *args)
    elif sys.stdin.isatty():
        code.interact(BANNER, local={"lab": lab}, exitmsg="")
