# SPDX-License-Identifier: Apache-2.0
"""TCP packets that a queue refuses come back to their sender, cut, byte for byte
(docs/drop-notification.md)."""

from __future__ import annotations

from typing import Any

from ebb_controller.mechanisms.counters import PORT_OUT
from ebb_controller.mechanisms.drop_notification import (
    DROP_NOTIFICATION,
    NOTIFICATION_CLASS,
    NOTIFICATION_SHARE,
    NOTIFIED,
)
from ebb_controller.mechanisms.occupancy import OCCUPANCY_LIMIT
from ebb_controller.mechanisms.traffic_class import TRAFFIC_CLASS
from ebb_controller.mechanisms.trimming import TRIMMING
from ebb_scapy import ETHERNET_HEADER_BYTES, Dscp, Ecn, tos
from fabric_test import CONTROL_QUEUE, DATA_QUEUE, FabricTest
from frames import (
    FULL_FRAME_BYTES,
    SENDER_IP,
    ebb,
    frame,
    host_ip,
    host_mac,
    routed,
    switch_mac,
    tcp,
    udp,
    with_ipv4,
)
from scapy.layers.inet import TCP, IPOption_Router_Alert
from targets import Feature, Queue, TrafficManager

NOTIFICATION = 56
"""DSCP of notifications."""
SENDER_PORT = 1
"""By which frames come in, and notifications leave."""
CAPACITY = 2
"""Packets that the queue of notifications holds."""
IPV4_SOURCE, IPV4_DESTINATION, IPV4_END = 12, 16, 20


class NotificationTest(FabricTest):
    """A class of notifications, and who is notified."""

    def setUp(self) -> None:
        super().setUp()
        self.classes()
        self.control.insert(
            TRAFFIC_CLASS.entry(
                {"dscp": NOTIFICATION}, queue=CONTROL_QUEUE, spray=0, trimmable=0, mlfq=0
            )
        )

    def switch_on(self, *ports: int) -> None:
        """Has senders behind these ports notified of drops."""
        self.control.insert(NOTIFICATION_CLASS.entry({"dscp": NOTIFICATION}))
        for port in ports or (SENDER_PORT,):
            self.control.insert(
                DROP_NOTIFICATION.entry(
                    {"ingress_port": port},
                    src_mac=switch_mac(port),
                    dst_mac=host_mac(port),
                    dscp_value=NOTIFICATION,
                    queue_index=CONTROL_QUEUE,
                )
            )


class DeflectionTest(NotificationTest):
    """The queue of port 2 has room for one packet, which is there."""

    needs = frozenset({Feature.DEFLECTION})
    manager = TrafficManager(
        queues=(
            Queue(DATA_QUEUE, capacity_packets=1, on_full="deflect"),
            Queue(CONTROL_QUEUE, capacity_packets=CAPACITY),
        ),
        rate_bps=50_000,  # a full frame takes 240 ms
        slow_ports=(2,),
    )

    def fill(self, port: int = 2) -> list[bytes]:
        """Occupies a link and its data queue; returns what will come out."""
        busy, waiting = (udp(host_ip(port), sport=i, length=FULL_FRAME_BYTES) for i in (1, 2))
        self.occupy(port, busy)
        self.send(1, waiting)
        return [routed(packet, port) for packet in (busy, waiting)]


def notification(lost: bytes, port: int = SENDER_PORT) -> bytes:
    """The packet that the sender behind `port` gets when this frame to host 2 is lost."""
    cut = bytearray(routed(lost, 2))
    start = ETHERNET_HEADER_BYTES
    ihl = (cut[start] & 0xF) * 4
    data_offset = (cut[start + ihl + 12] >> 4) * 4
    ecn = cut[start + 1] & Ecn.CE
    source = bytes(cut[start + IPV4_SOURCE : start + IPV4_DESTINATION])
    destination = bytes(cut[start + IPV4_DESTINATION : start + IPV4_END])
    cut[start + IPV4_SOURCE : start + IPV4_END] = destination + source
    macs = bytes.fromhex((host_mac(port) + switch_mac(port)).replace(":", ""))
    whole = with_ipv4(macs + bytes(cut[12:]), b1=tos(NOTIFICATION, ecn))
    return whole[: start + ihl + data_offset]


def segment(**fields: Any) -> bytes:
    """A full TCP segment to host 2."""
    return tcp(host_ip(2), **({"length": FULL_FRAME_BYTES} | fields))


class Lost(DeflectionTest):
    """Data, SYN, FIN and a bare ACK are cut after their header, and leave by the port that they
    came in by; what was queued is untouched."""

    def runTest(self) -> None:
        self.switch_on()
        there = self.fill()
        lost = [
            segment(),
            segment(ecn=Ecn.ECT0, ttl=7),
            tcp(host_ip(2), flags="S"),
            segment(flags="FA"),
            tcp(host_ip(2)),
        ]
        self.send(SENDER_PORT, *lost)
        expected = [notification(packet) for packet in lost]
        self.assertEqual([len(packet) for packet in expected], [54] * 5)
        self.expect(SENDER_PORT, *expected)
        self.expect(2, *there)
        self.expect_nothing_more()
        self.expect_count(NOTIFIED, 2, len(lost))


