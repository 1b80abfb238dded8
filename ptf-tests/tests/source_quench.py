# SPDX-License-Identifier: Apache-2.0
"""The senders of TCP packets that CoDel would have dropped get an ICMP Source Quench, byte for byte
(docs/source-quench.md); the packets go on."""

from __future__ import annotations

from typing import Any

from codel_test import CodelTest
from ebb_controller.mechanisms.source_quench import QUENCHED, SOURCE_QUENCH, session
from ebb_scapy import ETHERNET_HEADER_BYTES, Ecn, internet_checksum
from fabric_test import DATA_QUEUE
from finsy import P4CloneSessionEntry
from frames import (
    FULL_FRAME_BYTES,
    SENDER_IP,
    frame,
    host_ip,
    host_mac,
    routed,
    switch_mac,
    tcp,
    udp,
)
from scapy.layers.inet import TCP, IPOption_Router_Alert

SENDER_PORT = 1
"""By which frames come in, and messages leave."""
DUE = 4
"""Index of the frame that is due, if frames come at once to an empty queue."""
QUOTED_BYTES = 8
"""Bytes quoted of what the IPv4 header is for."""


class QuenchTest(CodelTest):
    """Port 2 tells the senders behind port 1. Target 20 ms, interval 300 ms."""

    def setUp(self) -> None:
        super().setUp()
        self.codel("source-quench", target_ms=20, interval_ms=300)

    def switch_on(self) -> None:
        port, queue = SENDER_PORT, DATA_QUEUE
        ours, theirs = switch_mac(port), host_mac(port)
        self.control.insert(SOURCE_QUENCH.entry({"port": port}, src_mac=ours, dst_mac=theirs))
        self.control.insert(
            P4CloneSessionEntry(session(port, queue), class_of_service=queue, replicas=[port])
        )

    def send_all(self, frames: list[bytes]) -> list[bytes]:
        """Sends frames to host 2, the first of which keeps the link busy; returns all as they
        leave."""
        self.occupy(2, frames[0])
        self.send(SENDER_PORT, *frames[1:])
        return [routed(each, 2) for each in frames]


def full(number: int, **fields: Any) -> bytes:
    """A full TCP segment to host 2."""
    return tcp(host_ip(2), sport=1000 + number, **({"length": FULL_FRAME_BYTES} | fields))


def with_checksum(part: bytes, at: int) -> bytes:
    """The bytes with their internet checksum at an offset where they have 0."""
    return part[:at] + internet_checksum(part).to_bytes(2, "big") + part[at + 2 :]


def quench(left: bytes, dscp: int = 0) -> bytes:
    """The message (RFC 792) about a frame to host 2, which left as here."""
    header = left[ETHERNET_HEADER_BYTES:]
    quotation = header[: (header[0] & 0xF) * 4 + QUOTED_BYTES]
    icmp = with_checksum(bytes.fromhex("0400 0000 00000000") + quotation, 2)
    length = (20 + len(icmp)).to_bytes(2, "big")
    addresses = bytes(int(n) for n in f"{host_ip(2)}.{SENDER_IP}".split("."))
    ip = bytes([0x45, dscp << 2]) + length + bytes.fromhex("0000 4000 40 01 0000") + addresses
    macs = bytes.fromhex((host_mac(SENDER_PORT) + switch_mac(SENDER_PORT)).replace(":", ""))
    return macs + bytes.fromhex("0800") + with_checksum(ip, 10) + icmp


class Told(QuenchTest):
    """One message for the frame that is due, 70 bytes; that one leaves as all do, ECT or not."""

    def runTest(self) -> None:
        self.switch_on()
        left = self.send_all([full(i, ecn=Ecn.ECT0 if i == DUE else Ecn.NOT_ECT) for i in range(7)])
        expected = quench(left[DUE])
        self.assertEqual(len(expected), 70)
        self.expect(SENDER_PORT, expected)
        self.expect(2, *left)
        self.expect_nothing_more()
        self.expect_count(QUENCHED, 2, 1)
        self.expect_drops("codel", 0)


class Options(QuenchTest):
    """Options of the packet are quoted, and its class is that of the message."""

    def runTest(self) -> None:
        self.switch_on()
        frames = [full(i) for i in range(7)]
        layer = TCP(sport=9, dport=80, seq=0xDEADBEEF, flags="PA")
        frames[DUE] = frame(
            layer, host_ip(2), length=FULL_FRAME_BYTES, dscp=34, options=IPOption_Router_Alert()
        )
        left = self.send_all(frames)
        expected = quench(left[DUE], dscp=34)
        self.assertEqual(len(expected), 74)
        self.expect(SENDER_PORT, expected)
        self.expect(2, *left)


class OthersGetNone(QuenchTest):
    """Nobody is notified of UDP or of a fragment, and nobody behind a port without an entry."""

    def runTest(self) -> None:
        self.expect(2, *self.send_all([full(i) for i in range(7)]))
        self.switch_on()
        others = [udp(host_ip(2), sport=i, length=FULL_FRAME_BYTES) for i in range(7)]
        others += [full(i, frag=3) for i in range(7)]
        self.send(SENDER_PORT, *others)
        self.expect(2, *(routed(each, 2) for each in others))
        self.expect_nothing_more()
        self.expect_count(QUENCHED, 2, 0)
