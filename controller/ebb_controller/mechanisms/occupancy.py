"""`occupancy.p4`: present only where the program's own counter triggers the trim."""

from __future__ import annotations

from collections.abc import Iterator

from finsy import P4TableEntry

from ebb_controller.mechanism import Mechanism, Table
from ebb_controller.mechanisms.trimming import WithTrimming
from ebb_controller.site import Site

OCCUPANCY_LIMIT = Table("occupancy_limit", ("set_occupancy_limit",))


def entries(site: Site[WithTrimming]) -> Iterator[P4TableEntry]:
    """Per port the limit, only where the program's own counter is the trigger (BMv2)."""
    trimming = site.parameters.trimming
    if trimming is None or trimming.trigger != "occupancy":
        return
    for port in site.ports:
        yield OCCUPANCY_LIMIT.entry(
            {"egress_port": port.number}, limit_bytes=trimming.occupancy_limit_bytes
        )


MECHANISM = Mechanism("occupancy", entries, (OCCUPANCY_LIMIT,))
