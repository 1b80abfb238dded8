"""`occupancy.p4`: present only where the program's own counter triggers the trim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ebb_controller.mechanism import Mechanism, Table
from ebb_controller.mechanisms.trimming import WithTrimming
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

OCCUPANCY_LIMIT = Table("occupancy_limit", ("set_occupancy_limit",))


def entries(site: Site[WithTrimming]) -> Iterator[P4TableEntry]:
    """Per port the limit, only where the program's own counter is the trigger of trimming or of
    drop notification (BMv2)."""
    triggered = site.parameters.trimming or site.parameters.drop_notification
    if triggered is None or triggered.trigger != "occupancy":
        return
    for port in site.ports:
        yield OCCUPANCY_LIMIT.entry(
            {"egress_port": port.number}, limit_bytes=triggered.occupancy_limit_bytes
        )


MECHANISM = Mechanism("occupancy", entries, (OCCUPANCY_LIMIT,))
