"""`ebb-controller`: installs a scheme on a running fabric and keeps it installed."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import sys
import time
from collections.abc import Sequence, Set
from pathlib import Path

from ebb_topologies.arguments import Parser
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError
from ebb_topologies.installation import Version, compiled
from ebb_topologies.model import Topology, load_topology
from ebb_topologies.text import printable
from rich.console import Console

from ebb_controller.controller import CONNECT_SECONDS, Controller, Event
from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.multicast import MulticastGroup, check
from ebb_controller.parameters import WAKEUP_NS
from ebb_controller.program import Program
from ebb_controller.scheme import load_scheme
from ebb_controller.statistics import show, snapshot
from ebb_controller.tracts import GroupNumbers, check_address, follow
from ebb_controller.traffic_manager import TrafficManagers

STATISTICS_SECONDS = 2.0
"""How often `--stats` shows the counters unless it says."""
WAITING_SECONDS = 2.0
"""How long switches may be silent before a line says which are."""
WAITING_NAMES = 5
"""How many of them it names."""
REDIRECTED_WIDTH = 320
"""Columns of a table that goes into a file or a pipe."""
COLOURS = {"connected": "dim", "installed": "green", "lost": "yellow", "error": "bold red"}
"""Style of the line of an event, by kind."""


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line. Raises `InputError`."""
    parser = Parser(
        prog="ebb-controller",
        description=__doc__,
        epilog="`ebb-controller place` places tenants' VMs: see its --help.",
    )
    parser.add_argument("--topology", type=Path, required=True, metavar="FILE", help="topology")
    parser.add_argument(
        "--scheme", required=True, metavar="NAME|FILE", help="of experiments/schemes, or a file"
    )
    parser.add_argument("--switch", choices=("ebb", "bmv2"), default="ebb", help="the target")
    parser.add_argument(
        "--dilation", default="1", metavar="D", help="how many times slower than nominal it runs"
    )
    parser.add_argument(
        "--program",
        type=Path,
        default=compiled(),
        metavar="DIR",
        help="where the compiled programs of p4src are (default: %(default)s)",
    )
    parser.add_argument(
        "--multicast",
        action="append",
        default=[],
        metavar="[ADDRESS=]HOST,..",
        help="receivers of a multicast group, whose address follows from them unless it is given; "
        "repeat for more",
    )
    parser.add_argument(
        "--locator",
        metavar="ADDRESS",
        help="of a blob store, IP:PORT or the path of a socket: the replicas of each row of its "
        "table are a multicast group too, as long as this runs",
    )
    parser.add_argument("--once", action="store_true", help="install, verify and end")
    parser.add_argument(
        "--stats",
        nargs="?",
        const=str(STATISTICS_SECONDS),
        metavar="SECONDS",
        help=f"show counters every SECONDS (default {STATISTICS_SECONDS:g})",
    )
    parser.add_argument(
        "--connect-seconds",
        default=str(CONNECT_SECONDS),
        metavar="SECONDS",
        help=f"how long to wait for a switch that does not answer (default {CONNECT_SECONDS:g})",
    )
    parser.add_argument("--version", action=Version)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `ebb-controller`; returns the exit code."""
    words = sys.argv[1:] if argv is None else argv
    if words and words[0] == "place":
        return _place(words[1:])
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = REDIRECTED_WIDTH
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    # finsy logs with tracebacks what reaches us as errors and events.
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    try:
        asyncio.run(_until_signal(arguments(argv), console))
    except (InputError, ControllerError) as error:
        console.print(f"ebb-controller: {printable(error)}", style="bold red", markup=False)
        return 1
    return 0


def _place(argv: Sequence[str]) -> int:
    """`ebb-controller place`, which alone needs numpy."""
    try:
        from ebb_controller.placement.command import main as place
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        print(
            "ebb-controller: place needs numpy: `pip install 'ebb[placement]'`, or `tools/setup "
            "study` in a work tree",
            file=sys.stderr,
        )
        return 1
    return place(argv)


async def _until_signal(options: argparse.Namespace, console: Console) -> None:
    """Runs until done, or until SIGINT or SIGTERM: a normal way to end."""
    work = asyncio.create_task(run(options, console))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        console.print("ebb-controller: ended; the switches keep what they have")


async def run(options: argparse.Namespace, console: Console) -> None:
    """Configures all switches and keeps them configured until cancelled. Raises `InputError`
    or `ControllerError`."""
    interval = None if options.stats is None else _positive("--stats", options.stats)
    topology, parameters = _fabric(options)
    multicast = _multicast(options.multicast, topology)
    locator = None if options.locator is None else check_address(options.locator)
    if locator is not None and options.once:
        raise InputError("--locator follows a blob store until it is ended; leave out --once")
    program = Program.of(options.program, parameters)
    managers = TrafficManagers(topology) if options.switch == "ebb" else None
    started = time.monotonic()
    configured = False

    def say_of_store(text: str) -> None:
        console.print(printable(text), markup=False)

    silent = {switch.name for switch in topology.switches}

    def tell(event: Event) -> None:
        silent.discard(event.switch)
        if event.kind == "error" and not configured:
            return  # `configure` raises the error that ended it
        line = f"{time.monotonic() - started:8.1f} s  {event.switch:<9} {printable(event.text)}"
        console.print(line, style=COLOURS[event.kind], markup=False)

    try:
        async with Controller(
            topology,
            program,
            "bytes" if managers else "packets",
            traffic_managers=managers,
            connect_seconds=_positive("--connect-seconds", options.connect_seconds),
            on_event=tell,
        ) as controller:
            waiting = asyncio.create_task(_say_waiting(silent, options.connect_seconds, console))
            try:
                changes = (await controller.configure(parameters, multicast)).values()
            finally:
                waiting.cancel()
            configured = True
            console.print(
                f"{topology.name}: {len(changes)} switches hold scheme {options.scheme}, read back"
                f" ({sum(change.total for change in changes)} changes)"
            )
            try:
                async with asyncio.TaskGroup() as tasks:
                    if locator is not None:
                        numbers = GroupNumbers(topology, multicast)
                        tasks.create_task(
                            follow(locator, numbers, controller, parameters, say_of_store)
                        )
                    if interval is not None:
                        tasks.create_task(_show(controller, interval, options.once, console))
                    elif not options.once:
                        await asyncio.Event().wait()
            except ExceptionGroup as failed:
                raise failed.exceptions[0] from None
    finally:
        if managers is not None:
            await managers.close()


async def _show(controller: Controller, interval: float, once: bool, console: Console) -> None:
    """Shows counters until cancelled, or once."""
    while True:
        console.print(show(await snapshot(controller)), soft_wrap=False)
        if once:
            return
        await asyncio.sleep(interval)


async def _say_waiting(silent: Set[str], most: str, console: Console) -> None:
    """Names switches that have not answered after a while, as it may take long until it is an
    error."""
    await asyncio.sleep(WAITING_SECONDS)
    if silent:
        names = ", ".join(sorted(silent)[:WAITING_NAMES]) + (
            f" and {len(silent) - WAITING_NAMES} more" if len(silent) > WAITING_NAMES else ""
        )
        console.print(
            f"no answer yet from {names}; waiting up to {most} s (--connect-seconds)",
            style="yellow",
            markup=False,
        )


def _fabric(options: argparse.Namespace) -> tuple[Topology, FabricParameters]:
    """The topology at the speed at which it runs, and what the scheme asks of this target."""
    dilation = Dilation(_positive("--dilation", options.dilation))
    parameters = load_scheme(options.scheme).fabric.slowed(dilation).woken_late(WAKEUP_NS)
    if options.switch != "ebb":
        parameters = parameters.without_traffic_manager()
    return dilation.topology(load_topology(options.topology)), parameters


def _multicast(texts: Sequence[str], topology: Topology) -> list[MulticastGroup]:
    groups = []
    for number, text in enumerate(texts, start=1):
        address, given, members = text.rpartition("=")
        names = tuple(name.strip() for name in members.split(",") if name.strip())
        groups.append(
            MulticastGroup(address.strip(), number, names)
            if given
            else MulticastGroup.of(topology, number, names)
        )
    check(groups, topology)
    return groups


def _positive(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value < float("inf"):
        raise InputError(f"{name} must be a positive number, not '{text}'")
    return value


if __name__ == "__main__":
    sys.exit(main())
