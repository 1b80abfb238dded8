# SPDX-License-Identifier: Apache-2.0
"""The order in which a congested port sends: strict priority, weighted groups, MLFQ."""

from __future__ import annotations

from typing import Any

from ebb_controller.mechanisms.mlfq import MLFQ_DEMOTED, MLFQ_DEMOTION, MLFQ_LEVEL
from ebb_scapy import Dscp, Ebb
from fabric_test import CONTROL_QUEUE, FabricTest
from frames import FULL_FRAME_BYTES, ebb, host_ip, pull, routed, tcp
from scapy.layers.l2 import Ether
from targets import Feature, TrafficManager

SLOW_BPS = 100_000
"""Rate of a slow port: a full frame takes 120 ms, in which more can be queued behind it."""
LEVEL_QUEUES = {0: 6, 1: 5, 2: 4, 3: 3}
"""Queue of each MLFQ level."""


class CongestedTest(FabricTest):
    """A busy link on port 2, and frames queued behind it."""

    manager = TrafficManager(rate_bps=SLOW_BPS, slow_ports=(2,))

    def levels(self) -> None:
        """Installs the queue of each level."""
        for level, queue in LEVEL_QUEUES.items():
            self.control.insert(MLFQ_LEVEL.entry({"level": level}, queue=queue))


def data(**fields: Any) -> bytes:
    """A data packet to host 2."""
    return ebb(host_ip(2), **({"length": 600} | fields))


class StrictPriority(CongestedTest):
    """Control before data before best effort; first in, first out within a queue."""

    needs = frozenset({Feature.PORT_SCHEDULER})

    def runTest(self) -> None:
        self.classes(data_queue=3)
        best_effort = [tcp(host_ip(2), sport=i, length=600) for i in range(2)]
        symbols = [data(symbol=i) for i in range(2)]
        control = [pull(host_ip(2), pull=i) for i in range(2)]
        self.queue_up(*best_effort, *symbols, *control)
        self.expect(2, *(routed(f, 2) for f in [*control, *symbols, *best_effort]))


class WeightedGroups(CongestedTest):
    """Two control packets per data packet while both wait (NDP has 10 to 1)."""

    needs = frozenset({Feature.WEIGHTED_GROUPS})
    manager = TrafficManager(
        rate_bps=SLOW_BPS,
        slow_ports=(2,),
        groups=(((CONTROL_QUEUE,), 2), ((6, 5, 4, 3, 2, 1, 0), 1)),
    )

    def runTest(self) -> None:
        self.classes()
        symbols = [data(symbol=i) for i in range(4)]
        control = [pull(host_ip(2), pull=i) for i in range(8)]
        self.queue_up(*symbols, *control)
        order = ""
        for _ in range(len(symbols) + len(control)):
            order += "C" if Ether(self.receive(2)).tos >> 2 == Dscp.CONTROL else "d"
        # Whichever group begins, each data packet is followed by two control packets.
        self.assertIn(order, ("CCd" * 4, "dCC" * 4, "CdC" * 4), order)


class SenderLevels(CongestedTest):
    """mlfq = 1: the level in the header picks the queue; an unknown one keeps the class's."""

    needs = frozenset({Feature.PORT_SCHEDULER})

    def runTest(self) -> None:
        self.classes(data_queue=1, mlfq=1)
        self.levels()
        frames = {level: data(level=level) for level in (99, 3, 1, 0, 2)}
        tcp_of_class = tcp(host_ip(2), dscp=Dscp.TRIMMABLE, length=600)
        self.queue_up(tcp_of_class, *frames.values())
        ordered = [*(frames[level] for level in (0, 1, 2, 3)), tcp_of_class, frames[99]]
        self.expect(2, *(routed(frame, 2) for frame in ordered))


class LevelsOff(CongestedTest):
    """mlfq = 0: the level in the header means nothing."""

    needs = frozenset({Feature.SLOW_PORT})

    def runTest(self) -> None:
        self.classes(data_queue=1, mlfq=0)
        self.levels()
        frames = [data(level=level) for level in (3, 0)]
        self.queue_up(*frames)
        self.expect(2, *(routed(frame, 2) for frame in frames))


class DemotionTest(CongestedTest):
    """mlfq = 2, demotion after 3000 and after 6000 bytes."""

    def demotion(self) -> None:
        """Installs classes, levels and the ranges of bytes."""
        self.classes(data_queue=1, mlfq=2)
        self.levels()
        for level, low, high in ((0, 0, 2999), (1, 3000, 5999), (2, 6000, 0xFFFFFFFF)):
            self.control.insert(
                MLFQ_DEMOTION.entry({"flow_bytes": (low, high)}, priority=1, level=level)
            )

    def pass_through(self, *frames: bytes) -> None:
        """Sends frames one by one, each when the one before has come out."""
        for frame in frames:
            self.send(1, frame)
            # The last byte of the destination address: hosts are numbered by port.
            self.receive(int(frame[33]))


class DemotionByBytes(DemotionTest):
    """Exactly the packet that finds the threshold reached is demoted, and only in that flow."""

    def runTest(self) -> None:
        self.demotion()
        frames = [ebb(host_ip(3), length=FULL_FRAME_BYTES, symbol=i, level=3) for i in range(6)]
        self.pass_through(*frames[:2])
        self.expect_count(MLFQ_DEMOTED, 3, 0)  # frames that find 0 and 1500 bytes
        self.pass_through(frames[2])
        self.expect_count(MLFQ_DEMOTED, 3, 1)  # the frame that finds 3000 bytes
        self.pass_through(*frames[3:])
        self.expect_count(MLFQ_DEMOTED, 3, 4)
        self.pass_through(ebb(host_ip(3), length=FULL_FRAME_BYTES, session=7))
        self.expect_count(MLFQ_DEMOTED, 3, 4)


class NewConnectionStartsAtTheTop(DemotionTest):
    """A SYN on the same ports begins a new flow."""

    def runTest(self) -> None:
        self.demotion()
        segment = tcp(host_ip(3), dscp=Dscp.TRIMMABLE, length=FULL_FRAME_BYTES)
        syn = tcp(host_ip(3), dscp=Dscp.TRIMMABLE, flags="S", length=60)
        self.pass_through(*[segment] * 4)
        self.expect_count(MLFQ_DEMOTED, 3, 2)
        self.pass_through(syn, segment)
        self.expect_count(MLFQ_DEMOTED, 3, 2)


class DemotedFlowWaits(DemotionTest):
    """A new flow overtakes one that has sent a lot."""

    needs = frozenset({Feature.PORT_SCHEDULER})

    def runTest(self) -> None:
        self.demotion()
        old = [data(length=FULL_FRAME_BYTES, symbol=i) for i in range(5)]
        new = data(session=7)
        assert Ether(new)[Ebb].session == 7
        self.queue_up(*old, new)
        # Levels by the bytes sent before each frame: 0 0 1 1 2, and 0 for the new flow.
        self.expect(2, *(routed(frame, 2) for frame in [*old[:2], new, *old[2:]]))
