"""Bounds of the differences of TNA's arithmetic; 200 sequences of each kind.

docs/porting-tofino.md has 100 000."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tna import arithmetic
from tna.arithmetic import Packet

SEQUENCES = 200
INCLUDE = Path(__file__).resolve().parents[3] / "p4src" / "tna" / "include"


@pytest.mark.parametrize("gbps", [1, 10, 100])
def test_the_backlog_of_the_phantom_queue_is_within_a_hundred_bytes(gbps: int) -> None:
    errors, _v1model = arithmetic.phantom_errors(SEQUENCES, 1, gbps)
    assert errors.packets == SEQUENCES * arithmetic.PACKETS
    assert 0 < errors.largest < 100
    assert abs(errors.total / errors.packets) < 10
    assert errors.decisions / errors.packets < 0.02


def test_a_phantom_queue_after_a_pause_is_empty_and_counts_the_packet_before() -> None:
    rate = round(arithmetic.GBPS * 0.95)
    packets = [Packet(0, 1514), Packet(1, 1514), Packet(10**7, 60), Packet(10**7, 60)]
    assert arithmetic.phantom_tna(packets, rate) == [0, 1514, 0, 60]
    # The clock has 32 bits: a pause of a whole turn is none.
    assert arithmetic.phantom_tna([Packet(0, 1514), Packet(2**32, 60)], rate) == [0, 1514]


def test_a_meter_refuses_nearly_what_the_queue_refuses() -> None:
    errors = arithmetic.occupancy_errors(SEQUENCES, 1)
    assert errors.decisions / errors.packets < 0.01
    burst = [Packet(0, 1500)] * 9
    assert arithmetic.occupancy_meter(burst, 10**10, 12_000) == [False] * 8 + [True]


def test_two_sums_spread_as_the_product_does_and_one_polarises() -> None:
    for per_packet in (False, True):
        flows = 8_000
        found = {
            kind: arithmetic.spread(kind, flows, 1, per_packet=per_packet)
            for kind in arithmetic.PATHS
        }
        # Sixteen counts of 500: five standard deviations are 22 %.
        assert found["TNA"].polarised < 0.22
        assert found["v1model"].polarised < 0.22
        assert found["a single sum"].polarised > 0.3


def test_flags_and_checksum_of_the_ebb_header_are_the_same_bytes() -> None:
    assert arithmetic.flag_errors() == 0
    assert arithmetic.flags_tna(0x0003, 0, arithmetic.TRIMMED) == (0xFFFE, arithmetic.TRIMMED)


def test_the_model_has_the_entries_of_the_program() -> None:
    source = (INCLUDE / "ebb_flags.p4").read_text()
    told = re.findall(
        r"\(EBB_CHANGE_(\w+), +(\d), (?:0\.\.(0x\w+)|_)\) +: set_flags\((0x\w+)", source
    )
    wanted = {"TRIMMED": arithmetic.TRIMMED, "RETURNED": arithmetic.TRIMMED | arithmetic.RETURNED}
    entries = tuple(
        (
            wanted[change],
            arithmetic.TRIMMED * int(there),
            int(highest or "0xFFFF", 16),
            int(add, 16),
        )
        for change, there, highest, add in told
    )
    assert entries == arithmetic._FLAG_ENTRIES


def test_crc16_is_the_one_of_p4() -> None:
    assert arithmetic.crc16(b"123456789") == 0xBB3D
