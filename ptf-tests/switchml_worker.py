# SPDX-License-Identifier: Apache-2.0
"""A worker of SwitchML's allreduce over UDP: packets, slots, timers; no socket and no clock.

The protocol is that of SwitchML's client (DPDK backend). A worker cuts its numbers into packets
and has a window of them in flight, each in a slot of the switch. The switch adds up the packets of
all workers for a slot and sends each worker the sum, upon which the worker sends the packet that is
a window further on, to the other of the two versions of that slot. So a version is overwritten only
when all workers have its sum: until then a packet that is sent again, because the sum was lost,
gets it from there.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]

SIZES = {64: 1, 256: 3}
"""Code of the size in the header, by count of numbers in a packet; the program has no others."""
BASE_PORT = 0xBEE0
"""The first UDP port of the switch for these packets; there are 16."""
SECOND_VERSION = 0x8000
"""Bit of the slot that names its second version."""
PLACES_OF_SLOT = 13
"""Bits of a slot number: the registers have 16,384 cells, two versions of 8,192 slots."""
MSG_TYPE = 1
"""Type of these packets in the header."""

ETHERNET = struct.Struct("!6s6sH")
IPV4 = struct.Struct("!BBHHHBBH4s4s")
UDP = struct.Struct("!HHHH")
# Size, job, packet (which only the worker reads, in its own order of bytes), slot, two exponents.
HEADER = struct.Struct("!BB4sHbb")
PAYLOAD = ETHERNET.size + IPV4.size + UDP.size + HEADER.size
"""Offset of the numbers in a frame."""
NUMBER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Address:
    """An end of a connection."""

    mac: bytes
    ip: bytes
    port: int


@dataclass(frozen=True, slots=True)
class Settings:
    """Properties of an allreduce, the same for all workers."""

    numbers: int = 64
    """Numbers in a packet: 64 or 256."""
    window: int = 64
    """Packets of a worker in flight, which is the number of slots."""
    timeout_ns: int = 200_000
    """A packet without an answer is sent again after this time, and again."""
    first_slot: int = 0

    def __post_init__(self) -> None:
        """Raises `ValueError` for settings that the program does not support."""
        if self.numbers not in SIZES:
            raise ValueError(f"{self.numbers} numbers in a packet; allowed: 64 and 256")
        if self.window < 1 or self.first_slot + self.window > 1 << PLACES_OF_SLOT:
            raise ValueError(f"slots {self.first_slot} to {self.first_slot + self.window - 1}; "
                             f"allowed: 0 to {(1 << PLACES_OF_SLOT) - 1}")  # fmt: skip


@dataclass(slots=True)
class Counts:
    """Packets of a worker."""

    sent: int = 0
    """Packets sent, retransmissions included."""
    again: int = 0
    """Retransmissions after a timeout."""
    sums: int = 0
    """Sums received, each once."""
    others: int = 0
    """Packets ignored: duplicate sums, and those of another job."""


@dataclass(slots=True)
class Worker:
    """The part of one worker in one allreduce."""

    here: Address
    switch: Address
    mine: Numbers
    job: int = 0
    settings: Settings = field(default_factory=Settings)
    shift: int = 0
    """Place of packet 0 in the cycle of slots and versions: `next_shift` of the job before."""
    counts: Counts = field(default_factory=Counts)
    result: Numbers = field(init=False)
    packets: int = field(init=False)
    """Packets that its numbers fill."""
    _has: list[bool] = field(init=False)
    """Whether the sum of each packet is there."""
    _due_ns: dict[int, int] = field(init=False, default_factory=dict)
    """Times of retransmission of the packets in flight, the earliest first."""

    def __post_init__(self) -> None:
        """Makes room for the sums."""
        numbers = self.settings.numbers
        self.packets = -(-len(self.mine) // numbers)
        whole = np.zeros(self.packets * numbers, dtype=np.int32)
        whole[: len(self.mine)] = self.mine
        self.mine = whole
        self.result = np.zeros_like(whole)
        self._has = [False] * self.packets

    @property
    def is_done(self) -> bool:
        """Whether it has all sums."""
        return self.counts.sums == self.packets

    @property
    def next_shift(self) -> int:
        """The `shift` of the job that follows."""
        return (self.shift + self.packets) % (2 * self.settings.window)

    @property
    def due_ns(self) -> int | None:
        """Time at which to call `tick`; none: no packet is in flight."""
        return next(iter(self._due_ns.values()), None)

    def start(self, now_ns: int) -> list[bytes]:
        """The first packets."""
        return [self._send(now_ns, n) for n in range(min(self.settings.window, self.packets))]

    def receive(self, now_ns: int, frame: bytes) -> list[bytes]:
        """Takes the sum of a frame; returns the packet that may be sent for it, if any."""
        if len(frame) < PAYLOAD + self.settings.numbers * NUMBER_BYTES:
            return []
        at = PAYLOAD - HEADER.size
        _, job, packet_bytes, _, _, _ = HEADER.unpack_from(frame, at)
        packet = int.from_bytes(packet_bytes, "little")
        if job != self.job & 0xFF or packet >= self.packets or self._has[packet]:
            self.counts.others += 1
            return []
        numbers = self.settings.numbers
        sums = np.frombuffer(frame, dtype=">i4", count=numbers, offset=PAYLOAD)
        self.result[packet * numbers : (packet + 1) * numbers] = sums
        self._has[packet] = True
        self.counts.sums += 1
        self._due_ns.pop(packet, None)
        following = packet + self.settings.window
        return [self._send(now_ns, following)] if following < self.packets else []

    def tick(self, now_ns: int) -> list[bytes]:
        """Retransmissions of the packets whose timeout is over."""
        late = [packet for packet, due in self._due_ns.items() if due <= now_ns]
        self.counts.again += len(late)
        return [self._send(now_ns, packet) for packet in late]

    def slot(self, packet: int) -> int:
        """The slot of a packet, with its version."""
        window = self.settings.window
        place = (packet + self.shift) % (2 * window)
        version = SECOND_VERSION if place >= window else 0
        return self.settings.first_slot + place % window | version

    def _send(self, now_ns: int, packet: int) -> bytes:
        self._due_ns.pop(packet, None)
        self._due_ns[packet] = now_ns + self.settings.timeout_ns
        self.counts.sent += 1
        numbers = self.settings.numbers
        header = HEADER.pack(MSG_TYPE << 4 | SIZES[numbers], self.job & 0xFF,
                             packet.to_bytes(4, "little"), self.slot(packet), 0, 0)  # fmt: skip
        values = self.mine[packet * numbers : (packet + 1) * numbers].astype(">i4").tobytes()
        return frame_of(self.here, self.switch, header + values)


def frame_of(source: Address, target: Address, payload: bytes) -> bytes:
    """A UDP packet with a payload, as an Ethernet frame without FCS."""
    udp = UDP.pack(source.port, target.port, UDP.size + len(payload), 0)
    fields = (0x45, 0, IPV4.size + len(udp) + len(payload), 0, 0, 128, 17)
    checksum = checksum_of(IPV4.pack(*fields, 0, source.ip, target.ip))
    ip = IPV4.pack(*fields, checksum, source.ip, target.ip)
    return ETHERNET.pack(target.mac, source.mac, 0x0800) + ip + udp + payload


def checksum_of(header: bytes) -> int:
    """The checksum of an IPv4 header whose checksum is 0."""
    total: int = sum(struct.unpack(f"!{len(header) // 2}H", header))
    total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - ((total & 0xFFFF) + (total >> 16))
