# SPDX-License-Identifier: Apache-2.0
"""ebb-switch: its traffic manager is configured by a file and read by gRPC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import grpc
from ebb_controller import ebb_tm_pb2 as tm

from targets.base import Feature, Queue, Target, TrafficManager

CALL_SECONDS = 5.0
"""How long the switch may take to answer."""


class EbbSwitch(Target):
    """An ebb-switch process."""

    name = "ebb"
    lacks: ClassVar[Mapping[Feature, str]] = {}

    _address = ""

    def command(self, ports: Mapping[int, str], manager: TrafficManager, address: str) -> list[str]:
        self._address = address
        config = self._work_dir / "tm.json"
        config.write_text(json.dumps(tm_config(manager)))
        interfaces = [f"--interface={port}@{name}" for port, name in ports.items()]
        return [
            str(self._binary),
            "--no-p4",
            *interfaces,
            f"--tm={config}",
            f"--grpc-server-addr={address}",
        ]

    def dropped(self, port: int, reason: str) -> int:
        return sum(
            int(drops.count.packets)
            for p in self._statistics().ports
            if p.port == port
            for queue in p.queues
            for drops in queue.drops
            if drops.reason == reason
        )

    def refused(self, port: int, reason: str) -> int:
        drops = self._statistics().drops
        return sum(int(d.count.packets) for d in drops if (d.port, d.reason) == (port, reason))

    def pauses(self, port: int, queue: int) -> int:
        return sum(
            int(q.pauses_received)
            for p in self._statistics().ports
            if p.port == port
            for q in p.queues
            if q.queue == queue
        )

    def _statistics(self) -> tm.Stats:
        with grpc.insecure_channel(self._address) as channel:
            call = channel.unary_unary(
                "/ebb.tm.v1.TrafficManager/GetStats",
                request_serializer=tm.GetStatsRequest.SerializeToString,
                response_deserializer=tm.Stats.FromString,
            )
            stats: tm.Stats = call(tm.GetStatsRequest(), timeout=CALL_SECONDS)
        return stats


def tm_config(manager: TrafficManager) -> dict[str, Any]:
    """The configuration of docs/architecture.md, "Traffic manager configuration"."""
    common: dict[str, Any] = {
        "queue": [_queue(queue) for queue in manager.queues],
        "group": [
            *(
                {"queues": list(queues), "weight": weight}
                | ({"order": "arrival"} if manager.by_arrival else {})
                for queues, weight in manager.groups
            ),
            *(
                {"queues": list(queues), "share": share, "burst_bytes": burst}
                for queues, share, burst in manager.shares
            ),
        ],
    }
    if manager.pool_packets is not None:
        common["pool_packets"] = manager.pool_packets
    of_switch: dict[str, Any] = {
        "export": [{"register": register, "what": "drain-bytes"} for register in manager.exports]
    }
    if manager.rank is not None:
        of_switch["rank"] = dict(zip(("field", "flow"), manager.rank, strict=True))
    if manager.pfc:
        of_switch["pfc"] = dict(manager.pfc)
    return of_switch | {
        "depth_unit": manager.depth_unit,
        "profile": [
            {"name": "fast", "rate_bps": manager.other_bps} | common,
            {"name": "slow", "rate_bps": manager.rate_bps} | common,
        ],
        "ports": {"default": "fast"} | {str(port): "slow" for port in manager.slow_ports},
    }


def _queue(queue: Queue) -> dict[str, Any]:
    config: dict[str, Any] = {"id": queue.id, "on_full": queue.on_full}
    if queue.lossless:
        return config | {"lossless": True}
    if queue.pool:
        config["pool"] = True
    if queue.pool_exempt:
        config["pool_exempt"] = True
    if queue.rank:
        config["rank"] = True
    return config | {"capacity_packets": queue.capacity_packets}
