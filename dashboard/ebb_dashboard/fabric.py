"""A running fabric, through the services of its processes: traffic managers, fabric service,
P4Runtime, traces. Used inside one event loop, that of gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import grpc
from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller import ebb_trace_pb2 as trace
from ebb_controller.errors import ControllerError
from ebb_controller.fabric_admin import FabricView
from ebb_experiments.scenario.faults import FabricControl
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError
from ebb_topologies.text import printable

from ebb_dashboard import frames, reading
from ebb_dashboard.installed import InstalledGroups
from ebb_dashboard.orders import (
    AnyOrder,
    Capture,
    Queues,
    Reroute,
    Restart,
    SetLink,
    Tables,
    Trace,
)
from ebb_dashboard.picture import Picture, Place, Trees
from ebb_dashboard.statistics_delta import StatisticsDelta, lost

TRACE_SECONDS = 5.0
"""Time that a trace waits for packets."""
MAX_LINES = 400
"""Most lines of a visit that are shown."""


class Statistics(Protocol):
    """`ebb_controller.traffic_manager.TrafficManagers`, or `Streams`."""

    async def statistics(self) -> dict[str, tm.Stats]:
        """Statistics of every switch that answers, by name."""
        ...


class Links(FabricControl, Protocol):
    """`ebb_controller.fabric_admin.FabricAdmin`."""

    async def fabric(self) -> FabricView:
        """State of all links."""
        ...


@dataclass(frozen=True)
class Routes:
    """Functions of a controller of the fabric."""

    reroute: Callable[[], Any]
    """Plans with the links that are up; a coroutine that returns a line for the page."""
    restart: Callable[[str], Any] | None = None
    """Restarts a switch and installs its entries again; a coroutine. None: the controller detects
    restarts by itself."""


class Fabric:
    """State and orders of a fabric that is up. A `CommandHandler`."""

    def __init__(
        self,
        picture: Picture,
        managers: Statistics,
        addresses: Mapping[str, tuple[str, int]],
        dilation: Dilation,
        links: Links | None = None,
        routes: Routes | None = None,
        trees: Callable[[], Trees] | None = None,
    ) -> None:
        """`addresses`: where a switch serves P4Runtime, and its device id. `links` none: no service
        reports links; `routes` none: there is no controller of ours. `trees`: the multicast
        groups of such a controller; none: those that the switches hold."""
        self.picture = picture
        self.dilation = dilation
        self._managers = managers
        self._addresses = addresses
        self._links = links
        self._routes = routes
        self._trees = trees
        self._installed = InstalledGroups(picture, addresses)
        self._delta = StatisticsDelta(picture.ports)
        self._captures: dict[str, tuple[str, str]] = {}
        """Files of running captures, by port, as the fabric service has named them."""

    @property
    def controls(self) -> list[str]:
        """Orders that it executes, for `hello`."""
        names = ["queues", "switch", "trace"]
        names += ["link", "restart", "capture"] if self._links is not None else []
        return names + (["reroute"] if self._routes is not None else [])

    # -- looking ------------------------------------------------------------------------------

    async def sample(self) -> dict[str, Any]:
        """Keys of `sample` but the time."""
        return self._delta.take(await self._managers.statistics())

    async def groups(self) -> list[dict[str, Any]]:
        """The multicast groups, as the page gets them. Raises `ControllerError`."""
        if self._trees is not None:
            return self.picture.groups(self._trees())
        return (await self._installed.sample()).groups

    @property
    def hosts(self) -> Mapping[str, str]:
        """Names of hosts by their addresses, as far as the switches have routes to them."""
        return self._installed.latest.hosts

    async def link_states(self) -> list[str] | None:
        """State of each link in the order of the picture: "up", or its faults. None: unknown."""
        if self._links is None:
            return None
        states: dict[frozenset[str], str] = {}
        for link in (await self._links.fabric()).links:
            there, back = self._in_words(link.a_to_b), self._in_words(link.b_to_a)
            text = there if there == back else f"{link.a}: {there}; {link.b}: {back}"
            states[frozenset((str(link.a), str(link.b)))] = text
        ends = (frozenset((str(link.a), str(link.b))) for link in self.picture.links)
        return [states.get(each, "up") for each in ends]

    def _in_words(self, state: Any) -> str:
        if not state.up:
            return "down"
        faults = [
            *([f"loss {state.loss:g}"] if state.loss else []),
            *([f"corrupt {state.corrupt:g}"] if state.corrupt else []),
            *(
                [f"{state.rate_bps * self.dilation.factor / 1e6:g} Mbit/s"]
                if state.rate_bps is not None
                else []
            ),
        ]
        return ", ".join(faults) or "up"

    # -- orders -------------------------------------------------------------------------------

    async def do(self, order: AnyOrder) -> Any:
        """Carries an order out."""
        match order:
            case SetLink():
                return await self._set_link(order)
            case Restart():
                return await self._restart(order.switch)
            case Reroute() if self._routes is not None:
                return {"text": await self._routes.reroute()}
            case Queues():
                return self._queues(order.link)
            case Tables():
                async with self._channel(order.switch) as (channel, device_id):
                    return await reading.held(channel, device_id)
            case Trace():
                return await self._trace(order)
            case Capture():
                return await self._capture(order)
        raise InputError(f"'{order.do}' is nothing that this fabric can do")

    def _link(self, index: int) -> tuple[Place, Place]:
        if index >= len(self.picture.links):
            raise InputError(f"there is no link {index}; there are {len(self.picture.links)}")
        link = self.picture.links[index]
        return link.a, link.b

    def _known(self, switch: str) -> tuple[str, int]:
        found = self._addresses.get(switch)
        if found is None:
            raise InputError(f"there is no switch '{switch}'")
        return found

    @property
    def _service(self) -> Links:
        if self._links is None:
            raise InputError("links, restarts and captures need the fabric in one process")
        return self._links

    async def _set_link(self, order: SetLink) -> dict[str, Any]:
        a, b = self._link(order.link)
        rate = order.rate_bps and max(1, round(self.dilation.rate(order.rate_bps)))
        link = await self._service.set_link(
            str(a), str(b), up=order.up, loss=order.loss, corrupt=order.corrupt, rate_bps=rate
        )
        return {"text": f"{a} - {b}: {self._in_words(link.a_to_b)}"}

    async def _restart(self, switch: str) -> dict[str, Any]:
        self._known(switch)
        if self._routes is not None and self._routes.restart is not None:
            await self._routes.restart(switch)
        else:
            await self._service.restart_switch(switch)
        return {"text": f"{switch} was restarted"}

    async def _capture(self, order: Capture) -> dict[str, Any]:
        self._known(order.switch)
        port = f"{order.switch}:{order.port}"
        if order.on:
            name = f"{order.switch}-{order.port}"
            files = await self._service.start_capture(port, name)
            self._captures[port] = files
            return {"text": f"capturing at {port}", "files": [printable(file) for file in files]}
        await self._service.stop_capture(port)
        captured = [
            frame | {"at_ns": self.dilation.nominal_time(frame["at_ns"])}
            for file, direction in zip(self._captures.pop(port, ()), ("in", "out"), strict=False)
            for frame in await asyncio.to_thread(frames.first, Path(file), direction)
        ]
        captured.sort(key=lambda frame: frame["at_ns"])
        shown = captured[: frames.MAX_FRAMES]
        return {"text": f"the capture at {port} is complete", "frames": shown}

    def _queues(self, index: int) -> dict[str, Any]:
        a, b = self._link(index)
        return {
            "ports": [
                {"place": str(place), "to": str(far), "queues": self._of_port(place)}
                for place, far in ((a, b), (b, a))
                if place.port is not None
            ]
        }

    def _of_port(self, place: Place) -> list[dict[str, Any]]:
        stats = self._delta.latest.get(place.node)
        ports = [] if stats is None else [p for p in stats.ports if p.port == place.port]
        return [_queue(queue, self.dilation) for port in ports for queue in port.queues]

    async def _trace(self, order: Trace) -> dict[str, Any]:
        async with self._channel(order.switch) as (channel, device_id):
            request = trace.WatchRequest(
                device_id=device_id,
                port=[] if order.port is None else [order.port],
                packets=order.packets,
            )
            watch = channel.unary_stream(
                "/ebb.trace.v1.Trace/Watch",
                request_serializer=type(request).SerializeToString,
                response_deserializer=trace.Visit.FromString,
            )
            visits: list[dict[str, Any]] = []
            try:
                async with asyncio.timeout(TRACE_SECONDS):
                    async for visit in watch(request):
                        visits.append(self._visit(visit))
            except TimeoutError:
                pass  # the visits so far are the answer
            except grpc.aio.AioRpcError as error:
                raise ControllerError(f"{order.switch}: {error.details()}") from error
        return {"switch": order.switch, "visits": visits}

    def _visit(self, visit: trace.Visit) -> dict[str, Any]:
        lines = [printable(event.text) for event in visit.events[:MAX_LINES]]
        more = len(visit.events) - len(lines)
        return {
            "packet": visit.packet_id,
            "at_ns": self.dilation.nominal_time(visit.time_ns),
            "lines": [*lines, f"({more} more)"] if more else lines,
        }

    @asynccontextmanager
    async def _channel(self, switch: str) -> AsyncIterator[tuple[grpc.aio.Channel, int]]:
        address, device_id = self._known(switch)
        async with grpc.aio.insecure_channel(address) as channel:
            yield channel, device_id


def _queue(queue: tm.QueueStats, dilation: Dilation) -> dict[str, Any]:
    return {
        "queue": queue.queue,
        "depth_bytes": queue.depth_bytes,
        "max_depth_bytes": queue.max_depth_bytes,
        "average_delay_ns": dilation.nominal_time(queue.average_delay_ns),
        "max_delay_ns": dilation.nominal_time(queue.max_delay_ns),
        "sent": queue.transmitted.packets,
        "marked": queue.ecn_ce.packets,
        "refused": queue.deflected.packets,
        "dropped": lost(queue),
        "pauses": queue.pauses_received,
    }
