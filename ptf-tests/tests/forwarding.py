# SPDX-License-Identifier: Apache-2.0
"""Routing: exact bytes, ECMP, spraying."""

from __future__ import annotations

from collections import Counter

from ebb_controller.mechanisms.route import HASH_SETTINGS, IPV4_ROUTE
from ebb_scapy import Dscp
from fabric_test import FabricTest
from finsy import P4TableAction
from frames import ebb, fix_ipv4_checksum, frame, host_ip, pull, routed, tcp, udp
from scapy.layers.inet import IPOption_Router_Alert
from scapy.packet import Raw

TARGET = "10.9.0.1"
GROUP = (2, 3, 4, 5)
"""Ports of the ECMP group."""
PACKETS = 64
"""Enough for each of four paths to be taken."""


class Unicast(FabricTest):
    """New MAC addresses, TTL minus one, a right checksum; all else unchanged."""

    def runTest(self) -> None:
        self.classes()
        for packet in (
            tcp(host_ip(2), length=60),
            udp(host_ip(2), length=1514),
            ebb(host_ip(2), length=1514),
            pull(host_ip(2)),
            frame(Raw(b"an unknown protocol"), host_ip(2), proto=89),
            tcp(host_ip(2), ttl=2),
            ebb(host_ip(2), options=IPOption_Router_Alert(), length=200),
            tcp(host_ip(2)) + b"padding behind the IPv4 packet",
        ):
            self.send(1, packet)
            self.expect(2, routed(packet, 2))
        self.expect_nothing_more()


class LongestPrefix(FabricTest):
    """The most specific route wins."""

    def runTest(self) -> None:
        self.route("10.9.0.0/16", 3)
        self.route("10.9.1.0/24", 4)
        for dst, port in (("10.9.0.1", 3), ("10.9.1.1", 4), ("10.9.2.1", 3)):
            self.send(1, tcp(dst))
            self.expect(port, routed(tcp(dst), port))


class NoRoute(FabricTest):
    """A destination without a route, and one whose route says drop, each with its reason."""

    def runTest(self) -> None:
        self.control.insert(IPV4_ROUTE.entry_for({"dst": "10.66.0.0/16"}, P4TableAction("drop")))
        self.send(1, tcp("192.0.2.1"), tcp("10.66.0.1"), tcp("10.66.0.2"))
        self.expect_nothing_more()
        self.expect_drops("no-route", 1)
        self.expect_drops("route-drop", 2)


def ports_of(test: FabricTest, packets: list[bytes]) -> list[int]:
    """The port at which each packet comes out; they go one after the other, so that ports and
    packets match."""
    ports = []
    for packet in packets:
        test.send(1, packet)
        port, received = test.receive_anywhere()
        test.assertEqual(received, routed(packet, port))
        ports.append(port)
    return ports


class EcmpPerFlow(FabricTest):
    """A flow keeps its path; flows spread over all of them."""

    def runTest(self) -> None:
        self.classes(spray=False)
        self.route(f"{TARGET}/32", *GROUP)
        flow = [ebb(TARGET, entropy=i, symbol=i) for i in range(16)]
        self.assertEqual(len(set(ports_of(self, flow))), 1)
        share = Counter(ports_of(self, [tcp(TARGET, sport=1000 + i) for i in range(PACKETS)]))
        self.assertEqual(set(share), set(GROUP))
        self.assertLess(max(share.values()), PACKETS // 2, f"uneven: {share}")


class FragmentsStayTogether(FabricTest):
    """Ports are in the first fragment only, so none of them may count."""

    def runTest(self) -> None:
        self.route(f"{TARGET}/32", *GROUP)
        for sport in range(1000, 1008):
            first = udp(TARGET, sport=sport, flags="MF", length=98)
            later = fix_ipv4_checksum(udp(TARGET, sport=7, frag=8, length=98))
            self.assertEqual(len(set(ports_of(self, [first, later]))), 1)


class SeedsDoNotPolarise(FabricTest):
    """Flows that one switch sends to one side are spread by a switch with another seed."""

    def runTest(self) -> None:
        self.route(f"{TARGET}/32", 2, 3)
        flows = [tcp(TARGET, sport=1000 + i) for i in range(PACKETS)]
        self.control.modify(HASH_SETTINGS.default(seed=0x1234567))
        first = ports_of(self, flows)
        self.control.modify(HASH_SETTINGS.default(seed=0xC2B2AE35))
        second = ports_of(self, flows)
        again = Counter(b for a, b in zip(first, second, strict=True) if a == 2)
        self.assertGreater(min(again[2], again[3]), sum(again.values()) // 5, str(again))


class SprayByEntropy(FabricTest):
    """A sprayed class with our header: the entropy field decides, and only it."""

    def runTest(self) -> None:
        self.classes(spray=True)
        self.route(f"{TARGET}/32", *GROUP)
        packets = [ebb(TARGET, entropy=i * 977, symbol=i) for i in range(PACKETS)]
        ports = ports_of(self, packets)
        share = Counter(ports)
        self.assertEqual(set(share), set(GROUP))
        self.assertGreater(min(share.values()), PACKETS // 16, f"uneven: {share}")
        self.assertEqual(ports_of(self, packets), ports)


class SprayAtRandom(FabricTest):
    """A sprayed class without our header: each packet takes any path."""

    def runTest(self) -> None:
        self.classes(spray=True)
        self.route(f"{TARGET}/32", *GROUP)
        share = Counter(ports_of(self, [tcp(TARGET, dscp=Dscp.CONTROL)] * PACKETS))
        self.assertEqual(set(share), set(GROUP))
