"""The controller: connects to every switch, installs the plan, keeps it installed.

`finsy` reconnects and becomes primary. Whenever a switch is ready, for the first time or after a
restart, and whenever the plan changes, the switch is made to hold the plan in force.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import finsy
from ebb_topologies.files import InputError
from ebb_topologies.model import LinkEnds, Switch, Topology
from ebb_topologies.processes import allow_files
from ebb_topologies.traffic_manager import PortParameters
from finsy import (
    GRPCStatusCode,
    P4ClientError,
    P4CounterEntry,
    P4RegisterEntry,
    SwitchEvent,
    SwitchOptions,
)
from finsy.p4schema import P4Schema
from finsy.proto import p4r

from ebb_controller import tna
from ebb_controller.buffer_dependency import refuse_cycle
from ebb_controller.encoding import Encoder
from ebb_controller.errors import ControllerError
from ebb_controller.mechanism import counter_names
from ebb_controller.mechanisms import (
    COUNTERS,
    FabricParameters,
)
from ebb_controller.multicast import MulticastGroup, check, tree
from ebb_controller.patience import TRIES
from ebb_controller.plan import plan
from ebb_controller.program import Program
from ebb_controller.reconcile import Change, Held, messages, reconcile, replies
from ebb_controller.session import OneProcess, Session
from ebb_controller.site import DepthUnit, Site
from ebb_controller.together import together
from ebb_controller.traffic_manager import TrafficManagers, loopback

T = TypeVar("T")

LOGGER = logging.getLogger("ebb.controller")
CONNECT_SECONDS = 20.0
"""How long `configure` waits for a switch that does not answer."""
AT_ONCE = 8
"""Most switches that are read and written at the same time."""
OPENED_AT_ONCE = 16
"""Most sessions that are opened at the same time: each call has a timeout (finsy's 10 s), in which
it would wait for the calls of all other switches of a large fabric."""
OPENING_SECONDS = 2.0
"""Time for which other sessions wait for one whose switch does not answer."""
PUSHES_AT_ONCE = 2
"""Most programs that are pushed to switches at the same time. All switches may be of one
process, which takes four of the longest requests at once (docs/p4runtime.md, "Limits")."""

FILES_PER_SWITCH = 4
"""File descriptors for the connections to a switch: one for P4Runtime, one for its traffic manager,
and as many again while they are replaced."""
OTHER_FILES = 512
"""File descriptors of a process for all else."""

LOST = (P4ClientError, RuntimeError, AssertionError)
"""Errors of a session whose connection has ended, unexpected ones of finsy included."""
ADVICE = {
    GRPCStatusCode.RESOURCE_EXHAUSTED: f"asked {TRIES} times: end what else uses the switch",
    GRPCStatusCode.INVALID_ARGUMENT: "`make build` compiles the program again",
    GRPCStatusCode.NOT_FOUND: "is it the switch of this topology, with this device id?",
}
"""Advice when a switch refuses a program or a session, by the code."""

NOTHING = (0, 0)
"""No packets and no bytes."""
Counters = dict[str, list[tuple[int, int]]]
"""Counter name to (packets, bytes) of each index; of ports without a link it has zeros."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a switch, for people to read."""

    switch: str
    """Name of the switch."""
    kind: Literal["connected", "installed", "lost", "error"]
    """Kind of the event."""
    text: str
    """The same in words. It may quote the switch: not to be printed raw."""


@dataclass(frozen=True, eq=False)
class _Goal:
    """Intended state of all switches. Compared by identity: a new call is a new goal."""

    parameters: FabricParameters
    """Parameters of all mechanisms, in real units."""
    multicast: tuple[MulticastGroup, ...]
    """All multicast groups."""
    topology: Topology
    """The topology, which knows the links that no route may use."""
    encoder: Encoder = field(default_factory=Encoder)
    """Entities of this goal as messages, which many switches share."""


@dataclass
class _Managed:
    """A switch and its state relative to the goal."""

    switch: Session
    """The session with it; after `come_back` another one."""
    fresh: PortParameters | None = None
    """Queues that it has from its start; none: not known, or it has been written to since."""
    begun: bool = False
    """Whether its turn to be connected has come."""
    connected: bool = False
    """Whether we are primary and our pipeline runs."""
    left: bool = False
    """Whether it is without a connection on purpose, see `leave`."""
    error: ControllerError | None = None
    """Why it is not as planned; none: nothing has failed since it was last connected or
    configured."""
    holds: _Goal | None = None
    """The goal that was last installed over this connection; none: nothing yet."""
    held: Held | None = None
    """Entities that were read over this connection; none: not read yet."""
    queues: dict[str, Any] | None = None
    """Configuration of its traffic manager that was sent over this connection; none: nothing
    yet."""
    change: Change = field(default_factory=Change)
    """Changes of the last installation."""
    installs: int = 0
    """How often a plan was installed; every restart of the switch adds one."""
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a goal is installed: one at a time."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def notify(self) -> None:
        """Wakes everyone in `until`."""
        self._changed.set()
        self._changed.clear()

    def forget(self) -> None:
        """Called when a connection ends or begins: nothing is known of the switch then."""
        self.holds = self.held = self.queues = None

    async def until(self, condition: Callable[[], object]) -> None:
        """Waits until the condition holds; it is tried again whenever `notify` is called."""
        while not condition():
            await self._changed.wait()


class Controller:
    """An asynchronous context manager: enter it, then `await controller.configure(parameters)`."""

    def __init__(
        self,
        topology: Topology,
        program: Program,
        depth_unit: DepthUnit = "bytes",
        *,
        traffic_managers: TrafficManagers | None = None,
        address: Callable[[Switch], str] = loopback,
        connect_seconds: float = CONNECT_SECONDS,
        fresh: PortParameters | None = None,
        on_event: Callable[[Event], None] = lambda _event: None,
    ) -> None:
        """With `traffic_managers`, the queues of `FabricParameters.ports` are installed too.
        `fresh`: the switches have just started in one process, with the program and with these
        queues, and no one has written to them, so what they hold is not read before the first plan
        is written, nor are these queues installed again."""
        self._schema = program.schema
        self.counter_names = counter_names(program.mechanisms, self._schema.p4info)
        """All counters of the program."""
        self.topology = topology
        self.program = program
        self.depth_unit: DepthUnit = depth_unit
        self.traffic_managers = traffic_managers
        self.connect_seconds = connect_seconds
        self._on_event = on_event
        self._goal: _Goal | None = None
        self._counter_reads: dict[tuple[tuple[str, ...], tuple[int, ...]], _CounterRead] = {}
        self._managed: dict[str, _Managed] = {}
        self._runner: asyncio.Task[None] | None = None
        self._fabric = finsy.Controller()
        self._busy = asyncio.Semaphore(AT_ONCE)
        self._opening = asyncio.Semaphore(OPENED_AT_ONCE)
        self._pushes = asyncio.Semaphore(PUSHES_AT_ONCE)
        self._process = None if fresh is None else OneProcess()
        for node in topology.switches:
            session = self._session(node, address(node), fresh=fresh is not None)
            self._managed[node.name] = _Managed(session, fresh=fresh)

    async def __aenter__(self) -> Controller:
        allow_files(FILES_PER_SWITCH * len(self._managed) + OTHER_FILES)
        self._fabric = finsy.Controller()
        self._runner = asyncio.create_task(self._run(), name="controller")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._on_event = lambda _event: None  # connections that end now are no events
        if self._runner is not None:
            self._runner.cancel()
            await asyncio.gather(self._runner, return_exceptions=True)

    async def _run(self) -> None:
        """Has a session with every switch until it is cancelled."""
        async with self._fabric, asyncio.TaskGroup() as opening:
            for managed in self._managed.values():
                opening.create_task(self._open(managed))
            await asyncio.Event().wait()

    async def _open(self, managed: _Managed) -> None:
        async with self._opening:
            managed.begun = True
            managed.notify()
            if managed.left or managed.switch in self._fabric:
                return  # `leave` or `come_back` were called meanwhile
            self._fabric.add(managed.switch)
            with suppress(TimeoutError):
                async with asyncio.timeout(OPENING_SECONDS):
                    await managed.until(lambda: managed.connected or managed.error)

    # -- commands -----------------------------------------------------------------------------

    async def configure(
        self,
        parameters: FabricParameters,
        multicast: Sequence[MulticastGroup] = (),
        *,
        down: frozenset[LinkEnds] | None = None,
    ) -> dict[str, Change]:
        """Puts a plan in force on every switch and returns what had to change on each.

        No route and no multicast tree uses a link that is `down` (none: those that the plan in
        force avoids); a destination without a path has no route. Raises `ControllerError` for the
        first switch that cannot be reached or refuses, and `InputError` for a multicast group or
        link that cannot be, or if lossless queues could wait for each other in a circle.
        """
        check(multicast, self.topology)
        topology = self._topology(down)
        refuse_cycle(topology, parameters.lossless_queues, multicast)
        return await self._pursue(_Goal(parameters, tuple(multicast), topology))

    def _topology(self, down: frozenset[LinkEnds] | None) -> Topology:
        if down is not None:
            return self.topology.without(down)
        return self.topology if self._goal is None else self._goal.topology

    async def reroute(self, down: frozenset[LinkEnds]) -> dict[str, Change]:
        """Installs the plan in force with paths that avoid exactly these links. Raises what
        `configure` does; then the plan stays in force as it was."""
        if self._goal is None:
            raise InputError("there is nothing to route again: no plan has been configured")
        topology = self.topology.without(down)
        parameters, groups = self._goal.parameters, self._goal.multicast
        refuse_cycle(topology, parameters.lossless_queues, groups)
        return await self._pursue(_Goal(parameters, groups, topology))

    def trees(self) -> list[tuple[MulticastGroup, dict[str, set[int]]]]:
        """The multicast groups of the plan in force, and the ports of the tree of each, by
        switch."""
        if (goal := self._goal) is None:
            return []
        return [(group, tree(goal.topology, group)) for group in goal.multicast]

    async def leave(self, switch: str) -> None:
        """Ends the connection to a switch and does not try again before `come_back`."""
        managed = self._named(switch)
        if managed.left:
            return
        managed.left = True
        managed.connected = False
        managed.forget()
        if self._fabric.get(switch) is not None:
            await self._fabric.remove(managed.switch).wait()
        self._report(managed, "lost", "left alone on purpose")

    async def load(self, program: Program) -> None:
        """Puts another program on every switch. They have no entries then, until `configure`."""
        self.program, self._schema, self._goal = program, program.schema, None
        self.counter_names = counter_names(program.mechanisms, self._schema.p4info)
        self._counter_reads.clear()
        here = [name for name in self._managed if not self.has_left(name)]
        await together(self.leave(name) for name in here)
        await together(self.come_back(name) for name in here)

    def has_left(self, switch: str) -> bool:
        """Whether `leave` was called for a switch and `come_back` was not."""
        return self._named(switch).left

    async def come_back(self, switch: str) -> Change:
        """Connects again, and waits until the switch has what the plan says."""
        managed = self._named(switch)
        if managed.left:
            managed.left = False
            managed.error = None
            # finsy's switches cannot be used twice.
            managed.switch = self._session(self.topology.switch(switch), managed.switch.address)
            self._fabric.add(managed.switch)
        return Change() if self._goal is None else await self._reached(managed, self._goal)

    async def _pursue(self, goal: _Goal) -> dict[str, Change]:
        self._goal = goal
        here = {name: managed for name, managed in self._managed.items() if not managed.left}
        for managed in here.values():
            if managed.connected:
                managed.error = None
                # A task of the switch: it ends with the connection.
                managed.switch.create_task(self._bring_up_to_date(managed))
        changes = await together(self._reached(managed, goal) for managed in here.values())
        return dict(zip(here, changes, strict=True))

    def _named(self, switch: str) -> _Managed:
        return self._managed[self.topology.switch(switch).name]

    async def settled(self, switch: str, installs: int) -> None:
        """Waits until a switch has had a plan installed `installs` times (after a restart)."""
        managed = self._managed[switch]
        await managed.until(lambda: managed.installs >= installs)

    @property
    def architecture(self) -> str:
        """Architecture of the program, as its P4Info names it."""
        return self._schema.arch

    def installs(self, switch: str) -> int:
        """How often a plan was installed on a switch."""
        return self._managed[switch].installs

    async def counters(self, *names: str) -> dict[str, Counters]:
        """switch -> counter -> (packets, bytes) by index; every switch must be connected."""
        return await self.counters_of(self._managed, *names)

    async def counters_of(self, switches: Iterable[str], *names: str) -> dict[str, Counters]:
        """The same of some switches."""
        asked = list(switches)
        replies = await together(self.switch_counters(switch, *names) for switch in asked)
        return dict(zip(asked, replies, strict=True))

    async def switch_counters(self, switch: str, *names: str) -> Counters:
        """Counters of one switch. Raises `ControllerError` if it is away or has no such counter."""
        return await self._read(switch, "counters", self._counter_read(switch, names).read)

    async def switch_registers(
        self, switch: str, wanted: Mapping[str, Sequence[int]]
    ) -> dict[str, dict[int, tuple[int, ...]]]:
        """Cells of registers of one switch by index, of the indices asked for: a number, or one for
        each field of a struct. Raises `ControllerError` if it is away or has no such register."""
        return await self._read(switch, "registers", lambda session: _registers(session, wanted))

    async def _read(
        self, switch: str, what: str, read: Callable[[Session], Coroutine[Any, Any, T]]
    ) -> T:
        managed = self._managed[switch]
        if not managed.connected:
            raise managed.error or ControllerError(f"switch {switch} is not connected")
        async with self._busy:
            reading = asyncio.create_task(read(managed.switch))
            try:
                await asyncio.wait({reading})
            finally:
                reading.cancel()
        if reading.cancelled():  # by gRPC, when finsy closes the channel
            raise ControllerError(f"switch {switch}: connection lost while reading {what}")
        return reading.result()

    def _counter_read(self, switch: str, names: tuple[str, ...]) -> _CounterRead:
        ports = tuple(self.topology.neighbours[switch])
        if (names, ports) not in self._counter_reads:
            self._counter_reads[names, ports] = _CounterRead.of(self._schema, names, ports)
        return self._counter_reads[names, ports]

    # -- events of finsy ----------------------------------------------------------------------

    async def _ready(self, switch: finsy.Switch) -> None:
        """Called when a switch has our pipeline: at first, after a reconnection, or when its
        primary has changed."""
        managed = self._managed[switch.name]
        managed.forget()
        managed.error = None
        managed.connected = switch.is_primary
        if managed.connected:
            self._report(managed, "connected", f"connected at {switch.address}")
            await self._bring_up_to_date(managed)
        else:
            self._fail(
                managed,
                f"switch {switch.name} at {switch.address}: another controller is primary "
                f"(election id {switch.primary_id}, ours {switch.election_id}); stop it first",
            )

    def _gone(self, switch: finsy.Switch) -> None:
        """Called when the connection to a switch has ended."""
        managed = self._managed[switch.name]
        if managed.connected:
            managed.connected = False
            managed.forget()
            self._report(
                managed, "lost", "connection lost; it gets everything again when it is back"
            )

    def _failed(self, managed: _Managed, error: BaseException) -> None:
        """Called when finsy's session failed; finsy tries again, and those who wait get the
        reason."""
        if managed.connected and isinstance(error, LOST):
            return  # `_gone` reports it
        switch = managed.switch
        what = "refuses a P4Runtime session"
        if managed.connected:
            what = "cannot be configured"
        elif switch.is_up:
            what = f"refuses {self.program.json}"
        cause = None if isinstance(error, P4ClientError) else error
        text = f"switch {switch.name} at {switch.address} {what}: {_cause(error)}"
        self._fail(managed, text, cause)

    # -- one switch ---------------------------------------------------------------------------

    def _session(self, node: Switch, address: str, *, fresh: bool = False) -> Session:
        """A new P4Runtime client, not yet connected. `fresh`: of a switch that has just started."""
        switch = Session(
            node.name,
            address,
            SwitchOptions(device_id=node.device_id, ready_handler=self._ready),
            self._schema,
            pushes=self._pushes,
            on_failure=lambda error: self._failed(self._managed[node.name], error),
            process=self._process,
            fresh=fresh,
        )
        switch.ee.add_listener(SwitchEvent.CHANNEL_DOWN, self._gone)
        return switch

    async def _bring_up_to_date(self, managed: _Managed) -> None:
        async with managed.writing:
            goal = self._goal
            if goal is None or managed.holds is goal:
                return
            try:
                # Switches wait here rather than for replies, for which there are deadlines.
                async with self._busy:
                    change = await self._install(managed, goal)
            except ControllerError as error:
                managed.held = None
                self._fail(managed, str(error), error.__cause__)
                return
            managed.holds = goal
            managed.change = change
            managed.installs += 1
        self._report(managed, "installed", f"installed and read back: {change}")

    async def _install(self, managed: _Managed, goal: _Goal) -> Change:
        name = managed.switch.name
        node = self.topology.switch(name)
        site = Site(goal.topology, node, goal.parameters, self.depth_unit, goal.multicast)
        if self.traffic_managers is not None:
            # Queues first, so that no entry names one that is missing.
            ports = goal.parameters.ports
            queues = self.program.queues(self.topology, node, ports)
            if managed.fresh == ports:
                managed.queues = queues
            if queues != managed.queues:
                await self.traffic_managers.configure({name: queues})
                managed.queues = queues
        chip = self.program.chip
        wanted = plan(site) if chip is None else tna.requirements(site, chip)
        if fresh := managed.fresh is not None:
            managed.fresh, managed.held = None, {}
        # Switches that start together with their controller are instances of ebb-switch, which does
        # the updates of a request in order (switch/p4runtime).
        change, held = await reconcile(
            managed.switch, wanted, goal.encoder, managed.held, in_order=fresh
        )
        managed.held = held
        return change

    async def _reached(self, managed: _Managed, goal: _Goal) -> Change:
        """Waits until a switch holds `goal`, over restarts if need be."""
        switch = managed.switch
        await managed.until(lambda: managed.begun)
        while managed.holds is not goal:
            try:
                async with asyncio.timeout(self.connect_seconds):
                    await managed.until(lambda: managed.connected or managed.error)
            except TimeoutError as error:
                raise ControllerError(
                    f"switch {switch.name} cannot be reached: no P4Runtime server answers at "
                    f"{switch.address} after {self.connect_seconds:g} s. "
                    "Is the switch process running?"
                ) from error
            await managed.until(
                lambda: managed.holds is goal or managed.error or not managed.connected
            )
            if managed.error is not None:
                raise managed.error
        return managed.change

    def _fail(self, managed: _Managed, message: str, cause: BaseException | None = None) -> None:
        managed.error = ControllerError(message)
        managed.error.__cause__ = cause
        self._report(managed, "error", message)

    def _report(
        self,
        managed: _Managed,
        kind: Literal["connected", "installed", "lost", "error"],
        text: str,
    ) -> None:
        LOGGER.info("%s: %s", managed.switch.name, text)
        self._on_event(Event(managed.switch.name, kind, text))
        managed.notify()


def _cause(error: BaseException) -> str:
    """Why a session failed, and what to do if it is plain."""
    if not isinstance(error, P4ClientError):
        return f"{type(error).__name__}: {error}"
    advice = ADVICE.get(error.code)
    return f"{error.code.name}: {error.message}" + (f"; {advice}" if advice else "")


@dataclass(frozen=True, slots=True)
class _CounterRead:
    """A read of counters, which is the same of all switches with the same ports."""

    names: tuple[str, ...]
    lengths: Mapping[int, int]
    """Number of cells that are returned of a counter, by its id: up to the last one that was
    requested; 0: all that the switch has."""
    request: p4r.ReadRequest
    """One request for all, since a fabric has many switches: of counters by port the cells of the
    ports with a link, as the program has many more; of others all."""
    ids: Mapping[int, str]
    """Names by the numbers of P4Info."""

    @classmethod
    def of(cls, schema: P4Schema, names: tuple[str, ...], ports: Sequence[int]) -> _CounterRead:
        """Raises `ControllerError` if the program has no such counter."""
        request, ids, lengths = p4r.ReadRequest(), dict[int, str](), dict[int, int]()
        for name in names:
            try:
                every = P4CounterEntry(name).encode(schema)
            except ValueError as error:
                raise ControllerError(f"the program has no counter {name}: {error}") from error
            number = every.counter_entry.counter_id
            by_port = name in COUNTERS and COUNTERS[name].index == "port"
            ids[number] = name
            lengths[number] = max(ports, default=-1) + 1 if by_port else 0
            request.entities.extend([_cell(every, port) for port in ports] if by_port else [every])
        return cls(names, lengths, request, ids)

    async def read(self, switch: Session) -> Counters:
        """Counters of a switch."""
        cells = {number: [NOTHING] * length for number, length in self.lengths.items()}
        try:
            async for reply in replies(switch, self.request):
                for entity in reply.entities:
                    entry = entity.counter_entry
                    number, data = entry.counter_id, entry.data
                    cell = (data.packet_count, data.byte_count)
                    if cell == NOTHING and self.lengths[number]:
                        continue  # most cells are so, and each further look at a message costs
                    index, row = entry.index.index, cells[number]
                    row += [NOTHING] * (index + 1 - len(row))
                    row[index] = cell
        except P4ClientError as error:
            names = ", ".join(self.names)
            raise ControllerError(
                f"switch {switch.name}: counters {names} cannot be read: {error.message}"
            ) from error
        return {self.ids[number]: row for number, row in cells.items()}


async def _registers(
    switch: Session, wanted: Mapping[str, Sequence[int]]
) -> dict[str, dict[int, tuple[int, ...]]]:
    """Reads cells of registers of bits, or of structs of bits, in one request."""
    names: dict[int, str] = {}
    request: list[p4r.Entity] = []
    for name, indices in wanted.items():
        every = P4RegisterEntry(name).encode(switch.p4info)
        number = every.register_entry.register_id
        names[number] = name
        for index in indices:
            entry = p4r.RegisterEntry(register_id=number, index=p4r.Index(index=index))
            request.append(p4r.Entity(register_entry=entry))
    cells: dict[str, dict[int, tuple[int, ...]]] = {name: {} for name in wanted}
    try:
        async for entity in messages(switch, request):
            cell = entity.register_entry
            parts = cell.data.struct.members or [cell.data]
            numbers = tuple(int.from_bytes(part.bitstring) for part in parts)
            cells[names[cell.register_id]][cell.index.index] = numbers
    except P4ClientError as error:
        raise ControllerError(
            f"switch {switch.name}: registers {', '.join(wanted)} cannot be read: {error.message}"
        ) from error
    return cells


def _cell(every: p4r.Entity, port: int) -> p4r.Entity:
    """The read of the cell of a port, from `every`, that of all cells."""
    one = p4r.Entity()
    one.CopyFrom(every)
    one.counter_entry.index.index = port
    return one
