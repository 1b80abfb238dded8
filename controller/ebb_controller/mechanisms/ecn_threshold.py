"""`ecn_threshold.p4`: DCTCP's K, in the unit in which the target counts its queues."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.parameters import Parameters
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

ECN_THRESHOLD = Table("ecn_threshold", ("set_ecn_threshold",), depths=True)
STEP_MARKED = Counter("step_marked", "step\nmarks", sum="marks")

FULL_PACKET_BYTES = 1500
"""Packet length by which K is converted, where the target counts its queues in packets."""


class StepMarking(Parameters):
    """DCTCP's marking: CE when the queue is deeper than K."""

    threshold_bytes: Annotated[int, Field(ge=0, lt=2**19)] = 30_000
    """K, bytes: 30 KB at 1 Gbit/s, 6 KB to mark early, with pacing (HULL section 2.2)."""


class WithStepMarking(Parameters):
    """The part of `FabricParameters` that this mechanism reads."""

    step_marking: StepMarking | None = None
    """Marking at a queue depth, as DCTCP needs it; none: off."""


def entries(site: Site[WithStepMarking]) -> Iterator[P4TableEntry]:
    """Per port: K in the target's depth unit (bytes; packets of 1500 bytes on BMv2)."""
    marking = site.parameters.step_marking
    if marking is None:
        return
    depth = marking.threshold_bytes
    if site.depth_unit == "packets":
        depth //= FULL_PACKET_BYTES
    for port in site.ports:
        yield ECN_THRESHOLD.entry({"egress_port": port.number}, depth=depth)


MECHANISM = Mechanism("ecn_threshold", entries, (ECN_THRESHOLD,), (STEP_MARKED,))
