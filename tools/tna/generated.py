"""Tests of P4Testgen in the STF format against the expectations of ptf-tests: a frame that no
switch of ours sends on must not be expected at a port."""

from __future__ import annotations

import re
from dataclasses import dataclass

ETHERNET_BYTES, IPV4_BYTES = 14, 20
IPV4, ARP = 0x0800, 0x0806
ARP_REQUEST = 1
ANSWERS = ("ipv4_route", "arp_responder")
"""Tables one of which has to have an entry, or nothing goes out."""


@dataclass(frozen=True)
class Generated:
    """A test: a frame goes in; it, or another, comes out or not."""

    frame: bytes
    entries: tuple[str, ...]
    """Tables, by their last name, that the test has added entries to."""
    expects: bool
    """Whether the test expects a frame at some port."""


def parsed(text: str) -> Generated:
    """A test of the STF format. Raises `ValueError` unless one frame goes in."""
    frames = re.findall(r"^packet \d+ ([0-9A-Fa-f]*)\s*$", text, re.MULTILINE)
    if len(frames) != 1 or len(frames[0]) % 2:
        raise ValueError(f"a test has {len(frames)} frames of whole bytes, not one")
    tables = re.findall(r"^add (?:\w+\.)*(\w+) ", text, re.MULTILINE)
    expects = re.search(r"^expect ", text, re.MULTILINE) is not None
    return Generated(bytes.fromhex(frames[0]), tuple(tables), expects)


def refused(test: Generated) -> str:
    """Why nothing of this test goes out of a switch of ours; empty: that is not said."""
    frame = test.frame
    if len(frame) < ETHERNET_BYTES:
        return "truncated"
    ethertype = int.from_bytes(frame[12:14], "big")
    packet = frame[ETHERNET_BYTES:]
    if ethertype == ARP:
        if len(packet) < 28 or int.from_bytes(packet[6:8], "big") != ARP_REQUEST:
            return "no ARP request"
    elif ethertype == IPV4:
        reason = _malformed(packet)
        if reason:
            return reason
    else:
        return "unknown EtherType"
    return "" if set(ANSWERS) & set(test.entries) else "no route"


def _malformed(packet: bytes) -> str:
    if len(packet) < IPV4_BYTES:
        return "truncated"
    version, words = packet[0] >> 4, packet[0] & 15
    if version != 4:
        return "version of IPv4"
    if words != IPV4_BYTES // 4:
        return "header length of IPv4"
    return "total length of IPv4" if int.from_bytes(packet[2:4], "big") < IPV4_BYTES else ""


def compared(tests: list[Generated]) -> str:
    """How many tests there are, and of how many frames nothing may go out. Raises `ValueError`
    where a test expects something of one of those."""
    wrong = [refused(test) for test in tests if test.expects and refused(test)]
    if wrong:
        raise ValueError(f"{len(wrong)} tests expect a frame that is dropped: {', '.join(wrong)}")
    sure, expecting = sum(bool(refused(test)) for test in tests), sum(t.expects for t in tests)
    return f"{len(tests)} tests, {expecting} expect a frame; {sure} agree that nothing goes out"
