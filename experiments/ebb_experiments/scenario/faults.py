"""Faults as part of a scenario: what breaks when, and when the controller reacts.

`[[event]]` in a scenario file says what happens to the fabric at nominal instants; the controller's
reactions follow `controller_delay_ns` later. `steps` makes one list of both, by time. Who runs the
scenario does each step at its instant with `carry_out`, under either clock:

    for step in steps(scenario, topology):
        await until(dilation.time(step.at_ns))
        await carry_out(step, fabric, controller, dilation)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol, Self

from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError
from ebb_topologies.model import Endpoint, Link, LinkEnds, Topology
from ebb_topologies.nearest import hint
from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:
    from ebb_controller.reconcile import Change

MAX_RATE_BPS = 10_000_000_000_000
MAX_TIME_NS = 100_000_000_000
"""Latest nominal time of a scenario: 100 s. The simulator counts in ps in 64 bits, into which that
just fits when it is slowed by 100 000."""


class EventSpec(BaseModel):
    """Keys that all events have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    at_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)]
    """Nominal time since the start of the traffic."""


class LinkEvent(EventSpec):
    """Changes the state of a link; what is not named stays as it was."""

    do: Literal["link"]
    a: str
    """A switch or host, or one port of a switch, as in `s1:3`."""
    b: str
    """The other end, likewise."""
    up: bool | None = None
    """Whether the link is up; when it goes down what is sent is lost, and what is on its way too.
    None: as it was."""
    rate_bps: Annotated[int, Field(ge=0, le=MAX_RATE_BPS)] | None = None
    """Rate of the sending ports, nominal bit/s; 0: the one that the topology says; none: as it
    was."""
    loss: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the frames that are lost, 0 to 1; none: as it was."""
    corrupt: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the frames in which one bit is flipped unnoticed, 0 to 1; none: as it was."""
    one_way: bool = False
    """Whether only the direction from `a` to `b` changes."""

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if (self.up, self.rate_bps, self.loss, self.corrupt) == (None,) * 4:
            raise ValueError("a link event needs one of up, rate_bps, loss, corrupt")
        return self


class RestartEvent(EventSpec):
    """A switch loses queues, tables, program and statistics."""

    do: Literal["restart-switch"]
    switch: str
    """Name of the switch."""


class RerouteEvent(EventSpec):
    """The controller plans with the links that are up now, whatever `controller_delay_ns` says."""

    do: Literal["reroute"]
    avoid: list[tuple[str, str]] = []
    """Links that it is to leave alone although they are up, until the next such event."""


class CaptureEvent(EventSpec):
    """Writes the frames of a port into a pcap file beside the results."""

    do: Literal["capture"]
    port: str
    """A port of a switch, as in `s1:3`."""
    until_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] | None = None
    """Nominal time at which the capture ends; none: with the run."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.until_ns is not None and self.until_ns <= self.at_ns:
            raise ValueError(f"until_ns {self.until_ns} is not after at_ns {self.at_ns}")
        return self


Event = Annotated[LinkEvent | RestartEvent | RerouteEvent | CaptureEvent, Field(discriminator="do")]


class FaultKeys(BaseModel):
    """The keys of a scenario file that have to do with faults."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    event: list[Event] = []
    """Faults of the fabric and their times."""
    controller_delay_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] | Literal["never"] = 1_000_000
    """Nominal time until the controller has noticed that a link went down or up, or that a switch
    came back, and acts on it; "never": it does not by itself."""


# -- steps ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SetLink:
    """Changes the state of a link."""

    at_ns: int
    a: str
    """An end of the link: `switch:port`, or a host."""
    b: str
    up: bool | None = None
    rate_bps: int | None = None
    """Nominal rate in bit/s; 0: the link's own; none: as it was."""
    loss: float | None = None
    corrupt: float | None = None
    one_way: bool = False

    def __str__(self) -> str:
        arrow = "->" if self.one_way else "-"
        state = {True: ["up"], False: ["down"], None: []}[self.up]
        if self.rate_bps is not None:
            rate = f"{self.rate_bps / 1e9:g} Gbit/s" if self.rate_bps else "its own rate"
            state.append(f"at {rate}")
        state += [
            f"{name} {share:g}"
            for name, share in (("loss", self.loss), ("corruption", self.corrupt))
            if share is not None
        ]
        return f"link {self.a} {arrow} {self.b} {', '.join(state)}"


@dataclass(frozen=True, slots=True)
class RestartSwitch:
    """Restarts a switch."""

    at_ns: int
    switch: str

    def __str__(self) -> str:
        return f"switch {self.switch} restarts"


