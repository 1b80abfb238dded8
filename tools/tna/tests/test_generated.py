"""How tests that P4Testgen makes are read, and what they may not expect."""

from __future__ import annotations

import pytest

from tna.generated import compared, parsed, refused

IPV4 = "45000014" + "00" * 16


def stf(ethertype: str, packet: str, *lines: str) -> str:
    return "\n".join(["# Traces", *lines, f"packet 0 {'00' * 12}{ethertype}{packet}", ""])


ROUTE = "add FabricIngress.route.ipv4_route 1 dst:0b**** FabricIngress.route.set_next_hop(port:0x1)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (stf("86DD", IPV4, ROUTE), "unknown EtherType"),
        (stf("0800", "45", ROUTE), "truncated"),
        (stf("0800", "65" + IPV4[2:], ROUTE), "version of IPv4"),
        (stf("0800", "46" + IPV4[2:], ROUTE), "header length of IPv4"),
        (stf("0800", "45000013" + IPV4[8:], ROUTE), "total length of IPv4"),
        (stf("0800", IPV4), "no route"),
        (stf("0800", IPV4, ROUTE), ""),
        (stf("0806", "000108000604" + "0002" + "00" * 20, ROUTE), "no ARP request"),
        ("packet 0 0011\n", "truncated"),
    ],
)
def test_why_nothing_goes_out(text: str, reason: str) -> None:
    assert refused(parsed(text)) == reason


def test_what_is_dropped_may_not_be_expected() -> None:
    sent, dropped = stf("0800", IPV4, ROUTE), stf("0800", IPV4)
    told = compared([parsed(sent + "expect 1 00$\n"), parsed(dropped)])
    assert told == "2 tests, 1 expect a frame; 1 agree that nothing goes out"
    with pytest.raises(ValueError, match="1 tests expect a frame that is dropped: no route"):
        compared([parsed(dropped + "expect 1 00$\n")])


def test_a_test_has_one_frame() -> None:
    with pytest.raises(ValueError, match="2 frames"):
        parsed("packet 0 00\npacket 0 00\n")
