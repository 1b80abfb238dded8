# SPDX-License-Identifier: Apache-2.0
"""What a target makes of the traffic manager a test asks for."""

from __future__ import annotations

from pathlib import Path

from targets import TARGETS, Feature, Queue, TrafficManager
from targets.ebb import tm_config


def test_configuration_follows_the_contract() -> None:
    manager = TrafficManager(
        queues=(Queue(0, capacity_packets=2, on_full="deflect"), Queue(7)),
        groups=(((7,), 10), ((0,), 1)),
        depth_unit="bytes",
        rate_bps=1000,
        slow_ports=(2, 4),
    )
    config = tm_config(manager)
    assert config["depth_unit"] == "bytes"
    assert config["ports"] == {"default": "fast", "2": "slow", "4": "slow"}
    fast, slow = config["profile"]
    assert (fast["rate_bps"], slow["rate_bps"]) == (0, 1000)
    assert fast["queue"] == slow["queue"]
    assert slow["queue"][0] == {"id": 0, "capacity_packets": 2, "on_full": "deflect"}
    assert slow["group"] == [{"queues": [7], "weight": 10}, {"queues": [0], "weight": 1}]


def test_configuration_of_a_lossless_fabric() -> None:
    manager = TrafficManager(
        queues=(Queue(0, lossless=True), Queue(6, on_full="push-out", pool=True)),
        shares=(((6,), 0.25, 2000),),
        pool_packets=9,
        other_bps=7,
        pfc={"pause_bytes": 3, "resume_bytes": 2},
        exports=("queue_drain",),
    )
    config = tm_config(manager)
    assert config["pfc"] == {"pause_bytes": 3, "resume_bytes": 2}
    assert config["export"] == [{"register": "queue_drain", "what": "drain-bytes"}]
    fast, slow = config["profile"]
    assert (fast["rate_bps"], fast["pool_packets"], slow["pool_packets"]) == (7, 9, 9)
    assert fast["queue"] == [
        {"id": 0, "on_full": "tail-drop", "lossless": True},
        {"id": 6, "on_full": "push-out", "pool": True, "capacity_packets": 1000},
    ]
    assert fast["group"] == [{"queues": [6], "share": 0.25, "burst_bytes": 2000}]


def test_configuration_of_a_scavenger_class() -> None:
    manager = TrafficManager(
        queues=(Queue(0, pool=True), Queue(1, on_full="push-out", pool=True, pool_exempt=True)),
        groups=(((1, 0), 1),),
        by_arrival=True,
        pool_packets=3,
    )
    (profile, _) = tm_config(manager)["profile"]
    assert [queue.get("pool_exempt") for queue in profile["queue"]] == [None, True]
    assert profile["group"] == [{"queues": [1, 0], "weight": 1, "order": "arrival"}]


def test_configuration_of_queues_with_ranks() -> None:
    fields = ("ipv4.identification", "flow_hash")
    config = tm_config(TrafficManager(queues=(Queue(0, rank=True),), rank=fields))
    assert config["rank"] == {"field": "ipv4.identification", "flow": "flow_hash"}
    (queue,) = config["profile"][0]["queue"]
    assert queue["rank"] is True
    assert "rank" not in tm_config(TrafficManager())


def test_what_a_target_lacks_has_a_reason() -> None:
    for kind in TARGETS.values():
        assert all(isinstance(f, Feature) and why for f, why in kind.lacks.items())


def test_bmv2_gets_its_target_options_behind_the_separator(tmp_path: Path) -> None:
    bmv2 = TARGETS["bmv2"](Path("simple_switch_grpc"), tmp_path)
    command = bmv2.command({1: "sw1"}, TrafficManager(), "127.0.0.1:9559")
    separator = command.index("--")
    assert "--interface=1@sw1" in command[:separator]
    assert set(command[separator + 1 :]) == {
        "--grpc-server-addr=127.0.0.1:9559",
        "--priority-queues=8",
    }
