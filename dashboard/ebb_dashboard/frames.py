"""The first frames of a capture, in a line each. What is in it came from a network, and is trusted
with nothing."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

MAX_FRAMES = 100
"""Frames of a file that are shown."""
MAX_READ_BYTES = 1 << 20
NANOSECONDS = 0xA1B23C4D
"""First word of a pcap file with times in nanoseconds (draft-ietf-opsawg-pcap); ours are so."""
FILE_HEADER_BYTES = 24
FRAME_HEADER_BYTES = 16
ETHERNET_BYTES = 14
IPV4_TYPE = 0x0800
IPV4_BYTES = 20
PROTOCOLS = {1: "ICMP", 6: "TCP", 17: "UDP", 253: "NDP, SCDP or Trevi"}
"""Names of IPv4's protocols; 253 is that of docs/wire-format.md."""
ECN = ("-", "ECT(1)", "ECT(0)", "CE")
"""The ECN field in words (RFC 3168, section 5)."""


def first(path: Path, direction: str) -> list[dict[str, Any]]:
    """The first frames of a file: `at_ns`, `direction`, `bytes`, `text`. None of one that is not
    there, or no capture."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_READ_BYTES)
    except OSError:
        return []
    return [
        {"at_ns": at_ns, "direction": direction, "bytes": length, "text": described(frame)}
        for at_ns, length, frame in _records(data)
    ]


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Time, length on the wire and captured bytes of each whole record."""
    order = next((each for each in "<>" if data[:4] == struct.pack(f"{each}I", NANOSECONDS)), None)
    if order is None:
        return
    place = FILE_HEADER_BYTES
    for _ in range(MAX_FRAMES):
        if place + FRAME_HEADER_BYTES > len(data):
            return
        seconds, ns, captured, length = struct.unpack_from(f"{order}IIII", data, place)
        place += FRAME_HEADER_BYTES
        if place + captured > len(data):
            return
        yield seconds * 10**9 + ns, length, data[place : place + captured]
        place += captured


def described(frame: bytes) -> str:
    """A frame as a person would name it."""
    if len(frame) < ETHERNET_BYTES:
        return "no whole Ethernet header"
    (kind,) = struct.unpack_from(">H", frame, 12)
    packet = frame[ETHERNET_BYTES:]
    if kind != IPV4_TYPE or len(packet) < IPV4_BYTES or packet[0] >> 4 != 4:
        return f"Ethernet type 0x{kind:04x}"
    source, destination = (IPv4Address(packet[at : at + 4]) for at in (12, 16))
    protocol = PROTOCOLS.get(packet[9], f"protocol {packet[9]}")
    return (
        f"{source} > {destination} {protocol}, dscp {packet[1] >> 2}, ecn {ECN[packet[1] & 3]}, "
        f"ttl {packet[8]}"
    )
