"""`make run`, watched: its fabric, its schemes as they run, and any of them again at the end."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from ebb_controller.errors import ControllerError
from ebb_controller.traffic_manager import loopback
from ebb_experiments.results.flows import FlowTable
from ebb_experiments.results.load import Load
from ebb_experiments.results.results import Results
from ebb_experiments.run.agents import AgentError
from ebb_experiments.run.control import reroute
from ebb_experiments.run.players import Player
from ebb_experiments.run.run import Task
from ebb_experiments.run.wall import RunObserver, Wall
from ebb_experiments.tour.spectator import Spectator
from ebb_topologies.files import InputError
from ebb_topologies.mininet_links import ControlError
from ebb_topologies.text import printable

from ebb_dashboard.fabric import Fabric, Routes
from ebb_dashboard.live import Watcher
from ebb_dashboard.orders import AnyOrder, CommandHandler, NoFabric, RunScheme, Volume
from ebb_dashboard.picture import Picture, of_topology
from ebb_dashboard.replicas import WRITE, StoredObject, objects_message, written
from ebb_dashboard.serving import HandlerInLoop, Serving
from ebb_dashboard.streams import Streams
from ebb_dashboard.summary import by_phase, curves, summary
from ebb_dashboard.volume import LinkVolumes, volume_control

OBJECTS_EVERY_NS = 500_000_000
"""Interval of messages about replicas during a phase."""
CHECK_SECONDS = 0.5
"""Interval of checks that all switches are alive while nothing else happens."""
REFUSALS = (ControllerError, ControlError, AgentError, InputError)
"""Errors of a scheme that does not run on a fabric that people have changed."""


class RunWatch(Spectator, RunObserver):
    """Shows a run. A `CommandHandler`, which gives orders to the fabric that is up."""

    def __init__(self, serving: Serving) -> None:
        self._feed = serving.feed
        self._fabric: CommandHandler = NoFabric()
        self._schemes: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._names: frozenset[str] = frozenset()
        self._volumes = LinkVolumes()
        self._picture: Picture | None = None
        self._watcher: Watcher | None = None
        self._objects: dict[str, Any] = {}
        """Last message about replicas."""
        self._objects_due = 0
        """Time of the next one, on CLOCK_MONOTONIC."""
        serving.handler = self

    # -- the run ------------------------------------------------------------------------------

    @contextmanager
    def watching(self, wall: Wall) -> Iterator[None]:
        """Shows a fabric for as long as the block lasts."""
        self._names = frozenset(wall.loaded.schemes)
        self._picture = of_topology(wall.loaded.topology)
        streams = _streams(wall)
        if streams is None:
            self._feed.publish("hello", _hello(wall, []))
            text = "these switches tell nothing of queues: results come when a phase has ended"
            self._feed.publish("line", {"text": text})
            wall.observer = self
            yield
            return
        fabric = _fabric(wall, streams)
        self._feed.publish("hello", _hello(wall, fabric.controls))
        self._watcher = Watcher(fabric, streams, self._feed)
        self._fabric = HandlerInLoop(fabric, wall.loop)
        wall.observer = self
        watching = wall.loop.start(self._watcher.run())
        try:
            yield
        finally:
            self._fabric, self._watcher = NoFabric(), None
            watching.cancel()

    def begins(self, task: Task, start_ns: int) -> None:
        """A phase begins."""
        if self._watcher is not None:
            self._watcher.begin(_phase(task), start_ns)
        else:
            self._feed.publish("phase", _phase(task) | {"running": True})

    def continued(self, task: Task, player: Player, start_ns: int) -> None:
        """Reports the replicas of the objects that are being written."""
        now = time.monotonic_ns()
        if now < self._objects_due:
            return
        self._objects_due = now + OBJECTS_EVERY_NS
        schedule = [line for line in player.plan.schedule if line["kind"] == WRITE]
        if not schedule:
            return
        dilation = task.loaded.dilation
        flows = FlowTable(task.loaded.topology, dilation, {})
        for line in player.lines():
            if line.get("kind") == WRITE:
                flows.append(line)
        # The schedule that players get is slowed as the fabric is.
        self._publish_objects(task, written(flows.table(), schedule, now - start_ns))

    def _publish_objects(self, task: Task, objects: Sequence[StoredObject]) -> None:
        head = {"scheme": task.scheme, "phase": task.phase_round.traffic.name}
        message = objects_message(objects, **head)
        if objects and message != self._objects:
            self._objects = message
            self._feed.publish("objects", message)

    def ended(self, task: Task, results: Results) -> None:
        """A phase has ended."""
        self._feed.publish("phase", _phase(task) | {"running": False})
        if results.run["needed_dilation"] > task.loaded.dilation.factor:
            load = Load.of(results.run["load"])
            text = f"this machine did not keep up: the numbers are not valid ({load})"
            self._feed.publish("line", {"text": f"{task.scheme}, {task.phase_round.label}: {text}"})
        # One port is looked at more often than the others, that of the receiver.
        for phase, curve in curves(results.tables.get("samples", ())).items():
            head = {"scheme": task.scheme, "phase": phase}
            self._feed.publish("curve", head | {"t_ns": curve.t_ns, "bytes": curve.bytes})
        self._volumes.add(results.tables.get("volume", ()))
        ports = of_topology(task.loaded.topology).ports
        for phase, rows in by_phase(results):
            self._feed.publish("result", summary(task.scheme, phase, rows, ports))
            self._publish_objects(task, written(rows.flows))

    def stay(self, wall: Wall, again: Callable[[str], None]) -> None:
        """Runs the schemes that are asked for, until a signal."""
        text = "every scheme has run; the fabric stays up until Ctrl-C"
        print(f"live view: {text}", flush=True)
        self._feed.publish("line", {"text": text})
        while True:
            with suppress(queue.Empty):
                name = self._schemes.get(timeout=CHECK_SECONDS)
                try:
                    again(name)
                except REFUSALS as error:
                    self._feed.publish("line", {"text": f"{name}: {printable(error)}"})
            wall.net.check()

    # -- orders -------------------------------------------------------------------------------

    async def do(self, order: AnyOrder) -> Any:
        """Carries an order out."""
        if isinstance(order, Volume) and self._picture is not None:
            return self._volumes.of(self._picture.link(order.link))
        if not isinstance(order, RunScheme):
            return await self._fabric.do(order)
        if order.scheme not in self._names:
            raise InputError(f"the scenario has no scheme '{order.scheme}'")
        self._schemes.put(order.scheme)
        return {"text": f"{order.scheme} runs when all that runs now has ended"}


def _streams(wall: Wall) -> Streams | None:
    """None: its switches have no traffic managers of ours."""
    if wall.managers is None:
        return None
    return Streams(wall.managers, [switch.name for switch in wall.loaded.topology.switches])


def _fabric(wall: Wall, streams: Streams) -> Fabric:
    admin, controller = wall.admin, wall.controller
    return Fabric(
        of_topology(wall.loaded.topology),
        streams,
        {s.name: (loopback(s), s.device_id) for s in wall.loaded.topology.switches},
        wall.loaded.dilation,
        admin,
        None if admin is None else Routes(lambda: reroute(admin, controller)),
        controller.trees,
    )


def _hello(wall: Wall, controls: Sequence[str]) -> dict[str, Any]:
    """`controls`: what can be done to the fabric."""
    loaded = wall.loaded
    return {
        "version": 2,
        "title": loaded.name,
        "clock": "wall",
        "dilation": loaded.dilation.factor,
        "picture": of_topology(loaded.topology).as_json(),
        "schemes": [{"name": name, "label": s.label} for name, s in loaded.schemes.items()],
        "controls": ["scheme", *volume_control(loaded), *controls],
    }


def _phase(task: Task) -> dict[str, Any]:
    phase_round = task.phase_round
    return {"scheme": task.scheme, "phase": phase_round.traffic.name, "round": phase_round.round}
