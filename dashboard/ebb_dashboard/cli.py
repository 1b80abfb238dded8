"""`ebb-dashboard`: a live view in the browser of a fabric, a simulation, a run or its results."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import FrameType
from typing import Any

from ebb_controller.errors import ControllerError
from ebb_controller.tracts import check_address
from ebb_experiments.results import folders
from ebb_experiments.run.agents import AgentError
from ebb_experiments.run.conversation import SimulatorError
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.run import Binaries
from ebb_experiments.scenario.loaded import load_scenario
from ebb_experiments.scenario.volume import VOLUME_HELP, volume_slot_ns
from ebb_topologies.arguments import Parser, whole_from
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError
from ebb_topologies.installation import Version, programs, results, scenario
from ebb_topologies.own_folder import keep_from_others
from ebb_topologies.text import printable

from ebb_dashboard.finished import Finished
from ebb_dashboard.live import Watcher, attached
from ebb_dashboard.replicas import BlobStore
from ebb_dashboard.server import PORT
from ebb_dashboard.serving import HandlerInLoop, Serving

EXPECTED = (InputError, ControllerError, AgentError, SimulatorError, OSError)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line. Raises `InputError`."""
    parser = Parser(prog="ebb-dashboard", description=__doc__)
    parser.add_argument("--version", action=Version)
    common = Parser(add_help=False)
    common.add_argument(
        "--port", type=_port, default=PORT, help="of 127.0.0.1; 0: any (default: %(default)s)"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="WHAT")
    fabric = commands.add_parser(
        "fabric", parents=[common], help="a fabric that runs in one process, as that of `make run`"
    )
    fabric.add_argument(
        "--socket", type=Path, metavar="FILE", help="where it is served (default: of `make run`)"
    )
    fabric.add_argument(
        "--dilation", type=_factor, default=1.0, metavar="D", help="how many times slower it runs"
    )
    fabric.add_argument(
        "--locator", type=_locator, metavar="ADDRESS", help="of a blob store on its hosts"
    )
    sim = commands.add_parser("sim", parents=[common], help="a scenario in virtual time")
    sim.add_argument("scenario", type=Path, help="file, or name as sim/incast")
    sim.add_argument("--schemes", help="comma-separated, instead of the scenario's")
    sim.add_argument("--volume", help=VOLUME_HELP)
    sim.add_argument(
        "--every-us", type=_factor, default=100.0, help="nominal time between samples (%(default)g)"
    )
    sim.add_argument(
        *("--samples", "--looks"),
        type=_factor,
        default=10.0,
        metavar="N",
        help="at most, per second (%(default)g); --looks is its old spelling",
    )
    sim.add_argument("--threads", type=whole_from(0), default=0, help="0: one per processor")
    sim.add_argument(
        "--out",
        type=Path,
        default=results() / "sim",
        help="folder; results are in SCENARIO/TIME below it (default: %(default)s)",
    )
    sim.add_argument("--build", type=Path, default=programs(), help="folder of the programs")
    sim.add_argument("--once", action="store_true", help="end when every scheme has run")
    ended = commands.add_parser("results", parents=[common], help="a run that has ended")
    ended.add_argument(
        "directory", type=Path, nargs="?", default=results() / "run", help="of its results"
    )
    commands.add_parser(
        "run", parents=[common], help="`ebb-run` with its options, watched, as `make run WEB=1`"
    )
    options, rest = parser.parse_known_args(argv)
    if rest and options.command != "run":
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    return options


class _Ended(Exception):
    """Somebody asks for the end."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `ebb-dashboard`; returns the exit code."""
    keep_from_others()
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    try:
        options = arguments(argv)
        with Serving(options.port) as serving:
            return COMMANDS[options.command](options, serving)
    except EXPECTED as error:
        print(f"ebb-dashboard: {printable(error)}", file=sys.stderr)
        return 1
    except _Ended:
        return 0


def _end(_number: int, _frame: FrameType | None) -> None:
    raise _Ended


def _say(serving: Serving) -> None:
    print(f"live view: {serving.address} (Ctrl-C ends it)", flush=True)


def _results(options: argparse.Namespace, serving: Serving) -> int:
    finished = Finished(options.directory)
    serving.handler = finished
    finished.publish(serving.feed)
    _say(serving)
    threading.Event().wait()
    return 0


def _sim(options: argparse.Namespace, serving: Serving) -> int:
    # Its requirements are not there where only `make run` is installed.
    from ebb_dashboard.simulated import Simulated

    names = [name.strip() for name in options.schemes.split(",")] if options.schemes else None
    loaded = load_scenario(scenario(options.scenario), names)
    if options.volume is not None:
        loaded = loaded.counting(volume_slot_ns(options.volume))
    simulated = Simulated(
        loaded,
        Binaries(options.build),
        folders.begin(options.out / loaded.name),
        serving.feed,
        sample_every_ns=max(1, round(options.every_us * 1000)),
        samples_hz=options.samples,
        threads=options.threads,
    )
    serving.handler = simulated
    _say(serving)
    simulated.run(stay=not options.once)
    return 0


def _fabric(options: argparse.Namespace, serving: Serving) -> int:
    with LoopThread() as loop:
        fabric, streams, admin = loop.run(attached(options.socket, Dilation(options.dilation)))
        store = options.locator and BlobStore(options.locator)
        watcher = Watcher(fabric, streams, serving.feed, store)
        serving.feed.publish(
            "hello",
            {
                "version": 2,
                "title": fabric.picture.name,
                "clock": "wall",
                "dilation": options.dilation,
                "picture": fabric.picture.as_json(),
                "schemes": [],
                "controls": fabric.controls,
            },
        )
        serving.handler = HandlerInLoop(fabric, loop)
        _say(serving)
        watching: Future[Any] = loop.start(watcher.run())
        try:
            watching.result()
        finally:
            watching.cancel()
            loop.run(admin.close())
    return 0


def _run(options: argparse.Namespace, serving: Serving) -> int:
    # Its requirements are not there where only simulations are wanted: Mininet.
    from ebb_experiments.cli import main as ebb_run

    from ebb_dashboard.running import RunWatch

    _say(serving)
    return ebb_run(options.rest, RunWatch(serving))


COMMANDS = {"fabric": _fabric, "sim": _sim, "results": _results, "run": _run}


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a TCP port, not '{text}'")
    return int(text)


def _locator(text: str) -> str:
    try:
        return check_address(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"expected a number above 0, not '{text}'")
    return value


if __name__ == "__main__":
    sys.exit(main())
