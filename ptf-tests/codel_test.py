# SPDX-License-Identifier: Apache-2.0
"""Base class of the packet tests of CoDel and of Source Quench, which it triggers."""

from __future__ import annotations

from ebb_controller.mechanisms.codel import CODEL, CODEL_LAW, REACTIONS, Reaction, inverse_root
from fabric_test import FabricTest
from targets import Feature, TrafficManager

SLOW_BPS = 100_000
"""Rate of a slow port: a full frame takes 120 ms (BMv2: 125 ms)."""


class CodelTest(FabricTest):
    """A burst waits at a slow port: the n-th frame behind the first for n times 120 ms."""

    needs = frozenset({Feature.SLOW_PORT})
    program = "fabric_codel"
    manager = TrafficManager(rate_bps=SLOW_BPS, slow_ports=(2,))

    def occupy(self, port: int, frame: bytes) -> None:
        """Sends the first frame, and does not wait until it is on the link: the delay of those
        behind it counts from their own arrival, so they have to follow at once."""
        self.send(1, frame)

    def codel(self, reaction: Reaction, *, target_ms: int, interval_ms: int) -> None:
        """Has port 2 manage its queues; a queue with one packet or none behind one that leaves is
        good."""
        self.control.insert(
            CODEL.entry(
                {"egress_port": 2},
                target_us=target_ms * 1000,
                interval_us=interval_ms * 1000,
                least_depth=1,
                reaction=REACTIONS[reaction],
            )
        )
        for count in range(1, 5):
            self.control.insert(
                CODEL_LAW.entry({"count": (count, 16)}, inverse=inverse_root(count, 1))
            )
