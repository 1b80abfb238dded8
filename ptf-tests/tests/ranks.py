# SPDX-License-Identifier: Apache-2.0
"""pFabric's queue: packets say in the identification of the IPv4 header what is left of their flow
(docs/wire-format.md, "Remaining size")."""

from __future__ import annotations

from typing import Any, ClassVar

from fabric_test import FabricTest
from frames import host_ip, routed, tcp, udp
from targets import Feature, Queue, TrafficManager

SLOW_BPS = 100_000
"""Rate of a slow port: a frame of 1,000 bytes takes 80 ms, in which more can be queued."""


def data(flow: int, left: int, **options: Any) -> bytes:
    """A packet of a flow of which so much is left."""
    return tcp(host_ip(2), sport=1_000 + flow, id=left, length=1_000, **options)


class RankTest(FabricTest):
    """A busy link on port 2, behind a queue with ranks that holds four packets."""

    needs = frozenset({Feature.RANKS, Feature.PUSH_OUT, Feature.SLOW_PORT})
    manager: ClassVar[TrafficManager] = TrafficManager(
        queues=(Queue(0, capacity_packets=4, on_full="push-out", rank=True),),
        rank=("ipv4.identification", "flow_hash"),
        rate_bps=SLOW_BPS,
        slow_ports=(2,),
    )

    def queue_up(self, *frames: bytes) -> None:
        """Keeps the link busy and queues the frames; the busy frame is consumed."""
        busy = data(0, 9)
        self.occupy(2, busy)
        self.send(1, *frames)
        self.expect(2, routed(busy, 2))


class LeastFirst(RankTest):
    """The flow of which the least is left is served, its earliest packet first although a later one
    has the rank; then the next."""

    def runTest(self) -> None:
        long, middle = data(1, 40_000), data(2, 9_000)
        first, second = data(3, 20_000, ttl=9), data(3, 4_000, ttl=8)
        self.queue_up(long, first, middle, second)
        self.expect(2, *(routed(frame, 2) for frame in (first, second, middle, long)))


class GreatestGivesWay(RankTest):
    """In a full queue what belongs to the longest flow makes room, the youngest of equals; a packet
    of the longest flow is lost itself. One without a rank, of whatever protocol, goes first."""

    needs = RankTest.needs | {Feature.QUEUE_STATISTICS}

    def runTest(self) -> None:
        older, younger = data(1, 30_000), data(2, 30_000)
        kept = [data(3, 20_000), data(4, 10_000)]
        none = udp(host_ip(2), sport=1_005, id=0, length=1_000)
        self.queue_up(older, younger, *kept, data(6, 30_000), none)
        order = [none, kept[1], kept[0], older]
        self.expect(2, *(routed(frame, 2) for frame in order))
        self.expect_nothing_more()
        self.assertEqual(self.target.dropped(2, "pushed-out"), 1)
        self.assertEqual(self.target.dropped(2, "queue-full"), 1)
