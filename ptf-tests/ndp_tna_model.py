# SPDX-License-Identifier: Apache-2.0
"""A port of NDP's program for TNA, computed by hand: frames, meters, modes, queues.

Written from the program's README and headers, with none of our switch. Times are integers of
picoseconds, and tokens whole bytes, so that a packet that differs is an error and no rounding.
"""

from __future__ import annotations

import ipaddress
import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

PS_PER_S = 10**12
PS_PER_NS = 1000
UDP = 17
NDP_UDP_PORT = 666
ETHERNET_BYTES, IPV4_BYTES, UDP_BYTES, SHIM_BYTES = 14, 20, 8, 8
FLAGS_AT = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES
TRIMMED = 1 << 7
"""Flag of a packet that was trimmed."""
CONTROL = 1 << 1
"""One of the flags, bits 1 to 3, that make a packet one of control."""
FCS_BYTES = 4
WIRE_BYTES = 24
"""Preamble, FCS and gap of a frame."""
SESSION_BYTES = 67
"""The most bytes of a copy with what the program puts in front of it: 16 bytes in ingress, 3 in
egress."""
COPY_HEADER_BYTES, BRIDGED_BYTES, NOTICE_BYTES = 16, 3, 3
TRIMMED_BYTES = SESSION_BYTES - COPY_HEADER_BYTES
"""Length of a packet that a meter has trimmed."""
DEFLECTED_BYTES = SESSION_BYTES - NOTICE_BYTES
"""Length of one that was deflected."""
TRIMMED_IP_BYTES, TRIMMED_UDP_BYTES = 46, 26
"""Lengths that the headers of both name."""
T0_NS, T1_NS = 6_000, 24_000
"""How long a port is pessimistic, and until when halftimistic, since it was told to be."""


class Kind(Enum):
    """Traffic as the program tells it apart; the value is its queue when it is not trimmed."""

    DATA = 0
    CONTROL = 1
    OTHER = 2


class Fate(Enum):
    """How a packet leaves."""

    WHOLE = "whole"
    TRIMMED = "trimmed"
    DEFLECTED = "deflected"


class Mode(Enum):
    """Mode of a port; the value divides its rate, to that up to which packets pass whole."""

    OPTIMISTIC = 1
    HALFTIMISTIC = 2
    PESSIMISTIC = 4


@dataclass(frozen=True, slots=True)
class Host:
    """A host at a port of the switch."""

    port: int
    mac: str
    address: str
    port_mac: str


def ndp_frame(source: Host, to: Host, number: int, length: int, flags: int = 0) -> bytes:
    """A packet of NDP with this number, by which it is told from the others of its source."""
    shim = struct.pack("!BBHHH", flags, 0, number, 0, source.port)
    return _udp_frame(source, to, NDP_UDP_PORT, shim, length)


def other_frame(source: Host, to: Host, number: int, length: int) -> bytes:
    """A packet of UDP that is none of NDP."""
    return _udp_frame(source, to, 9, struct.pack("!IH", 0, number), length)


def _udp_frame(source: Host, to: Host, port: int, payload: bytes, length: int) -> bytes:
    ip_bytes = length - ETHERNET_BYTES
    head = struct.pack("!BBHHHBBH", 0x45, 0, ip_bytes, 0, 0, 64, UDP, 0)
    addresses = b"".join(ipaddress.IPv4Address(of.address).packed for of in (source, to))
    udp = struct.pack("!HHHH", 50_000 + source.port, port, ip_bytes - IPV4_BYTES, 0)
    ethernet = _mac(source.port_mac) + _mac(source.mac) + b"\x08\x00"
    return (ethernet + with_checksum(head + addresses) + udp + payload).ljust(length, b"\xa5")


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def with_checksum(header: bytes) -> bytes:
    """A header of IPv4 with its checksum (RFC 1071)."""
    header = header[:10] + b"\0\0" + header[12:]
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:]


def received(frame: bytes, to: Host, fate: Fate) -> bytes:
    """The frame as it reaches its host."""
    hops = {Fate.WHOLE: 1, Fate.TRIMMED: 0, Fate.DEFLECTED: 2}[fate]
    ip_end = ETHERNET_BYTES + IPV4_BYTES
    ip = bytearray(frame[ETHERNET_BYTES:ip_end])
    # A copy is one of the packet as it came in; a deflected packet is forwarded twice.
    ip[8] -= hops
    rest = bytearray(frame[ip_end:])
    if fate is not Fate.WHOLE:
        length = TRIMMED_BYTES if fate is Fate.TRIMMED else DEFLECTED_BYTES
        del rest[length - ip_end :]
        ip[2:4] = struct.pack("!H", TRIMMED_IP_BYTES)
        rest[4:6] = struct.pack("!H", TRIMMED_UDP_BYTES)
        flags = rest[UDP_BYTES]
        # The flags of a deflected packet are lost.
        rest[UDP_BYTES] = flags | TRIMMED if fate is Fate.TRIMMED else TRIMMED | 1 << 4
    return _mac(to.mac) + _mac(to.port_mac) + b"\x08\x00" + with_checksum(bytes(ip)) + bytes(rest)


