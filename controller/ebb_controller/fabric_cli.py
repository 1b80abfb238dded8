"""`ebb-fabric`: links, faults, restarts and captures of a fabric that runs in one process."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from ebb_topologies.arguments import Parser
from ebb_topologies.files import InputError
from ebb_topologies.installation import Version
from ebb_topologies.run_state import usual_socket
from ebb_topologies.text import printable
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ebb_controller.errors import ControllerError
from ebb_controller.fabric_admin import FabricAdmin, Link

STOP = "stop"
"""The last word of a `pcap` command that ends a capture."""
PLACES = (
    'An end is SWITCH:PORT ("s1:3"), or SWITCH or HOST where only one link joins the two nodes.'
)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parses the command line. Raises `InputError`."""
    parser = Parser(prog="ebb-fabric", description=__doc__, epilog=PLACES)
    parser.add_argument(
        "--socket",
        type=Path,
        default=usual_socket(),
        metavar="FILE",
        help="where the fabric is served (default: %(default)s)",
    )
    parser.add_argument("--version", action=Version)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("links", help="every link and its state")
    link = commands.add_parser("link", help="change one link", epilog=PLACES)
    link.add_argument("a", metavar="END")
    link.add_argument("b", metavar="END")
    link.add_argument("state", nargs="?", choices=("up", "down"))
    link.add_argument("--loss", type=float, metavar="SHARE", help="frames lost, 0 to 1")
    link.add_argument("--corrupt", type=float, metavar="SHARE", help="frames damaged, 0 to 1")
    link.add_argument(
        "--rate",
        dest="rate_bps",
        type=_rate,
        metavar="BPS",
        help="bit/s on the wire, as slow as the fabric runs; 0: the configured rate again",
    )
    link.add_argument("--one-way", action="store_true", help="from the first end to the second")
    restart = commands.add_parser("restart", help="a switch forgets everything")
    restart.add_argument("switch")
    pcap = commands.add_parser("pcap", help="capture what a switch port sends and receives")
    pcap.add_argument("at", metavar="SWITCH:PORT | SWITCH NODE", nargs="+")
    pcap.add_argument("name", metavar=f"NAME | {STOP}")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `ebb-fabric`; returns the exit code."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        asyncio.run(_run(arguments(argv), console))
    except (InputError, ControllerError) as error:
        Console(stderr=True, soft_wrap=True).print(
            f"ebb-fabric: {printable(error)}", style="bold red", markup=False, highlight=False
        )
        return 1
    return 0


async def _run(options: argparse.Namespace, console: Console) -> None:
    async with FabricAdmin(options.socket) as admin:
        match options.command:
            case "links":
                console.print(show((await admin.fabric()).links), soft_wrap=False)
            case "link":
                link = await admin.set_link(
                    options.a,
                    options.b,
                    up=None if options.state is None else options.state == "up",
                    loss=options.loss,
                    corrupt=options.corrupt,
                    rate_bps=options.rate_bps,
                    one_way=options.one_way,
                )
                console.print(one_line(link), markup=False)
            case "restart":
                await admin.restart_switch(options.switch)
            case "pcap":
                if len(options.at) > 2 or (len(options.at) == 1 and ":" not in options.at[0]):
                    raise InputError(
                        "pcap: name SWITCH:PORT, or SWITCH and NODE, and then a file (see --help)"
                    )
                at, toward = (*options.at, "")[:2]
                if options.name == STOP:
                    await admin.stop_capture(at, toward)
                else:
                    files = await admin.start_capture(at, options.name, toward)
                    console.print(f"capturing to {printable(' and '.join(files))}", markup=False)


def show(links: Sequence[Link]) -> Table:
    """A row per link."""
    table = Table("link", "there", "back", box=box.SIMPLE_HEAD, header_style="bold")
    for link in links:
        faulty = any(str(state) != "up" for state in (link.a_to_b, link.b_to_a))
        row = (escape(printable(f"{link.a} - {link.b}")), str(link.a_to_b), str(link.b_to_a))
        table.add_row(*row, style="yellow" if faulty else None)
    return table


def one_line(link: Link) -> str:
    """A link and its state, with the way back where that differs."""
    there, back = str(link.a_to_b), str(link.b_to_a)
    return printable(f"{link.a} - {link.b}: {there}") + (
        f" (back: {back})" if back != there else ""
    )


def _rate(text: str) -> int:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (value.is_integer() and 0 <= value < 2**63):
        raise argparse.ArgumentTypeError(f"expected whole bit/s, not '{text}'")
    return int(value)


if __name__ == "__main__":
    sys.exit(main())
