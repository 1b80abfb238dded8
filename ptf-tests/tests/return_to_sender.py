# SPDX-License-Identifier: Apache-2.0
"""Headers that the control queue refuses go back to their sender, byte for byte
(docs/wire-format.md, "Return to sender")."""

from __future__ import annotations

from typing import Any

from ebb_controller.mechanisms.return_to_sender import RETURN_TO_SENDER, RETURNED
from ebb_controller.mechanisms.trimming import TRIM_SENT, TRIMMED
from ebb_scapy import Dscp, Ebb, Flag, Type, returned, trimmed
from fabric_test import CONTROL_QUEUE, DATA_QUEUE, FabricTest
from frames import FULL_FRAME_BYTES, SENDER_IP, ebb, host_ip, pull, routed, tcp
from scapy.layers.inet import IPOption_Router_Alert
from scapy.layers.l2 import Ether
from targets import Feature, Queue, TrafficManager

SIZE = 128
"""Bytes that are kept of a frame."""
CONTROL_CAPACITY = 2
"""Packets that the control queue holds."""
BACK = 3
"""The port to the sender. What the tests send comes in by port 1: the way back is the route's."""
GROUP, GROUP_ADDRESS = 5, "239.1.2.3"


class ReturnTest(FabricTest):
    """Port 2 has room for two control packets, and both are there."""

    needs = frozenset({Feature.DEFLECTION})
    manager = TrafficManager(
        queues=(
            Queue(DATA_QUEUE, capacity_packets=1, on_full="deflect"),
            Queue(CONTROL_QUEUE, capacity_packets=CONTROL_CAPACITY, on_full="deflect"),
        ),
        rate_bps=50_000,  # a full frame takes 240 ms
        slow_ports=(2, BACK),
    )

    def setUp(self) -> None:
        super().setUp()
        self.classes()
        self.route(f"{SENDER_IP}/32", BACK)
        self.trim(SIZE)

    def switch_on(self) -> None:
        """Has the headers of both DSCPs returned."""
        for dscp in (Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP):
            self.control.insert(RETURN_TO_SENDER.entry({"dscp": dscp}))

    def fill(self, port: int) -> list[bytes]:
        """Occupies a link, its data queue and its control queue; returns what will come out, in
        order."""
        busy, waiting = (ebb(host_ip(port), length=FULL_FRAME_BYTES, symbol=i) for i in (1, 2))
        control = [pull(host_ip(port), pull=i) for i in range(CONTROL_CAPACITY)]
        self.occupy(port, busy)
        self.send(1, waiting, *control)
        return [routed(frame, port) for frame in (busy, *control, waiting)]


def late(**fields: Any) -> bytes:
    """A full data packet to host 2, for which there is no room."""
    return ebb(host_ip(2), **({"length": FULL_FRAME_BYTES, "symbol": 5} | fields))


def header(**fields: Any) -> bytes:
    """A header to host 2 that another switch trimmed."""
    return late(**({"dscp": Dscp.TRIMMED, "length": SIZE, "flags": Flag.TRIMMED} | fields))


def back(frame: bytes) -> bytes:
    """How a header that was on its way to host 2 arrives at its sender."""
    return routed(returned(routed(frame, 2)), BACK)


class TrimmedHere(ReturnTest):
    """A packet is refused by the data queue, cut, refused by the control queue, and returned."""

    def runTest(self) -> None:
        self.switch_on()
        there = self.fill(2)
        data = late(flags=Flag.SYN, priority=3)
        symbol = late(type=Type.SYMBOL, flags=Flag.REPAIR, options=IPOption_Router_Alert())
        self.send(1, data, symbol)
        self.expect(BACK, *(back(trimmed(frame, SIZE)) for frame in (data, symbol)))
        self.expect(2, *there)
        self.expect_nothing_more()
        self.expect_count(TRIMMED, 2, 2)
        self.expect_count(TRIM_SENT, 2, 0)
        self.expect_count(RETURNED, 2, 2)
        self.expect_count(RETURNED, BACK, 0)


class TrimmedElsewhere(ReturnTest):
    """Headers that other switches trimmed, with either DSCP. A switch that does not know the
    protocol sets no flag when it trims; this one does when it returns."""

    def runTest(self) -> None:
        self.switch_on()
        headers = [
            header(),
            header(dscp=Dscp.TRIMMED_LASTHOP, type=Type.SYMBOL),
            header(flags=Flag.FIN),
        ]
        there = self.fill(2)
        self.send(1, *headers)
        self.expect(BACK, *(back(frame) for frame in headers))
        self.expect(2, *there)
        self.expect_nothing_more()
        self.expect_count(RETURNED, 2, len(headers))
        self.expect_count(TRIMMED, 2, 0)


