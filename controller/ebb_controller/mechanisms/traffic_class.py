"""`traffic_class.p4`: what each DSCP gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from ebb_controller.mechanism import Mechanism, Table
from ebb_controller.parameters import Dscp, Parameters, PortQueues, QueueId
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

TRAFFIC_CLASS = Table("traffic_class", ("set_traffic_class",))

SPRAY: dict[bool | str, int] = {False: 0, True: 1, "adaptive": 2}
"""How `set_traffic_class` encodes the paths of a class (SPRAY_* of p4src/include/headers.p4)."""
MLFQ = {"off": 0, "sender": 1, "in-switch": 2}
"""How `set_traffic_class` encodes who assigns the MLFQ level (p4src/include/mlfq.p4)."""


class TrafficClass(Parameters):
    """Treatment of packets of one DSCP."""

    dscp: Dscp
    """DSCP that names the class; what agents send by default is in docs/wire-format.md."""
    queue: QueueId = 0
    """Queue of the class, 0 lowest, unless MLFQ chooses one."""
    spray: bool | Literal["adaptive"] = False
    """Whether each packet takes a path of its own, at random or the least loaded one
    (`adaptive_routing`); otherwise each flow takes one."""
    trimmable: bool = False
    """Whether packets of the class may be trimmed (UEC DSCP_TRIMMABLE)."""
    mlfq: Literal["off", "sender", "in-switch"] = "off"
    """Who assigns the MLFQ level that then chooses the queue."""


class WithClasses(PortQueues):
    """The part of `FabricParameters` that this mechanism reads."""

    classes: list[TrafficClass] = [TrafficClass(dscp=0)]
    """A DSCP without an entry is best effort: queue 0, per-flow paths, never trimmed."""

    @model_validator(mode="after")
    def _classes_fit(self) -> WithClasses:
        dscps = [traffic_class.dscp for traffic_class in self.classes]
        if len(set(dscps)) != len(dscps):
            raise ValueError(f"two classes have the same dscp: {sorted(dscps)}")
        for traffic_class in self.classes:
            self.need_queue(f"class of dscp {traffic_class.dscp}", traffic_class.queue)
        return self


def entries(site: Site[WithClasses]) -> Iterator[P4TableEntry]:
    """Per DSCP that has a class: queue, spraying, eligibility for trimming, MLFQ mode."""
    for traffic_class in site.parameters.classes:
        yield TRAFFIC_CLASS.entry(
            {"dscp": traffic_class.dscp},
            queue=traffic_class.queue,
            spray=SPRAY[traffic_class.spray],
            trimmable=int(traffic_class.trimmable),
            mlfq=MLFQ[traffic_class.mlfq],
        )


MECHANISM = Mechanism("traffic_class", entries, (TRAFFIC_CLASS,))
