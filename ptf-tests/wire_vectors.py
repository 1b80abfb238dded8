# SPDX-License-Identifier: Apache-2.0
"""Test vectors of the wire format, shared by P4, Rust and Python.

`python ptf-tests/wire_vectors.py` writes docs/wire-vectors.json; ptf-tests/unit checks that
the committed file is what this program makes.

Every vector has `frame` (hex, from the Ethernet header on, no FCS) and `fields` (the values an
implementation must read out of it, or must be able to build it from). `ebb_checksum_ok` and
`payload_crc_ok` say what a receiver must find; they are null where there is nothing to check.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ebb_scapy import (
    Dscp,
    Ebb,
    Ecn,
    Flag,
    Type,
    crc32c,
    internet_checksum,
    returned,
    tos,
    trimmed,
)
from frames import pfc
from scapy.contrib.mac_control import MACControlClassBasedFlowControl as Pfc
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

FILE = Path(__file__).resolve().parent.parent / "docs" / "wire-vectors.json"

SENDER = "10.0.0.2"
RECEIVER = "10.3.1.3"
PFC_MAC = "02:00:00:00:00:07"
TRIM_SIZE = 128
SYMBOL_SIZE = 1432
"""Payload of a full packet in bytes, at an MTU of 1500: 1500 - 20 - 48."""


def payload_bytes(length: int) -> bytes:
    """A payload whose pattern has no short period, so that a shifted copy shows."""
    return bytes((i * 7 + (i >> 8) * 13 + 3) & 0xFF for i in range(length))


def _frame(layer: Packet, *, dscp: int, ecn: int = Ecn.ECT0, reply: bool = False) -> bytes:
    source, target = (RECEIVER, SENDER) if reply else (SENDER, RECEIVER)
    ether = Ether(src="02:00:00:00:00:02", dst="02:00:00:00:00:01")
    ip = IP(src=source, dst=target, tos=tos(dscp, ecn), ttl=64, id=0, flags="DF")
    return bytes(ether / ip / layer)


_COMMON: dict[str, Any] = {"sport": 49152, "dport": 7000, "session": 0xC0FFEE42}


def _control(kind: Type, **fields: Any) -> bytes:
    ports = {"sport": _COMMON["dport"], "dport": _COMMON["sport"]}
    header = Ebb(**(_COMMON | ports | {"type": kind} | fields))
    return _frame(header, dscp=Dscp.CONTROL, reply=True)


def _frames() -> list[tuple[str, str, bytes]]:
    ndp: dict[str, Any] = _COMMON | {
        "type": Type.DATA,
        "object_length": 100_000,
        "symbol_size": SYMBOL_SIZE,
    }
    scdp: dict[str, Any] = _COMMON | {
        "type": Type.SYMBOL,
        "object_length": 8_000_000_000,
        "symbol_size": SYMBOL_SIZE,
        "block_symbols": 100,
    }
    trevi: dict[str, Any] = {
        "type": Type.CODED,
        "object_length": 5_000_000,
        "block_symbols": 2048,
        "payload_length": SYMBOL_SIZE,
    }

    def data(body: bytes, **fields: Any) -> bytes:
        return _frame(Ebb(**(ndp | fields)) / body, dscp=Dscp.TRIMMABLE)

    def symbol(body: bytes, **fields: Any) -> bytes:
        return _frame(Ebb(**(scdp | fields)) / body, dscp=Dscp.TRIMMABLE)

    full = payload_bytes(SYMBOL_SIZE)
    repair = symbol(full, flags=Flag.REPAIR, level=2, block=300, symbol=0x010203, entropy=0xBEEF)
    first = data(full, flags=Flag.SYN, symbol=0, entropy=0x1234)
    bad_checksum = bytearray(_control(Type.PULL, pull=7))
    bad_checksum[14 + 20 + 20 + 3] ^= 0x01  # the pull counter, after the checksum was made
    bad_crc = bytearray(data(full, symbol=9))
    bad_crc[-1] ^= 0x80
    tcp = TCP(sport=49152, dport=5001, seq=0x01020304, ack=0x0A0B0C0D, flags="EA", window=1000)
    return [
        ("ndp-data-syn", "NDP, first packet of the initial window", first),
        (
            "ndp-data-fin-retransmit",
            "NDP, last and short packet of the object, sent again",
            data(payload_bytes(1189), flags=Flag.FIN | Flag.RETRANSMIT, symbol=69, level=1),
        ),
        ("ndp-data-trimmed", "ndp-data-syn after a trim to 128 bytes", trimmed(first, TRIM_SIZE)),
        (
            "ndp-data-priority",
            "NDP, packet of a session of priority 5",
            data(full, symbol=3, priority=5),
        ),
        (
            "ndp-data-returned",
            "ndp-data-trimmed, turned round to its sender",
            returned(trimmed(first, TRIM_SIZE)),
        ),
        (
            "ndp-data-trimmed-min",
            "ndp-data-syn after a trim to MIN_TRIM_SIZE on a host-facing port",
            trimmed(first, 82, Dscp.TRIMMED_LASTHOP),
        ),
        (
            "ndp-data-small",
            "NDP object that fits one packet shorter than the trim size: never cut",
            data(payload_bytes(30), flags=Flag.SYN | Flag.FIN, object_length=30),
        ),
        (
            "scdp-symbol-full",
            "SCDP repair symbol; block above 255, 24-bit ESI, object above 4 GB",
            repair,
        ),
        (
            "scdp-symbol-trimmed",
            "scdp-symbol-full after a trim to 128 bytes",
            trimmed(repair, TRIM_SIZE),
        ),
        (
            "scdp-symbol-multicast-syn",
            "SCDP source symbol of a one-to-many session",
            symbol(full, flags=Flag.SYN | Flag.MULTICAST, multicast_group=12, symbol=1),
        ),
        (
            "scdp-symbol-multi-source",
            "SCDP symbol from sender 2 of 3",
            symbol(full, flags=Flag.MULTI_SOURCE, sender=2, senders=3, symbol=14, level=3),
        ),
        (
            "pull",
            "cumulative pull counter close to its limit",
            _control(Type.PULL, pull=0xFFFFFFF0, entropy=5),
        ),
        ("pull-fin", "last pull of a session", _control(Type.PULL, flags=Flag.FIN, pull=112)),
        ("ack", "NDP acknowledgement of packet 69", _control(Type.ACK, symbol=69)),
        (
            "nack",
            "NDP negative acknowledgement of trimmed packet 68",
            _control(Type.NACK, symbol=68),
        ),
        ("reset", "session refused, reason 3", _control(Type.RESET, symbol=3)),
        (
            "trevi-coded-syn",
            "Trevi, LT symbol 5 of block 0, of an object of two blocks",
            _frame(
                Ebb(**(scdp | trevi | {"flags": Flag.SYN, "symbol": 5, "entropy": 77})) / full,
                dscp=Dscp.SCAVENGER,
            ),
        ),
        (
            "trevi-question",
            "Trevi sender asks for a sign of life, without payload",
            _frame(
                Ebb(**(scdp | trevi | {"flags": Flag.TRIMMED | Flag.RETRANSMIT, "block": 1})),
                dscp=Dscp.CONTROL,
            ),
        ),
        ("trevi-request", "symbols of block 1 are wanted", _control(Type.REQUEST, block=1)),
        (
            "trevi-stop",
            "both blocks are there: nothing is to be sent ever again",
            _control(Type.STOP, flags=Flag.FIN, block=2),
        ),
        (
            "trevi-request-labelled",
            "a symbol of block 1 is wanted of sender 2 of 3, and block 0 is delivered",
            _control(
                Type.REQUEST,
                flags=Flag.MULTI_SOURCE,
                level=0,
                sender=2,
                senders=3,
                block=1,
                pull=0x7A3F91C0,
                object_length=2_501_704,
            ),
        ),
        (
            "trevi-coded-labelled",
            "sender 2 of 3, which is pulled, answers that label",
            _frame(
                Ebb(
                    **(scdp | trevi),
                    flags=Flag.MULTI_SOURCE,
                    level=1,
                    sender=2,
                    senders=3,
                    block=1,
                    symbol=0x010203,
                    pull=0x7A3F91C0,
                )
                / full,
                dscp=Dscp.SCAVENGER,
            ),
        ),
        (
            "trevi-coded-multicast",
            "hybrid, the last symbol that is pushed to a group",
            _frame(
                Ebb(
                    **(scdp | trevi),
                    flags=Flag.MULTICAST | Flag.FIN,
                    level=2,
                    block=1,
                    symbol=3848,
                    multicast_group=0x1234,
                )
                / full,
                dscp=Dscp.SCAVENGER,
            ),
        ),
        (
            "trevi-stop-for-now",
            "nothing is to be sent until a REQUEST says otherwise; a sign of life is wanted",
            _control(Type.STOP, flags=Flag.RETRANSMIT, block=2),
        ),
        (
            "pull-bad-checksum",
            "pull counter changed after the checksum was made",
            bytes(bad_checksum),
        ),
        ("data-bad-crc", "last payload byte changed: header right, payload wrong", bytes(bad_crc)),
        (
            "data-bad-version",
            "version 2: dropped by switch and host",
            data(payload_bytes(100), version=2, symbol=1),
        ),
        (
            "tcp-ce-ece",
            "TCP segment, CE set by a switch, ECE echoed, 100 bytes",
            _frame(tcp / payload_bytes(100), dscp=Dscp.DEFAULT, ecn=Ecn.CE),
        ),
        ("pfc-pause", "PFC, class 3 stops for the longest time", pfc({3: 0xFFFF}, PFC_MAC)),
        ("pfc-resume", "PFC, class 3 goes on", pfc({3: 0}, PFC_MAC)),
        (
            "pfc-several",
            "PFC, classes 0 and 6 stop, class 7 goes on",
            pfc({0: 0xFFFF, 6: 2, 7: 0}, PFC_MAC),
        ),
    ]


def _ebb_fields(header: Ebb) -> dict[str, int]:
    return {field.name: int(header.getfieldval(field.name)) for field in header.fields_desc}


def _quanta(frame: Pfc, number: int) -> int | None:
    """Pause time of a class in a PFC frame; None if it does not name it."""
    named = frame.getfieldval(f"c{number}_enabled")
    return int(frame.getfieldval(f"c{number}_pause_time")) if named else None


def _vector(name: str, description: str, frame: bytes) -> dict[str, Any]:
    packet = Ether(frame)
    fields: dict[str, Any] = {
        "ethernet": {"dst": packet.dst, "src": packet.src, "type": packet.type},
    }
    checksum_ok: bool | None = None
    crc_ok: bool | None = None
    body = b""
    if IP in packet:
        ip = packet[IP]
        fields["ipv4"] = {
            "dscp": ip.tos >> 2,
            "ecn": ip.tos & 0b11,
            "total_length": ip.len,
            "id": ip.id,
            "ttl": ip.ttl,
            "protocol": ip.proto,
            "checksum": ip.chksum,
            "src": ip.src,
            "dst": ip.dst,
        }
    if Pfc in packet:
        fields["pfc"] = {"quanta": [_quanta(packet[Pfc], c) for c in range(8)]}
    elif Ebb in packet:
        header = packet[Ebb]
        body = bytes(header.payload)
        fields["ebb"] = _ebb_fields(header)
        checksum_ok = internet_checksum(frame[34:82]) == 0
        if not int(header.flags) & Flag.TRIMMED:
            crc_ok = header.payload_crc == crc32c(body)
    else:
        tcp = packet[TCP]
        body = bytes(tcp.payload)
        fields["tcp"] = {
            "sport": tcp.sport,
            "dport": tcp.dport,
            "seq": tcp.seq,
            "ack": tcp.ack,
            "flags": int(tcp.flags),
            "window": tcp.window,
            "checksum": tcp.chksum,
        }
    fields["payload_bytes"] = len(body)
    return {
        "name": name,
        "description": description,
        "frame": frame.hex(),
        "fields": fields,
        "ebb_checksum_ok": checksum_ok,
        "payload_crc_ok": crc_ok,
    }


def vectors() -> list[dict[str, Any]]:
    """All vectors, in the order of the file."""
    return [_vector(*frame) for frame in _frames()]


def render() -> str:
    """The text of docs/wire-vectors.json."""
    return json.dumps(vectors(), indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(render())
