"""A scenario in virtual time that people watch: the clock stops for samples and for orders."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebb_controller.errors import ControllerError
from ebb_experiments.results import folders
from ebb_experiments.results.results import Results
from ebb_experiments.run.control import reroute
from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.run.virtual import PausedSimulation, Virtual, Watch
from ebb_experiments.scenario.faults import file_name
from ebb_experiments.scenario.loaded import Loaded
from ebb_topologies.files import InputError

from ebb_dashboard.fabric import Fabric, Routes
from ebb_dashboard.feed import Feed
from ebb_dashboard.orders import AnyOrder, Pace, Queues, RunScheme, Trace, Volume
from ebb_dashboard.picture import Picture, of_topology
from ebb_dashboard.replicas import objects_message, written
from ebb_dashboard.summary import summary
from ebb_dashboard.volume import LinkVolumes, volume_control

LINKS_EVERY = 10
"""Samples per reading of the states of links, which events of a scenario change."""


class _Ended(Exception):
    """`end` was called."""


@dataclass
class Simulated:
    """Runs the schemes of a scenario one after another, then those that are asked for. A
    `CommandHandler`."""

    loaded: Loaded
    binaries: Binaries
    directory: Path
    """Folder of the results, of this run alone."""
    feed: Feed
    sample_every_ns: int
    """Nominal time from one sample to the next."""
    samples_hz: float
    """At most this many samples per second; 0: the clock stands."""
    threads: int = 0
    _orders: queue.SimpleQueue[tuple[AnyOrder, Future[Any]]] = field(
        default_factory=queue.SimpleQueue
    )
    _schemes: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)
    _paced: threading.Condition = field(default_factory=threading.Condition)
    """Wakes the thread of the simulation for a new pace, an order or the end."""
    _fabric: Fabric | None = None
    """The fabric of the phase that runs, or ran last."""
    _runs: bool = False
    """Whether that phase runs now."""
    _volumes: LinkVolumes = field(default_factory=LinkVolumes)
    _samples: int = 0
    """Samples so far."""
    _next: float = 0.0
    """Monotonic time before which the clock may not run on, s."""
    _ended: bool = False

    @property
    def picture(self) -> Picture:
        """The picture of the fabric."""
        return of_topology(self.loaded.topology)

    # -- in the thread of the simulation ------------------------------------------------------

    def run(self, stay: bool = True) -> None:
        """Runs until `end` is called; without `stay`, until all schemes have run."""
        try:
            self._run_all(stay)
        except _Ended:
            self.feed.publish("line", {"text": "the simulation was ended"})

    def _run_all(self, stay: bool) -> None:
        self._say_hello()
        for name in self.loaded.schemes:
            self._run_scheme(name)
        while stay:
            self.feed.publish("line", {"text": "every scheme has run; choose one to run it again"})
            asked = self._schemes.get()
            if asked is None:
                return
            self._run_scheme(asked)

    def end(self) -> None:
        """Has `run` return when the clock stops next. From any thread."""
        self._schemes.put(None)
        with self._paced:
            self._ended = True
            self._paced.notify()

    def _say_hello(self) -> None:
        self.feed.publish(
            "hello",
            {
                "version": 2,
                "title": self.loaded.name,
                "clock": "virtual",
                "dilation": self.loaded.dilation.factor,
                "picture": self.picture.as_json(),
                "schemes": [
                    {"name": name, "label": scheme.label}
                    for name, scheme in self.loaded.schemes.items()
                ],
                "controls": [
                    *("queues", "switch", "trace", "link", "restart", "capture", "reroute"),
                    *("scheme", "pace"),
                    *volume_control(self.loaded),
                ],
            },
        )
        self.feed.publish("pace", {"samples_hz": self.samples_hz})

    def _run_scheme(self, name: str) -> None:
        directory = self.directory / file_name(name)
        directory.mkdir(exist_ok=True)
        watch = Watch(step=self._step, sample=self._sample, sample_every_ns=self.sample_every_ns)
        clock = Virtual(self.binaries, self.threads, watch)
        run = Run(self.loaded, name, self.loaded.spec.seeds[0], clock, directory).rounds()
        done: list[Results] = []
        for phase_round in self.loaded.rounds(name):
            head = {"scheme": name, "phase": phase_round.traffic.name, "round": phase_round.round}
            self.feed.publish("phase", head | {"running": True})
            done.append(next(run))
            self._runs = False
            self.feed.publish("phase", head | {"running": False})
            ports = self.picture.ports
            self._volumes.add(done[-1].tables["volume"])
            self.feed.publish("result", summary(name, phase_round.traffic.name, done[-1], ports))
            if objects := written(done[-1].flows):
                self.feed.publish(
                    "objects", objects_message(objects, scheme=name, phase=phase_round.traffic.name)
                )
        Results.together(done).write(directory)
        folders.name_latest(self.directory)

    def _step(self, text: str) -> None:
        self.feed.publish("line", {"text": text})

    def _sample(self, paused: PausedSimulation) -> None:
        if not self._runs:
            self._fabric, self._runs = self._fabric_of(paused), True
            self._tell_links(paused)
            self.feed.publish("groups", {"groups": paused.loop.run(self._fabric.groups())})
        assert self._fabric is not None
        seen = paused.loop.run(self._fabric.sample())
        self.feed.publish("sample", {"at_ns": paused.at_ns} | seen)
        self._samples += 1
        if self._samples % LINKS_EVERY == 0:
            self._tell_links(paused)
        self._wait(paused)

    def _fabric_of(self, paused: PausedSimulation) -> Fabric:
        async def restart(switch: str) -> None:
            # While the clock stands: a controller that detects the restart by itself would
            # reconnect while it runs, when the switch does not answer.
            await paused.controller.leave(switch)
            await paused.admin.restart_switch(switch)
            await paused.controller.come_back(switch)

        return Fabric(
            self.picture,
            paused.managers,
            {
                switch.name: (paused.address(switch), switch.device_id)
                for switch in self.loaded.topology.switches
            },
            self.loaded.dilation,
            paused.admin,
            Routes(lambda: reroute(paused.admin, paused.controller), restart),
            paused.controller.trees,
        )

    def _tell_links(self, paused: PausedSimulation) -> None:
        assert self._fabric is not None
        states = paused.loop.run(self._fabric.link_states())
        self.feed.publish("links", {"states": states})

    def _wait(self, paused: PausedSimulation) -> None:
        """Carries out orders, and lets the clock run no faster than it may."""
        while True:
            self._carry_out(paused)
            with self._paced:
                if self._ended:
                    raise _Ended
                wait = None if not self.samples_hz else self._next - time.monotonic()
                if wait is not None and wait <= 0:
                    self._next = time.monotonic() + 1 / self.samples_hz
                    return
                if self._orders.empty():
                    self._paced.wait(wait)

    def _carry_out(self, paused: PausedSimulation) -> None:
        while not self._orders.empty():
            order, answer = self._orders.get()
            assert self._fabric is not None
            if isinstance(order, Trace):
                # A trace lasts while the clock runs, so nothing waits for it here.
                _pass_on(paused.loop.start(self._fabric.do(order)), answer)
                continue
            try:
                done = paused.loop.run(self._fabric.do(order))
                self._tell_links(paused)
                answer.set_result(done)
            except Exception as error:
                answer.set_exception(error)

    # -- in the loop of the server ------------------------------------------------------------

    async def do(self, order: AnyOrder) -> Any:
        """Carries an order out, when the clock stops next."""
        match order:
            case RunScheme():
                if order.scheme not in self.loaded.schemes:
                    raise InputError(f"the scenario has no scheme '{order.scheme}'")
                self._schemes.put(order.scheme)
                return {"text": f"{order.scheme} runs after what runs now"}
            case Pace():
                with self._paced:
                    self.samples_hz = order.samples_hz
                    self._paced.notify()
                self.feed.publish("pace", {"samples_hz": order.samples_hz})
                return {}
            case Volume():
                return self._volumes.of(self.picture.link(order.link))
            case Queues() if self._fabric is not None:
                return await self._fabric.do(order)  # answered from the last sample
        if not self._runs:
            raise ControllerError("no fabric runs just now: run a scheme")
        answer: Future[Any] = Future()
        self._orders.put((order, answer))
        with self._paced:
            self._paced.notify()
        return await asyncio.wait_for(asyncio.wrap_future(answer), 20.0)


def _pass_on(done: Future[Any], answer: Future[Any]) -> None:
    """Gives the result or the error of one future to another."""

    def give(_: Future[Any]) -> None:
        error = done.exception()
        if error is None:
            answer.set_result(done.result())
        else:
            answer.set_exception(error)

    done.add_done_callback(give)
