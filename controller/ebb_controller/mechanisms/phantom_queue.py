"""`phantom_queue.p4`: the drain rate gamma * C of each port and the threshold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.parameters import Parameters
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

PHANTOM_QUEUE = Table("phantom_queue", ("set_phantom_queue",))
PHANTOM_MARKED = Counter("phantom_marked", "phantom\nmarks", sum="marks")

DRAIN_WINDOW_US = 2**16
"""Time in which the program's drain rate counts bytes, us: a power of two, so that it needs no
division."""


class PhantomQueue(Parameters):
    """HULL's phantom queue on every port."""

    drain_fraction: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Drain rate as a share of the link rate, HULL's gamma (HULL section 5.1)."""
    threshold_bytes: Annotated[int, Field(ge=0, lt=2**32)] = 1_000
    """Backlog above which packets are marked, bytes (HULL section 6.1)."""
    count_self: bool = False
    """Whether a packet's own length is in the backlog that it is compared with, as in the EPFL
    report and on the NetFPGA; otherwise the backlog before it counts."""


class WithPhantomQueue(Parameters):
    """The part of `FabricParameters` that this mechanism reads."""

    phantom_queue: PhantomQueue | None = None
    """HULL's phantom queue; none: off."""


def entries(site: Site[WithPhantomQueue]) -> Iterator[P4TableEntry]:
    """Per port: drain `drain_fraction * rate_bps / 8e6 * 2^16` bytes per 2^16 us, threshold."""
    phantom = site.parameters.phantom_queue
    if phantom is None:
        return
    for port in site.ports:
        bytes_per_us = phantom.drain_fraction * port.rate_bps / 8e6
        yield PHANTOM_QUEUE.entry(
            {"egress_port": port.number},
            drain_bytes_per_65536_us=round(bytes_per_us * DRAIN_WINDOW_US),
            threshold_bytes=phantom.threshold_bytes,
            count_self=int(phantom.count_self),
        )


MECHANISM = Mechanism("phantom_queue", entries, (PHANTOM_QUEUE,), (PHANTOM_MARKED,))
