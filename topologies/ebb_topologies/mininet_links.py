"""Mininet's view of a fabric that runs in one process.

A link between two switches has no network interfaces: Mininet shows it with its ends, and takes it
up and down, through the process. A link to a host is a veth, which the process also takes down: so
the host loses frames and not its routes, and there is one place that knows what is down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mininet.link import Intf as MininetIntf
from mininet.link import Link as MininetLink


class FabricControl(Protocol):
    """The fabric's own service, as far as Mininet needs it. Ends are "SWITCH:PORT" or "HOST".

    Methods raise `ControlError` with a message for people.
    """

    def set_link(self, a: str, b: str, *, up: bool) -> None:
        """Takes the link between two ends up or down."""
        ...

    def link_states(self) -> dict[tuple[str, str], tuple[str, str]]:
        """Fault of each direction of each link, by its ends in either order: "" if
        nothing is, "down" if the link is down, else its faults in words."""
        ...

    def restart_switch(self, name: str) -> None:
        """Restarts a switch, which forgets its program, tables, queues and statistics."""
        ...

    def reroute(self) -> str:
        """Makes the controller plan with the links that are up; returns the changes as text."""
        ...

    def start_capture(self, at: str, toward: str, name: str) -> tuple[str, str]:
        """Starts a capture and returns its files: what the switch receives, and what it sends."""
        ...

    def stop_capture(self, at: str, toward: str) -> None:
        """Ends the capture at a port; its files are complete then."""
        ...


class ControlError(Exception):
    """The fabric cannot execute a request."""


DOWN = "down"
"""State of a direction of a link that is down, in `FabricControl.link_states`."""
GetControl = Callable[[], FabricControl | None]
"""Gives the service of the fabric; none: the fabric does not run yet."""


class InnerIntf(MininetIntf):  # type: ignore[misc]
    """An end of a link inside the process: a name and no device."""

    link: Any
    """The `InnerLink` that it ends."""

    def config(self, **_parameters: Any) -> dict[str, Any]:
        """Sets nothing: there is no device."""
        return {}

    def ifconfig(self, *arguments: str) -> str:
        """Takes `up` and `down`, for there are no addresses. Returns what is wrong, as the command
        would print it, or nothing."""
        if arguments not in (("up",), ("down",)):
            return f"{self.name} is inside the fabric's process: only up and down"
        return str(self.link.set_up(arguments == ("up",)))

    def updateIP(self) -> None:
        """None: the interface is inside the switch process."""

    def updateMAC(self) -> None:
        """None, as `updateIP`."""

    def updateAddr(self) -> tuple[None, None]:
        """No addresses, as `updateIP`."""
        return None, None

    def isUp(self, setUp: bool = False) -> bool:
        """Whether its direction of the link is up; with `setUp`, whether it could be taken up."""
        if setUp:
            return not self.ifconfig("up")
        return self.status() != DOWN

    def delete(self) -> None:
        """Takes the name from its node; there is nothing else to remove."""
        self.node.delIntf(self)
        self.link = None

    def status(self) -> str:
        """Status that Mininet's `links` prints."""
        return self.link.fault(self) or "OK"


class OuterIntf(MininetIntf):  # type: ignore[misc]
    """An end of a veth whose state the process keeps once it runs."""

    def ifconfig(self, *arguments: str) -> Any:
        """Passes `up` and `down` to the process if it runs; all else is the kernel's."""
        if self.link.running and arguments in (("up",), ("down",)):
            return self.link.set_up(arguments == ("up",))
        return super().ifconfig(*arguments)

    def status(self) -> str:
        """Status that Mininet's `links` prints."""
        return self.link.fault(self) or str(super().status())


class ServedLink(MininetLink):  # type: ignore[misc]
    """A link whose state the process has."""

    interface: type[MininetIntf] = OuterIntf
    """Class of both ends."""

    def __init__(
        self, *nodes: Any, ends: tuple[str, str], control: GetControl, **options: Any
    ) -> None:
        """`ends`: names of both ends in the process, "SWITCH:PORT" or "HOST"."""
        self._ends = ends
        self._control = control
        super().__init__(*nodes, cls1=self.interface, cls2=self.interface, **options)

    @property
    def running(self) -> bool:
        """Whether the process that has the state runs."""
        return self._control() is not None

    def set_up(self, up: bool) -> str:
        """Takes the link up or down; returns what is wrong, or nothing."""
        control = self._control()
        if control is None:
            return "the fabric does not run"
        try:
            control.set_link(*self._ends, up=up)
        except ControlError as error:
            return str(error)
        return ""

    def fault(self, interface: MininetIntf) -> str:
        """Fate of frames that an end sends, in words; empty if they are forwarded."""
        control = self._control()
        if control is None:
            return ""
        try:
            there, back = control.link_states().get(self._ends, ("", ""))
        except ControlError:
            return "no answer"
        return there if interface is self.intf1 else back


class InnerLink(ServedLink):
    """A link between two switches of the process, which has no interfaces."""

    interface = InnerIntf

    @classmethod
    def makeIntfPair(cls, *_names: Any, **_options: Any) -> None:
        """Makes no interfaces: the link is inside the process."""
