"""Mininet's prompt, with commands for what Ebb's fabric can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mininet.cli import CLI as MininetCLI
from mininet.log import error, output

from ebb_topologies.mininet_links import ControlError, FabricControl
from ebb_topologies.text import printable

STOP = "stop"
"""The last word of a `pcap` command that ends a capture."""


class PromptFabric(Protocol):
    """What the prompt needs of a network beside Mininet's own methods."""

    @property
    def control(self) -> FabricControl | None:
        """Service of a fabric of one process; none: every switch has a process of its own."""
        ...

    def restart_switch(self, name: str) -> None:
        """Restarts a switch. Raises `ControlError`."""
        ...


class FabricCLI(MininetCLI):  # type: ignore[misc]
    """`pcap`, `reroute` and `restart` beside Mininet's commands."""

    def __init__(self, net: Any, fabric: PromptFabric) -> None:
        self.fabric = fabric
        super().__init__(net)

    def do_pcap(self, line: str) -> None:
        """Capture what a switch port receives and sends, also inside the fabric.
        Usage: pcap SWITCH NODE NAME   the port of SWITCH that leads to NODE
               pcap SWITCH:PORT NAME   into NAME_in.pcap and NAME_out.pcap of the run's folder
               pcap .. stop            the files are complete then"""
        *at, name = line.split() or [""]
        if len(at) not in (1, 2):
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
            error("reroute: the kernel has the links here; only a fabric in one process tells\n")
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

    def _try(self, action: Callable[[], None]) -> bool:
        try:
            action()
        except ControlError as problem:
            error(f"{printable(problem)}\n")
            return False
        return True
