"""Client of the traffic-manager service that every ebb-switch serves next to P4Runtime."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from ebb_topologies.model import Switch, Topology

from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.reconcile import ControllerError

SERVICE = "/ebb.tm.v1.TrafficManager"
CALL_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class QueueStatistics:
    """One queue of a port since the last reset; depths in bytes."""

    queue: int
    enqueued_packets: int
    deflected_packets: int
    dropped_packets: dict[str, int]
    """Packets that the queue dropped, by reason."""
    ce_packets: int
    """Packets that left with CE in their ECN field."""
    max_depth_bytes: int
    average_depth_bytes: float
    average_delay_ns: float


@dataclass(frozen=True, slots=True)
class PortStatistics:
    port: int
    transmitted_packets: int
    transmitted_bytes: int
    queues: list[QueueStatistics]
    dropped_packets: dict[str, int]
    """Packets dropped elsewhere than in its queues, by reason, since the switch started; a reset
    leaves them."""


Statistics = dict[str, dict[int, PortStatistics]]
"""Statistics by switch and port."""


def loopback(switch: Switch) -> str:
    """Address at which a switch of this machine serves P4Runtime and its traffic manager."""
    return f"127.0.0.1:{switch.grpc_port}"


class TrafficManagers:
    """The traffic managers of all switches of a topology. Used inside one event loop."""

    def __init__(self, topology: Topology, address: Callable[[Switch], str] = loopback) -> None:
        self._switches = topology.switches
        self._address = address
        self._channels: dict[str, grpc.aio.Channel] = {}

    async def configure(self, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """Replaces the configuration of the named switches."""
        await asyncio.gather(
            *(
                self._call(switch, "SetConfig", tm.SetConfigResponse, tm.SetConfigRequest(
                    device_id=switch.device_id, config=json.dumps(configs[switch.name])
                ))
                for switch in self._switches
                if switch.name in configs
            )
        )  # fmt: skip

    async def statistics(self, *, reset: bool = False) -> Statistics:
        """Counters of every port; with `reset` they start from zero afterwards."""
        replies = await asyncio.gather(*(self._statistics(s, reset) for s in self._switches))
        return dict(zip((switch.name for switch in self._switches), replies, strict=True))

    async def lateness(self) -> list[dict[str, dict[str, int]]]:
        """How late each switch was since the last reset, in ns, as in `--report json`."""
        replies = await asyncio.gather(*(self._ask(s, reset=False) for s in self._switches))
        return [lateness(reply) for reply in replies]

    async def raw(self, *, reset: bool = False) -> dict[str, tm.Stats]:
        """All that every switch tells (`ebb_tm.proto`)."""
        replies = await asyncio.gather(*(self._ask(s, reset) for s in self._switches))
        return dict(zip((switch.name for switch in self._switches), replies, strict=True))

    async def of_switch(self, name: str) -> dict[int, PortStatistics]:
        (switch,) = (switch for switch in self._switches if switch.name == name)
        return await self._statistics(switch, reset=False)

    async def _statistics(self, switch: Switch, reset: bool) -> dict[int, PortStatistics]:
        reply = await self._ask(switch, reset)
        ports = {port.port: _port(port) for port in reply.ports}
        for drops in reply.drops:
            empty = PortStatistics(drops.port, 0, 0, [], {})
            port = ports.setdefault(drops.port, empty)
            port.dropped_packets[drops.reason] = drops.count.packets
        return ports

    async def _ask(self, switch: Switch, reset: bool) -> tm.Stats:
        request = tm.GetStatsRequest(device_id=switch.device_id, reset=reset)
        reply: tm.Stats = await self._call(switch, "GetStats", tm.Stats, request)
        return reply

    async def close(self) -> None:
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()

    async def _call(self, switch: Switch, method: str, reply: Any, request: Any) -> Any:
        address = self._address(switch)
        channel = self._channels.get(switch.name)
        if channel is None:
            channel = self._channels[switch.name] = grpc.aio.insecure_channel(address)
        call = channel.unary_unary(
            f"{SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        try:
            return await call(request, timeout=CALL_SECONDS, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise ControllerError(
                f"switch {switch.name} at {address}: {method} failed: "
                f"{error.code().name}: {error.details()}"
            ) from error


def lateness(message: tm.Stats) -> dict[str, dict[str, int]]:
    """Lateness in ns by kind (`wakeups`, `departures`); a kind without samples is left out."""
    kinds = {"wakeups": message.lateness.wakeups, "departures": message.lateness.departures}
    return {
        kind: {"count": told.count, "p99_ns": told.p99_ns, "max_ns": told.max_ns}
        for kind, told in kinds.items()
        if told.count
    }


def _port(message: tm.PortStats) -> PortStatistics:
    return PortStatistics(
        port=message.port,
        transmitted_packets=message.transmitted.packets,
        transmitted_bytes=message.transmitted.bytes,
        queues=[_queue(queue) for queue in message.queues],
        dropped_packets={},
    )


def _queue(message: tm.QueueStats) -> QueueStatistics:
    return QueueStatistics(
        queue=message.queue,
        enqueued_packets=message.enqueued.packets,
        deflected_packets=message.deflected.packets,
        dropped_packets={drop.reason: drop.count.packets for drop in message.drops},
        ce_packets=message.ecn_ce.packets,
        max_depth_bytes=message.max_depth_bytes,
        average_depth_bytes=message.average_depth_bytes,
        average_delay_ns=message.average_delay_ns,
    )
