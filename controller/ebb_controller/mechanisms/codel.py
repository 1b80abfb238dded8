"""`codel.p4`: target and interval of each port, and the reaction to a packet that is due."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from math import sqrt
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, field_validator

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.parameters import Parameters, QueueId
from ebb_controller.site import DepthUnit, Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

PROGRAM = "fabric_codel"
"""The program of p4src that has CoDel and Source Quench."""
CODEL = Table("codel", ("set_codel",))
CODEL_LAW = Table("codel_law", ("set_inverse_root",))
CODEL_MARKED = Counter("codel_marked", "codel\nmarks", sum="marks")

Reaction = Literal["drop", "mark", "source-quench", "mark-only"]
REACTIONS: dict[Reaction, int] = {"drop": 0, "mark": 1, "source-quench": 2, "mark-only": 3}
"""As numbers of `set_codel`."""
LEAST_DEPTH: dict[DepthUnit, int] = {"bytes": 1_514, "packets": 1}
"""Depth behind a packet up to which its queue is good: the longest frame (RFC 8289 section 4.4)."""
COUNT_BITS = 16
"""Bits of the number of packets that were due since the queue went bad, which saturates."""
MANTISSA_BITS = 5
"""Bits of it that count after the first one: a prefix is 2^-5 of the power of two below it."""
ROOT_ONE = 2**24
"""1 as an argument of `set_inverse_root`."""
LOGGER = logging.getLogger("ebb.controller")


class Codel(Parameters):
    """CoDel (RFC 8289) on every queue of every port. FastLane's thesis uses it and states no
    parameters; its RFC states times for the Internet, 5 ms and 100 ms. Here they go with the rate
    of the link."""

    target_bytes: Annotated[int, Field(ge=1, lt=2**32)] = 62_500
    """Delay that a queue may keep, in bytes of its link: 50 us at 10 Gbit/s, and the 5 ms of the
    RFC at 100 Mbit/s."""
    interval_targets: Annotated[float, Field(ge=1, le=1_000)] = 20
    """Interval over target: a target is 5 % of the interval (RFC 8289
    section 4.4)."""
    reaction: Reaction = "drop"
    """Reaction to a packet that is due: it is dropped; marked CE (dropped if it is not ECT);
    forwarded while a Source Quench goes to its sender; or marked CE if it is ECT, and never
    dropped (`mark-only`)."""
    message_queue: QueueId | None = None
    """Queue in which a message of Source Quench leaves the switch that makes it; none: that of the
    packet, as in the thesis. Its class stays that of the packet."""

    @field_validator("reaction", mode="before")
    @classmethod
    def _old_spelling(cls, value: object) -> object:
        """Takes `tell` for `source-quench`, until the release after this one."""
        if value != "tell":
            return value
        LOGGER.warning('codel.reaction: "tell" is now "source-quench"')
        return "source-quench"


class WithCodel(Parameters):
    """The part of `FabricParameters` that this mechanism reads."""

    codel: Codel | None = None
    """CoDel; none: off."""


def prefixes() -> Iterator[tuple[int, int, int]]:
    """Prefixes that cover all counts from 1: value, length in bits, number of counts."""
    exact = 2 << MANTISSA_BITS
    for count in range(1, exact):
        yield count, COUNT_BITS, 1
    length = 2
    while exact < 2**COUNT_BITS:
        for first in range(exact, 2 * exact, length):
            yield first, COUNT_BITS - length.bit_length() + 1, length
        exact, length = 2 * exact, 2 * length


def inverse_root(first: int, length: int) -> int:
    """2^24 / sqrt(count), for the middle of the counts of a prefix."""
    return round(ROOT_ONE / sqrt(first + (length - 1) / 2))


def entries(site: Site[WithCodel]) -> Iterator[P4TableEntry]:
    """Per port: target of `target_bytes` at its rate, and interval; the inverse square roots."""
    codel = site.parameters.codel
    if codel is None:
        return
    for port in site.ports:
        target_us = codel.target_bytes * 8e6 / port.rate_bps
        yield CODEL.entry(
            {"egress_port": port.number},
            target_us=max(1, round(target_us)),
            interval_us=max(1, round(target_us * codel.interval_targets)),
            least_depth=LEAST_DEPTH[site.depth_unit],
            reaction=REACTIONS[codel.reaction],
        )
    for first, bits, length in prefixes():
        yield CODEL_LAW.entry({"count": (first, bits)}, inverse=inverse_root(first, length))


MECHANISM = Mechanism("codel", entries, (CODEL, CODEL_LAW), (CODEL_MARKED,), PROGRAM, ported=False)
