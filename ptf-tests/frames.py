# SPDX-License-Identifier: Apache-2.0
"""The frames the tests send, and what a router makes of them. Everything is bytes: exact."""

from __future__ import annotations

from typing import Any

from ebb_scapy import (
    ETHERNET_HEADER_BYTES,
    IPV4_HEADER_BYTES,
    Dscp,
    Ebb,
    Ecn,
    Type,
    internet_checksum,
    tos,
)
from scapy.contrib.mac_control import MACControlClassBasedFlowControl
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet

FULL_FRAME_BYTES = 1500
"""A round number for sums of bytes; the largest frame would have 1514."""
SENDER_IP = "10.0.1.2"
"""Source of frames that name none."""
ANY_MAC = "02:00:00:00:00:ff"
"""Destination of frames to the switch, which does not look at it."""


def host_mac(port: int) -> str:
    return f"02:00:00:00:02:{port:02x}"


def switch_mac(port: int) -> str:
    return f"02:00:00:00:01:{port:02x}"


def host_ip(port: int) -> str:
    return f"10.0.0.{port}"


def frame(
    layer: Packet,
    dst: str,
    *,
    dscp: int = Dscp.DEFAULT,
    ecn: int = Ecn.NOT_ECT,
    length: int | None = None,
    dst_mac: str = ANY_MAC,
    **ip: Any,
) -> bytes:
    """An IPv4 frame around `layer`, its payload padded so that the frame has `length` bytes."""
    fields: dict[str, Any] = {"src": SENDER_IP, "dst": dst, "tos": tos(dscp, ecn), "ttl": 64}
    headers = Ether(src=host_mac(1), dst=dst_mac) / IP(**(fields | {"id": 7} | ip))
    if length is not None:
        missing = length - len(bytes(headers / layer))
        layer = layer / bytes((i * 7 + (i >> 8)) & 0xFF for i in range(missing))
    return bytes(headers / layer)


def tcp(dst: str, *, sport: int = 40000, flags: str = "A", **options: Any) -> bytes:
    """A TCP segment."""
    return frame(TCP(sport=sport, dport=80, flags=flags), dst, **options)


def udp(dst: str, *, sport: int = 40000, **options: Any) -> bytes:
    """A UDP datagram."""
    return frame(UDP(sport=sport, dport=53), dst, **options)


def ebb(
    dst: str,
    *,
    dscp: int = Dscp.TRIMMABLE,
    ecn: int = Ecn.ECT0,
    length: int | None = None,
    dst_mac: str = ANY_MAC,
    ttl: int = 64,
    options: Any = None,
    src: str = SENDER_IP,
    **header: Any,
) -> bytes:
    """A packet of the receiver-driven transports, a full DATA packet by default."""
    fields = {"type": Type.DATA, "session": 0xABCD1234, "symbol": 1} | header
    extra = {"src": src} | ({} if options is None else {"options": options})
    return frame(
        Ebb(**fields), dst, dscp=dscp, ecn=ecn, length=length, dst_mac=dst_mac, ttl=ttl, **extra
    )


def pull(dst: str, **header: Any) -> bytes:
    """A PULL, which is a control packet: a frame of 82 bytes."""
    return ebb(dst, **({"dscp": Dscp.CONTROL, "type": Type.PULL, "pull": 5} | header))


def pfc(quanta: dict[int, int], src_mac: str) -> bytes:
    """A frame of priority flow control that names these classes, each with this many quanta."""
    fields: dict[str, Any] = {}
    for number, each in quanta.items():
        fields |= {f"c{number}_enabled": 1, f"c{number}_pause_time": each}
    ether = Ether(src=src_mac, dst="01:80:c2:00:00:01")
    return bytes(ether / MACControlClassBasedFlowControl(**fields))


def with_ipv4(packet: bytes, **changes: int) -> bytes:
    """The frame with bytes of its IPv4 header replaced, `b{n}` being the one at offset n; the
    checksum is made right."""
    out = bytearray(packet)
    start = ETHERNET_HEADER_BYTES
    for offset, value in changes.items():
        out[start + int(offset[1:])] = value
    return fix_ipv4_checksum(bytes(out))


def fix_ipv4_checksum(packet: bytes) -> bytes:
    """The frame with the right IPv4 header checksum."""
    out = bytearray(packet)
    start = ETHERNET_HEADER_BYTES
    end = start + max((out[start] & 0xF) * 4, IPV4_HEADER_BYTES)
    out[start + 10 : start + 12] = b"\0\0"
    out[start + 10 : start + 12] = internet_checksum(bytes(out[start:end])).to_bytes(2, "big")
    return bytes(out)


def routed(packet: bytes, port: int) -> bytes:
    """The frame after unicast routing out of `port`."""
    macs = _mac(host_mac(port)) + _mac(switch_mac(port))
    return one_hop_less(macs + packet[12:])


def one_hop_less(packet: bytes) -> bytes:
    """The frame with its TTL decremented."""
    return with_ipv4(packet, b8=packet[ETHERNET_HEADER_BYTES + 8] - 1)


def ce_marked(packet: bytes) -> bytes:
    """The frame with CE in its ECN field."""
    return with_ipv4(packet, b1=packet[ETHERNET_HEADER_BYTES + 1] | Ecn.CE)


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))
