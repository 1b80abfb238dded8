"""`ebb-run`: brings up the fabric, runs the schemes, prints the table; `make run` calls it."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

from ebb_controller.errors import ControllerError
from ebb_controller.program import Program
from ebb_topologies import preflight
from ebb_topologies.arguments import Parser
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError, link_to
from ebb_topologies.installation import Version, compiled, data, programs, results, scenario
from ebb_topologies.mininet_links import ControlError
from ebb_topologies.mininet_net import FabricNet
from ebb_topologies.model import Topology, from_table
from ebb_topologies.own_folder import keep_from_others
from ebb_topologies.processes import ENDING_SIGNALS, ProcessDied
from ebb_topologies.targets import EbbFabricTarget, FabricTarget, Target, target
from rich.console import Console
from rich.status import Status

from ebb_experiments.results.load import Load
from ebb_experiments.results.results import Results
from ebb_experiments.results.terminal import print_error, print_whole
from ebb_experiments.run.agents import AgentError
from ebb_experiments.run.checking import check_inputs
from ebb_experiments.run.fault_runner import check_separate
from ebb_experiments.run.kernel_tcp import lacking
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.run.wall import FabricSetup, Wall
from ebb_experiments.scenario.architecture import ARCHITECTURES, P4_HELP, check_ported
from ebb_experiments.scenario.faults import cut_off, file_name
from ebb_experiments.scenario.loaded import Loaded, load_scenario
from ebb_experiments.scenario.spec import MAX_DILATION, MIN_DILATION
from ebb_experiments.scenario.volume import VOLUME_HELP, volume_slot_ns
from ebb_experiments.tour import report, tenants
from ebb_experiments.tour.calibration import (
    REPEATS,
    USUAL_DILATION,
    calibrate,
    measure,
    too_busy,
)
from ebb_experiments.tour.checks import checks
from ebb_experiments.tour.prompt import at_prompt, write_parameters
from ebb_experiments.tour.runs import COMPLETION, QUEUES, RunFolder
from ebb_experiments.tour.spectator import Spectator
from ebb_experiments.tour.summary import Round, SchemeResult

BUILD = programs()
RUN_DIR = results() / "run"
"""Files of the current run: sockets, logs, files of agents. Results are in `RUNS`."""
WORK = RUN_DIR / "work"
RUNS = results() / "runs"
DEFAULT_SCENARIO = data() / "experiments" / "scenarios" / "tour.toml"
BUSY = "[yellow]busy[/]"
VERDICTS = {True: "[green]ok  [/]", False: "[bold red]FAIL[/]", None: "[yellow]skip[/]"}
TABLE_WIDTH = 108
"""Columns that the table needs; a narrower terminal wraps its lines instead of losing cells."""
INSIST_SECONDS = 0.1
CALIBRATIONS = 3
"""How many calibrations there may be. The fabric is brought up again after each that finds that it
has to be slower."""
HOST_LINKS = ("auto", "shared", "veth")
HOST_LINKS_HELP = (
    "over memory shared with it, or through a veth, as all others do; auto: shared, but veth at "
    "the prompt and with --pcap, where somebody may look at interfaces"
)
EXPECTED = (InputError, ControllerError, ControlError, AgentError, ProcessDied, TimeoutError)
"""Errors with a message for people; anything else is a bug and shows its traceback."""


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Options of `ebb-run`."""
    parser = Parser(prog="ebb-run", description=__doc__)
    parser.add_argument(
        "--scenario",
        type=Path,
        default=DEFAULT_SCENARIO,
        help="file, or name as smoke (default: tour)",
    )
    parser.add_argument("--k", help="ports per switch of the fat-tree, instead of the topology's")
    parser.add_argument("--schemes", help="comma-separated, instead of the scenario's")
    parser.add_argument("--dilation", help="how many times slower than nominal")
    parser.add_argument("--volume", help=VOLUME_HELP)
    parser.add_argument("--switch", default="ebb", help="ebb or bmv2")
    parser.add_argument(
        "--no-fused",
        action="store_true",
        help="a process for each switch and veths between them, instead of one for all (ebb only)",
    )
    parser.add_argument(
        "--threads", default="1", help="that share the switches; 0: one for each processor"
    )
    parser.add_argument(
        "--program",
        type=Path,
        default=compiled(),
        help="directory of the compiled programs of p4src",
    )
    parser.add_argument("--p4", choices=ARCHITECTURES, default="v1model", help=P4_HELP)
    parser.add_argument(
        "--cli",
        nargs="?",
        const="now",
        choices=("now", "1", "after"),
        help="the Mininet prompt: at once with the first scheme, or after all have been run",
    )
    parser.add_argument(
        "--host-links",
        choices=HOST_LINKS,
        default="auto",
        help="how agents reach their switch: " + HOST_LINKS_HELP,
    )
    parser.add_argument("--pcap", action="store_true", help="write a pcap per switch port")
    parser.add_argument("--version", action=Version)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None, spectator: Spectator | None = None) -> int:
    """Runs a scenario on Mininet, as `make run`. Exit code 1: a check failed; 2: it could not
    run."""
    keep_from_others()
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end)
    try:
        return run(arguments(argv), console, spectator or Spectator())
    except EXPECTED as error:
        print_error("ebb", error)
        return 1
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.EIO):
            # Nobody reads any more: `| head`, or a terminal that was closed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            where = f"{error.filename}: " if error.filename else ""
            print_error("ebb", f"{where}{error.strerror}")
        return 1
    except Ended as ended:
        # The terminal may be what has gone.
        with suppress(OSError):
            print_error("ebb", "interrupted; everything was taken down")
        return 128 + ended.signal


