"""`return_to_sender.p4`: the classes of headers that go back when they do not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.mechanisms.trimming import WithTrimming
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

RETURN_TO_SENDER = Table("return_to_sender", ("return_header",))
RETURNED = Counter("returned", "returned")


def entries(site: Site[WithTrimming]) -> Iterator[P4TableEntry]:
    """Per class of trimmed headers, only where the scheme says `trimming.return_to_sender`."""
    trimming = site.parameters.trimming
    if trimming is None or not trimming.return_to_sender:
        return
    # Headers of other switches come with either value, whatever the ports of this one write.
    classes = {trimming.dscp_value}
    if trimming.lasthop_dscp_value is not None:
        classes.add(trimming.lasthop_dscp_value)
    for dscp in sorted(classes):
        yield RETURN_TO_SENDER.entry({"dscp": dscp})


MECHANISM = Mechanism("return_to_sender", entries, (RETURN_TO_SENDER,), (RETURNED,))
