"""Carries out a scenario's faults under the wall clock, while a phase runs.

Every phase has the same faults, at the same times after its traffic starts, and begins and ends
with a fabric that is whole.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ebb_controller.controller import Controller
from ebb_controller.errors import ControllerError
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError, naming
from ebb_topologies.mininet_links import ControlError

from ebb_experiments.run.loop import LoopThread
from ebb_experiments.scenario.faults import (
    FabricControl,
    Reinstall,
    Reroute,
    RestartSwitch,
    SetLink,
    StartCapture,
    Step,
    StopCapture,
    carry_out,
)


class RepairableFabric(FabricControl, Protocol):
    """A fabric that also takes all faults of its links back."""

    async def repair(self) -> Any:
        """Sets all links to their initial states."""
        ...


@dataclass(frozen=True, slots=True)
class CompletedStep:
    """A step that was carried out. Times are nominal, since the start of the phase's traffic."""

    what: str
    planned_ns: int
    began_ns: float
    ended_ns: float
    reroute: bool
    """Whether the controller put other routes in force."""


@dataclass(frozen=True, slots=True)
class PhaseFaults:
    """Steps of one phase that were carried out."""

    scheme: str
    phase: str
    done: list[CompletedStep]
    left_out: int
    """Steps that were not due before the end of the phase."""
    breaks: bool
    """Whether a link was to lose frames."""


@dataclass
class FaultRunner:
    """Carries out the faults of a phase at their times."""

    fabric: RepairableFabric
    controller: Controller
    dilation: Dilation
    loop: LoopThread
    log: Path
    """Gets a line of JSON per phase; begins empty."""
    history: list[PhaseFaults] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log.unlink(missing_ok=True)

    @contextmanager
    def during(
        self, steps: Sequence[Step], scheme: str, phase: str, start_ns: int
    ) -> Iterator[None]:
        """The steps, which are by time, happen from `start_ns` (CLOCK_MONOTONIC) on, until the
        block ends.

        Raises the `ControllerError` or `ControlError` of a step that failed.
        """
        if not steps:
            yield
            return
        under_way = self.loop.run(_start(_Phase(self, steps, f"{scheme}-{phase}", start_ns)))
        try:
            yield
        except BaseException:
            with suppress(ControllerError, ControlError):  # they may be its consequence
                self.loop.run(under_way.end())
            raise
        self.loop.run(under_way.end())
        left_out = len(steps) - len(under_way.done)
        breaks = any(isinstance(s, SetLink) and (s.up is False or s.loss) for s in steps)
        found = PhaseFaults(scheme, phase, under_way.done, left_out, breaks)
        self.history.append(found)
        with naming(self.log), self.log.open("a") as sink:
            sink.write(json.dumps(asdict(found)) + "\n")


async def _start(phase: _Phase) -> _Phase:
    phase.task = asyncio.create_task(phase.run(), name="faults")
    return phase


class _Phase:
    """One phase under way. Lives in the event loop."""

    task: asyncio.Task[None]

    def __init__(
        self, runner: FaultRunner, steps: Sequence[Step], name: str, start_ns: int
    ) -> None:
        self._runner = runner
        self._steps = steps
        self._start_ns = start_ns
        self._captures = f"{name}-"
        self._capturing: set[str] = set()
        self._restarted: set[str] = set()
        self._rerouted = False
        self.done: list[CompletedStep] = []

    async def run(self) -> None:
        """Faults happen on time, also while the controller still reacts to the one before; its
        reactions happen one after the other."""
        last: asyncio.Task[None] | None = None
        async with asyncio.TaskGroup() as group:
            for step in self._steps:
                due = self._start_ns + self._runner.dilation.time(step.at_ns)
                await asyncio.sleep(max(0.0, (due - time.monotonic_ns()) / 1e9))
                if isinstance(step, Reroute | Reinstall):
                    last = group.create_task(self._after(last, step))
                else:
                    await self._do(step)

    async def end(self) -> None:
        """Stops, and makes the fabric whole, as if nothing had happened."""
        self.task.cancel()
        (failure,) = await asyncio.gather(self.task, return_exceptions=True)
        try:
            await self._make_whole()
        finally:
            # The first failure says more than those that followed from it.
            if isinstance(failure, ExceptionGroup):
                raise failure.exceptions[0]
            if isinstance(failure, Exception):
                raise failure

    async def _make_whole(self) -> None:
        fabric, controller = self._runner.fabric, self._runner.controller
        await fabric.repair()
        for port in self._capturing:
            await fabric.stop_capture(port)
        for switch in self._restarted:
            await controller.come_back(switch)
        if self._rerouted:
            await controller.reroute(frozenset())

    async def _after(self, before: asyncio.Task[None] | None, step: Step) -> None:
        if before is not None:
            await asyncio.wait({before})
        await self._do(step)

    async def _do(self, step: Step) -> None:
        # Notes for `end`, which takes steps back that were cut short, too.
        match step:
            case Reroute():
                self._rerouted = True
            case RestartSwitch():
                self._restarted.add(step.switch)
        runner, began = self._runner, time.monotonic_ns()
        what = await carry_out(
            step, runner.fabric, runner.controller, runner.dilation, self._captures
        )
        ended = time.monotonic_ns()
        match step:
            case StartCapture():
                self._capturing.add(step.port)
            case StopCapture():
                self._capturing.discard(step.port)
        began_ns, ended_ns = (
            runner.dilation.nominal_time(at - self._start_ns) for at in (began, ended)
        )
        reroute = isinstance(step, Reroute)
        self.done.append(CompletedStep(what, step.at_ns, began_ns, ended_ns, reroute))


def check_separate(steps: Sequence[Step], reopens: bool) -> None:
    """Raises `InputError` for what needs all switches in one process; `reopens`: whether a switch
    uses an interface again that was down."""
    for step in steps:
        needs = []
        match step:
            case SetLink():
                given = {
                    "loss": step.loss,
                    "corrupt": step.corrupt,
                    "rate_bps": step.rate_bps,
                    "one_way": step.one_way or None,
                    "a link that comes back": None if reopens else step.up,
                }
                needs = [name for name, value in given.items() if value is not None]
            case StartCapture() | StopCapture():
                needs = ["a capture"]
        if needs:
            raise InputError(
                f"event at {step.at_ns} ns ({step}): {', '.join(needs)} needs the fabric in one "
                f"process: leave out {'FUSED=0' if reopens else 'SWITCH=bmv2'}"
            )
