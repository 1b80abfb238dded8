"""A running fabric of another process, found by its fabric service."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.errors import ControllerError
from ebb_controller.fabric_admin import FabricAdmin, FabricView
from ebb_controller.tracts import LocatorError
from ebb_controller.traffic_manager import TrafficManagers
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Switch, Topology
from ebb_topologies.text import printable

from ebb_dashboard.fabric import Fabric
from ebb_dashboard.feed import Feed
from ebb_dashboard.picture import Picture, of_view
from ebb_dashboard.replicas import BlobStore
from ebb_dashboard.streams import Streams

LINKS_EVERY = 5
"""Looks between two at the states of the links, and at the groups."""
STORE_EVERY = 15
"""Looks between two at a blob store, whose locator is asked a question per blob."""


async def attached(socket: Path | None, dilation: Dilation) -> tuple[Fabric, Streams, FabricAdmin]:
    """The fabric that is served at a Unix socket (none: that of `make run`). Raises
    `ControllerError`."""
    admin = FabricAdmin(socket)
    view = await admin.fabric()
    streams = Streams(_managers(view), view.switches)
    picture = await _with_rates(of_view(admin.socket.parent.name, view), view, dilation)
    addresses = {name: (at, view.device_ids[name]) for name, at in view.switches.items()}
    return Fabric(picture, streams, addresses, dilation, admin), streams, admin


def _managers(view: FabricView) -> TrafficManagers:
    switches = tuple(Switch(name, view.device_ids[name]) for name in view.switches)
    # Only its switches matter here.
    topology = Topology("attached", hosts=(), switches=switches, links=())
    return TrafficManagers(topology, lambda switch: view.switches[switch.name])


async def _with_rates(picture: Picture, view: FabricView, dilation: Dilation) -> Picture:
    """The picture with the nominal rates that the traffic managers say."""
    configs = dict(
        zip(
            view.switches,
            await asyncio.gather(*(_config(view, name) for name in view.switches)),
            strict=True,
        )
    )
    links = list(picture.links)
    for port in picture.ports:
        rate = _rate_bps(configs[port.switch], port.port)
        if rate:
            links[port.link] = replace(links[port.link], rate_bps=round(rate * dilation.factor))
    return replace(picture, links=links)


async def _config(view: FabricView, switch: str) -> dict[str, Any]:
    request = tm.GetConfigRequest(device_id=view.device_ids[switch])
    async with grpc.aio.insecure_channel(view.switches[switch]) as channel:
        call = channel.unary_unary(
            "/ebb.tm.v1.TrafficManager/GetConfig",
            request_serializer=type(request).SerializeToString,
            response_deserializer=tm.GetConfigResponse.FromString,
        )
        try:
            reply = await call(request, timeout=10.0)
        except grpc.aio.AioRpcError as error:
            raise ControllerError(f"switch {switch}: {error.details()}") from error
    config: dict[str, Any] = json.loads(reply.config)
    return config


def _rate_bps(config: Mapping[str, Any], port: int) -> int | None:
    """Rate of a port as it runs; none or 0: it has no limit."""
    ports = config.get("ports", {})
    name = ports.get(str(port), ports.get("default"))
    rates = {each["name"]: each.get("rate_bps") for each in config.get("profile", ())}
    return rates.get(name)


class Watcher:
    """Looks at a fabric under the wall clock whenever its switches have reported. Runs in
    the loop of its services."""

    def __init__(
        self, fabric: Fabric, streams: Streams, feed: Feed, store: BlobStore | None = None
    ) -> None:
        """`streams`: those that the fabric is seen by. `store`: a blob store on its hosts."""
        self._fabric = fabric
        self._streams = streams
        self._feed = feed
        self._since = time.monotonic_ns()
        self._links: list[str] | None = None
        self._groups: list[dict[str, Any]] = []
        self._store = store
        self._objects: dict[str, Any] = {}
        self._phase: tuple[int, dict[str, Any]] | None = None
        self._troubles: set[str] = set()
        """Faults, as they were reported."""

    def begin(self, phase: dict[str, Any], start_ns: int) -> None:
        """From this time of CLOCK_MONOTONIC on, which is about to come, samples belong to a phase:
        `scheme`, `phase`, `round` of the event `phase`. From any thread."""
        self._phase = (start_ns, phase)

    async def run(self) -> None:
        """Runs until it is cancelled. A failure is shown once."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._streams.run())
            await self._sample_all()

    async def _sample_all(self) -> None:
        every = {
            self.sample_links: LINKS_EVERY,
            self._sample_groups: LINKS_EVERY,
            self._sample_store: STORE_EVERY,
        }
        troubles: dict[Callable[[], Awaitable[None]], str] = {}
        for number in itertools.count():
            await self._sample()
            for sample in (each for each, period in every.items() if number % period == 0):
                troubles.pop(sample, None)
                try:
                    await sample()
                except (ControllerError, LocatorError) as error:
                    troubles[sample] = str(error)
            self._complain({*troubles.values(), *self._streams.silent().values()})

    def _complain(self, troubles: set[str]) -> None:
        for text in sorted(troubles - self._troubles):
            self._feed.publish("line", {"text": printable(text)})
        self._troubles = troubles

    async def _sample(self) -> None:
        seen = await self._fabric.sample()
        now = time.monotonic_ns()
        if self._phase is not None and now >= self._phase[0]:
            (self._since, phase), self._phase = self._phase, None
            self._feed.publish("phase", phase | {"running": True})
        at_ns = self._fabric.dilation.nominal_time(now - self._since)
        self._feed.publish("sample", {"at_ns": at_ns} | seen)

    async def sample_links(self) -> None:
        """Tells the states of the links if they have changed."""
        states = await self._fabric.link_states()
        if states is not None and states != self._links:
            self._links = states
            self._feed.publish("links", {"states": states})

    async def _sample_groups(self) -> None:
        if (groups := await self._fabric.groups()) != self._groups:
            self._groups = groups
            self._feed.publish("groups", {"groups": groups})

    async def _sample_store(self) -> None:
        if self._store is None:
            return
        objects = await self._store.sample(self._fabric.hosts)
        if objects != self._objects:
            self._objects = objects
            self._feed.publish("objects", objects)