class Ended(BaseException):
    """A signal asks for the end. No KeyboardInterrupt, which Mininet's prompt keeps to itself."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


def _end(number: int, _frame: FrameType | None) -> None:
    # Once is enough: what is under way from here on is taking everything down.
    for other in ENDING_SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    raise Ended(number)


def run(options: argparse.Namespace, console: Console, spectator: Spectator) -> int:
    """Calibrates, runs every scheme and prints the tables. Returns the exit code."""
    loaded = load_scenario(
        scenario(options.scenario), schemes=_names(options.schemes), topology=_fat_tree(options.k)
    )
    if options.volume is not None:
        loaded = loaded.counting(volume_slot_ns(options.volume))
    given = _dilation(options.dilation) or loaded.spec.dilation
    at_once = options.cli in ("now", "1")
    if len(loaded.spec.seeds) > 1:
        raise InputError("seed: several seeds take virtual time (make sim); give one")
    if loaded.spec.skip:
        raise InputError("skip: time is skipped in virtual time only (make sim)")
    if loaded.spec.forgery:
        raise InputError("forgery: notifications are made up in virtual time only (make sim)")
    if not options.threads.isdecimal():
        raise InputError(f"THREADS must be a whole number from 0, not '{options.threads}'")
    chosen = target(options.switch, BUILD, fused=not options.no_fused, threads=int(options.threads))
    rings = shares_rings(options, chosen)
    if not chosen.has_traffic_manager and any(s.fabric.volume for s in loaded.schemes.values()):
        raise InputError(
            f"volume: {options.switch} does not tell its registers and time over gRPC; "
            "SWITCH=ebb does"
        )
    check_tenants(loaded, options.switch, chosen.has_traffic_manager)
    binaries = Binaries(BUILD, options.p4)
    program = _program(options, loaded)
    if program.p4info.exists() and program.json.exists():  # or the pre-flight check says so
        program.check()
    if not isinstance(chosen, FabricTarget):
        loaded = possible(loaded, chosen.has_traffic_manager, console)
    loaded = playable(loaded, console)
    preflight.check(
        loaded.topology, chosen, [binaries.agent, program.p4info, program.json], RUN_DIR
    )
    check_inputs(binaries.agent, [loaded])

    started = time.monotonic()
    say(console, started, _headline(loaded))
    factor = given or USUAL_DILATION
    calibrations = 0 if given or at_once else CALIBRATIONS
    setup = FabricSetup(
        chosen, program, binaries, RUN_DIR, pcap=options.pcap, rings=rings, watch=True
    )
    # One loop for all: grpcio's is bound to the first.
    with LoopThread() as loop:
        while True:
            slowed = replace(loaded, dilation=Dilation(factor))
            with Wall(slowed, setup, loop) as wall, spectator.watching(wall):
                try:
                    _say_up(wall, console, started)
                    if at_once:
                        return prompt(wall, console)
                    found = calibrate(wall, WORK / "calibration") if calibrations else None
                    if found is not None:
                        say(console, started, f"calibration: {found}")
                    if found is None and not (given or at_once):
                        say(console, started, f"calibration: {factor:g} times slower was not tried")
                    if found is None or found.dilation == factor:
                        code = _tour(wall, console, started, stay=options.cli == "after")
                        _stay(wall, console, spectator)
                        return code
                except EXPECTED:
                    wall.net.check()  # a switch that has died explains everything else
                    raise
            factor, calibrations = found.dilation, calibrations - 1


def shares_rings(options: argparse.Namespace, chosen: Target) -> bool:
    """Whether agents share rings with the switches. Raises `InputError` where they cannot."""
    possible = isinstance(chosen, EbbFabricTarget)
    if options.host_links == "shared" and not possible:
        raise InputError(
            "HOST_LINKS=shared: only switches of ours in one process share memory with agents, "
            "SWITCH=ebb without FUSED=0"
        )
    if options.host_links == "auto":
        return possible and options.cli is None and not options.pcap
    return bool(options.host_links == "shared")


def _program(options: argparse.Namespace, loaded: Loaded) -> Program:
    """The program that all switches start with: on v1model that of all schemes, on Tofino that of
    the first. Raises `InputError` for schemes that no program has everything for."""
    fabrics = [each.fabric for each in loaded.schemes.values()]
    if options.p4 == "v1model":
        return Program.of(options.program, *fabrics)
    if options.switch != "ebb":
        raise InputError(f"P4=tna: programs for Tofino run on SWITCH=ebb, not on {options.switch}")
    check_ported(loaded)
    return Program.of_tofino(options.program, loaded.topology, fabrics[0])


def check_tenants(loaded: Loaded, switch: str, has_traffic_manager: bool) -> None:
    """Raises `InputError` if virtual machines cannot be run."""
    if loaded.tenancy is None:
        return
    if not has_traffic_manager:
        raise InputError(
            f"tenant: guarantees are of links with a rate, which {switch} has not; SWITCH=ebb has"
        )
    for phase in loaded.phases:
        if phase.objects != "generated":
            raise InputError(
                f'phase {phase.name}: objects = "{phase.objects}": expected "generated", which is '
                "what virtual machines send"
            )


def possible(loaded: Loaded, reopens: bool, console: Console) -> Loaded:
    """The scenario without phases whose own events need all switches in one process."""
    phases = []
    for phase, given in zip(loaded.phases, loaded.spec.phases, strict=True):
        try:
            check_separate(phase.steps, reopens=reopens)
        except InputError as error:
            if not given.event:
                raise
            console.print(f"phase {phase.name} is left out: {error}", soft_wrap=True)
        else:
            phases.append(phase)
    return replace(loaded, phases=phases)


def playable(loaded: Loaded, console: Console) -> Loaded:
    """The scenario without schemes that the kernel of this machine cannot play, if it is to."""
    if all(phase.objects != "kernel" for phase in loaded.phases):
        return loaded
    schemes = {}
    for name, scheme in loaded.schemes.items():
        if missing := lacking(scheme.transport):
            console.print(f"skip {name}: {'; '.join(missing)}", soft_wrap=True, markup=False)
        else:
            schemes[name] = scheme
    if not schemes:
        raise InputError("schemes: this machine's kernel can play none of them")
    return replace(loaded, schemes=schemes)


def _say_up(wall: Wall, console: Console, started: float) -> None:
    switches, hosts = len(wall.topology.switches), len(wall.topology.hosts)
    binary, factor = wall.setup.target.binary.name, wall.loaded.dilation.factor
    up = f"{switches} switches ({binary}) and {hosts} hosts are up"
    say(console, started, f"{up}, {factor:g} times slower than nominal")
    wall.configure(next(iter(wall.loaded.schemes.values())).fabric, wall.loaded.groups)
    say(console, started, f"pipeline and tables installed and read back on {switches} switches")


def _tour(wall: Wall, console: Console, started: float, stay: bool) -> int:
    loaded, kept = wall.loaded, RunFolder.begin(RUNS)
    for name, end in (
        ("results", ""),
        ("table.md", "/table.md"),
    ):  # where they were before runs were kept
        link_to(RUN_DIR / name, f"../{RUNS.name}/{kept.path.name}{end}")
    pings = wall.ping_all()
    say(
        console,
        started,
        f"{pings.pairs - len(pings.lost)} of {pings.pairs} host pairs reach each other",
    )
    failed = bool(pings.lost)
    if failed:
        print_error("ebb", f"no answer: {', '.join(pings.lost[:10])}")
    results = {}
    for name in loaded.schemes:
        with console.status(name) as status:
            results[name], again = _scheme(wall, name, status, kept.path)
        say(console, started, f"{name} done")
        for line in again:
            console.print(f"          {line}", style="yellow", markup=False, soft_wrap=True)
    busy = too_busy(results, loaded.dilation, loaded.packet_ns)
    if busy is not None:
        console.print(f"[bold yellow]{busy}[/]", soft_wrap=True)
    rate = loaded.slowest_bps
    print_whole(console, report.table(results, rate))
    for further in (report.storage_table(results, rate), tenants.table(results)):
        if further is not None:
            print_whole(console, further)
    disturbed = {phase.name for phase in loaded.phases if phase.steps}
    by_kernel = {phase.name for phase in loaded.phases if phase.objects == "kernel"}
    gone = {phase.name: cut_off(phase.steps, wall.topology) for phase in loaded.phases}
    for check in checks(results, wall.faults.history, disturbed, by_kernel, gone):
        valid = busy is None or busy.names.isdisjoint(check.measured)
        verdict = VERDICTS[check.holds] if valid else BUSY
        console.print(f"{verdict} {check.claim}: {check.seen}", soft_wrap=True)
        failed |= valid and check.holds is False
    kept.finish(loaded, wall.setup.target.binary.name, results, busy)
    drawn = " and ".join(name for name in (QUEUES, COMPLETION) if (kept.path / name).exists())
    console.print(
        f"tables, {drawn}: {os.path.relpath(kept.path)}/ (`make compare`: with the run before)",
        soft_wrap=True,
    )
    console.print(f"records, logs and parameters: {os.path.relpath(RUN_DIR)}/", soft_wrap=True)
    return prompt(wall, console) if stay else int(failed)


def prompt(wall: Wall, console: Console) -> int:
    """Mininet's prompt, with the scheme that is loaded."""
    if sys.stdin is None:
        print_error("ebb", "no prompt: the standard input is closed")
        return 1
    at_prompt(wall, RUN_DIR / "params")
    _prompt(wall.net)
    return 0


