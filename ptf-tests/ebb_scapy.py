# SPDX-License-Identifier: Apache-2.0
"""The receiver-driven header (protocol 253) as a scapy layer.

Layout and meaning: docs/wire-format.md. `Ebb(...)` fills in the header checksum, the payload CRC32C
and the payload length unless they are given, as scapy does for IP and TCP.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Any, ClassVar

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteField,
    FlagsField,
    IntField,
    LongField,
    ShortField,
    ThreeBytesField,
    XIntField,
    XShortField,
)
from scapy.layers.inet import IP
from scapy.packet import Packet, bind_layers

EBB_PROTOCOL = 253
EBB_VERSION = 1
EBB_HEADER_BYTES = 48
ETHERNET_HEADER_BYTES = 14
IPV4_HEADER_BYTES = 20
MIN_TRIM_SIZE = ETHERNET_HEADER_BYTES + IPV4_HEADER_BYTES + EBB_HEADER_BYTES

_CHECKSUM_OFFSET = 26
_CRC_OFFSET = 28
_PAYLOAD_LENGTH_OFFSET = 44


class Type(IntEnum):
    """Packet types of the header (docs/wire-format.md)."""

    DATA = 0
    SYMBOL = 1
    PULL = 2
    ACK = 3
    NACK = 4
    RESET = 5
    REQUEST = 6
    CODED = 7
    STOP = 8


class Flag(IntFlag):
    """Flags of the header (docs/wire-format.md)."""

    SYN = 0x01
    FIN = 0x02
    TRIMMED = 0x04
    REPAIR = 0x08
    MULTICAST = 0x10
    MULTI_SOURCE = 0x20
    RETRANSMIT = 0x40
    RETURNED = 0x80


class Dscp(IntEnum):
    """DSCPs of the traffic classes, as agents send them by default."""

    DEFAULT = 0
    SCAVENGER = 8
    TRIMMABLE = 10
    TRIMMED = 12
    TRIMMED_LASTHOP = 14
    CONTROL = 46


class Ecn(IntEnum):
    """The two ECN bits of IPv4 (RFC 3168)."""

    NOT_ECT = 0
    ECT1 = 1
    ECT0 = 2
    CE = 3


def tos(dscp: int, ecn: int = Ecn.NOT_ECT) -> int:
    """The IPv4 byte that holds DSCP and ECN."""
    return dscp << 2 | ecn


def internet_checksum(data: bytes) -> int:
    """RFC 1071 checksum."""
    padded = data + b"\0" * (len(data) % 2)
    total = sum(int.from_bytes(padded[i : i + 2], "big") for i in range(0, len(padded), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _crc32c_entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRC32C = [_crc32c_entry(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    """Castagnoli CRC (RFC 3720, appendix B.4)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC32C[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class Ebb(Packet):
    """NDP and SCDP header, 48 bytes."""

    name = "Ebb"
    fields_desc: ClassVar[list[Any]] = [
        BitField("version", EBB_VERSION, 4),
        BitEnumField("type", Type.DATA, 4, {t.value: t.name for t in Type}),
        FlagsField("flags", 0, 8, [str(f.name) for f in Flag]),
        ByteField("level", 0),
        BitField("sender", 0, 4),
        BitField("senders", 1, 4),
        ShortField("sport", 7000),
        ShortField("dport", 7000),
        XIntField("session", 0),
        IntField("block", 0),
        ThreeBytesField("symbol", 0),
        ByteField("priority", 0),
        IntField("pull", 0),
        XShortField("entropy", 0),
        XShortField("checksum", None),
        XIntField("payload_crc", None),
        LongField("object_length", 0),
        ShortField("symbol_size", 0),
        ShortField("block_symbols", 0),
        ShortField("payload_length", None),
        ShortField("multicast_group", 0),
    ]

    def post_build(self, pkt: bytes, pay: bytes) -> bytes:
        """Fills in what depends on other bytes; the header checksum last, since it covers the
        rest."""
        header = bytearray(pkt)
        if self.payload_crc is None:
            header[_CRC_OFFSET : _CRC_OFFSET + 4] = crc32c(pay).to_bytes(4, "big")
        if self.payload_length is None:
            header[_PAYLOAD_LENGTH_OFFSET : _PAYLOAD_LENGTH_OFFSET + 2] = len(pay).to_bytes(
                2, "big"
            )
        if self.checksum is None:
            header[_CHECKSUM_OFFSET : _CHECKSUM_OFFSET + 2] = b"\0\0"
            header[_CHECKSUM_OFFSET : _CHECKSUM_OFFSET + 2] = internet_checksum(
                bytes(header)
            ).to_bytes(2, "big")
        return bytes(header) + pay

    def answers(self, other: Any) -> bool:
        """Matches nothing: the protocol has no requests and answers in scapy's sense."""
        return False


bind_layers(IP, Ebb, proto=EBB_PROTOCOL)


def returned(frame: bytes) -> bytes:
    """The trimmed header `frame` as a switch turns it round to its sender
    (docs/wire-format.md, "Return to sender"). The MAC addresses and the TTL are the route's.

    Written on bytes, for the reason that `trimmed` gives.
    """
    out = bytearray(frame)
    ip = ETHERNET_HEADER_BYTES
    out[ip + 12 : ip + 20] = frame[ip + 16 : ip + 20] + frame[ip + 12 : ip + 16]
    ebb = ip + (out[ip] & 0x0F) * 4
    out[ebb + 1] |= Flag.TRIMMED | Flag.RETURNED
    _fix_header_checksum(out, ebb)
    return bytes(out)


def trimmed(frame: bytes, size: int, dscp: int = Dscp.TRIMMED) -> bytes:
    """The frame that a switch makes of `frame` when it trims it (docs/wire-format.md, "Trimming").

    Written on bytes, apart from the scapy layer, so that a mistake there does not hide one here.
    A frame not longer than `size` comes back as it is.
    """
    if len(frame) <= size:
        return frame
    out = bytearray(frame[:size])
    ip = ETHERNET_HEADER_BYTES
    ip_header_bytes = (out[ip] & 0x0F) * 4
    out[ip + 1] = dscp << 2 | out[ip + 1] & 0b11
    out[ip + 2 : ip + 4] = (size - ip).to_bytes(2, "big")
    out[ip + 10 : ip + 12] = b"\0\0"
    out[ip + 10 : ip + 12] = internet_checksum(bytes(out[ip : ip + ip_header_bytes])).to_bytes(
        2, "big"
    )
    if out[ip + 9] == EBB_PROTOCOL:
        ebb = ip + ip_header_bytes
        out[ebb + 1] |= Flag.TRIMMED
        _fix_header_checksum(out, ebb)
    return bytes(out)


def _fix_header_checksum(frame: bytearray, ebb: int) -> None:
    """Makes the checksum of the Ebb header at offset `ebb` anew."""
    checksum = ebb + _CHECKSUM_OFFSET
    frame[checksum : checksum + 2] = b"\0\0"
    header = bytes(frame[ebb : ebb + EBB_HEADER_BYTES])
    frame[checksum : checksum + 2] = internet_checksum(header).to_bytes(2, "big")
