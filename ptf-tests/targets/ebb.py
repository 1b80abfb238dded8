# SPDX-License-Identifier: Apache-2.0
"""ebb-switch: its traffic manager is configured by a file and read by gRPC."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import grpc
from ebb_controller import ebb_tm_pb2 as tm

from targets.base import Feature, Target, TrafficManager

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
        with grpc.insecure_channel(self._address) as channel:
            call = channel.unary_unary(
                "/ebb.tm.v1.TrafficManager/GetStats",
                request_serializer=tm.GetStatsRequest.SerializeToString,
                response_deserializer=tm.Stats.FromString,
            )
            stats = call(tm.GetStatsRequest(), timeout=CALL_SECONDS)
        return sum(
            int(drops.count.packets)
            for p in stats.ports
            if p.port == port
            for queue in p.queues
            for drops in queue.drops
            if drops.reason == reason
        )


def tm_config(manager: TrafficManager) -> dict[str, Any]:
    """The configuration of docs/architecture.md, "Traffic manager configuration"."""
    common: dict[str, Any] = {
        "queue": [
            {"id": q.id, "capacity_packets": q.capacity_packets, "on_full": q.on_full}
            for q in manager.queues
        ],
        "group": [{"queues": list(queues), "weight": weight} for queues, weight in manager.groups],
    }
    return {
        "depth_unit": manager.depth_unit,
        "profile": [
            {"name": "fast", "rate_bps": 0} | common,
            {"name": "slow", "rate_bps": manager.rate_bps} | common,
        ],
        "ports": {"default": "fast"} | {str(port): "slow" for port in manager.slow_ports},
    }
