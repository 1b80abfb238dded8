"""`ebb-run`: brings up the fabric, runs the schemes, prints the table; `make run` calls it."""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

from ebb_controller.controller import Controller, Program
from ebb_controller.fabric_admin import FabricAdmin
from ebb_controller.reconcile import ControllerError
from ebb_controller.site import DepthUnit
from ebb_controller.traffic_manager import TrafficManagers
from ebb_topologies import preflight
from ebb_topologies.dilation import Dilation
from ebb_topologies.fabric_file import FABRIC_SOCKET
from ebb_topologies.files import InputError, write
from ebb_topologies.mininet_links import ControlError
from ebb_topologies.mininet_net import FabricNet
from ebb_topologies.model import Topology, from_table
from ebb_topologies.processes import ENDING_SIGNALS, ProcessDied
from ebb_topologies.targets import FabricTarget, Target, target
from ebb_topologies.text import printable
from rich.console import Console

from ebb_experiments import report
from ebb_experiments.agents import AgentError
from ebb_experiments.calibration import USUAL_DILATION, calibrate, too_busy
from ebb_experiments.checks import checks
from ebb_experiments.control import KernelLinks, PromptControl
from ebb_experiments.fabric import Fabric
from ebb_experiments.fault_runner import FaultRunner, RepairableFabric, check_separate
from ebb_experiments.loop import LoopThread
from ebb_experiments.scenario import Scenario, StorageRoles, load_scenario
from ebb_experiments.tour import SchemeResult, run_scheme

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
RUN_DIR = ROOT / "results" / "run"
DEFAULT_SCENARIO = ROOT / "experiments" / "scenarios" / "tour.toml"
BUSY = "[yellow]busy[/]"
VERDICTS = {True: "[green]ok  [/]", False: "[bold red]FAIL[/]", None: "[yellow]skip[/]"}
TABLE_WIDTH = 108
"""Columns that the table needs; a narrower terminal wraps its lines instead of losing cells."""
INSIST_SECONDS = 0.1
CALIBRATIONS = 3
"""At most. The fabric is brought up again after each that finds that it has to be slower."""
EXPECTED = (InputError, ControllerError, ControlError, AgentError, ProcessDied, TimeoutError)
"""Errors with a message for people; anything else is a bug and shows its traceback."""


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ebb-run", description=__doc__)
    parser.add_argument("--scenario", type=Path, default=DEFAULT_SCENARIO, help="scenario file")
    parser.add_argument("--k", help="ports per switch of the fat-tree, instead of the topology's")
    parser.add_argument("--schemes", help="comma-separated, instead of the scenario's")
    parser.add_argument("--dilation", help="how many times slower than nominal")
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
        "--program", type=Path, default=BUILD, help="directory of the compiled fabric.p4"
    )
    parser.add_argument("--cli", action="store_true", help="stay in the Mininet prompt")
    parser.add_argument("--pcap", action="store_true", help="write a pcap per switch port")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _end)
    try:
        return run(options, console)
    except EXPECTED as error:
        console.print(f"ebb: {printable(error)}", style="bold red", markup=False, soft_wrap=True)
        return 1
    except OSError as error:
        if error.errno in (errno.EPIPE, errno.EIO):
            # Nobody reads any more: `| head`, or a terminal that was closed.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        else:
            where = f"{error.filename}: " if error.filename else ""
            console.print(f"ebb: {where}{error.strerror}", style="bold red", markup=False)
        return 1
    except Ended as ended:
        # The terminal may be what has gone.
        with suppress(OSError):
            console.print("ebb: interrupted; everything was taken down")
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


def run(options: argparse.Namespace, console: Console) -> int:
    scenario = load_scenario(
        options.scenario,
        topology=_fat_tree(options.k),
        schemes=_names(options.schemes),
        dilation=_number("DILATION", options.dilation),
    )
    if not options.threads.isdecimal():
        raise InputError(f"THREADS must be a whole number from 0, not '{options.threads}'")
    chosen = target(options.switch, BUILD, fused=not options.no_fused, threads=int(options.threads))
    program = Program(options.program / "fabric.p4info.txtpb", options.program / "fabric.json")
    if program.p4info.exists() and program.json.exists():  # or the pre-flight check says so
        program.check()
    if not isinstance(chosen, FabricTarget):
        check_separate(scenario.faults, reopens=chosen.has_traffic_manager)
    needed = [BUILD / "ebb-agent", program.p4info, program.json]
    preflight.check(scenario.topology, chosen, needed, RUN_DIR)

    started = time.monotonic()
    say(console, started, _headline(scenario))
    factor = scenario.spec.dilation or USUAL_DILATION
    calibrations = 0 if scenario.spec.dilation else CALIBRATIONS
    # One loop for all: grpcio's is bound to the first.
    with LoopThread() as loop:
        while True:
            with _running(
                scenario, Dilation(factor), chosen, program, loop, options.pcap
            ) as fabric:
                try:
                    _say_up(fabric, console, started)
                    found = calibrate(fabric) if calibrations else None
                    if found is not None:
                        say(console, started, f"calibration: {found}")
                    if found is None or found.dilation == factor:
                        return _tour(fabric, console, started, stay=options.cli)
                except EXPECTED:
                    fabric.net.check()  # a switch that has died explains everything else
                    raise
            factor, calibrations = found.dilation, calibrations - 1


