"""Parameters with every mechanism at once, which no scheme has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from ebb_controller.mechanisms import FabricParameters
from ebb_controller.mechanisms.adaptive_routing import AdaptiveRouting
from ebb_controller.mechanisms.codel import Codel
from ebb_controller.mechanisms.drop_notification import DropNotification
from ebb_controller.mechanisms.policing import Contract, Policing
from ebb_controller.mechanisms.traffic_class import TrafficClass
from ebb_controller.mechanisms.trimming import Trimming
from ebb_topologies.traffic_manager import GroupParameters, PortParameters, QueueParameters


def everything(
    *, return_to_sender: bool, hosts: Sequence[str] = (), **parameters: Any
) -> FabricParameters:
    """Every mechanism that can be off is on, with its defaults but for trimming and what is
    given. `hosts`: those that are policed."""
    on = {
        name: get_args(field.annotation)[0]()
        for name, field in FabricParameters.model_fields.items()
        if field.default is None
    }
    assert "trimming" in on
    on["codel"] = Codel(reaction="drop" if return_to_sender else "source-quench")
    on["drop_notification"] = DropNotification(trigger="occupancy")
    on["trimming"] = Trimming(trigger="occupancy", return_to_sender=return_to_sender)
    on["adaptive_routing"] = AdaptiveRouting(queue_state="program")
    contract = Contract(hosts=list(hosts) or ["none"], guarantee_bps=1_000_000, peak_bps=8_000_000)
    on["policing"] = Policing(contract=[contract] if hosts else [], excess="count")
    on["void_frames"] = True
    queues = [
        QueueParameters(id=number, on_full="deflect" if return_to_sender else "tail-drop")
        for number in range(8)
    ]
    classes = [
        TrafficClass(dscp=0),
        TrafficClass(dscp=10, queue=1, mlfq="in-switch"),
        TrafficClass(dscp=34, queue=6, spray="adaptive"),
        TrafficClass(dscp=56, queue=7),
    ]
    groups = [
        GroupParameters(queues=list(range(7))),
        GroupParameters(queues=[7], share=0.01, burst_bytes=3_277),
    ]
    ports = PortParameters(queue=queues, group=groups)
    return FabricParameters(**(on | {"classes": classes, "ports": ports} | parameters))
