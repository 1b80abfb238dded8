# SPDX-License-Identifier: Apache-2.0
"""The gateway addresses answer ARP requests, others do not."""

from __future__ import annotations

from ebb_controller.mechanisms.arp import ARP_RESPONDER
from fabric_test import FabricTest
from frames import host_mac, switch_mac
from scapy.layers.l2 import ARP, Ether

GATEWAY = "10.0.0.254"
HOST = "10.0.0.3"
PAD = bytes(18)
"""Bytes that fill an ARP frame up to Ethernet's minimum of 60, as a NIC does."""


def request(target: str, operation: int = 1) -> bytes:
    """An ARP frame of host 3; operation 1 is a request, 2 a reply (RFC 826)."""
    arp = ARP(op=operation, hwsrc=host_mac(3), psrc=HOST, hwdst="00:00:00:00:00:00", pdst=target)
    return bytes(Ether(src=host_mac(3), dst="ff:ff:ff:ff:ff:ff") / arp) + PAD


class Answered(FabricTest):
    """The reply of RFC 826, byte for byte, out of the port the request came in by."""

    def runTest(self) -> None:
        self.control.insert(ARP_RESPONDER.entry({"target": GATEWAY}, mac=switch_mac(3)))
        reply = ARP(op=2, hwsrc=switch_mac(3), psrc=GATEWAY, hwdst=host_mac(3), pdst=HOST)
        self.send(3, request(GATEWAY))
        self.expect(3, bytes(Ether(src=switch_mac(3), dst=host_mac(3)) / reply) + PAD)


class Unanswered(FabricTest):
    """A request for another address, and a reply, are dropped and counted."""

    def runTest(self) -> None:
        self.control.insert(ARP_RESPONDER.entry({"target": GATEWAY}, mac=switch_mac(3)))
        self.send(3, request("10.0.0.77"), request(GATEWAY, operation=2))
        self.expect_nothing_more()
        self.expect_drops("arp-unanswered", 2)
