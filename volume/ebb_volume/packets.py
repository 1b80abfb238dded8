"""Packets of a capture as columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Octets = NDArray[np.uint8]


def windows(data: Octets, starts: Integers, length: int) -> Octets:
    """`length` bytes from each of the places on, a row each, all of them within the data."""
    if not len(starts):
        return np.zeros((0, length), np.uint8)
    found: Octets = np.lib.stride_tricks.sliding_window_view(data, length)[starts]
    return found


@dataclass(frozen=True, slots=True)
class Packets:
    """Packets of one interface that follow each other in a capture; a row each."""

    time_ns: Integers
    """Since 1970, as the capture has it: not necessarily in order."""
    wire_bytes: Integers
    """Length of the frame when it was captured, whatever of it was kept."""
    data: Octets
    """Bytes of the capture, in which the frames lie."""
    begin: Integers
    """Where each frame begins in `data`."""
    kept_bytes: Integers
    """How much of each frame was kept (snap length)."""
    link_type: int
    """LINKTYPE of the interface (www.tcpdump.org/linktypes.html)."""
    interface: int = 0
    """Number of the interface in the capture."""

    def __len__(self) -> int:
        return len(self.time_ns)

    def octets(self, offset: Integers | int, length: int) -> Octets:
        """`length` bytes of each frame from an offset on, a row each; what was not kept is 0."""
        start = np.broadcast_to(np.asarray(offset, np.int64), self.begin.shape)
        if bool((start + length <= self.kept_bytes).all()):
            return windows(self.data, self.begin + start, length)
        place = start.reshape(-1, 1) + np.arange(length)
        inside = place < self.kept_bytes.reshape(-1, 1)
        at = np.where(inside, self.begin.reshape(-1, 1) + place, 0)
        found: Octets = np.where(inside, self.data[at], np.uint8(0))
        return found

    def number(self, offset: Integers | int, length: int) -> Integers:
        """A big-endian number of up to 7 bytes in each frame."""
        total = np.zeros(len(self), np.int64)
        for column in self.octets(offset, length).T:
            total = (total << 8) | column
        return total
