"""Faults under the wall clock, with stand-ins for fabric and controller."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ebb_controller.errors import ControllerError
from ebb_controller.reconcile import Change
from ebb_experiments.run.fault_runner import FaultRunner, check_separate
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.scenario.faults import FaultKeys, Step, steps
from ebb_experiments.tour.checks import checks
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError, validate
from ebb_topologies.model import LinkEnds, from_table

TOPOLOGY = from_table({"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1}}, "test")
MILLISECOND = 1_000_000
D = 10.0
"""So 1 ms nominal is 10 ms here."""


def plan(*events: dict[str, Any], delay_ns: int | str = 2 * MILLISECOND) -> list[Step]:
    keys = {"event": list(events), "controller_delay_ns": delay_ns}
    return steps(validate(FaultKeys, keys, "test"), TOPOLOGY)


def link(at_ms: int, up: bool | None = None, **state: Any) -> dict[str, Any]:
    given = state if up is None else state | {"up": up}
    return {"at_ns": at_ms * MILLISECOND, "do": "link", "a": "l0", "b": "s0", **given}


@dataclass
class World:
    """Fabric and controller in one: notes who was asked for what, and when."""

    slow_seconds: float = 0.0
    """Duration of a reroute, in seconds."""
    refuse: str = ""
    calls: list[tuple[str, float]] = field(default_factory=list)

    def _note(self, what: str) -> None:
        self.calls.append((what, time.monotonic()))
        if what == self.refuse:
            raise ControllerError(f"cannot {what}")

    def names(self) -> list[str]:
        return [what for what, _at in self.calls]

    async def set_link(self, a: str, b: str = "", *, up: bool | None = None, **_: Any) -> None:
        self._note({True: "up", False: "down", None: "change"}[up])

    async def repair(self) -> None:
        self._note("repair")

    async def restart_switch(self, switch: str) -> None:
        self._note(f"restart {switch}")

    async def start_capture(self, port: str, name: str) -> None:
        self._note(f"capture {port} {name}")

    async def stop_capture(self, port: str) -> None:
        self._note(f"stop {port}")

    async def reroute(self, down: frozenset[LinkEnds]) -> dict[str, Change]:
        self._note(f"reroute {len(down)}")
        await asyncio.sleep(self.slow_seconds)
        return {"l0": Change(1, 0, 0)}

    async def leave(self, switch: str) -> None:
        self._note(f"leave {switch}")

    async def come_back(self, switch: str) -> Change:
        self._note(f"come back {switch}")
        return Change()


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    with LoopThread() as running:
        yield running


def runner(world: Any, loop: LoopThread, directory: Path) -> FaultRunner:
    return FaultRunner(
        world,
        world,
        Dilation(D),
        loop,
        log=directory / "faults.jsonl",
    )


def test_steps_happen_when_they_are_due_and_everything_is_whole_afterwards(
    loop: LoopThread, tmp_path: Path
) -> None:
    world = World()
    faults = runner(world, loop, tmp_path)
    planned = plan(link(3, up=False), link(9, up=True))
    began = time.monotonic()
    with faults.during(planned, "ndp", "file", time.monotonic_ns()):
        time.sleep(0.2)
    assert world.names() == ["down", "reroute 1", "up", "reroute 0", "repair", "reroute 0"]
    for (_what, at), due_ms in zip(world.calls, (3, 5, 9, 11), strict=False):
        assert at - began >= due_ms * D / 1000
    (phase,) = faults.history
    assert (phase.scheme, phase.phase, phase.left_out, phase.breaks) == ("ndp", "file", 0, True)
    assert [step.reroute for step in phase.done] == [False, True, False, True]
    assert all(step.planned_ns <= step.began_ns <= step.ended_ns for step in phase.done)
    line = json.loads((tmp_path / "faults.jsonl").read_text())
    assert line["done"][1]["what"].startswith("the controller routes around l0 - s0: 1 changes")


def test_a_slow_controller_holds_up_its_own_reactions_but_no_fault(
    loop: LoopThread, tmp_path: Path
) -> None:
    world = World(slow_seconds=0.1)
    planned = plan(link(1, up=False), link(3, up=True), delay_ns=MILLISECOND)
    with runner(world, loop, tmp_path).during(planned, "ndp", "file", time.monotonic_ns()):
        time.sleep(0.3)
    assert world.names()[:4] == ["down", "reroute 1", "up", "reroute 0"]
    times = dict(reversed(world.calls))
    assert times["up"] - times["down"] < 0.08
    assert times["reroute 0"] - times["reroute 1"] >= 0.1


def test_what_is_not_due_when_the_phase_ends_does_not_happen(
    loop: LoopThread, tmp_path: Path
) -> None:
    world = World()
    faults = runner(world, loop, tmp_path)
    planned = plan(link(1, up=False), link(900, up=True))
    with faults.during(planned, "ndp", "file", time.monotonic_ns()):
        time.sleep(0.1)
    assert world.names() == ["down", "reroute 1", "repair", "reroute 0"]
    assert faults.history[0].left_out == 2
    verdicts = [check.holds for check in checks({}, faults.history)]
    assert verdicts == []  # of schemes that were not run nothing is said


def test_captures_end_and_switches_come_back_with_the_phase(
    loop: LoopThread, tmp_path: Path
) -> None:
    world = World()
    planned = plan(
        {"at_ns": 0, "do": "capture", "port": "l0:2"},
        {"at_ns": 1, "do": "restart-switch", "switch": "s1"},
        delay_ns="never",
    )
    with runner(world, loop, tmp_path).during(planned, "ndp", "incast0", time.monotonic_ns()):
        time.sleep(0.1)
    assert world.names() == [
        "capture l0:2 ndp-incast0-l0-2",
        "leave s1",
        "restart s1",
        "repair",
        "stop l0:2",
        "come back s1",
    ]


@pytest.mark.parametrize("refused", ["down", "reroute 1"])
def test_a_step_that_fails_is_told_after_the_phase(
    refused: str, loop: LoopThread, tmp_path: Path
) -> None:
    world = World(refuse=refused)
    faults = runner(world, loop, tmp_path)
    planned = plan(link(1, up=False))
    with (
        pytest.raises(ControllerError, match=f"cannot {refused}"),
        faults.during(planned, "ndp", "file", time.monotonic_ns()),
    ):
        time.sleep(0.1)
    assert "repair" in world.names()


def test_the_failure_of_the_phase_itself_comes_first(loop: LoopThread, tmp_path: Path) -> None:
    world = World(refuse="repair")
    faults = runner(world, loop, tmp_path)
    planned = plan(link(1, up=False))
    with (
        pytest.raises(TimeoutError, match="still sending"),
        faults.during(planned, "ndp", "file", time.monotonic_ns()),
    ):
        raise TimeoutError("still sending")
    assert "repair" in world.names()


def test_without_events_nothing_is_touched(loop: LoopThread, tmp_path: Path) -> None:
    world = World()
    with runner(world, loop, tmp_path).during([], "ndp", "file", time.monotonic_ns()):
        pass
    assert world.calls == []


@pytest.mark.parametrize(
    ("event", "needs"),
    [
        (link(1, loss=0.1), "loss needs the fabric in one process"),
        (link(1, up=False, one_way=True), "one_way needs"),
        (link(1, corrupt=0.5, rate_bps=5), "corrupt, rate_bps needs"),
        ({"at_ns": 1, "do": "capture", "port": "l0:1"}, "a capture needs"),
    ],
)
def test_what_a_process_per_switch_cannot_do_is_refused(event: dict[str, Any], needs: str) -> None:
    with pytest.raises(InputError, match=needs):
        check_separate(plan(event), reopens=True)
    restart = plan({"at_ns": 2, "do": "restart-switch", "switch": "s0"})
    cut = plan(link(1, up=False))
    check_separate([*cut, *restart], reopens=True)
    check_separate(restart, reopens=False)
    with pytest.raises(InputError, match=r"a link that comes back needs .* leave out SWITCH=bmv2"):
        check_separate(cut, reopens=False)
