"""Which packets count, how many bytes of them, and into which series they go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ebb_volume import headers
from ebb_volume.headers import Headers, Network
from ebb_volume.packets import Integers, Packets
from ebb_volume.series import Binner, Name

DIMENSIONS = ("direction", "protocol", "dscp", "prefix")
"""Keys by which series are separated."""
LENGTHS = ("frame", "ip")
OTHER = "other"
MAX_CLASSES = 256
"""Classes of one piece that are counted separately; a capture made to have more puts the rest into
`other`."""
DIRECTIONS = ("through", "out", "in", "within")
"""By whether the source (1) and the destination (2) are inside."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Quantity of a capture that is summed."""

    by: Sequence[str] = ()
    """Some of `DIMENSIONS`; none: one series."""
    inside: Sequence[Network] = ()
    """Prefixes of our own network, which make the direction."""
    prefixes: Sequence[Network] = ()
    """For `prefix`: source or destination in it."""
    length: str = "frame"
    """`frame`: as on the link, with link header, tags and tunnels and without FCS; `ip`: total
    length of the first IP header, and packets without one are left out."""
    overhead_bytes: int = 0
    """Added to each packet: 24 are FCS, preamble and gap of Ethernet."""

    def add(self, binner: Binner, point: str, packets: Packets) -> None:
        """Puts packets into the bins of their series."""
        known = headers.read(packets) if self.by or self.length == "ip" else None
        size_bytes = packets.wire_bytes + self.overhead_bytes
        counts = np.ones(len(packets), np.bool_)
        if self.length == "ip" and known:
            size_bytes, counts = known.ip_bytes + self.overhead_bytes, known.version > 0
        for kind, chosen in self._kinds(known, np.flatnonzero(counts)):
            binner.add(Name(point, kind), packets.time_ns[chosen], size_bytes[chosen])

    def _kinds(self, known: Headers | None, counted: Integers) -> Iterator[tuple[str, Integers]]:
        """Classes, with the packets of each among those that count."""
        if known is None or not self.by:
            yield "all", counted
            return
        columns = [self._names(dimension, known) for dimension in self.by]
        code = np.zeros(len(known.version), np.int64)
        for names, numbers in columns:
            code = code * len(names) + numbers
        code = code[counted]
        found, sizes = np.unique(code, return_counts=True)
        rare = found[np.argsort(-sizes, kind="stable")[MAX_CLASSES:]]
        for each in np.setdiff1d(found, rare).tolist():
            yield _joined(each, [names for names, _numbers in columns]), counted[code == each]
        if len(rare):
            yield OTHER, counted[np.isin(code, rare)]

    def _names(self, dimension: str, known: Headers) -> tuple[list[str], Integers]:
        """Names along a dimension, and the number of each packet's among them."""
        ip = known.version > 0
        if dimension == "direction":
            ours, theirs = (
                np.logical_or.reduce([headers.within(known, side, p) for p in self.inside])
                for side in (known.source, known.destination)
            )
            return list(DIRECTIONS), ours + 2 * theirs
        if dimension == "protocol":
            names = [headers.protocol_name(number) for number in range(-1, 256)]
            return names, np.where(ip, known.protocol + 1, 0)
        if dimension == "dscp":
            names = [headers.protocol_name(-1), *(f"dscp-{value}" for value in range(64))]
            return names, np.where(ip, known.dscp + 1, 0)
        return _prefixes(known, self.prefixes)


def _joined(code: int, columns: Sequence[list[str]]) -> str:
    """The name of a combination, whose number has a digit per column."""
    parts = []
    for names in reversed(columns):
        code, digit = divmod(code, len(names))
        parts.append(names[digit])
    return "/".join(reversed(parts))


def _prefixes(known: Headers, prefixes: Sequence[Network]) -> tuple[list[str], Integers]:
    """By the longest prefix that the source or the destination is in."""
    ordered = sorted(prefixes, key=lambda prefix: prefix.prefixlen)
    numbers = np.zeros(len(known.version), np.int64)
    for number, prefix in enumerate(ordered, 1):
        sides = (known.source, known.destination)
        inside = np.logical_or.reduce([headers.within(known, side, prefix) for side in sides])
        numbers = np.where(inside, number, numbers)
    return [OTHER, *map(str, ordered)], numbers
