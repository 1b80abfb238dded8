# SPDX-License-Identifier: Apache-2.0
"""Multicast groups: every member but the source; a full queue trims one replica, not all."""

from __future__ import annotations

from ebb_controller.mechanisms.counters import PORT_OUT
from ebb_controller.mechanisms.trimming import TRIMMED
from ebb_scapy import Flag, trimmed
from fabric_test import CONTROL_QUEUE, DATA_QUEUE, FabricTest
from frames import FULL_FRAME_BYTES, ebb, host_ip, one_hop_less, routed
from targets import Feature, Queue, TrafficManager

GROUP = 5
ADDRESS = "239.1.2.3"
GROUP_MAC = "01:00:5e:01:02:03"
PORTS = [1, 2, 3, 4]
"""Ports of the group."""
SIZE = 128
"""Bytes that are kept of a frame."""


class MulticastTest(FabricTest):
    """A fabric with a multicast group of ports 1 to 4."""

    def setUp(self) -> None:
        super().setUp()
        self.classes()
        self.route_to_group(ADDRESS, GROUP, PORTS)


def symbol() -> bytes:
    """A full packet to the group."""
    return ebb(ADDRESS, dst_mac=GROUP_MAC, length=FULL_FRAME_BYTES, flags=int(Flag.MULTICAST))


class ToTheGroup(MulticastTest):
    """Everyone gets it once, with the addresses it had; the port it came from gets none."""

    def runTest(self) -> None:
        self.send(1, symbol())
        for port in (2, 3, 4):
            self.expect(port, one_hop_less(symbol()))
        self.expect_nothing_more()
        self.expect_drops("replica-to-source", 1)
        self.expect_count(PORT_OUT, 1, 1)  # the sentinel of expect_nothing_more


class FromOutside(MulticastTest):
    """A source that is not in the group reaches all of it."""

    def runTest(self) -> None:
        self.send(6, symbol())
        for port in PORTS:
            self.expect(port, one_hop_less(symbol()))
        self.expect_nothing_more()


class OneReplicaIsTrimmed(MulticastTest):
    """One member's port is congested: that replica is cut, the others are whole."""

    needs = frozenset({Feature.DEFLECTION})
    manager = TrafficManager(
        queues=(
            Queue(DATA_QUEUE, capacity_packets=1, on_full="deflect"),
            Queue(CONTROL_QUEUE),
        ),
        rate_bps=100_000,
        slow_ports=(2,),
    )

    def runTest(self) -> None:
        self.trim(SIZE)
        busy, waiting = (ebb(host_ip(2), length=FULL_FRAME_BYTES, symbol=i) for i in (1, 2))
        self.occupy(2, busy)
        self.send(1, waiting, symbol())
        for port in (3, 4):
            self.expect(port, one_hop_less(symbol()))
        cut = trimmed(one_hop_less(symbol()), SIZE)
        self.expect(2, routed(busy, 2), cut, routed(waiting, 2))
        self.expect_nothing_more()
        self.expect_count(TRIMMED, 2, 1)
        self.expect_count(TRIMMED, 3, 0)
