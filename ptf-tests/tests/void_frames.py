# SPDX-License-Identifier: Apache-2.0
"""Void frames: the first switch drops them at the ports of hosts, and counts them."""

from __future__ import annotations

from ebb_controller.mechanisms.void_frames import VOID_FRAMES, VOID_IN
from fabric_test import FabricTest
from frames import host_ip, host_mac, routed, udp
from scapy.layers.l2 import Ether

ETHERTYPE = 0x88B5
"""That of `VoidFrame` in common/wire."""


def void(port: int, length: int) -> bytes:
    """A void frame of the host at a port, without FCS."""
    frame = bytes(Ether(src=host_mac(port), dst=host_mac(port), type=ETHERTYPE))
    return frame.ljust(length, b"\0")


class VoidTest(FabricTest):
    program = "fabric_tenants"


class DroppedAtHosts(VoidTest):
    """Void frames of any length are dropped, whatever they carry; others around them pass."""

    def runTest(self) -> None:
        self.control.insert(VOID_FRAMES.entry({"ingress_port": 1}))
        mac = bytes.fromhex(host_mac(1).replace(":", ""))
        frame = udp(host_ip(2), length=500)
        voids = [void(1, 60), void(1, 777), void(1, 1_514), mac + mac + frame[12:]]
        self.send(1, voids[0], frame, *voids[1:], frame)
        self.expect(2, routed(frame, 2), routed(frame, 2))
        self.expect_nothing_more()
        self.expect_drops("void-frame", len(voids))
        count = self.control.wait_for_count(VOID_IN, 1, len(voids))
        self.assertEqual(count.bytes, self.counted(*voids))


class NothingSpecialElsewhere(VoidTest):
    """At a port without an entry a frame of that type is one of an unknown type, and IPv4 to its
    own sender's address is routed."""

    def runTest(self) -> None:
        self.control.insert(VOID_FRAMES.entry({"ingress_port": 2}))
        self.send(1, void(1, 60))
        self.expect_drops("unknown-ethertype", 1)
        mac = bytes.fromhex(host_mac(1).replace(":", ""))
        frame = udp(host_ip(3), length=200)
        self.send(1, mac + mac + frame[12:])
        self.expect(3, routed(frame, 3))
        self.expect_drops("void-frame", 0)
        self.expect_count(VOID_IN, 1, 0)
