"""Faults of links: by the fabric service, for Mininet's prompt, which has no event loop, and by the
kernel where every switch has a process of its own."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ebb_controller.controller import Controller
from ebb_controller.errors import ControllerError
from ebb_controller.fabric_admin import FabricAdmin, FabricView, LinkState
from ebb_topologies.files import InputError
from ebb_topologies.mininet_links import DOWN, ControlError
from ebb_topologies.mininet_net import FabricNet

from ebb_experiments.run.loop import LoopThread

T = TypeVar("T")


@dataclass(frozen=True)
class PromptControl:
    """A `FabricControl` of `ebb_topologies.mininet_links`."""

    admin: FabricAdmin
    loop: LoopThread
    controller: Controller

    def set_link(self, a: str, b: str, *, up: bool) -> None:
        """Sets a link up or down."""
        self._run(self.admin.set_link(a, b, up=up))

    def link_states(self) -> dict[tuple[str, str], tuple[str, str]]:
        """States of both directions of each link."""
        return _states(self._run(self.admin.fabric()))

    def restart_switch(self, name: str) -> None:
        """Restarts a switch, which loses program, packets and entries."""
        self._run(self.admin.restart_switch(name))

    def reroute(self) -> str:
        """Computes routes around links that are down, and installs them. Returns a sentence for
        the prompt."""
        return self._run(reroute(self.admin, self.controller))

    def start_capture(self, at: str, toward: str, name: str) -> tuple[str, str]:
        """Starts a capture at a port; returns the paths of both files."""
        return self._run(self.admin.start_capture(at, name, toward))

    def stop_capture(self, at: str, toward: str) -> None:
        """Ends a capture."""
        self._run(self.admin.stop_capture(at, toward))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self.loop.run(work)
        except (ControllerError, InputError) as error:
            raise ControlError(str(error)) from error


async def reroute(admin: FabricAdmin, controller: Controller) -> str:
    """Has the controller plan with the links that are up; returns a sentence about the changes."""
    states, topology = _states(await admin.fabric()), controller.topology
    down = [
        link
        for link in topology.links
        if DOWN in states.get((topology.place(link.a), topology.place(link.b)), ())
    ]
    changes = await controller.reroute(frozenset(link.ends for link in down))
    names = ", ".join(f"{link.a.node} - {link.b.node}" for link in down)
    total = sum(change.total for change in changes.values())
    return f"{total} changes; {f'avoided: {names}' if down else 'all links are in use'}"


def _states(view: FabricView) -> dict[tuple[str, str], tuple[str, str]]:
    """Faults of both directions of each link, in the order of its ends; each link has a key for
    either order. Empty text: no fault."""
    states: dict[tuple[str, str], tuple[str, str]] = {}
    for link in view.links:
        a, b = str(link.a), str(link.b)
        there, back = _fault(link.a_to_b), _fault(link.b_to_a)
        states |= {(a, b): (there, back), (b, a): (back, there)}
    return states


def _fault(state: LinkState) -> str:
    if not state.up:
        return DOWN
    return str(state) if state != LinkState() else ""


@dataclass(frozen=True)
class KernelLinks:
    """The faults that a fabric with a process per switch supports
    (`fault_runner.check_separate`): links are veths. A host's link goes down at its switch, so that
    the host keeps its routes."""

    net: FabricNet
    _down: set[str] = field(default_factory=set)
    """Interfaces that are down."""

    async def set_link(self, a: str, b: str = "", *, up: bool | None = None, **_: Any) -> None:
        """Sets an interface or the link between two nodes up or down; loss and rate need one
        process."""
        for end in (a, b):
            node, _colon, port = end.partition(":")
            if port:
                await self._set(f"{node}-eth{port}", "up" if up else "down")

    async def repair(self) -> None:
        """Sets all links up again."""
        for interface in sorted(self._down):
            await self._set(interface, "up")

    async def restart_switch(self, switch: str) -> None:
        """Restarts the process of a switch."""
        await asyncio.to_thread(self.net.restart_switch, switch)

    async def start_capture(self, port: str, name: str) -> None:
        """Raises `ControlError`."""
        raise ControlError(f"capture of {port}: it needs the fabric in one process")

    async def stop_capture(self, port: str) -> None:
        """Raises `ControlError`."""
        raise ControlError(f"capture of {port}: it needs the fabric in one process")

    async def _set(self, interface: str, state: str) -> None:
        command = ["ip", "link", "set", interface, state]
        done = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ControlError(f"{' '.join(command)}: {done.stderr.strip()}")
        (self._down.discard if state == "up" else self._down.add)(interface)
