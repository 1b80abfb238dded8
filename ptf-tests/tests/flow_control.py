# SPDX-License-Identifier: Apache-2.0
"""Priority flow control (IEEE 802.1Qbb): when the neighbour of a port is paused, with which bytes,
and what a port does that is paused itself. The program has no part in it."""

from __future__ import annotations

import time
from typing import ClassVar

from ebb_controller.mechanisms.traffic_class import TRAFFIC_CLASS
from fabric_test import FabricTest
from frames import FULL_FRAME_BYTES, host_ip, host_mac, pfc, routed, tcp
from targets import Feature, Queue, TrafficManager

LOW_DSCP, LOW_QUEUE = 0, 0
LOSSY_DSCP, LOSSY_QUEUE = 10, 1
HIGH_DSCP, HIGH_QUEUE = 34, 6
QUEUES = (Queue(LOW_QUEUE, lossless=True), Queue(LOSSY_QUEUE), Queue(HIGH_QUEUE, lossless=True))
"""Queues of all ports: of the lossless ones neighbours are asked to pause."""
PAUSE_BYTES, RESUME_BYTES = 8_192, 4_557
"""Thresholds of DeTail at 1 Gbit/s."""
LONGEST = 0xFFFF
"""Quanta of a pause that lasts until it is taken back."""
BLOCKED_BPS = 4_000
"""Rate of a port that is as good as blocked: a full frame takes 3 s."""


def asks(port: int, quanta: dict[int, int]) -> bytes:
    """The frame by which the switch pauses the neighbour of a port; it sends from an address of its
    own, which is made of its device id, here 0, and the port."""
    return pfc(quanta, f"02:eb:00:00:00:{port:02x}")


class FlowControlTest(FabricTest):
    """Three classes, of which the lowest and the highest are lossless."""

    needs = frozenset({Feature.PFC, Feature.SLOW_PORT})
    manager: ClassVar[TrafficManager] = TrafficManager(
        queues=QUEUES,
        rate_bps=BLOCKED_BPS,
        slow_ports=(2,),
        pfc={"pause_bytes": PAUSE_BYTES, "resume_bytes": RESUME_BYTES},
    )

    def setUp(self) -> None:
        super().setUp()
        for dscp, queue in (
            (LOW_DSCP, LOW_QUEUE),
            (LOSSY_DSCP, LOSSY_QUEUE),
            (HIGH_DSCP, HIGH_QUEUE),
        ):
            self.control.insert(
                TRAFFIC_CLASS.entry({"dscp": dscp}, queue=queue, spray=0, trimmable=0, mlfq=0)
            )

    def fill(self, source: int, size: int, dscp: int = LOW_DSCP) -> None:
        """Sends that many bytes from a port to host 2, whose link is busy."""
        full, rest = divmod(size, FULL_FRAME_BYTES)
        for length in [FULL_FRAME_BYTES] * full + [rest] * (rest > 0):
            self.send(source, tcp(host_ip(2), dscp=dscp, length=length))

    def pause(self, port: int, quanta: dict[int, int]) -> None:
        """Has the neighbour of a port pause it, and waits until that is in force."""
        queues = [queue for queue, each in quanta.items() if each]
        before = {queue: self.target.pauses(port, queue) for queue in queues}
        self.send(port, pfc(quanta, host_mac(port)))
        deadline = time.monotonic() + 5
        while any(self.target.pauses(port, queue) == before[queue] for queue in queues):
            self.assertLess(time.monotonic(), deadline, "the pause was not counted")


class AtTheByte(FlowControlTest):
    """8,192 bytes of one port do not pause its neighbour, 8,193 do. Each port has its own count."""

    def runTest(self) -> None:
        self.occupy(2, tcp(host_ip(2), length=FULL_FRAME_BYTES))
        self.fill(3, PAUSE_BYTES)
        self.fill(4, PAUSE_BYTES + 1)
        self.expect(4, asks(4, {LOW_QUEUE: LONGEST}))
        self.expect_nothing_more([1, 3, 4, 5, 6])
        self.fill(3, 60)
        self.expect(3, asks(3, {LOW_QUEUE: LONGEST}))
        self.expect_nothing_more([1, 3, 4, 5, 6])


class BytesOfHigherClasses(FlowControlTest):
    """They are served before a packet of a lower class, and count for that too: one frame names all
    classes that are to pause. Bytes of a class that may drop count for those below."""

    def runTest(self) -> None:
        self.occupy(2, tcp(host_ip(2), length=FULL_FRAME_BYTES))
        self.fill(3, PAUSE_BYTES + 1, dscp=HIGH_DSCP)
        self.expect(3, asks(3, {LOW_QUEUE: LONGEST, HIGH_QUEUE: LONGEST}))
        self.fill(4, PAUSE_BYTES + 1, dscp=LOSSY_DSCP)
        self.expect(4, asks(4, {LOW_QUEUE: LONGEST}))
        self.expect_nothing_more([1, 3, 4, 5, 6])


