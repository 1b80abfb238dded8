# SPDX-License-Identifier: Apache-2.0
"""CoDel: what becomes of the packets that are due, and which those are. The schedule to the last
microsecond is a test of the engine (docs/codel.md)."""

from __future__ import annotations

from codel_test import CodelTest
from ebb_controller.mechanisms.codel import CODEL, CODEL_MARKED, REACTIONS
from ebb_controller.mechanisms.counters import PORT_OUT
from ebb_scapy import Ecn
from frames import FULL_FRAME_BYTES, ce_marked, host_ip, routed, tcp


class Marks(CodelTest):
    """The queue is bad from 120 ms on, so the first mark comes 300 ms later: the frame that leaves
    at 480 ms. The next an interval after it, at 780 ms; then 300 / sqrt(2) ms later, at 992 ms. In
    the end the queue is too short."""

    def runTest(self) -> None:
        self.codel("mark", target_ms=20, interval_ms=300)
        frames = self.burst(*[Ecn.ECT0] * 6, Ecn.ECT1, *[Ecn.ECT0] * 4)
        marked = {4, 7, 9}
        self.expect(2, *(ce_marked(f) if i in marked else f for i, f in enumerate(frames)))
        self.expect_count(CODEL_MARKED, 2, len(marked))


class WhatCannotBeMarked(CodelTest):
    """Not-ECT is dropped, with its own reason; CE stays and counts as marked."""

    def runTest(self) -> None:
        self.codel("mark", target_ms=20, interval_ms=300)
        ecns = [Ecn.ECT0] * 3 + [Ecn.NOT_ECT] + [Ecn.CE] * 6
        frames = self.burst(*ecns)
        self.expect(2, *(frame for i, frame in enumerate(frames) if i != 4))
        self.expect_drops("codel", 1)
        self.expect_count(CODEL_MARKED, 2, 1)
        self.expect_count(PORT_OUT, 2, len(frames) - 1)


class NeverDrops(CodelTest):
    """With `mark-only` what cannot be marked passes."""

    def runTest(self) -> None:
        self.codel("mark-only", target_ms=20, interval_ms=300)
        frames = self.burst(*[Ecn.ECT0] * 3, Ecn.NOT_ECT, *[Ecn.ECT0] * 6)
        self.expect(2, *(ce_marked(f) if i == 7 else f for i, f in enumerate(frames)))
        self.expect_drops("codel", 0)
        self.expect_count(CODEL_MARKED, 2, 1)


class Drops(CodelTest):
    """Nothing is due before an interval has passed; then one is dropped, ECT or not."""

    def runTest(self) -> None:
        self.codel("drop", target_ms=20, interval_ms=300)
        frames = self.burst(*[Ecn.ECT0] * 6)
        self.expect(2, *(frame for i, frame in enumerate(frames) if i != 4))
        self.expect_nothing_more()
        self.expect_drops("codel", 1)
        self.expect_count(CODEL_MARKED, 2, 0)


class GoodQueues(CodelTest):
    """Below the target nothing is due, and neither where hardly anything waits behind."""

    def runTest(self) -> None:
        self.codel("drop", target_ms=10_000, interval_ms=10)
        frames = self.burst(*[Ecn.NOT_ECT] * 4)
        self.expect(2, *frames)
        self.control.modify(
            CODEL.entry(
                {"egress_port": 2},
                target_us=1,
                interval_us=1,
                least_depth=2,
                reaction=REACTIONS["drop"],
            )
        )
        first, second, third = (
            tcp(host_ip(2), sport=2000 + i, length=FULL_FRAME_BYTES) for i in range(3)
        )
        self.send(1, first, second, third)
        self.expect(2, *(routed(frame, 2) for frame in (first, second, third)))
        self.expect_nothing_more()
        self.expect_drops("codel", 0)
