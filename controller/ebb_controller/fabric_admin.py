"""Client of the fabric service (`ebb.fabric.v1.Fabric`): links and their faults, restarts, pcaps.

`ebb-switch --fabric` serves it under the wall clock, `ebb-simulator` while its clock stands still.
Everything here is as the fabric runs: rates are those on its wires, not nominal ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from ebb_topologies.run_state import usual_socket

from ebb_controller import ebb_fabric_pb2 as proto
from ebb_controller.errors import ControllerError

SERVICE = "/ebb.fabric.v1.Fabric"
"""The gRPC service of ebb_fabric.proto."""
CALL_SECONDS = 10.0
"""How long the process may take to answer."""


@dataclass(frozen=True, slots=True)
class LinkState:
    """One direction of a link."""

    up: bool = True
    """Whether frames pass at all."""
    loss: float = 0.0
    """Share of the frames that are lost, 0 to 1."""
    corrupt: float = 0.0
    """Share of the frames in which one bit is flipped, 0 to 1."""
    rate_bps: int | None = None
    """Rate in bit/s in place of that of the sending port's profile; none: the profile's."""

    def __str__(self) -> str:
        faults = [
            *(["down"] if not self.up else []),
            *([f"loss {self.loss:g}"] if self.loss else []),
            *([f"corrupt {self.corrupt:g}"] if self.corrupt else []),
            *([f"{self.rate_bps / 1e6:g} Mbit/s"] if self.rate_bps is not None else []),
        ]
        return ", ".join(faults) or "up"


@dataclass(frozen=True, slots=True)
class End:
    """An end of a link."""

    node: str
    """Name of a switch or host."""
    port: int | None
    """Port of a switch, from 1; none at a host, which has one link only."""

    def __str__(self) -> str:
        return self.node if self.port is None else f"{self.node}:{self.port}"


@dataclass(frozen=True, slots=True)
class Link:
    """A link and the state of both its directions."""

    a: End
    """One end."""
    b: End
    """The other end."""
    a_to_b: LinkState
    """State for frames that `a` sends."""
    b_to_a: LinkState
    """State for frames that `b` sends."""


@dataclass(frozen=True, slots=True)
class FabricView:
    """Switches, hosts and links of a fabric, as its service reports them."""

    switches: dict[str, str]
    """Address where a switch serves P4Runtime, by its name."""
    device_ids: dict[str, int]
    """P4Runtime device id of a switch, by its name."""
    hosts: list[str]
    """Names of the hosts."""
    links: list[Link]
    """All links, those to hosts too."""


class FabricAdmin:
    """Used inside one event loop; an asynchronous context manager, or call `close`.

    An end of a link is "s1:3", or "s1" or host "h3" where only one link joins the two nodes. Every
    method raises `ControllerError` with what is wrong and what is there.
    """

    def __init__(self, socket: Path | None = None) -> None:
        """`socket`: the Unix socket of the process; only root and its user may connect."""
        self.socket = socket or usual_socket()
        self._channel: grpc.aio.Channel | None = None

    async def __aenter__(self) -> FabricAdmin:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection; a later call opens it again."""
        if self._channel is not None:
            await self._channel.close()
            self._channel = None

    async def fabric(self) -> FabricView:
        """Switches, hosts and links, with the state of all links."""
        reply = await self._call("GetFabric", proto.GetFabricResponse, proto.GetFabricRequest())
        return FabricView(
            switches={switch.name: switch.grpc_address for switch in reply.switches},
            device_ids={switch.name: switch.device_id for switch in reply.switches},
            hosts=list(reply.hosts),
            links=[_link(link) for link in reply.links],
        )

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
    ) -> Link:
        """Changes what is given (none: stays) and returns the link as it is then; `rate_bps` 0 is
        the profile's rate again, `one_way` leaves the direction from b to a as it is."""
        request = proto.SetLinkRequest(
            a=a, b=b, one_way=one_way, up=up, loss=loss, corrupt=corrupt, rate_bps=rate_bps
        )
        reply = await self._call("SetLink", proto.SetLinkResponse, request)
        return _link(reply.link)

    async def repair(self) -> list[Link]:
        """Takes every fault back; returns the links that had one, as they were."""
        broken = [
            link for link in (await self.fabric()).links
            if LinkState() != link.a_to_b or LinkState() != link.b_to_a
        ]  # fmt: skip
        for link in broken:
            await self.set_link(
                str(link.a), str(link.b), up=True, loss=0.0, corrupt=0.0, rate_bps=0
            )
        return broken

    async def restart_switch(self, switch: str) -> None:
        """Restarts a switch: it forgets everything, and the controller sees its stream end."""
        request = proto.RestartSwitchRequest(name=switch)
        await self._call("RestartSwitch", proto.RestartSwitchResponse, request)

    async def start_capture(self, port: str, name: str, toward: str = "") -> tuple[str, str]:
        """Writes what a switch port ("s1:3", or "s1" and the node at the other end) receives and
        sends to pcap files of that name in the run's folder. Returns the two paths."""
        request = proto.StartCaptureRequest(at=port, toward=toward, name=name)
        reply = await self._call("StartCapture", proto.StartCaptureResponse, request)
        return reply.in_file, reply.out_file

    async def stop_capture(self, port: str, toward: str = "") -> None:
        """Ends a capture; returns when its files are complete."""
        request = proto.StopCaptureRequest(at=port, toward=toward)
        await self._call("StopCapture", proto.StopCaptureResponse, request)

    async def _call(self, method: str, reply: Any, request: Any) -> Any:
        if self._channel is None:
            # Otherwise gRPC calls the host by the path, which is no host (RFC 3986, section 3.2.2).
            options = [("grpc.default_authority", "localhost")]
            self._channel = grpc.aio.insecure_channel(f"unix:{self.socket}", options)
        call = self._channel.unary_unary(
            f"{SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        try:
            return await call(request, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                raise ControllerError(
                    f"no fabric answers at {self.socket}; it is served while a fabric runs in one "
                    f"process: `make run` without FUSED=0 ({error.details()})"
                ) from error
            raise ControllerError(f"fabric: {error.details()}") from error


def _link(message: proto.Link) -> Link:
    return Link(_end(message.a), _end(message.b), _state(message.a_to_b), _state(message.b_to_a))


def _end(message: proto.End) -> End:
    # Port 0 of the message is a host's: ports of switches count from 1 in our topologies.
    return End(message.node, message.port or None)


def _state(message: proto.LinkState) -> LinkState:
    rate = message.rate_bps if message.HasField("rate_bps") else None
    return LinkState(message.up, message.loss, message.corrupt, rate)
