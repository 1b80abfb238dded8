"""Mininet's prompt, with commands for what Ebb's fabric can do."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import IO, Any, Protocol

from mininet.cli import CLI as MininetCLI
from mininet.log import error, output

from ebb_topologies.mininet_links import ControlError, FabricControl
from ebb_topologies.processes import Process, ProcessTable
from ebb_topologies.text import printable

STOP = "stop"
"""The last word of a `pcap` command that ends a capture."""
LINK_OK = "(OK OK)"
"""Mininet's status of a link with both ends up."""
IPERF_PORT = 5001
IPERF_SECONDS = 5
"""Default length of a measurement, s of the wall clock."""
IPERF_TRIES = 5
"""Most attempts of a client to connect: its server takes a moment to listen."""


@dataclass(frozen=True)
class PromptContext:
    """Settings of the prompt beside those of Mininet."""

    greeting: str = ""
    """Text before the first prompt; empty: none."""
    dilation: float = 1.0
    """How many times slower than nominal the fabric runs."""
    path: str = ""
    """Folder of programs that hosts find by their names; empty: none."""
    load_scheme: Callable[[str], str] | None = None
    """Loads a scheme, by name or file, into the switches; returns a sentence about it, or raises
    `ControlError`. None: there is no controller."""


class PromptFabric(Protocol):
    """A network with the methods that the prompt needs beside Mininet's own."""

    @property
    def control(self) -> FabricControl | None:
        """Service of a fabric of one process; none: every switch has a process of its own."""
        ...

    @property
    def prompt_context(self) -> PromptContext:
        """Greeting, dilation and the command that loads a scheme."""
        ...

    def restart_switch(self, name: str) -> None:
        """Restarts a switch. Raises `ControlError`."""
        ...

    @property
    def processes(self) -> ProcessTable:
        """Processes of the run, which end with it."""
        ...

    def spawn_on(
        self, host: str, name: str, command: Sequence[str], stdout: IO[bytes] | None = None
    ) -> Process:
        """Starts a command on a host."""
        ...

    def run_on(self, host: str, command: Sequence[str], timeout: float) -> tuple[int, str]:
        """Runs a command on a host to its end: exit code and output."""
        ...


