"""The table of validity.p4 of p4src/tna against the rules of v1model, its parser and validity."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[3] / "p4src" / "tna" / "include"
SOURCE = (INCLUDE / "validity.p4").read_text()
KEYS = re.findall(r'(?:ternary|range) @name\("(\w+)"\)', SOURCE)
ENTRIES = [
    (dict(zip(KEYS, re.split(r",\s*", key), strict=True)), action)
    for key, action in re.findall(r"^ +\((.*)\) : (.*);$", SOURCE, re.MULTILINE)
]
SHORTEST = {"tcp": 40, "udp": 28, "ebb": 68}
"""Shortest IPv4 packet with a whole header, in bytes."""


def matches(asked: str, value: int) -> bool:
    if asked == "_":
        return True
    if asked in ("true", "false"):
        return value == (asked == "true")
    low, _dots, high = asked.partition("..")
    return int(low) <= value <= int(high or low)


def decided(packet: dict[str, int]) -> str:
    """Verdict of the table on a packet: a drop reason, or nothing."""
    for asked, action in ENTRIES:
        if all(matches(asked[key], packet[key]) for key in KEYS):
            found = re.fullmatch(r"refuse\(DropReason\.(\w+)\)", action)
            return found[1] if found else ""
    return "TRUNCATED"  # the default action


def ruled(packet: dict[str, int]) -> str:
    """Verdict of v1model: parser.p4, whose first failed check counts, then validity.p4. It lacks
    what TNA does not know, that a packet ends beyond its frame."""
    if packet["parser_err"]:
        return "TRUNCATED"
    if packet["ipv4"]:
        if packet["version"] != 4:
            return "IPV4_VERSION"
        if packet["ihl"] < 5:
            return "IPV4_HEADER_LENGTH"
        if packet["total_length"] < packet["ihl"] * 4:
            return "IPV4_TOTAL_LENGTH"
        if any(packet[name] and packet["total_length"] < least for name, least in SHORTEST.items()):
            return "TRUNCATED"
        if packet["checksum_error"]:
            return "IPV4_CHECKSUM"
        return "EBB_VERSION" if packet["ebb"] and packet["ebb_version"] != 1 else ""
    return "" if packet["arp"] else "UNKNOWN_ETHERTYPE"


def packet(**fields: int) -> dict[str, int]:
    return dict.fromkeys(KEYS, 0) | fields


LENGTHS = (0, 19, 20, 27, 28, 39, 40, 67, 68, 1500, 65_535)


@pytest.mark.parametrize("inner", ["", *SHORTEST])
def test_every_ipv4_packet_gets_the_reason_of_v1model(inner: str) -> None:
    cases = 0
    for version, ihl, length, wrong, ebb_version, error in product(
        (4, 6), range(6), LENGTHS, (0, 1), (0, 1, 2), (0, 2)
    ):
        if inner and ihl != 5:  # the parser looks no further
            continue
        given = packet(ipv4=1, version=version, ihl=ihl, total_length=length)
        given |= {"checksum_error": wrong, "ebb_version": ebb_version, "parser_err": error}
        if inner:
            given[inner] = 1
        assert decided(given) == ruled(given), given
        cases += 1
    assert cases >= 200


def test_other_frames_too() -> None:
    for arp, error in product((0, 1), (0, 2)):
        given = packet(arp=arp, parser_err=error)
        assert decided(given) == ruled(given)


def test_packets_with_options_are_dropped_here() -> None:
    """The difference that docs/porting-tofino.md tells."""
    for ihl in range(6, 16):
        given = packet(ipv4=1, version=4, ihl=ihl, total_length=1500)
        assert ruled(given) == ""
        assert decided(given) == "IPV4_HEADER_LENGTH"


def test_packets_that_pass_have_their_length_measured() -> None:
    passing = [action for _asked, action in ENTRIES if not action.startswith("refuse")]
    assert passing == ["NoAction()", "measure()", "measure()"]
    assert len(ENTRIES) == 13
