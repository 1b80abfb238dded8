# SPDX-License-Identifier: Apache-2.0
"""The phantom queue marks above its threshold: not a byte earlier, not a packet later.

Where the drain is 0, arrivals alone decide and the tests do not depend on time.
"""

from __future__ import annotations

import time

from ebb_controller.mechanisms.phantom_queue import PHANTOM_MARKED, PHANTOM_QUEUE
from ebb_scapy import Ecn
from fabric_test import FabricTest
from frames import FULL_FRAME_BYTES, ce_marked, ebb, host_ip, routed, tcp


class PhantomTest(FabricTest):
    """A phantom queue on a port, and frames through it."""

    def phantom(self, port: int, threshold: int, *, drain: int = 0, count_self: int = 0) -> None:
        """A phantom queue: threshold in bytes, drain in bytes per 2^16 us."""
        self.control.insert(
            PHANTOM_QUEUE.entry(
                {"egress_port": port},
                drain_bytes_per_65536_us=drain,
                threshold_bytes=threshold,
                count_self=count_self,
            )
        )

    def expect_marks(self, port: int, marks: str, *, ecn: Ecn = Ecn.ECT0) -> None:
        """Sends one full frame per character; `M` must come out marked."""
        for mark in marks:
            packet = tcp(host_ip(port), ecn=ecn, length=FULL_FRAME_BYTES)
            self.send(1, packet)
            expected = routed(packet, port)
            self.expect(port, ce_marked(expected) if mark == "M" else expected)


class Threshold(PhantomTest):
    """A packet is marked if the backlog before it is above the threshold."""

    def runTest(self) -> None:
        self.phantom(2, 2 * FULL_FRAME_BYTES)
        self.phantom(3, 2 * FULL_FRAME_BYTES - 1)
        self.phantom(4, 0)
        self.expect_marks(2, "---MM")
        self.expect_marks(3, "--MMM")
        self.expect_marks(4, "-MM")
        self.expect_marks(5, "-----")  # no entry, no phantom queue
        for port, marks in ((2, 2), (3, 3), (4, 2), (5, 0)):
            self.expect_count(PHANTOM_MARKED, port, marks)


class CountSelf(PhantomTest):
    """With count_self the packet's own bytes are in the number that is compared."""

    def runTest(self) -> None:
        self.phantom(2, 2 * FULL_FRAME_BYTES, count_self=1)
        self.phantom(3, 1000, count_self=1)  # HULL's 1 KB: a full packet exceeds it alone
        self.phantom(4, 1000, count_self=0)
        self.expect_marks(2, "--MM")
        self.expect_marks(3, "MM")
        self.expect_marks(4, "-MM")


class OnlyEct(PhantomTest):
    """Not-ECT passes as it is, ECT(0) and ECT(1) are marked, CE stays and is not counted."""

    def runTest(self) -> None:
        self.phantom(2, 0)
        self.expect_marks(2, "-")
        self.expect_marks(2, "---", ecn=Ecn.NOT_ECT)
        self.expect_marks(2, "MM", ecn=Ecn.ECT0)
        self.expect_marks(2, "MM", ecn=Ecn.ECT1)
        self.expect_marks(2, "--", ecn=Ecn.CE)
        self.expect_count(PHANTOM_MARKED, 2, 4)


class AnyProtocol(PhantomTest):
    """Marking is IPv4's, and the rest of the packet stays untouched."""

    def runTest(self) -> None:
        self.phantom(2, 0)
        packet = ebb(host_ip(2), length=FULL_FRAME_BYTES)
        self.send(1, packet, packet)
        self.expect(2, routed(packet, 2), ce_marked(routed(packet, 2)))


class Drain(PhantomTest):
    """The counter goes down with time, and not below zero."""

    def runTest(self) -> None:
        bytes_per_ms = 10
        self.phantom(2, 1000, drain=bytes_per_ms * 65536 // 1000)
        self.expect_marks(2, "-M")  # the second within 50 ms of the first
        time.sleep(2.5 * FULL_FRAME_BYTES / bytes_per_ms / 1000)  # longer than it takes to empty
        self.expect_marks(2, "-M")


class FastDrain(PhantomTest):
    """At the largest rate (65 GB/s) nothing ever accumulates."""

    def runTest(self) -> None:
        self.phantom(2, 1000, drain=0xFFFFFFFF)
        self.expect_marks(2, "----------")