class PushedOut(NotificationTest):
    """In a queue with ranks the sender of what gives way is told of, and that of what finds nothing
    that would (pFabric, docs/pfabric.md)."""

    needs = frozenset({Feature.DEFLECTION, Feature.RANKS, Feature.PUSH_OUT, Feature.SLOW_PORT})
    manager = TrafficManager(
        queues=(
            Queue(DATA_QUEUE, capacity_packets=2, on_full="push-out-deflect", rank=True),
            Queue(CONTROL_QUEUE, capacity_packets=CAPACITY),
        ),
        rank=("ipv4.identification", "flow_hash"),
        rate_bps=50_000,
        slow_ports=(2,),
    )

    def runTest(self) -> None:
        self.switch_on()
        busy = segment(id=1, sport=1)
        self.occupy(2, busy)
        longest, long, short, longest_again = (
            segment(id=left, sport=sport)
            for sport, left in ((2, 900), (3, 300), (4, 200), (5, 900))
        )
        self.send(SENDER_PORT, longest, long, short, longest_again)
        self.expect(SENDER_PORT, notification(longest), notification(longest_again))
        self.expect(2, *(routed(packet, 2) for packet in (busy, short, long)))
        self.expect_nothing_more()
        self.expect_count(NOTIFIED, 2, 2)


class WhatTheThesisNames(DeflectionTest):
    """The fields of one notification, by hand: addresses swapped, total length, ports and sequence
    number as they were."""

    def runTest(self) -> None:
        self.switch_on()
        there = self.fill()
        layer = TCP(sport=5001, dport=40000, seq=0x01020304, flags="A")
        self.send(SENDER_PORT, frame(layer, host_ip(2), length=1514))
        got = self.receive(SENDER_PORT)
        ip, l4 = got[14:34], got[34:]
        self.assertEqual(len(got), 54)
        self.assertEqual(int.from_bytes(ip[2:4], "big"), 1500)
        self.assertEqual(ip[1], NOTIFICATION << 2)
        self.assertEqual(".".join(map(str, ip[12:16])), host_ip(2))
        self.assertEqual(".".join(map(str, ip[16:20])), SENDER_IP)
        self.assertEqual(l4[:8], bytes.fromhex("13899c4001020304"))
        self.expect(2, *there)


class Options(DeflectionTest):
    """Options of IPv4 and of TCP stay."""

    def runTest(self) -> None:
        self.switch_on()
        there = self.fill()
        options = [
            ("MSS", 1460),
            ("SAckOK", b""),
            ("Timestamp", (1, 2)),
            ("NOP", None),
            ("WScale", 7),
        ]
        layer = TCP(sport=9, dport=80, flags="S", options=options)
        lost = [
            frame(layer, host_ip(2), length=400),
            frame(
                TCP(sport=40000, dport=80, flags="A"),
                host_ip(2),
                length=FULL_FRAME_BYTES,
                options=IPOption_Router_Alert(),
            ),
        ]
        self.send(SENDER_PORT, *lost)
        expected = [notification(packet) for packet in lost]
        self.assertEqual([len(packet) for packet in expected], [74, 58])
        self.expect(SENDER_PORT, *expected)
        self.expect(2, *there)


class OthersGetNone(DeflectionTest):
    """UDP, fragments, groups, the receiver-driven transports, a TCP header that is too short, and
    notifications themselves."""

    def runTest(self) -> None:
        self.switch_on()
        there = self.fill()
        short = bytearray(segment())
        short[14 + 20 + 12] = 0x40
        refused = [
            udp(host_ip(2), length=FULL_FRAME_BYTES),
            segment(flags="A", frag=3),
            frame(TCP(), host_ip(2), length=FULL_FRAME_BYTES, src="239.1.2.3"),
            ebb(host_ip(2), dscp=Dscp.DEFAULT, length=FULL_FRAME_BYTES),
            bytes(short),
        ]
        self.send(SENDER_PORT, *refused)
        self.expect_drops("not-trimmable", len(refused))
        self.expect(2, *there)
        self.expect_nothing_more()
        self.expect_count(NOTIFIED, 2, 0)


