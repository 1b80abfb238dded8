"""Contradictions in a scheme: each is found when the file is read."""

from __future__ import annotations

from typing import Any

import pytest
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.parameters import WAKEUP_NS
from ebb_controller.scheme import known_schemes, load_scheme
from ebb_topologies.dilation import Dilation
from pydantic import ValidationError

QUEUES = {"queue": [{"id": queue} for queue in (0, 1, 2, 7)]}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"classes": [{"dscp": 10}, {"dscp": 10}]}, "two classes have the same dscp: [10, 10]"),
        ({"classes": [{"dscp": 64}]}, "less than or equal to 63"),
        ({"classes": [{"dscp": 10, "queue": 3}]}, "class of dscp 10: there is no queue 3"),
        ({"trimming": {"queue_index": 6}}, "trimming.queue_index: there is no queue 6"),
        ({"trimming": {"return_to_sender": True}}, 'queue 7 must say on_full = "deflect"'),
        ({"trimming": {"size": 81}}, "greater than or equal to 82"),
        ({"classes": [{"dscp": 1, "mlfq": "sender"}]}, "mlfq_queues: there is no queue 5"),
        ({"mlfq_thresholds_bytes": [10, 10]}, "must increase: [10, 10]"),
        (
            {"classes": [{"dscp": 1, "mlfq": "in-switch"}], "mlfq_queues": [2, 1]},
            "2 mlfq_queues need 1 mlfq_thresholds_bytes, not 4",
        ),
        ({"phantom_queue": {"drain_fraction": 1.1}}, "less than or equal to 1"),
        ({"step_making": {}}, "Extra inputs"),
    ],
)
def test_contradictions(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        FabricParameters.model_validate({"ports": QUEUES, **parameters})
    assert message in str(caught.value)


@pytest.mark.parametrize("name", known_schemes())
def test_a_slower_fabric_has_longer_times_and_the_same_bytes(name: str) -> None:
    nominal = load_scheme(name).fabric
    assert nominal.slowed(Dilation(1)) == nominal
    slowed = nominal.slowed(Dilation(50))
    if nominal.ports.pfc is None:
        assert slowed == nominal
        assert slowed.woken_late(WAKEUP_NS) == nominal
    else:
        assert slowed.ports.pfc is not None
        assert slowed.ports.pfc.response_ns == 50 * nominal.ports.pfc.response_ns
        assert slowed.ports.ingress_bytes == nominal.ports.ingress_bytes
        late = slowed.woken_late(WAKEUP_NS).ports.pfc
        assert late is not None
        assert late.wakeup_ns == WAKEUP_NS
