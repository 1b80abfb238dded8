"""Every mechanism parameter of the fabric, with unit, default and source, in one place.

A scheme of a scenario is one `FabricParameters`: what the switches do for it. Values are nominal;
whoever runs the fabric slower passes them through `ebb_topologies.dilation` first.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from ebb_topologies.traffic_manager import PortParameters
from pydantic import BaseModel, ConfigDict, Field, model_validator

Dscp = Annotated[int, Field(ge=0, le=63)]
QueueId = Annotated[int, Field(ge=0, le=7)]

MLFQ = {"off": 0, "sender": 1, "in-switch": 2}
"""How `set_traffic_class` encodes who assigns the MLFQ level."""


class Parameters(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class TrafficClass(Parameters):
    """What the switch does with packets of one DSCP."""

    dscp: Dscp
    """DSCP that names the class; what agents send by default is in docs/wire-format.md."""
    queue: QueueId = 0
    """Queue of the class, 0 lowest, unless MLFQ chooses one."""
    spray: bool = False
    """Whether each packet takes a path of its own; otherwise each flow does."""
    trimmable: bool = False
    """Whether packets of the class may be trimmed (UEC DSCP_TRIMMABLE)."""
    mlfq: Literal["off", "sender", "in-switch"] = "off"
    """Who assigns the MLFQ level that then chooses the queue."""


class StepMarking(Parameters):
    """DCTCP's marking: CE when the queue is deeper than K."""

    threshold_bytes: Annotated[int, Field(ge=0, lt=2**19)] = 30_000
    """K, bytes: 30 KB at 1 Gbit/s, 6 KB to mark early, with pacing (HULL section 2.2)."""


class PhantomQueue(Parameters):
    """HULL's phantom queue on every port."""

    drain_fraction: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Drain rate as a share of the link rate, HULL's gamma (HULL section 5.1)."""
    threshold_bytes: Annotated[int, Field(ge=0, lt=2**32)] = 1_000
    """Backlog above which packets are marked, bytes (HULL section 6.1)."""
    count_self: bool = False
    """Whether a packet's own length is in the backlog that it is compared with, as in the EPFL
    report and on the NetFPGA; otherwise the backlog before it counts."""


class Trimming(Parameters):
    """Payload trimming on every port, with the names of SONiC's SWITCH_TRIMMING."""

    size: Annotated[int, Field(ge=82, le=1500)] = 128
    """Bytes of the frame that are kept (SAI_SWITCH_ATTR_PACKET_TRIM_SIZE)."""
    dscp_value: Dscp = 12
    """DSCP of trimmed packets (DSCP_TRIMMED)."""
    lasthop_dscp_value: Dscp | None = 14
    """DSCP of packets trimmed at a port to a host (DSCP_TRIMMED_LASTHOP); none: `dscp_value`."""
    queue_index: QueueId = 7
    """Queue that trimmed packets go through."""
    return_to_sender: bool = False
    """A header that this queue refuses goes back to its sender; the queue must `deflect`."""
    trigger: Literal["deflect", "occupancy"] = "deflect"
    """Who notices that a packet does not fit: the traffic manager, or the program's own counter."""
    occupancy_limit_bytes: Annotated[int, Field(gt=0, lt=2**32)] = 12_000
    """Data bytes queued on a port above which the `occupancy` trigger trims: 8 full packets."""


class FabricParameters(Parameters):
    """What the switches do for one scheme."""

    classes: list[TrafficClass] = [TrafficClass(dscp=0)]
    """A DSCP without an entry is best effort: queue 0, per-flow paths, never trimmed."""
    ports: PortParameters = PortParameters()
    """Queues and scheduler of every port."""
    step_marking: StepMarking | None = None
    """Marking at a queue depth, as DCTCP needs it; none: off."""
    phantom_queue: PhantomQueue | None = None
    """HULL's phantom queue; none: off."""
    trimming: Trimming | None = None
    """Payload trimming; none: nothing is trimmed."""
    mlfq_queues: list[QueueId] = [5, 4, 3, 2, 1]
    """Queue of each MLFQ level, most urgent first (SCDP: 5 symbol queues)."""
    mlfq_thresholds_bytes: list[Annotated[int, Field(gt=0, lt=2**32)]] = [
        10_000,
        100_000,
        1_000_000,
        10_000_000,
    ]
    """Bytes of a flow after which in-switch demotion moves it a level down (SCDP section IV)."""
    hash_seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """Seed of the path hash; mixed with each switch's device id, against polarisation."""

    def without_deflection(self) -> FabricParameters:
        """The parameters for a target whose queues cannot deflect (BMv2): the program's own counter
        triggers the trim, and nothing is returned to its sender."""
        if self.trimming is None:
            return self
        trimming = self.trimming.model_copy(
            update={"trigger": "occupancy", "return_to_sender": False}
        )
        return self.model_copy(update={"trimming": trimming})

    @model_validator(mode="after")
    def _consistent(self) -> FabricParameters:
        dscps = [traffic_class.dscp for traffic_class in self.classes]
        if len(set(dscps)) != len(dscps):
            raise ValueError(f"two classes have the same dscp: {sorted(dscps)}")
        used = [(f"class of dscp {c.dscp}", c.queue) for c in self.classes]
        modes = {traffic_class.mlfq for traffic_class in self.classes}
        if modes != {"off"}:
            used += [("mlfq_queues", queue) for queue in self.mlfq_queues]
        if self.trimming is not None:
            used.append(("trimming.queue_index", self.trimming.queue_index))
        existing = [queue.id for queue in self.ports.queue]
        for user, number in used:
            if number not in existing:
                raise ValueError(
                    f"{user}: there is no queue {number}; [[ports.queue]] has {sorted(existing)}"
                )
        if self.trimming is not None and self.trimming.return_to_sender:
            index = self.trimming.queue_index
            (queue,) = (queue for queue in self.ports.queue if queue.id == index)
            if queue.on_full != "deflect":
                raise ValueError(
                    f'trimming.return_to_sender: queue {index} must say on_full = "deflect"'
                )
        thresholds = self.mlfq_thresholds_bytes
        if any(low >= high for low, high in pairwise(thresholds)):
            raise ValueError(f"mlfq_thresholds_bytes must increase: {thresholds}")
        if "in-switch" in modes and len(thresholds) != len(self.mlfq_queues) - 1:
            raise ValueError(
                f"{len(self.mlfq_queues)} mlfq_queues need {len(self.mlfq_queues) - 1} "
                f"mlfq_thresholds_bytes, not {len(thresholds)}"
            )
        return self
