# SPDX-License-Identifier: Apache-2.0
"""What may not be forwarded is dropped, and counted by reason."""

from __future__ import annotations

from ebb_controller.drop_reason import REASONS
from ebb_controller.mechanisms.counters import DROPPED, PORT_IN
from fabric_test import FabricTest
from frames import ANY_MAC, ebb, host_ip, pull, routed, tcp, udp, with_ipv4
from scapy.layers.l2 import Ether

ETHERNET = 14
IPV4 = 20


def _bad_frames() -> list[tuple[str, bytes]]:
    full = ebb(host_ip(2), length=1500)
    wrong_checksum = bytearray(full)
    wrong_checksum[ETHERNET + 10] ^= 0xFF
    return [
        ("truncated", full[:ETHERNET]),
        ("truncated", full[: ETHERNET + 8]),
        ("truncated", with_ipv4(full[: ETHERNET + IPV4 + 20], b2=0, b3=40)),
        ("truncated", bytes(Ether(dst="ff:ff:ff:ff:ff:ff", type=0x0806)) + b"\0\1" * 8),
        # The frame is long enough, the IPv4 packet ends inside the header.
        ("truncated", with_ipv4(pull(host_ip(2)), b2=0, b3=IPV4 + 40)),
        ("truncated", with_ipv4(tcp(host_ip(2), length=80), b2=0, b3=IPV4 + 19)),
        ("truncated", with_ipv4(udp(host_ip(2), length=80), b2=0, b3=IPV4 + 7)),
        # IHL says 60 bytes, the frame has less.
        ("truncated", with_ipv4(tcp(host_ip(2), length=60), b0=0x4F)),
        ("ipv4-version", with_ipv4(full, b0=0x65)),
        ("ipv4-header-length", with_ipv4(full, b0=0x44)),
        ("ipv4-total-length", with_ipv4(full, b2=0, b3=IPV4 - 1)),
        ("ipv4-total-length", full[:1400]),
        ("ipv4-total-length", full[:-1]),
        ("ipv4-checksum", bytes(wrong_checksum)),
        ("ttl-expired", tcp(host_ip(2), ttl=1)),
        ("ttl-expired", tcp(host_ip(2), ttl=0)),
        ("ebb-version", ebb(host_ip(2), version=0, length=200)),
        ("ebb-version", ebb(host_ip(2), version=2, length=200)),
        ("unknown-ethertype", bytes(Ether(dst=ANY_MAC, type=0x86DD)) + bytes(60)),
    ]


class DroppedAndCounted(FabricTest):
    """Each frame goes alone, so that a wrong reason is seen with the frame that caused it."""

    def runTest(self) -> None:
        self.classes()
        frames = _bad_frames()
        for number, (reason, frame) in enumerate(frames):
            with self.subTest(number=number, reason=reason):
                before = self.control.counter(DROPPED, REASONS[reason])
                self.send(1, frame)
                self.expect_drops(reason, before.packets + 1)
        self.expect_nothing_more()
        total = sum(self.control.counter(DROPPED, each).packets for each in REASONS.values())
        self.assertEqual(total, len(frames))


class Garbage(FabricTest):
    """Every prefix and many single-byte changes of a good packet: the switch lives on."""

    def runTest(self) -> None:
        self.classes()
        good = pull(host_ip(2))
        # Linux does not send frames that are shorter than an Ethernet header.
        frames = [good[:length] for length in range(ETHERNET, len(good))]
        frames += [good[:at] + bytes([good[at] ^ 0x5A]) + good[at + 1 :] for at in range(len(good))]
        for number, frame in enumerate(frames, start=1):
            self.send(1, frame)
            if number % 10 == 0:  # a longer burst does not fit into BMv2's receive buffer
                self.expect_count(PORT_IN, 1, number)
        self.expect_count(PORT_IN, 1, len(frames))
        # Some changes leave a good packet: what it became is on its way, up to a last one we send.
        last = udp(host_ip(2), sport=9)
        self.send(1, last)
        while self.receive(2) != routed(last, 2):
            pass
        self.expect_nothing_more()
