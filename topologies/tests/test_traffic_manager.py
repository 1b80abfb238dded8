"""Configurations of the traffic manager: what a lossless fabric says, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import from_table
from ebb_topologies.traffic_manager import (
    ExportParameters,
    GroupParameters,
    PfcParameters,
    PortParameters,
    QueueParameters,
    RankParameters,
    traffic_manager_config,
)
from pydantic import ValidationError

DETAIL = PortParameters(
    queue=[QueueParameters(id=number, lossless=True) for number in range(8)],
    pipeline_delay_ns=7_284,
    ingress_bytes=131_072,
    egress_bytes=131_072,
    pfc=PfcParameters(pause_bytes=8_192, resume_bytes=4_557),
    export=[ExportParameters(register="queue_drain", what="drain-bytes")],
)


def config(parameters: PortParameters) -> dict[str, Any]:
    topology = from_table({"fat_tree": {"k": 4}}, "test")
    return traffic_manager_config(topology, topology.switch("p0e0"), parameters)


def test_flow_control_and_exports_belong_to_the_switch() -> None:
    told = config(DETAIL)
    assert told["pfc"]["pause_bytes"] == 8_192
    assert told["export"] == [
        {"register": "queue_drain", "what": "drain-bytes", "period_ns": 0},
    ]
    for profile in told["profile"]:
        assert (profile["ingress_bytes"], profile["egress_bytes"]) == (131_072, 131_072)
        assert profile["pipeline_delay_ns"] == 7_284
        assert all(queue["lossless"] for queue in profile["queue"])
        assert not {"pfc", "export"} & set(profile)


def test_ranks_belong_to_the_switch_and_need_a_queue() -> None:
    ranked = QueueParameters(id=0, capacity_bytes=51_000, rank=True)
    rank = RankParameters(field="ipv4.identification", flow="flow_hash")
    told = config(PortParameters(queue=[ranked], rank=rank))
    assert told["rank"] == {"field": "ipv4.identification", "flow": "flow_hash"}
    assert all(queue["rank"] for profile in told["profile"] for queue in profile["queue"])
    assert not any("rank" in profile for profile in told["profile"])
    for parameters in ({"queue": [ranked]}, {"rank": rank}):
        with pytest.raises(ValueError, match=r"queues with ranks .* must be given together"):
            PortParameters(**parameters)


def test_without_flow_control_nothing_is_said_about_it() -> None:
    told = config(PortParameters())
    assert told.keys() == {"depth_unit", "profile", "ports"}
    assert told["profile"][0].keys().isdisjoint({"ingress_bytes", "egress_bytes"})


def test_a_slowed_fabric_responds_more_slowly() -> None:
    slow = Dilation(50).slow(DETAIL.model_dump())
    pfc = PortParameters.model_validate(slow).pfc
    assert pfc is not None
    assert (pfc.response_ns, pfc.pause_bytes) == (51_200, 8_192)


LOSSLESS = [{"id": 0, "lossless": True}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ingress_bytes": 1_000}, "ingress_bytes and egress_bytes must be given together"),
        ({"egress_per_queue": True}, "egress_per_queue needs egress_bytes"),
        ({"queue": LOSSLESS}, "lossless queues [0] and pfc must be given together"),
        ({"pfc": {}}, "lossless queues [] and pfc must be given together"),
        (
            {"queue": LOSSLESS, "pfc": {"pause_bytes": 1, "resume_bytes": 2}},
            "resume_bytes = 2 is above pause_bytes = 1",
        ),
        (
            {"queue": LOSSLESS, "pfc": {"pause_bytes": 1}},
            "pause_bytes and resume_bytes must be given together",
        ),
        ({"queue": LOSSLESS, "pfc": {}}, "pfc without pause_bytes needs ingress_bytes"),
        ({"group": [{"queues": [0], "share": 0.5}]}, "share and burst_bytes"),
        ({"group": [{"queues": [0], "burst_bytes": 5}]}, "share and burst_bytes"),
        (
            {"group": [{"queues": [0], "share": 0.5, "burst_bytes": 5, "weight": 3}]},
            "share = 0.5 and weight = 3",
        ),
        ({"group": [{"queues": [0], "capped": True}]}, "capped = true is for a group with a share"),
    ],
)
def test_what_does_not_go_together_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        PortParameters.model_validate(given)
    assert message in str(refusal.value)


def test_a_group_with_a_share_needs_no_weight() -> None:
    group = GroupParameters(queues=[7], share=0.01, burst_bytes=3_277)
    assert group.weight == 1


def test_queues_are_numbered_to_31_and_lossless_ones_to_7() -> None:
    ids = [0, 8, 31]
    groups = [GroupParameters(queues=[number]) for number in ids]
    told = config(PortParameters(queue=[QueueParameters(id=n) for n in ids], group=groups))
    for profile in told["profile"]:
        assert [queue["id"] for queue in profile["queue"]] == ids
    with pytest.raises(ValidationError, match="less than or equal to 31"):
        QueueParameters(id=32)
    lossless = QueueParameters(id=8, lossless=True)
    with pytest.raises(ValueError, match=r"lossless queues \[8\]: .* classes 0 to 7"):
        PortParameters(queue=[lossless], pfc=PfcParameters(pause_bytes=1, resume_bytes=1))