class OutOfThePortItCameBy(ReturnTest):
    """The sender is where it came from, as at the first switch of an incast."""

    def runTest(self) -> None:
        self.switch_on()
        there = self.fill(2)
        self.send(BACK, late())
        self.expect(BACK, back(trimmed(late(), SIZE)))
        self.expect(2, *there)


class HeaderChecksum(ReturnTest):
    """The checksum is updated and not made anew: right where the sum wraps round, and wrong if it
    was wrong."""

    def runTest(self) -> None:
        self.switch_on()
        plain = Ether(late(entropy=0))[Ebb].checksum
        there = self.fill(2)
        for checksum in (0, 0x7F, 0x84, 0xFF7F):
            # The entropy that turns the checksum of the rest into this one.
            frame = late(entropy=(plain - checksum) % 0xFFFF)
            self.assertEqual(Ether(frame)[Ebb].checksum, checksum)
            self.send(1, frame)
            self.expect(BACK, back(trimmed(frame, SIZE)))
        damaged = late()[:50] + bytes([late()[50] ^ 0x10]) + late()[51:]  # symbol number
        self.send(1, damaged)
        sound = back(trimmed(late(), SIZE))
        self.expect(BACK, sound[:50] + bytes([sound[50] ^ 0x10]) + sound[51:])
        self.expect(2, *there)


class NotTwice(ReturnTest):
    """A header on its way back that meets a full control queue in turn is dropped."""

    def runTest(self) -> None:
        self.switch_on()
        there = self.fill(2)
        self.send(1, header(flags=Flag.TRIMMED | Flag.RETURNED))
        self.expect_drops("return-refused", 1)
        self.expect(2, *there)
        self.expect_nothing_more()
        self.expect_count(RETURNED, 2, 0)


class WayBackFull(ReturnTest):
    """A header trimmed at this switch, whose way back is full too, is dropped: it has been
    deflected twice, which is the limit."""

    needs = frozenset({Feature.DEFLECTION, Feature.QUEUE_STATISTICS})

    def runTest(self) -> None:
        self.switch_on()
        there, sender_side = self.fill(2), self.fill(BACK)
        self.send(1, header(), late())
        self.expect_drops("return-refused", 1)
        self.expect_count(RETURNED, 2, 2)
        self.expect(2, *there)
        self.expect(BACK, *sender_side)
        self.expect_nothing_more()
        self.assertEqual(self.target.dropped(BACK, "deflect-failed"), 1)


class OthersAreDropped(ReturnTest):
    """Control packets, other protocols, and what goes to or claims to come from a group, are
    dropped."""

    def runTest(self) -> None:
        self.switch_on()
        self.route_to_group(GROUP_ADDRESS, GROUP, [2])
        refused = [
            pull(host_ip(2), pull=99),
            pull(host_ip(2), type=Type.ACK, symbol=5),
            header(type=Type.PULL),
            header(type=Type.NACK),
            header(dscp=Dscp.CONTROL),
            tcp(host_ip(2), dscp=Dscp.TRIMMED),
            ebb(GROUP_ADDRESS, dscp=Dscp.TRIMMED, flags=Flag.TRIMMED | Flag.MULTICAST),
            header(src=GROUP_ADDRESS),
        ]
        there = self.fill(2)
        self.send(1, *refused)
        self.expect_drops("not-trimmable", len(refused))
        self.expect(2, *there)
        self.expect_nothing_more()
        self.expect_count(RETURNED, 2, 0)


class NoWayBack(ReturnTest):
    """A sender without a route, as a forged address would be: the header is dropped."""

    def runTest(self) -> None:
        self.switch_on()
        there = self.fill(2)
        self.send(1, header(src="192.0.2.1"))
        self.expect_drops("no-route", 1)
        self.expect(2, *there)
        self.expect_nothing_more()


class OffWithoutEntries(ReturnTest):
    """A control queue that deflects changes nothing by itself."""

    def runTest(self) -> None:
        there = self.fill(2)
        self.send(1, header(), header(flags=Flag.TRIMMED | Flag.RETURNED))
        self.expect_drops("not-trimmable", 2)
        self.expect(2, *there)
        self.expect_nothing_more()