def _stay(wall: Wall, console: Console, spectator: Spectator) -> None:
    """Leaves the fabric up for as long as the spectator wants, or until a signal."""

    def again(name: str) -> None:
        with console.status(name) as status:
            _scheme(wall, name, status, RUN_DIR / "again")

    with suppress(Ended):
        spectator.stay(wall, again)


def _scheme(wall: Wall, name: str, status: Status, folder: Path) -> tuple[SchemeResult, list[str]]:
    """Runs a scheme, and keeps the tables of what it did in a folder of that one. Returns also a
    line about each phase that was measured again."""
    loaded, directory = wall.loaded, WORK / file_name(name)
    run = Run(loaded, name, loaded.spec.seeds[0], wall, directory)
    factor = loaded.dilation.factor

    def needed(load: Load) -> float:
        return load.needed(factor, loaded.packet_ns)

    done: list[Results] = []
    again: list[str] = []
    for phase_round in loaded.rounds(name):
        status.update(f"{name}: {phase_round.title}")
        # A fault on the way is not to happen twice.
        repeats = 0 if phase_round.traffic.steps else REPEATS
        measured = measure(partial(run.run_round, phase_round), needed, factor, repeats)
        done.append(measured.results)
        if len(measured.loads) > 1:
            again.append(f"{name}, {phase_round.title}: {measured}")
    Results.together(done).write(folder / file_name(name))
    # For agents that one starts oneself, as in the Mininet prompt (README.md).
    write_parameters(RUN_DIR / "params", name, done[0].run["parameters"]["params"])
    return SchemeResult([Round.of(each) for each in done]), again


