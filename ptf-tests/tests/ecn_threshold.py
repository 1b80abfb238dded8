# SPDX-License-Identifier: Apache-2.0
"""Step marking: the depth a packet finds in its queue decides."""

from __future__ import annotations

from ebb_controller.mechanisms.ecn_threshold import ECN_THRESHOLD, STEP_MARKED
from ebb_scapy import Ecn
from fabric_test import FabricTest
from frames import FULL_FRAME_BYTES, ce_marked
from targets import Feature, TrafficManager

SLOW_BPS = 100_000
"""Rate of a slow port: a full frame takes 120 ms, in which more can be queued behind it."""


class StepTest(FabricTest):
    """A slow port."""

    needs = frozenset({Feature.SLOW_PORT})
    manager = TrafficManager(rate_bps=SLOW_BPS, slow_ports=(2,))

    def threshold(self, depth: int) -> None:
        """Has port 2 mark above this depth, in the unit of the target."""
        self.control.insert(ECN_THRESHOLD.entry({"egress_port": 2}, depth=depth))


class Threshold(StepTest):
    """Packets are marked from the one on that finds more than `depth` packets in the queue."""

    def runTest(self) -> None:
        self.threshold(2)
        busy, *queued = self.burst(*[Ecn.ECT0] * 5)  # they find 0 1 2 3 4
        self.expect(2, busy, *queued[:3], *(ce_marked(frame) for frame in queued[3:]))
        self.expect_count(STEP_MARKED, 2, 2)


class OnlyEct(StepTest):
    """Not-ECT is never marked, however deep the queue."""

    def runTest(self) -> None:
        self.threshold(0)
        busy, a, b, c, d = self.burst(Ecn.NOT_ECT, Ecn.NOT_ECT, Ecn.ECT1, Ecn.CE)
        self.expect(2, busy, a, b, ce_marked(c), d)
        self.expect_count(STEP_MARKED, 2, 1)


class InBytes(StepTest):
    """The threshold in bytes, where the target counts its queues so."""

    needs = frozenset({Feature.SLOW_PORT, Feature.BYTE_DEPTHS})
    manager = TrafficManager(rate_bps=SLOW_BPS, slow_ports=(2,), depth_unit="bytes")

    def runTest(self) -> None:
        self.threshold(2 * FULL_FRAME_BYTES - 1)
        busy, *queued = self.burst(*[Ecn.ECT0] * 4)  # they find 0 1500 3000 4500 bytes
        self.expect(2, busy, *queued[:2], *(ce_marked(frame) for frame in queued[2:]))
