"""Orders of a page, as JSON: the keys of each, checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Protocol

from ebb_topologies.files import InputError, validate
from pydantic import BaseModel, ConfigDict, Field

MAX_TRACED = 20
"""Packets of one trace."""
Name = Annotated[str, Field(min_length=1, max_length=64)]
Index = Annotated[int, Field(ge=0, le=1_000_000)]
Share = Annotated[float, Field(ge=0, le=1)]


class Order(BaseModel):
    """Something that a page asks for. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SetLink(Order):
    """Changes a link in both directions; what is not named stays as it was."""

    do: Literal["link"]
    link: Index
    """Index in `links` of the picture."""
    up: bool | None = None
    """Whether frames pass."""
    loss: Share | None = None
    """Share of the frames that are lost, 0 to 1."""
    corrupt: Share | None = None
    """Share of the frames in which one bit is flipped, 0 to 1."""
    rate_bps: Annotated[int, Field(ge=0, le=10_000_000_000_000)] | None = None
    """Nominal rate, bit/s; 0: its own."""


class Restart(Order):
    """Restarts a switch, which forgets everything; the controller installs it again."""

    do: Literal["restart"]
    switch: Name
    """Name of the switch."""


class Reroute(Order):
    """Has the controller plan with the links that are up now."""

    do: Literal["reroute"]


class RunScheme(Order):
    """Runs a scheme again, after what runs now."""

    do: Literal["scheme"]
    scheme: Name
    """One of `schemes` of `hello`."""


class Pace(Order):
    """How fast the clock of a simulation goes."""

    do: Literal["pace"]
    samples_hz: Annotated[float, Field(ge=0, le=1000)]
    """At most this many samples per second; 0: it stands still."""


class Queues(Order):
    """Asks for the queues of both ends of a link."""

    do: Literal["queues"]
    link: Index
    """Index in `links` of the picture."""


class Volume(Order):
    """Asks for the traffic volume of both ends of a link, per time slot."""

    do: Literal["volume"]
    link: Index
    """Index in `links` of the picture."""


class Tables(Order):
    """Asks for the tables and counters of a switch."""

    do: Literal["switch"]
    switch: Name
    """Name of the switch."""


class Trace(Order):
    """Traces the packets that come in next."""

    do: Literal["trace"]
    switch: Name
    """Name of the switch."""
    port: Annotated[int, Field(ge=1, le=510)] | None = None
    """Port at which they come in; none: any."""
    packets: Annotated[int, Field(ge=1, le=MAX_TRACED)] = 5
    """How many."""


class Capture(Order):
    """Begins or ends a capture of what a switch port sends and receives."""

    do: Literal["capture"]
    switch: Name
    """Name of the switch."""
    port: Annotated[int, Field(ge=1, le=510)]
    """Number of the port."""
    on: bool
    """Whether it begins."""


AnyOrder = (
    SetLink | Restart | Reroute | RunScheme | Pace | Queues | Volume | Tables | Trace | Capture
)


class _Envelope(BaseModel):
    model_config = ConfigDict(extra="forbid")

    order: Annotated[AnyOrder, Field(discriminator="do")]


def parsed(table: Any) -> AnyOrder:
    """The order that a page sent. Raises `InputError` with what is wrong in it."""
    return validate(_Envelope, {"order": table}, "order").order


class CommandHandler(Protocol):
    """Carries out the orders of a page."""

    async def do(self, order: AnyOrder) -> Any:
        """Carries an order out and returns what the page is to know, as JSON has it. Raises
        `ControllerError`, `ControlError` or `InputError` with a sentence for people."""
        ...


class NoFabric:
    """Handler while no fabric runs: refuses every order."""

    async def do(self, order: AnyOrder) -> Any:
        """Refuses."""
        raise InputError(f"'{order.do}' needs a fabric that runs")