def _prompt(net: FabricNet) -> None:
    """Mininet's prompt, where Ctrl-C ends the command under way and not the run."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with _insisting():
            net.prompt()
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _insisting() -> Iterator[None]:
    """A signal that asks for the end is obeyed although the prompt waits for a key.

    Python's handlers run when readline looks for them. A signal between such a look and the wait
    for a key would be handled at the next key. But its number goes into the wake-up descriptor at
    once, and a thread that reads there repeats it until it was handled.
    """
    main = threading.get_ident()
    reader, writer = os.pipe()
    os.set_blocking(writer, False)

    def insist() -> None:
        while number := os.read(reader, 1):
            while signal.getsignal(number[0]) is _end:
                time.sleep(INSIST_SECONDS)
                signal.pthread_kill(main, number[0])

    thread = threading.Thread(target=insist, daemon=True)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)
        thread.join()
        os.close(reader)


def say(console: Console, started: float, text: str) -> None:
    """Prints a line of progress with the seconds since the start."""
    console.print(f"[dim]{time.monotonic() - started:6.1f} s[/]  {text}", soft_wrap=True)


def _headline(loaded: Loaded) -> str:
    link = loaded.topology.links[0]
    return (
        f"{loaded.topology.name}: {link.rate_bps / 1e9:g} Gbit/s links, "
        f"{link.delay_ns / 1e3:g} us each"
    )


def _dilation(text: str | None) -> float | None:
    number = _number("DILATION", text)
    if number is not None and not MIN_DILATION <= number <= MAX_DILATION:
        raise InputError(
            f"DILATION must be a number from {MIN_DILATION:g} to {MAX_DILATION:g}, not {number:g}"
        )
    return number


def _fat_tree(k: str | None) -> Topology | None:
    if k is None:
        return None
    number = _number("K", k)
    return from_table({"fat_tree": {"k": number}}, "K") if number is not None else None


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _number(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError as error:
        raise InputError(f"{name} must be a number, not '{text}'") from error
    return int(value) if value.is_integer() else value


if __name__ == "__main__":
    sys.exit(main())
