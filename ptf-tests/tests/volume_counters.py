# SPDX-License-Identifier: Apache-2.0
"""Volume counters: which bytes a slot has, and that the next one begins with none. Times to the
microsecond are a test of the engine (docs/volume-counters.md)."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from control_plane import TnaControlPlane
from ebb_controller.mechanisms.volume_counters import (
    VOLUME,
    VOLUME_BYTES,
    VOLUME_PACKETS,
    VOLUME_SLOT,
    cell,
    reciprocal,
)
from ebb_controller.tna import TICK_BITS, slot_masks
from ebb_scapy import Dscp
from fabric_test import CONTROL_QUEUE, FabricTest
from frames import host_ip, routed, udp
from targets import Feature

HOUR_US = 3_600_000_000
WAIT_SECONDS = 10.0
"""How long a short slot may take to end."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Values of a bank for a queue."""

    slot: int
    bytes: int
    packets: int


class VolumeTest(FabricTest):
    """Slots of a length that the test sets."""

    needs = frozenset({Feature.REGISTERS})
    program = "fabric_full"

    tick_bits = 0
    """On Tofino the slots are multiples of 2^tick_bits ticks of its clock."""

    def slots(self, slot_us: int) -> None:
        """Counts in slots of this many microseconds; on Tofino of the power of two nearest."""
        if isinstance(self.control, TnaControlPlane):
            bits = round(math.log2(1_000 * slot_us))
            self.tick_bits = bits - TICK_BITS
            self.control.modify_as_is(slot_masks(bits))
            return
        inverse, shift = reciprocal(slot_us)
        self.control.modify(VOLUME.default(inverse=inverse, shift=shift))

    def cell(self, slot: int, port: int, queue: int) -> Cell:
        """Values of the bank of a slot."""
        index = cell(slot, port, queue)
        if self.tna:
            slot, count = self.control.register(VOLUME_BYTES, index)
            same, packets = self.control.register(VOLUME_PACKETS, index)
            self.assertEqual(slot, same)
            return Cell(slot >> self.tick_bits, count, packets)
        registers = (VOLUME_SLOT, VOLUME_BYTES, VOLUME_PACKETS)
        return Cell(*(self.register(register, index) for register in registers))

    def both(self, port: int, queue: int) -> tuple[int, int]:
        """Bytes and packets in both banks."""
        cells = [self.cell(bank, port, queue) for bank in range(2)]
        return sum(each.bytes for each in cells), sum(each.packets for each in cells)

    def pass_through(self, port: int, *frames: bytes) -> None:
        """Sends frames to a port, one after the other."""
        for frame in frames:
            self.send(1, frame)
            self.expect(port, routed(frame, port))


class BytesAndPackets(VolumeTest):
    """Whole frames without FCS, by port and queue; a slot of an hour may end, another does not."""

    def runTest(self) -> None:
        self.classes()
        self.slots(HOUR_US)
        lengths = (60, 61, 577, 1_514)
        self.pass_through(2, *(udp(host_ip(2), length=length) for length in lengths))
        self.pass_through(2, udp(host_ip(2), dscp=Dscp.CONTROL, length=99))
        self.pass_through(3, udp(host_ip(3), length=1_000))
        self.assertEqual(self.both(2, 0), (sum(lengths), len(lengths)))
        self.assertEqual(self.both(2, CONTROL_QUEUE), (99, 1))
        self.assertEqual(self.both(3, 0), (1_000, 1))
        self.assertEqual(self.both(4, 0), (0, 0))


class SlotsTakeTurns(VolumeTest):
    """The next slot is in the other bank, and the one after it takes the place of the first."""

    def runTest(self) -> None:
        self.slots(500_000)
        self.pass_through(2, udp(host_ip(2), length=1_514))
        first = max((self.cell(bank, 2, 0) for bank in range(2)), key=lambda each: each.slot)
        self.assertEqual((first.bytes, first.packets), (1_514, 1))
        taken = self._wait_for_another(first)
        self.assertGreater(taken.slot, first.slot + 1)
        self.assertEqual(taken.slot % 2, first.slot % 2)
        self.assertEqual(taken.bytes, 60 * taken.packets)

    def _wait_for_another(self, before: Cell) -> Cell:
        """Sends small frames until the bank is about another slot."""
        deadline = time.monotonic() + WAIT_SECONDS
        now = before
        while now.slot == before.slot and time.monotonic() < deadline:
            self.pass_through(2, udp(host_ip(2), length=60))
            now = self.cell(before.slot, 2, 0)
        return now


class WhatIsDropped(VolumeTest):
    """A frame without a route does not leave, so it is in no slot."""

    def runTest(self) -> None:
        self.slots(HOUR_US)
        self.send(1, udp("10.99.0.1", length=500))
        self.expect_drops("no-route", 1)
        self.pass_through(2, udp(host_ip(2), length=60))
        for port in range(6):
            self.assertEqual(self.both(port, 0), (60, 1) if port == 2 else (0, 0))


class OffByDefault(VolumeTest):
    """Without a length of slots nothing is counted."""

    def runTest(self) -> None:
        self.pass_through(2, udp(host_ip(2), length=500))
        self.assertEqual(self.both(2, 0), (0, 0))