class FabricCLI(MininetCLI):  # type: ignore[misc]
    """`scheme`, `pcap`, `reroute` and `restart` beside Mininet's commands; `iperf` in nominal
    units."""

    def __init__(self, net: Any, fabric: PromptFabric) -> None:
        self.fabric = fabric
        context = fabric.prompt_context
        for host in net.hosts:
            # The lines that ebb-agent prints for people are then nominal.
            host.cmd(f"export EBB_DILATION={context.dilation:g}")
            if context.path:
                host.cmd(f"export PATH={shlex.quote(context.path)}:$PATH")
        output(context.greeting)
        super().__init__(net)

    def do_links(self, line: str) -> None:
        """Report on links: those that are not OK, and how many are.
        Usage: links [all]"""
        links = [(str(link), str(link.status())) for link in self.mn.links]
        good = [link for link in links if link[1] == LINK_OK]
        faulty = [link for link in links if link not in good]
        for name, status in (*faulty, *(good if line.strip() == "all" else ())):
            output(f"{name} {status}\n")
        output(f"{len(good)} of {len(links)} links are OK (`links all` has each)\n")

    def do_scheme(self, line: str) -> None:
        """Load another scheme: queues and tables of every switch.
        Usage: scheme NAME|FILE"""
        load = self.fabric.prompt_context.load_scheme
        if load is None or not line.strip():
            error("usage: scheme NAME, as ndp, or the file of one\n" if load else "no controller\n")
        else:
            self._try(lambda: output(f"{load(line.strip())}\n"))

    def do_iperf(self, line: str) -> None:
        """Measure the kernel's TCP between two hosts, in nominal units.
        Usage: iperf [HOST HOST [SECONDS]]   the first and the last host, 5 s of the wall clock"""
        words = line.split()
        names = words[:2] or [self.mn.hosts[0].name, self.mn.hosts[-1].name]
        seconds = words[2] if len(words) == 3 else str(IPERF_SECONDS)
        unknown = [name for name in names if name not in (host.name for host in self.mn.hosts)]
        if len(names) != 2 or len(words) > 3 or not seconds.isdecimal():
            error("usage: iperf [HOST HOST [SECONDS]]\n")
        elif unknown:
            error(f"iperf: there is no host {' and no host '.join(map(printable, unknown))}\n")
        else:
            self._try(lambda: output(f"{self._iperf(names[0], names[1], int(seconds))}\n"))

    def do_iperfudp(self, line: str) -> None:
        """Not here: start iperf yourself, h2 iperf -s -u & and h1 iperf -c h2 -u -b RATE."""
        a, b = self.mn.hosts[0].name, self.mn.hosts[-1].name
        error(
            f"iperfudp is not here: `{b} iperf -s -u &`, then `{a} iperf -c {b} -u -b RATE`; "
            f"nominal rates are {self.fabric.prompt_context.dilation:g} times those that it takes "
            "and prints\n"
        )

    def _iperf(self, a: str, b: str, seconds: int) -> str:
        fabric, slower = self.fabric, self.fabric.prompt_context.dilation
        port = str(IPERF_PORT)
        server = fabric.spawn_on(b, f"iperf-{b}", ["iperf", "-s", "-p", port])
        client = ["iperf", "-c", self.mn[b].IP(), "-p", port, "-t", str(seconds), "-y", "C"]
        try:
            for _ in range(IPERF_TRIES):
                _code, said = fabric.run_on(a, client, seconds + 60.0)
                # The ninth of the comma-separated values is bit/s.
                if found := re.findall(r"^(?:[^,\n]*,){8}(\d+)$", said, re.MULTILINE):
                    rate = int(found[-1])
                    break
                time.sleep(0.2)
            else:
                raise ControlError(f"iperf: {said.strip() or 'no result'}")
        finally:
            fabric.processes.stop([server])
        wire = f" ({rate / 1e6:.3g} Mbit/s on the wire, {slower:g} times slower)"
        nominal = f"{a} to {b}: {rate * slower / 1e6:.0f} Mbit/s"
        return nominal + (wire if slower != 1 else "")

    def do_pcap(self, line: str) -> None:
        """Capture what a switch port receives and sends, also inside the fabric.
        Usage: pcap SWITCH NODE NAME   the port of SWITCH that leads to NODE
               pcap SWITCH:PORT NAME   into NAME_in.pcap and NAME_out.pcap of the run's folder
               pcap .. stop            the files are complete then"""
        *at, name = line.split() or [""]
        if len(at) not in (1, 2) or (len(at) == 1 and ":" not in at[0]):
            error("usage: pcap SWITCH NODE NAME|stop, or pcap SWITCH:PORT NAME|stop\n")
            return
        control = self.fabric.control
        if control is None:
            error(
                "pcap: every switch has a process of its own here (FUSED=0, SWITCH=bmv2); use "
                "`SWITCH tcpdump -i SWITCH-ethPORT -w FILE &`\n"
            )
            return
        place, toward = (*at, "")[:2]
        if name == STOP:
            self._try(lambda: control.stop_capture(place, toward))
            return

        def start() -> None:
            files = " and ".join(control.start_capture(place, toward, name))
            output(f"capturing to {printable(files)} until `pcap {' '.join(at)} {STOP}`\n")

        self._try(start)

    def do_reroute(self, _line: str) -> None:
        """Have the controller plan with the links that are up: it does not look by itself here.
        Usage: reroute"""
        control = self.fabric.control
        if control is None:
            error("reroute: the kernel has the links here; only one process reports them\n")
        else:
            self._try(lambda: output(f"{control.reroute()}\n"))

    def do_restart(self, line: str) -> None:
        """Restart a switch: it forgets its program, tables, queues and statistics, and the
        controller installs them again.
        Usage: restart SWITCH"""
        if len(line.split()) != 1:
            error("usage: restart SWITCH\n")
            return
        self._try(lambda: self.fabric.restart_switch(line.strip()))

    def _try(self, action: Callable[[], None]) -> None:
        """Does an action, and prints its `ControlError` at the prompt."""
        try:
            action()
        except ControlError as problem:
            error(f"{printable(problem)}\n")