@dataclass(slots=True)
class Meter:
    """A bucket of RFC 2698, which gets a token at a time; committed and peak rate are the same, so
    nothing is yellow.

    A packet for which there are not enough tokens takes none.
    """

    rate_bps: int
    burst_bytes: int
    _tokens: int = field(init=False)
    """One of them is a byte."""
    _at_ps: int = 0

    def __post_init__(self) -> None:
        self._tokens = self.burst_bytes

    def tokens(self, now_ps: int) -> int:
        """Bytes that it would let through: one more at each multiple of the time of a byte."""
        granted = (self.rate_bps * at_ps // (8 * PS_PER_S) for at_ps in (self._at_ps, now_ps))
        return min(self.burst_bytes, self._tokens - next(granted) + next(granted))

    def is_green(self, now_ps: int, length: int) -> bool:
        """Whether a packet finds enough tokens, which it takes."""
        self._tokens, self._at_ps = self.tokens(now_ps), now_ps
        if self._tokens < length:
            return False
        self._tokens -= length
        return True


@dataclass(frozen=True, slots=True)
class PortConfig:
    """A port of the switch: its meter, its shaper, the queue of its data."""

    rate_bps: int
    """Rate of the meter and of the link."""
    burst_bytes: int
    queue_bytes: int
    adjust_bytes: int
    """Bytes that meters add to the length of a frame with its FCS."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """The last bit of a packet at the switch."""

    at_ps: int
    kind: Kind
    length: int
    """Bytes of the frame without FCS."""


@dataclass(slots=True)
class Result:
    """End of a packet."""

    arrival: Arrival
    mode: Mode
    fate: Fate
    queue: int
    left_ps: int = -1
    """When its last bit left the port."""


@dataclass(slots=True)
class _Waiting:
    result: Result
    queued_bytes: int
    sent_bytes: int


class Port:
    """The port: three meters, the clocks of the modes, three queues.

    Queue 1 goes first; the other two take turns, packet by packet.
    """

    def __init__(self, config: PortConfig) -> None:
        self._config = config
        self._meters = {mode: Meter(config.rate_bps // mode.value, config.burst_bytes)
                        for mode in Mode}  # fmt: skip
        self._told_ns: int | None = None
        """When it last was told that a packet was deflected."""
        self._queues: list[deque[_Waiting]] = [deque(), deque(), deque()]
        self._data_bytes = 0
        self._free_ps = 0
        self._last = 2
        """Which of queues 0 and 2 sent last."""

    def mode(self, now_ps: int) -> Mode:
        """The mode in which a packet finds the port."""
        if self._told_ns is None:
            return Mode.OPTIMISTIC
        since_ns = now_ps // PS_PER_NS - self._told_ns
        if since_ns <= T0_NS:
            return Mode.PESSIMISTIC
        return Mode.HALFTIMISTIC if since_ns <= T1_NS else Mode.OPTIMISTIC

    def run(self, arrivals: Iterable[Arrival]) -> list[Result]:
        """Passes packets, which come in order."""
        results = [self._arrive(arrival) for arrival in arrivals]
        self._send_until(None)
        return results

    def _arrive(self, arrival: Arrival) -> Result:
        self._send_until(arrival.at_ps)
        cost = arrival.length + FCS_BYTES + self._config.adjust_bytes
        mode = self.mode(arrival.at_ps)
        # Every packet passes all three meters, whatever its kind; one of them decides about data.
        green = {of: meter.is_green(arrival.at_ps, cost) for of, meter in self._meters.items()}
        result = Result(arrival, mode, Fate.WHOLE, arrival.kind.value)
        queued = sent = arrival.length
        if arrival.kind is Kind.DATA:
            queued += BRIDGED_BYTES
            if not green[mode]:
                result.fate, result.queue = Fate.TRIMMED, 1
                queued, sent = SESSION_BYTES, TRIMMED_BYTES
            elif self._data_bytes + queued > self._config.queue_bytes:
                self._told_ns = arrival.at_ps // PS_PER_NS
                result.fate, result.queue = Fate.DEFLECTED, 1
                queued, sent = SESSION_BYTES, DEFLECTED_BYTES
            else:
                self._data_bytes += queued
        self._queues[result.queue].append(_Waiting(result, queued, sent))
        return result

    def _send_until(self, now_ps: int | None) -> None:
        """Sends what starts before a time, or all."""
        while heads := [queue[0].result.arrival.at_ps for queue in self._queues if queue]:
            start_ps = max(self._free_ps, min(heads))
            if now_ps is not None and start_ps >= now_ps:
                return
            sent = self._queues[self._next()].popleft()
            if sent.result.queue == 0:
                self._data_bytes -= sent.queued_bytes
            bits = (sent.sent_bytes + WIRE_BYTES) * 8
            self._free_ps = start_ps - (-bits * PS_PER_S // self._config.rate_bps)
            sent.result.left_ps = self._free_ps

    def _next(self) -> int:
        if self._queues[1]:
            return 1
        turn = 2 - self._last
        if not self._queues[turn]:
            turn = self._last
        self._last = turn
        return turn
