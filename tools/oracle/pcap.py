"""Files of Ethernet frames in the byte order of this machine, as BMv2 reads and writes them."""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC = 0xA1B2C3D4
LINK_ETHERNET = 1
HEADER = struct.pack("=IHHiIII", MAGIC, 2, 4, 0, 0, 65535, LINK_ETHERNET)
RECORD = struct.Struct("=IIII")


def record(number: int, frame: bytes) -> bytes:
    """A frame with its number as the time: BMv2 reads several files in this order."""
    return RECORD.pack(number // 1_000_000, number % 1_000_000, len(frame), len(frame)) + frame


def frames(data: bytes, at: int) -> Iterator[tuple[bytes, int]]:
    """The whole frames from this offset on, each with the offset behind it."""
    while at + RECORD.size <= len(data):
        length = RECORD.unpack_from(data, at)[2]
        end = at + RECORD.size + length
        if end > len(data):
            return
        yield data[at + RECORD.size : end], end
        at = end