class PauseAndResume(FlowControlTest):
    """A pause is taken back when no more than `resume_bytes` are left."""

    manager = TrafficManager(
        queues=QUEUES,
        rate_bps=400_000,
        slow_ports=(2,),
        pfc={"pause_bytes": 3_000, "resume_bytes": 1_000},
    )

    def runTest(self) -> None:
        busy, *queued = (tcp(host_ip(2), sport=1000 + i, length=1_000) for i in range(5))
        self.occupy(2, busy)
        self.send(3, *queued)
        self.expect(3, asks(3, {LOW_QUEUE: LONGEST}), asks(3, {LOW_QUEUE: 0}))
        self.expect(2, *(routed(frame, 2) for frame in (busy, *queued)))
        self.expect_nothing_more([1, 3, 4, 5, 6])


class Refresh(FlowControlTest):
    """A pause is asked for again before it has ended: 65,535 quanta are 34 ms at 1 Gbit/s."""

    manager = TrafficManager(
        queues=QUEUES,
        rate_bps=BLOCKED_BPS,
        slow_ports=(2,),
        other_bps=10**9,
        pfc={"pause_bytes": PAUSE_BYTES, "resume_bytes": RESUME_BYTES},
    )

    def runTest(self) -> None:
        self.occupy(2, tcp(host_ip(2), length=FULL_FRAME_BYTES))
        self.fill(3, PAUSE_BYTES + 1)
        began = time.monotonic()
        self.expect(3, *[asks(3, {LOW_QUEUE: LONGEST})] * 5)
        # Four times half of a pause; the first frame may have waited for us.
        self.assertGreater(time.monotonic() - began, 0.03)


class Obeyed(FlowControlTest):
    """A paused class waits, the others go on; it goes on when the pause is taken back."""

    needs = frozenset({Feature.PFC})
    manager = TrafficManager(
        queues=QUEUES, pfc={"pause_bytes": PAUSE_BYTES, "resume_bytes": RESUME_BYTES}
    )

    def runTest(self) -> None:
        low, lossy, high = (
            tcp(host_ip(2), dscp=dscp) for dscp in (LOW_DSCP, LOSSY_DSCP, HIGH_DSCP)
        )
        elsewhere = tcp(host_ip(3))
        self.pause(2, {LOW_QUEUE: LONGEST})
        self.send(1, low, lossy, high, elsewhere)
        self.expect(2, routed(lossy, 2), routed(high, 2))
        self.expect(3, routed(elsewhere, 3))  # of another port the same class goes on
        self.pause(2, {HIGH_QUEUE: LONGEST})
        self.send(2, pfc({LOW_QUEUE: 0}, host_mac(2)))
        self.expect(2, routed(low, 2))
        self.send(1, high, low)
        self.expect(2, routed(low, 2))
        self.send(2, pfc({HIGH_QUEUE: 0}, host_mac(2)))
        self.expect(2, routed(high, 2))
        self.expect_nothing_more()


class Expiry(FlowControlTest):
    """A pause ends by itself after its quanta, of 512 bits each."""

    manager = TrafficManager(
        queues=QUEUES,
        rate_bps=200_000,
        slow_ports=(2,),
        pfc={"pause_bytes": PAUSE_BYTES, "resume_bytes": RESUME_BYTES},
    )

    def runTest(self) -> None:
        low, high = (tcp(host_ip(2), dscp=dscp) for dscp in (LOW_DSCP, HIGH_DSCP))
        began = time.monotonic()
        self.pause(2, {LOW_QUEUE: 100})  # 256 ms
        self.send(1, low, high)
        self.expect(2, routed(high, 2), routed(low, 2))
        self.assertGreater(time.monotonic() - began, 0.25)


class WhatIsNoPause(FlowControlTest):
    """Frames that are not right are counted, do nothing, and never reach the program; nor do pauses
    of classes that may drop."""

    needs = frozenset({Feature.PFC})
    manager = TrafficManager(
        queues=QUEUES, pfc={"pause_bytes": PAUSE_BYTES, "resume_bytes": RESUME_BYTES}
    )

    def runTest(self) -> None:
        right = pfc({LOW_QUEUE: LONGEST}, host_mac(2))
        other_opcode = right[:14] + b"\0\1" + right[16:]
        no_class = right[:16] + b"\0\0" + right[18:]
        another_group = b"\1\x80\xc2\0\0\2" + right[6:]
        for frame in (other_opcode, another_group):
            self.send(2, frame)
        for frame in (no_class, right + b"\0", right[:40]):
            self.send(2, frame)
        self.send(2, pfc({LOSSY_QUEUE: LONGEST}, host_mac(2)))
        frames = [tcp(host_ip(2), dscp=dscp) for dscp in (LOW_DSCP, LOSSY_DSCP, HIGH_DSCP)]
        self.send(1, *frames)
        self.expect(2, *(routed(frame, 2) for frame in frames))
        self.expect_nothing_more()
        self.assertEqual(self.target.refused(2, "mac-control-ignored"), 2)
        self.assertEqual(self.target.refused(2, "mac-control-malformed"), 3)
        self.expect_drops("unknown-ethertype", 0)


class WithoutFlowControl(FabricTest):
    """Where no queue is lossless, pauses are ignored, and the program does not see them either."""

    needs = frozenset({Feature.PFC})

    def runTest(self) -> None:
        self.send(2, pfc({queue: LONGEST for queue in range(8)}, host_mac(2)))
        frame = tcp(host_ip(2))
        self.send(1, frame)
        self.expect(2, routed(frame, 2))
        self.expect_nothing_more()
        self.assertEqual(self.target.refused(2, "mac-control-ignored"), 1)
        self.expect_drops("unknown-ethertype", 0)
