"""`mlfq.p4`: level to queue, and bytes sent to level for in-switch demotion."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, model_validator

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.mechanisms.traffic_class import WithClasses
from ebb_controller.parameters import QueueId
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

MLFQ_LEVEL = Table("mlfq_level", ("set_mlfq_queue",))
MLFQ_DEMOTION = Table("mlfq_demotion", ("set_mlfq_level",))
MLFQ_DEMOTED = Counter("mlfq_demoted", "demoted")

FLOW_BYTES_MAX = 2**32 - 1
"""Where the program stops counting the bytes of a flow."""


class WithMlfq(WithClasses):
    """The part of `FabricParameters` that this mechanism reads; classes say who uses it."""

    mlfq_queues: list[QueueId] = [5, 4, 3, 2, 1]
    """Queue of each MLFQ level, most urgent first (SCDP: 5 symbol queues)."""
    mlfq_thresholds_bytes: list[Annotated[int, Field(gt=0, lt=2**32)]] = [
        10_000,
        100_000,
        1_000_000,
        10_000_000,
    ]
    """Bytes of a flow after which in-switch demotion moves it a level down (SCDP section IV)."""

    @property
    def mlfq_modes(self) -> set[str]:
        """Who assigns levels, in any class."""
        return {traffic_class.mlfq for traffic_class in self.classes}

    @model_validator(mode="after")
    def _levels_fit(self) -> WithMlfq:
        if self.mlfq_modes != {"off"}:
            for queue in self.mlfq_queues:
                self.need_queue("mlfq_queues", queue)
        thresholds = self.mlfq_thresholds_bytes
        if any(low >= high for low, high in pairwise(thresholds)):
            raise ValueError(f"mlfq_thresholds_bytes must increase: {thresholds}")
        if "in-switch" in self.mlfq_modes and len(thresholds) != len(self.mlfq_queues) - 1:
            raise ValueError(
                f"{len(self.mlfq_queues)} mlfq_queues need {len(self.mlfq_queues) - 1} "
                f"mlfq_thresholds_bytes, not {len(thresholds)}"
            )
        return self


def entries(site: Site[WithMlfq]) -> Iterator[P4TableEntry]:
    """Per level its queue; for in-switch demotion the ranges of bytes sent, without gap or
    overlap."""
    parameters = site.parameters
    if parameters.mlfq_modes == {"off"}:
        return
    for level, queue in enumerate(parameters.mlfq_queues):
        yield MLFQ_LEVEL.entry({"level": level}, queue=queue)
    if "in-switch" in parameters.mlfq_modes:
        bounds = [0, *parameters.mlfq_thresholds_bytes, FLOW_BYTES_MAX + 1]
        for level, (low, high) in enumerate(pairwise(bounds)):
            yield MLFQ_DEMOTION.entry({"flow_bytes": (low, high - 1)}, priority=1, level=level)


MECHANISM = Mechanism("mlfq", entries, (MLFQ_LEVEL, MLFQ_DEMOTION), (MLFQ_DEMOTED,))
