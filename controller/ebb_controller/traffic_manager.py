"""Client of the traffic-manager service that every ebb-switch serves next to P4Runtime."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import grpc
from ebb_topologies.model import Switch, Topology

from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.errors import ControllerError
from ebb_controller.patience import patiently
from ebb_controller.together import together

SERVICE = "/ebb.tm.v1.TrafficManager"
"""The gRPC service of ebb_tm.proto."""
CALL_SECONDS = 60.0
"""How long a switch may take to answer: in a process of a thousand switches on a machine with other
work 10 s were not enough."""
AT_ONCE = 16
"""How many switches are asked at the same time: of a large fabric the last one would be waited for
longer than that."""

CHANNEL_OPTIONS = [("grpc.max_metadata_size", 64 * 1024), ("grpc.max_reconnect_backoff_ms", 15_000)]
"""Options that finsy's channels have: gRPC has one connection for all channels of a process that
are to the same address with the same options, so P4Runtime and this service share it."""


def loopback(switch: Switch) -> str:
    """Address at which a switch of this machine serves P4Runtime and its traffic manager."""
    return f"127.0.0.1:{switch.grpc_port}"


class TrafficManagers:
    """The traffic managers of all switches of a topology. Used inside one event loop."""

    def __init__(self, topology: Topology, address: Callable[[Switch], str] = loopback) -> None:
        self._switches = topology.switches
        self._address = address
        self._channels: dict[str, grpc.aio.Channel] = {}
        self._asking = asyncio.Semaphore(AT_ONCE)

    async def configure(self, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """Replaces the configuration of the named switches."""
        await together(
            self._call(switch, "SetConfig", tm.SetConfigResponse, tm.SetConfigRequest(
                device_id=switch.device_id, config=json.dumps(configs[switch.name])
            ))
            for switch in self._switches
            if switch.name in configs
        )  # fmt: skip

    async def statistics(self, *, reset: bool = False) -> dict[str, tm.Stats]:
        """Statistics of every switch (`ebb_tm.proto`), by its name; with `reset` it counts from
        zero afterwards."""
        replies = await together(self._ask(switch, reset) for switch in self._switches)
        return dict(zip((switch.name for switch in self._switches), replies, strict=True))

    async def of_switch(self, name: str) -> tm.Stats:
        """Statistics of one switch."""
        (switch,) = (switch for switch in self._switches if switch.name == name)
        return await self._ask(switch, reset=False)

    async def stream(self, name: str, interval_ns: int) -> AsyncIterator[tm.Stats]:
        """Statistics of one switch, again and again until the caller ends it."""
        (switch,) = (switch for switch in self._switches if switch.name == name)
        method = self._channel(switch).unary_stream(
            f"{SERVICE}/StreamStats",
            request_serializer=tm.StreamStatsRequest.SerializeToString,
            response_deserializer=tm.Stats.FromString,
        )
        request = tm.StreamStatsRequest(device_id=switch.device_id, interval_ns=interval_ns)
        try:
            async for reply in method(request, wait_for_ready=True):
                yield reply
        except grpc.aio.AioRpcError as error:
            raise _failed(switch, self._address(switch), "StreamStats", error) from error

    async def _ask(self, switch: Switch, reset: bool) -> tm.Stats:
        request = tm.GetStatsRequest(device_id=switch.device_id, reset=reset)
        reply: tm.Stats = await self._call(switch, "GetStats", tm.Stats, request)
        return reply

    async def close(self) -> None:
        """Ends all connections; a later call opens them again."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def _call(self, switch: Switch, method: str, reply: Any, request: Any) -> Any:
        call = self._channel(switch).unary_unary(
            f"{SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        try:
            return await patiently(lambda: call(request, timeout=CALL_SECONDS, wait_for_ready=True))
        except grpc.aio.AioRpcError as error:
            raise _failed(switch, self._address(switch), method, error) from error

    def _channel(self, switch: Switch) -> grpc.aio.Channel:
        """The connection to a switch, which is opened when it is first wanted."""
        address = self._address(switch)
        if address not in self._channels:
            self._channels[address] = grpc.aio.insecure_channel(address, CHANNEL_OPTIONS)
        return self._channels[address]


def _failed(
    switch: Switch, address: str, method: str, error: grpc.aio.AioRpcError
) -> ControllerError:
    return ControllerError(
        f"switch {switch.name} at {address}: {method} failed: "
        f"{error.code().name}: {error.details()}"
    )


def lateness(message: tm.Stats) -> dict[str, dict[str, int]]:
    """Lateness in ns by kind (`wakeups`, `departures`); a kind without samples is left out."""
    kinds = {"wakeups": message.lateness.wakeups, "departures": message.lateness.departures}
    return {
        kind: {"count": late.count, "p99_ns": late.p99_ns, "max_ns": late.max_ns}
        for kind, late in kinds.items()
        if late.count
    }