@contextmanager
def _running(
    scenario: Scenario,
    dilation: Dilation,
    chosen: Target,
    program: Program,
    loop: LoopThread,
    pcap: bool,
) -> Iterator[Fabric]:
    """The whole fabric, that much slower than nominal, for as long as the block lasts."""
    slowed, agent = dilation.topology(scenario.topology), BUILD / "ebb-agent"
    with ExitStack() as stack:
        net = stack.enter_context(FabricNet(slowed, chosen, RUN_DIR, pcap=pcap))
        # Receivers overwrite nothing: what an earlier run got is in their way.
        shutil.rmtree(RUN_DIR / "received", ignore_errors=True)
        managers = TrafficManagers(slowed) if chosen.has_traffic_manager else None
        if managers is not None:
            stack.callback(lambda: loop.run(managers.close()))
        unit: DepthUnit = "bytes" if chosen.has_traffic_manager else "packets"
        controller = Controller(slowed, program, unit, traffic_managers=managers)
        loop.run(controller.__aenter__())
        stack.callback(lambda: loop.run(controller.__aexit__()))
        links: RepairableFabric = KernelLinks(net)
        if net.fused:
            links = admin = FabricAdmin(RUN_DIR / FABRIC_SOCKET)
            stack.callback(lambda: loop.run(admin.close()))
            net.control = PromptControl(admin, loop, controller)
        faults = FaultRunner(
            scenario.faults,
            links,
            controller,
            dilation,
            loop,
            log=RUN_DIR / "faults.jsonl",
        )
        yield Fabric(scenario, net, slowed, dilation, controller, managers, loop, agent, faults)


def _say_up(fabric: Fabric, console: Console, started: float) -> None:
    switches, hosts = len(fabric.topology.switches), len(fabric.topology.hosts)
    binary, factor = fabric.net.target.binary.name, fabric.dilation.factor
    up = f"{switches} switches ({binary}) and {hosts} hosts are up"
    say(console, started, f"{up}, {factor:g} times slower than nominal")
    fabric.configure(next(iter(fabric.scenario.schemes.values())))
    say(console, started, f"pipeline and tables installed and read back on {switches} switches")


def _tour(fabric: Fabric, console: Console, started: float, stay: bool) -> int:
    scenario = fabric.scenario
    pings = fabric.ping_all()
    say(
        console,
        started,
        f"{pings.pairs - len(pings.lost)} of {pings.pairs} host pairs reach each other",
    )
    failed = bool(pings.lost)
    if failed:
        console.print(f"ebb: no answer: {', '.join(pings.lost[:10])}", style="bold red")
    results = {}
    for name in scenario.schemes:
        with console.status(name) as status:
            results[name] = run_scheme(
                fabric,
                name,
                lambda step, name=name: status.update(f"{name}: {step}"),  # type: ignore[misc]
            )
        say(console, started, f"{name} done")
    rate = min(link.rate_bps for link in scenario.topology.links)
    console.print(report.table(results, rate))
    if (stored := report.storage_table(results, rate, _storage_title(scenario))) is not None:
        console.print(stored)
    busy = too_busy(results, fabric.dilation, fabric.packet_ns)
    for check in checks(results, fabric.faults.history):
        valid = busy is None or busy.names.isdisjoint(check.measured)
        verdict = VERDICTS[check.holds] if valid else BUSY
        console.print(f"{verdict} {check.claim}: {check.seen}", soft_wrap=True)
        failed |= valid and check.holds is False
    if busy is not None:
        console.print(f"[bold yellow]{busy}[/]", soft_wrap=True)
    _save(fabric, results, rate)
    console.print(f"records, logs and parameters: {RUN_DIR.relative_to(ROOT)}/")
    if stay and sys.stdin is None:
        console.print("ebb: no prompt: the standard input is closed")
    elif stay:
        _prompt(fabric.net)
    return int(failed)


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


def _save(fabric: Fabric, results: dict[str, SchemeResult], rate_bps: int) -> None:
    directory = fabric.net.run_dir
    write(directory / "table.md", report.markdown(results, rate_bps))
    write(directory / "results.json", json.dumps(report.as_json(results), indent=2))


def say(console: Console, started: float, text: str) -> None:
    console.print(f"[dim]{time.monotonic() - started:6.1f} s[/]  {text}", soft_wrap=True)


def _headline(scenario: Scenario) -> str:
    link = scenario.topology.links[0]
    return (
        f"{scenario.topology.name}: {link.rate_bps / 1e9:g} Gbit/s links, "
        f"{link.delay_ns / 1e3:g} us each"
    )


def _storage_title(scenario: Scenario) -> str:
    spec = scenario.spec.storage
    if spec is None:
        return ""
    roles = StorageRoles.of(scenario.topology, spec)
    replicas = ", ".join(host.name for host in roles.replicas)
    return (
        f"storage: {spec.bytes / 1e6:g} MB from {roles.client.name} to {replicas} at once, while "
        f"{len(roles.incast)} hosts send to {roles.replicas[0].name}; then back from all of them"
    )


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