class OnItsWay(DeflectionTest):
    """Another switch forwards a notification as any packet, though its total length exceeds the
    frame; other classes and protocols must not."""

    def runTest(self) -> None:
        self.switch_on()
        cut = notification(segment())
        to_host_3 = with_ipv4(cut, b16=10, b17=0, b18=0, b19=3)
        self.send(2, to_host_3)
        self.expect(3, routed(to_host_3, 3))
        longer = with_ipv4(udp(host_ip(3), dscp=NOTIFICATION, length=60), b2=5)
        self.send(2, longer, with_ipv4(to_host_3, b1=tos(Dscp.DEFAULT, Ecn.NOT_ECT)))
        self.expect_drops("ipv4-total-length", 2)
        self.expect_nothing_more()


class QueueOfNotificationsFull(DeflectionTest):
    """A message that does not fit there is dropped and counted, and never notified again."""

    needs = frozenset({Feature.DEFLECTION, Feature.QUEUE_STATISTICS})

    def runTest(self) -> None:
        self.switch_on(SENDER_PORT, 2)
        there = self.fill()
        # The sender is behind the slow port: its notifications wait behind what is on the link.
        lost = [segment(sport=40000 + i) for i in range(CAPACITY + 1)]
        self.send(2, *lost)
        self.expect_count(NOTIFIED, 2, len(lost))
        first, *rest = there
        kept = [notification(packet, 2) for packet in lost[:CAPACITY]]
        self.expect(2, first, *kept, *rest)
        self.expect_nothing_more()
        self.assertEqual(self.target.dropped(2, "deflect-failed"), 1)


class OffWithoutEntries(DeflectionTest):
    """A queue that deflects changes nothing by itself."""

    def runTest(self) -> None:
        there = self.fill()
        self.send(SENDER_PORT, segment())
        self.expect_drops("not-trimmable", 1)
        self.expect(2, *there)
        self.expect_nothing_more()


class OccupancyTest(NotificationTest):
    """The trigger of stock BMv2: the program's own counter, with a limit that one frame exceeds.
    Packets count if they are eligible for trimming, and nothing is kept of what is not told."""

    def setUp(self) -> None:
        super().setUp()
        self.control.modify(
            TRAFFIC_CLASS.entry(
                {"dscp": Dscp.DEFAULT}, queue=DATA_QUEUE, spray=0, trimmable=1, mlfq=0
            )
        )
        self.control.modify(TRIMMING.default(size=0, dscp_value=0, queue_index=0))
        self.control.insert(OCCUPANCY_LIMIT.entry({"egress_port": 2}, limit_bytes=600))


class Occupancy(OccupancyTest):
    """TCP over the limit comes back as with deflection, what fits passes, what is no TCP is
    dropped, and a notification is not counted itself."""

    def runTest(self) -> None:
        self.switch_on()
        fits = tcp(host_ip(2), length=600)
        over = tcp(host_ip(2), length=601, flags="FA")
        self.send(SENDER_PORT, fits)
        self.expect(2, routed(fits, 2))
        self.send(SENDER_PORT, over, udp(host_ip(2), length=601))
        self.expect(SENDER_PORT, notification(over))
        self.expect_drops("not-trimmable", 1)
        told = with_ipv4(notification(segment()), b16=10, b17=0, b18=0, b19=2)
        self.send(3, told)
        self.expect(2, routed(told, 2))
        elsewhere = tcp(host_ip(3), length=FULL_FRAME_BYTES)  # no limit
        self.send(SENDER_PORT, elsewhere)
        self.expect(3, routed(elsewhere, 3))
        self.expect_nothing_more()
        self.expect_count(NOTIFIED, 2, 1)


class Metered(OccupancyTest):
    """Two notifications at once are within the share of a port, the others go after all else, so
    behind a frame that came after them."""

    needs = frozenset({Feature.SLOW_PORT, Feature.PORT_SCHEDULER})
    manager = TrafficManager(rate_bps=50_000, slow_ports=(SENDER_PORT,))

    def runTest(self) -> None:
        self.switch_on()
        hour_us = 3_600_000_000
        self.control.insert(
            NOTIFICATION_SHARE.entry(
                {"ingress_port": SENDER_PORT}, interval_us=hour_us, burst_us=hour_us
            )
        )
        self.control.modify(
            TRAFFIC_CLASS.entry({"dscp": Dscp.CONTROL}, queue=3, spray=0, trimmable=0, mlfq=0)
        )
        busy = udp(host_ip(SENDER_PORT), length=FULL_FRAME_BYTES)
        self.send(2, busy)
        self.expect_count(PORT_OUT, SENDER_PORT, 1)
        lost = [segment(sport=40000 + i) for i in range(4)]
        self.send(SENDER_PORT, *lost)
        self.expect_count(NOTIFIED, 2, len(lost))
        between = udp(host_ip(SENDER_PORT), dscp=Dscp.CONTROL, length=100)
        self.send(2, between)
        first, second, third, fourth = (notification(each) for each in lost)
        self.expect(
            SENDER_PORT,
            routed(busy, SENDER_PORT),
            first,
            second,
            routed(between, SENDER_PORT),
            third,
            fourth,
        )