@dataclass(frozen=True, slots=True)
class Reinstall:
    """The controller comes back to a switch that has restarted."""

    at_ns: int
    switch: str

    def __str__(self) -> str:
        return f"the controller installs {self.switch} again"


@dataclass(frozen=True, slots=True)
class Reroute:
    """The controller plans without some links."""

    at_ns: int
    down: frozenset[LinkEnds]

    def __str__(self) -> str:
        without = ", ".join(sorted(f"{a.node} - {b.node}" for a, b in self.down))
        return f"the controller routes {f'around {without}' if without else 'over all links'}"


@dataclass(frozen=True, slots=True)
class StartCapture:
    """Starts a capture at a port."""

    at_ns: int
    port: str

    def __str__(self) -> str:
        return f"capture of {self.port} starts"


@dataclass(frozen=True, slots=True)
class StopCapture:
    """Ends a capture at a port."""

    at_ns: int
    port: str

    def __str__(self) -> str:
        return f"capture of {self.port} ends"


Step = SetLink | RestartSwitch | Reinstall | Reroute | StartCapture | StopCapture


def cut_off(done: Iterable[Step], topology: Topology) -> frozenset[str]:
    """Hosts whose only link is down when all of these steps have been done."""
    down: set[str] = set()
    for step in done:
        if isinstance(step, SetLink) and step.up is not None and not step.one_way:
            ends = {step.a.partition(":")[0], step.b.partition(":")[0]}
            (down.difference_update if step.up else down.update)(ends)
    return frozenset(down & {host.name for host in topology.endpoints})


def steps(faults: FaultKeys, topology: Topology) -> list[Step]:
    """Everything that is to be done, by nominal time; at the same instant the faults come before
    the reactions. Raises `InputError` for what the topology does not have."""
    delay = faults.controller_delay_ns
    done: list[Step] = []
    reactions: list[Step] = []
    down: set[LinkEnds] = set()
    avoided: frozenset[LinkEnds] = frozenset()
    for index, event in _by_time(faults.event):
        where = f"event {index + 1} (at_ns = {event.at_ns})"
        match event:
            case LinkEvent():
                link, a, b = _link(topology, event.a, event.b, where)
                done.append(
                    SetLink(
                        event.at_ns, a, b, event.up, event.rate_bps, event.loss, event.corrupt,
                        event.one_way,
                    )
                )  # fmt: skip
                if event.up is None or event.up == (link.ends not in down):
                    continue
                (down.discard if event.up else down.add)(link.ends)
                if delay != "never":
                    reactions.append(Reroute(event.at_ns + delay, frozenset(down) | avoided))
            case RestartEvent():
                switch = _switch(topology, event.switch, where)
                done.append(RestartSwitch(event.at_ns, switch))
                if delay != "never":
                    reactions.append(Reinstall(event.at_ns + delay, switch))
            case RerouteEvent():
                pairs = (_link(topology, a, b, where) for a, b in event.avoid)
                avoided = frozenset(link.ends for link, _a, _b in pairs)
                reactions.append(Reroute(event.at_ns, frozenset(down) | avoided))
            case CaptureEvent():
                port = _port(topology, event.port, where)
                done.append(StartCapture(event.at_ns, port))
                if event.until_ns is not None:
                    done.append(StopCapture(event.until_ns, port))
    # Stable: what is listed first is done first.
    return sorted([*done, *_last_of_each_instant(reactions)], key=lambda step: step.at_ns)


def _by_time(events: list[Any]) -> Iterator[tuple[int, Any]]:
    yield from sorted(enumerate(events), key=lambda numbered: numbered[1].at_ns)


def _last_of_each_instant(reactions: list[Step]) -> list[Step]:
    """Leaves out all but the last of several routes planned for one instant: the others are of no
    use."""
    last = {step.at_ns: step for step in reactions if isinstance(step, Reroute)}
    return [s for s in reactions if not isinstance(s, Reroute) or last[s.at_ns] is s]


# -- names ----------------------------------------------------------------------------------------


def _split(topology: Topology, text: str, where: str) -> tuple[str, int | None]:
    name, colon, number = text.partition(":")
    known = [node.name for node in topology.nodes]
    if name not in known:
        raise InputError(
            f"{where}: topology {topology.name} has no node '{name}'; {hint(name, known)}"
        )
    if not colon:
        return name, None
    if not number.isdecimal() or int(number) not in topology.neighbours[name]:
        ports = ", ".join(map(str, topology.neighbours[name]))
        raise InputError(f"{where}: '{name}' has no port '{number}'; it has {ports}")
    return name, int(number)


