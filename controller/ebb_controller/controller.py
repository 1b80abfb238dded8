"""The controller: connects to every switch, installs the plan, keeps it installed.

`finsy` reconnects and becomes primary; whenever a switch is ready, for the first time or after a
restart, the plan in force is reconciled with what it holds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import finsy
from ebb_topologies.model import Topology
from finsy import P4ClientError, P4CounterEntry, Switch, SwitchEvent, SwitchOptions

from ebb_controller.parameters import FabricParameters
from ebb_controller.plan import MulticastGroup, plan
from ebb_controller.reconcile import Change, ControllerError, read, reconcile
from ebb_controller.site import DepthUnit, Site

LOGGER = logging.getLogger("ebb.controller")
CONNECT_SECONDS = 20.0


@dataclass(frozen=True)
class Program:
    """What the compiler made of a P4 program."""

    p4info: Path
    json: Path

    def check(self) -> None:
        for path in (self.p4info, self.json):
            if not path.exists():
                raise ControllerError(f"{path} is not there: run `make build`")


@dataclass
class _Managed:
    """A switch and how it stands against the plan."""

    switch: Switch
    ready: bool = False
    """Connected, we are primary, and our pipeline runs."""
    error: ControllerError | None = None
    """Why it is not as planned, since it was last ready."""
    installs: int = 0
    """How often a plan was installed: a restart adds one."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Controller:
    """An asynchronous context manager: enter it, then `await controller.configure(parameters)`."""

    def __init__(
        self, topology: Topology, program: Program, depth_unit: DepthUnit = "bytes"
    ) -> None:
        program.check()
        self.topology = topology
        self.depth_unit: DepthUnit = depth_unit
        self._parameters: FabricParameters | None = None
        self._multicast: tuple[MulticastGroup, ...] = ()
        self._managed: dict[str, _Managed] = {}
        self._runner: asyncio.Task[None] | None = None
        for node in topology.switches:
            options = SwitchOptions(
                p4info=program.p4info,
                p4blob=program.json,
                device_id=node.device_id,
                ready_handler=self._ready,
            )
            switch = Switch(node.name, f"127.0.0.1:{node.grpc_port}", options)
            self._managed[node.name] = _Managed(switch)
            switch.ee.add_listener(SwitchEvent.CHANNEL_DOWN, self._gone)

    async def __aenter__(self) -> Controller:
        fabric = finsy.Controller([managed.switch for managed in self._managed.values()])
        self._runner = asyncio.create_task(fabric.run(), name="controller")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)

    async def configure(
        self, parameters: FabricParameters, multicast: Sequence[MulticastGroup] = ()
    ) -> dict[str, Change]:
        """Puts a plan in force on every switch and returns what had to change on each.

        Raises `ControllerError` for the first switch that cannot be reached or refuses.
        """
        self._parameters = parameters
        self._multicast = tuple(multicast)
        tasks = [asyncio.create_task(self._install(m)) for m in self._managed.values()]
        try:
            changes = await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        return dict(zip(self._managed, changes, strict=True))

    async def settled(self, switch: str, installs: int) -> None:
        """Waits until a switch has had a plan installed `installs` times (after a restart)."""
        managed = self._managed[switch]
        async with managed.changed:
            await managed.changed.wait_for(lambda: managed.installs >= installs)

    def installs(self, switch: str) -> int:
        return self._managed[switch].installs

    async def counters(self, *names: str) -> dict[str, dict[str, list[tuple[int, int]]]]:
        """switch -> counter -> (packets, bytes) by index."""
        replies = await asyncio.gather(
            *(self._counters(m.switch, names) for m in self._managed.values())
        )
        return dict(zip(self._managed, replies, strict=True))

    async def _counters(
        self, switch: Switch, names: Sequence[str]
    ) -> dict[str, list[tuple[int, int]]]:
        table: dict[str, list[tuple[int, int]]] = {}
        try:
            for name in names:
                rows = await read(switch, [P4CounterEntry(name)], P4CounterEntry)
                rows.sort(key=lambda row: row.index or 0)
                table[name] = [(row.packet_count, row.byte_count) for row in rows]
        except P4ClientError as error:
            raise ControllerError(
                f"switch {switch.name}: counter {name} cannot be read: {error.message}"
            ) from error
        return table

    async def _ready(self, switch: Switch) -> None:
        """finsy's call when a switch has our pipeline: at first, and after every reconnection."""
        managed = self._managed[switch.name]
        managed.error = None
        try:
            if not switch.is_primary:
                raise ControllerError(
                    f"switch {switch.name} at {switch.address}: another controller is primary "
                    f"(election id {switch.primary_id}, ours {switch.election_id}); stop it first"
                )
            if self._parameters is not None:
                await self._reconcile(managed)
            managed.ready = True
        except ControllerError as error:
            managed.error = error
            LOGGER.error("%s", error)
        async with managed.changed:
            managed.changed.notify_all()

    def _gone(self, switch: Switch) -> None:
        """finsy's call when the connection to a switch ends."""
        self._managed[switch.name].ready = False

    async def _install(self, managed: _Managed) -> Change:
        switch = managed.switch
        try:
            async with asyncio.timeout(CONNECT_SECONDS), managed.changed:
                await managed.changed.wait_for(lambda: managed.ready or managed.error)
        except TimeoutError as error:
            raise ControllerError(
                f"switch {switch.name} cannot be reached: no P4Runtime server answers at "
                f"{switch.address} after {CONNECT_SECONDS:.0f} s. Is the switch process running?"
            ) from error
        if managed.error is not None:
            raise managed.error
        return await self._reconcile(managed)

    async def _reconcile(self, managed: _Managed) -> Change:
        assert self._parameters is not None
        node = self.topology.switch(managed.switch.name)
        async with managed.writing:
            site = Site(self.topology, node, self._parameters, self.depth_unit)
            change = await reconcile(managed.switch, plan(site, self._multicast))
            managed.installs += 1
        return change
