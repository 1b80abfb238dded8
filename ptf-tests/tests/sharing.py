# SPDX-License-Identifier: Apache-2.0
"""What queues of a port take from each other: places in a full buffer, and the link up to a
share."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from ebb_controller.mechanisms.ecn_threshold import ECN_THRESHOLD, STEP_MARKED
from ebb_controller.mechanisms.traffic_class import TRAFFIC_CLASS
from ebb_scapy import Ecn
from fabric_test import FabricTest
from frames import ce_marked, host_ip, routed, tcp
from targets import Feature, Queue, TrafficManager

SLOW_BPS = 100_000
"""Rate of a slow port: a frame of 1,000 bytes takes 80 ms, in which more can be queued."""
LOW_DSCP, LOW_QUEUE = 0, 0
HIGH_DSCP, HIGH_QUEUE = 34, 6
STORAGE_DSCP = 8
"""CS1, the class of storage (docs/wire-format.md, "Classes")."""


class TwoClassesTest(FabricTest):
    """A busy link on port 2, and two classes."""

    manager: ClassVar[TrafficManager]

    def setUp(self) -> None:
        super().setUp()
        classes = ((LOW_DSCP, LOW_QUEUE), (HIGH_DSCP, HIGH_QUEUE), (STORAGE_DSCP, LOW_QUEUE))
        for dscp, queue in classes:
            self.control.insert(
                TRAFFIC_CLASS.entry({"dscp": dscp}, queue=queue, spray=0, trimmable=0, mlfq=0)
            )


def frames(
    count: int, dscp: int, length: int = 1_000, ecn: Ecn = Ecn.NOT_ECT, start: int = 1000
) -> list[bytes]:
    """Frames to host 2 that differ in their TCP ports."""
    return [
        tcp(host_ip(2), dscp=dscp, sport=start + i, length=length, ecn=ecn) for i in range(count)
    ]


class PushOut(TwoClassesTest):
    """A packet that finds the pool full takes the place of one at the tail of a lower queue; where
    no lower one waits, or that of a queue which may not, it is lost itself."""

    needs = frozenset({Feature.PUSH_OUT, Feature.SLOW_PORT, Feature.QUEUE_STATISTICS})
    manager = TrafficManager(
        queues=(Queue(LOW_QUEUE, pool=True), Queue(HIGH_QUEUE, on_full="push-out", pool=True)),
        pool_packets=3,
        rate_bps=SLOW_BPS,
        slow_ports=(2,),
    )

    def runTest(self) -> None:
        low, high = frames(4, LOW_DSCP), frames(4, HIGH_DSCP)
        self.queue_up(*low[:3], high[0], low[3], *high[1:])
        # high[0] takes the place of low[2], low[3] finds no room, high[1] and high[2] take the
        # places of the rest, and high[3] finds only its own kind.
        self.expect(2, *(routed(frame, 2) for frame in high[:3]))
        self.expect_nothing_more()
        self.assertEqual(self.target.dropped(2, "pushed-out"), 3)
        self.assertEqual(self.target.dropped(2, "pool-full"), 2)


class ScavengerTest(TwoClassesTest):
    """Storage in the lowest queue, and a foreground that is marked where it is deeper than three
    packets, up to which storage may fill the port."""

    needs = frozenset({Feature.PUSH_OUT, Feature.SLOW_PORT, Feature.QUEUE_STATISTICS})
    manager = TrafficManager(
        queues=(
            Queue(LOW_QUEUE, pool=True),
            Queue(HIGH_QUEUE, 4, on_full="push-out", pool=True, pool_exempt=True),
        ),
        pool_packets=3,
        rate_bps=SLOW_BPS,
        slow_ports=(2,),
    )

    def fill(self) -> tuple[list[bytes], list[bytes]]:
        """Four packets of storage, the last of which finds no room, and two of the foreground
        behind them; returns them."""
        self.control.insert(ECN_THRESHOLD.entry({"egress_port": 2}, depth=2))
        storage = frames(4, STORAGE_DSCP, ecn=Ecn.ECT0)
        foreground = frames(5, HIGH_DSCP, ecn=Ecn.ECT0, start=2000)
        self.queue_up(*storage, *foreground[:2])
        return storage, foreground


class ScavengerByPriority(ScavengerTest):
    """Storage gives way where the foreground would be marked or lost, and makes it neither."""

    def runTest(self) -> None:
        storage, foreground = self.fill()
        self.expect(2, *(routed(frame, 2) for frame in (*foreground[:2], storage[0])))
        self.expect_nothing_more()
        self.assertEqual(self.target.dropped(2, "pushed-out"), 2)
        self.assertEqual(self.target.dropped(2, "pool-full"), 1)
        self.expect_count(STEP_MARKED, 2, 0)


class ScavengerByArrival(ScavengerTest):
    """The same in order of arrival: what is left of storage is served when it came."""

    manager = replace(
        ScavengerTest.manager, groups=(((HIGH_QUEUE, LOW_QUEUE), 1),), by_arrival=True
    )

    def runTest(self) -> None:
        storage, foreground = self.fill()
        self.expect(2, *(routed(frame, 2) for frame in (storage[0], *foreground[:2])))
        self.expect_nothing_more()
        self.assertEqual(self.target.dropped(2, "pushed-out"), 2)
        self.expect_count(STEP_MARKED, 2, 0)


class ForegroundMarksItself(ScavengerTest):
    """Beyond three packets of its own the foreground is marked, and kept up to its capacity."""

    def runTest(self) -> None:
        self.control.insert(ECN_THRESHOLD.entry({"egress_port": 2}, depth=2))
        storage = frames(2, STORAGE_DSCP, ecn=Ecn.ECT0)
        foreground = frames(5, HIGH_DSCP, ecn=Ecn.ECT0, start=2000)
        self.queue_up(*storage, *foreground)
        kept = [
            *(routed(frame, 2) for frame in foreground[:3]),
            ce_marked(routed(foreground[3], 2)),
        ]
        self.expect(2, *kept)
        self.expect_nothing_more()
        self.assertEqual(self.target.dropped(2, "pushed-out"), 2)
        self.assertEqual(self.target.dropped(2, "queue-full"), 1)
        self.expect_count(STEP_MARKED, 2, 1)


class Share(TwoClassesTest):
    """On a link that both classes want, the one with a share goes first for a quarter of the bytes:
    one frame of a thousand bytes, three of the others, to the byte."""

    needs = frozenset({Feature.SHARES, Feature.SLOW_PORT})
    manager = TrafficManager(
        queues=(Queue(LOW_QUEUE), Queue(HIGH_QUEUE)),
        groups=(((LOW_QUEUE,), 1),),
        shares=(((HIGH_QUEUE,), 0.25, 1_000),),
        other_bps=10**9,
        rate_bps=SLOW_BPS,
        slow_ports=(2,),
    )

    def runTest(self) -> None:
        low, high = frames(7, LOW_DSCP), frames(4, HIGH_DSCP)
        self.queue_up(*high, *low)
        order = [high[0], *low[:3], high[1], *low[3:6], high[2], low[6], high[3]]
        # At the end nobody else is there, and the share is no limit.
        self.expect(2, *(routed(frame, 2) for frame in order))


class BeyondTheBurst(TwoClassesTest):
    """A packet of one byte more than may be sent at once is never within the share."""

    needs = Share.needs
    manager = Share.manager

    def runTest(self) -> None:
        low, high = frames(3, LOW_DSCP), frames(2, HIGH_DSCP, length=1_001)
        self.queue_up(*high, *low)
        self.expect(2, *(routed(frame, 2) for frame in (*low, *high)))
