"""The fabric service for Mininet's prompt, which knows no event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ebb_controller.fabric_admin import FabricAdmin, LinkState
from ebb_controller.reconcile import ControllerError
from ebb_topologies.mininet_links import DOWN, ControlError

from ebb_experiments.fabric import LoopThread

T = TypeVar("T")


@dataclass(frozen=True)
class PromptControl:
    """A `FabricControl` of `ebb_topologies.mininet_links`."""

    admin: FabricAdmin
    loop: LoopThread

    def set_link(self, a: str, b: str, *, up: bool) -> None:
        self._run(self.admin.set_link(a, b, up=up))

    def link_states(self) -> dict[tuple[str, str], tuple[str, str]]:
        states: dict[tuple[str, str], tuple[str, str]] = {}
        for link in self._run(self.admin.fabric()).links:
            a, b = str(link.a), str(link.b)
            there, back = _fault(link.a_to_b), _fault(link.b_to_a)
            states |= {(a, b): (there, back), (b, a): (back, there)}
        return states

    def restart_switch(self, name: str) -> None:
        self._run(self.admin.restart_switch(name))

    def start_capture(self, at: str, toward: str, path: Path) -> None:
        self._run(self.admin.start_capture(at, path, toward))

    def stop_capture(self, at: str, toward: str) -> None:
        self._run(self.admin.stop_capture(at, toward))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self.loop.run(work)
        except ControllerError as error:
            raise ControlError(str(error)) from error


def _fault(state: LinkState) -> str:
    if not state.up:
        return DOWN
    return str(state) if state != LinkState() else ""