def _port(topology: Topology, text: str, where: str) -> str:
    name, port = _split(topology, text, where)
    if port is None or topology.is_host(name):
        raise InputError(f"{where}: '{text}' is not a port of a switch; write it as in 's1:3'")
    return f"{name}:{port}"


def _switch(topology: Topology, name: str, where: str) -> str:
    node, port = _split(topology, name, where)
    if port is not None or topology.is_host(node):
        raise InputError(f"{where}: '{name}' is not the name of a switch")
    return node


def _link(topology: Topology, a: str, b: str, where: str) -> tuple[Link, str, str]:
    """The link between two ends, and the ends as `carry_out` names them."""
    near, near_port = _split(topology, a, where)
    far, far_port = _split(topology, b, where)
    found = [
        (link, Endpoint(near, port), end)
        for port, (end, link) in topology.neighbours[near].items()
        if end.node == far and near_port in (None, port) and far_port in (None, end.port)
    ]
    if not found:
        others = ", ".join(f"{e.node}" for e, _ in topology.neighbours[near].values())
        raise InputError(f"{where}: there is no link {a} - {b}; {near} has links to {others}")
    if len(found) > 1:
        ports = ", ".join(f"{x.node}:{x.port}" for _link, x, _y in found)
        raise InputError(f"{where}: {a} - {b} is one of {len(found)} links; say which: {ports}")
    ((link, here, there),) = found
    return link, _end(topology, here), _end(topology, there)


def _end(topology: Topology, end: Endpoint) -> str:
    return end.node if topology.is_host(end.node) else f"{end.node}:{end.port}"


# -- doing it -------------------------------------------------------------------------------------


class FabricControl(Protocol):
    """`ebb_controller.fabric_admin.FabricAdmin`, as far as faults need it."""

    async def set_link(
        self,
        a: str,
        b: str = "",
        *,
        up: bool | None = None,
        loss: float | None = None,
        corrupt: float | None = None,
        rate_bps: int | None = None,
        one_way: bool = False,
    ) -> Any:
        """Sets the state of a link, in both directions or from `a` only; arguments left out keep
        their values."""
        ...

    async def restart_switch(self, switch: str) -> None:
        """Restarts a switch, which forgets everything."""
        ...

    async def start_capture(self, port: str, name: str) -> Any:
        """Starts a capture at a port into files of this name."""
        ...

    async def stop_capture(self, port: str) -> None:
        """Ends the capture at a port."""
        ...


def file_name(text: str) -> str:
    """A name of letters, digits, "-", "_" and ".", as the fabric service takes it: one part of a
    path."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)


class RouteControl(Protocol):
    """`ebb_controller.controller.Controller`, as far as faults need it."""

    async def reroute(self, down: frozenset[LinkEnds]) -> dict[str, Change]:
        """Computes routes without these links, and installs them. Returns the changes by switch."""
        ...

    async def leave(self, switch: str) -> None:
        """Stops the session with a switch."""
        ...

    async def come_back(self, switch: str) -> Change:
        """Installs everything on a switch that has restarted."""
        ...


async def carry_out(
    step: Step,
    fabric: FabricControl,
    controller: RouteControl,
    dilation: Dilation,
    captures: str = "",
) -> str:
    """Does one step of a fabric that runs slower by `dilation`; `captures` begins names of files.

    Returns what was done, for people."""
    match step:
        case SetLink():
            rate = step.rate_bps and max(1, round(dilation.rate(step.rate_bps)))
            await fabric.set_link(
                step.a,
                step.b,
                up=step.up,
                rate_bps=rate,
                loss=step.loss,
                corrupt=step.corrupt,
                one_way=step.one_way,
            )
        case RestartSwitch():
            # The controller must not find out by itself: `Reinstall` says when it does.
            await controller.leave(step.switch)
            await fabric.restart_switch(step.switch)
        case Reinstall():
            await controller.come_back(step.switch)
        case Reroute():
            changes = await controller.reroute(step.down)
            changed = sum(change.total > 0 for change in changes.values())
            entries = sum(change.total for change in changes.values())
            return f"{step}: {entries} changes on {changed} switches"
        case StartCapture():
            await fabric.start_capture(step.port, file_name(f"{captures}{step.port}"))
        case StopCapture():
            await fabric.stop_capture(step.port)
    return str(step)
