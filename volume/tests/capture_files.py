"""Captures for tests, byte by byte."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

BEGIN_S = 1_700_000_000
Frame = tuple[int, bytes] | tuple[int, bytes, int]
"""Time in ns after `BEGIN_S`, what was kept, and how long it was (as long, if that is missing)."""


def pcap(
    frames: Iterable[Frame], order: str = "<", nano: bool = False, link_type: int = 1
) -> bytes:
    magic = 0xA1B23C4D if nano else 0xA1B2C3D4
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 262_144, link_type)]
    for frame in frames:
        seconds, rest = divmod(frame[0], 10**9)
        fraction = rest if nano else rest // 1000
        parts.append(record(BEGIN_S + seconds, fraction, frame[1], _length(frame), order))
    return b"".join(parts)


def record(seconds: int, fraction: int, kept: bytes, length: int, order: str = "<") -> bytes:
    return struct.pack(f"{order}IIII", seconds, fraction, len(kept), length) + kept


def _length(frame: Frame) -> int:
    return frame[2] if len(frame) == 3 else len(frame[1])


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", len(body) + 12)
    return struct.pack(f"{order}I", kind) + length + body + length


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type: int = 1, options: bytes = b"", order: str = "<") -> bytes:
    return block(1, struct.pack(f"{order}HHI", link_type, 0, 0) + options, order)


def resolution(value: int, order: str = "<") -> bytes:
    """if_tsresol."""
    return struct.pack(f"{order}HHB3x", 9, 1, value)


def enhanced(number: int, ticks: int, frame: bytes, length: int = 0, order: str = "<") -> bytes:
    head = struct.pack(
        f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), length or len(frame)
    )
    return block(6, head + frame, order)


def ipv4(
    source: Sequence[int] = (10, 0, 0, 1), destination: Sequence[int] = (10, 0, 1, 2),
    protocol: int = 6, dscp: int = 0, length: int = 100,
) -> bytes:  # fmt: skip
    head = bytes([0x45, dscp << 2]) + length.to_bytes(2, "big") + bytes(5) + bytes([protocol])
    return (head + bytes(2) + bytes(source) + bytes(destination)).ljust(length, b"\0")


def ipv6(source: bytes, destination: bytes, next_header: int = 17, payload: int = 8) -> bytes:
    head = b"\x60\0\0\0" + payload.to_bytes(2, "big") + bytes([next_header, 64])
    return head + source + destination + bytes(payload)


def ethernet(packet: bytes, kind: int = 0x0800, tags: Sequence[int] = ()) -> bytes:
    """With VLAN tags of these types, the outermost first."""
    tagged = b"".join(tag.to_bytes(2, "big") + b"\0\x05" for tag in tags)
    return bytes(12) + tagged + kind.to_bytes(2, "big") + packet
