# SPDX-License-Identifier: Apache-2.0
"""Tests of the model by which `ndp_tna.py` judges NDP's program for TNA."""

from __future__ import annotations

import pytest
from ndp_tna_model import (
    CONTROL,
    DEFLECTED_BYTES,
    TRIMMED_BYTES,
    Arrival,
    Fate,
    Host,
    Kind,
    Meter,
    Mode,
    Port,
    PortConfig,
    ndp_frame,
    other_frame,
    received,
    with_checksum,
)

A, B = (Host(port, f"02:01:00:00:00:0{port}", f"10.0.{port}.2", f"02:00:00:00:00:0{port}")
        for port in (4, 8))  # fmt: skip
GBIT = 10**9
US = 10**6
"""Picoseconds."""
BYTES = 1000
"""A frame that with FCS and what meters add costs them 1,029 bytes."""
CONFIG = PortConfig(8 * GBIT, burst_bytes=10_290, queue_bytes=1 << 30, adjust_bytes=25)


def data(at_ps: int) -> Arrival:
    """A packet of data."""
    return Arrival(at_ps, Kind.DATA, BYTES)


def test_a_header_has_the_checksum_of_rfc_1071() -> None:
    """The example that Wikipedia and others compute: 0xb861."""
    header = bytes.fromhex("45000073000040004011ffffc0a80001c0a800c7")
    assert with_checksum(header)[10:12] == b"\xb8\x61"


def test_a_frame_of_ndp_has_its_header_behind_udp() -> None:
    """Port 666, flags, number; control by its flags."""
    frame = ndp_frame(A, B, 0x1234, 1500, CONTROL)
    assert len(frame) == 1500
    assert frame[12:14] == b"\x08\x00"
    assert frame[36:38] == (666).to_bytes(2)
    assert (frame[42], frame[44:46]) == (CONTROL, b"\x12\x34")
    assert other_frame(A, B, 1, 200)[36:38] != frame[36:38]


def test_a_packet_leaves_whole_with_addresses_and_one_hop_less() -> None:
    """All else stays."""
    sent = ndp_frame(A, B, 7, 1500)
    got = received(sent, B, Fate.WHOLE)
    assert got[:12] == bytes.fromhex("020100000008020000000008")
    assert got[22] == 63
    assert with_checksum(got[14:34]) == got[14:34]
    assert (got[26:], got[14:22]) == (sent[26:], sent[14:22])


@pytest.mark.parametrize(
    ("fate", "length", "flags", "hops"),
    [(Fate.TRIMMED, TRIMMED_BYTES, 0x81, 64), (Fate.DEFLECTED, DEFLECTED_BYTES, 0x90, 62)],
)
def test_a_trimmed_packet_is_cut(fate: Fate, length: int, flags: int, hops: int) -> None:
    """Its header says so, and how long it is."""
    got = received(ndp_frame(A, B, 7, 1500, 1), B, fate)
    assert (len(got), got[42], got[22]) == (length, flags, hops)
    assert (got[16:18], got[38:40]) == (b"\x00\x2e", b"\x00\x1a")
    assert got[44:46] == b"\x00\x07"
    assert with_checksum(got[14:34]) == got[14:34]


def test_a_bucket_is_full_first_and_fills_at_its_rate() -> None:
    """A packet that finds too few tokens takes none."""
    meter = Meter(8 * GBIT, 1000)
    assert [meter.is_green(0, 400) for _ in range(3)] == [True, True, False]
    assert meter.tokens(0) == 200
    assert not meter.is_green(US // 5 - 1, 400)
    assert meter.is_green(US // 5, 400)
    assert meter.tokens(US // 5) == 0
    assert meter.tokens(US) == 800
    assert meter.tokens(10 * US) == 1000


def test_a_burst_that_fits_the_bucket_passes_whole() -> None:
    """Ten packets take all tokens; the next one is trimmed, not one that comes later."""
    port = Port(CONFIG)
    fates = [result.fate for result in port.run([data(0)] * 11 + [data(1_029_000)])]
    assert fates == [Fate.WHOLE] * 10 + [Fate.TRIMMED, Fate.WHOLE]


def test_packets_that_are_not_trimmed_take_tokens_too() -> None:
    """All three meters see control and other traffic."""
    arrivals = [Arrival(0, Kind.CONTROL, BYTES), Arrival(0, Kind.OTHER, BYTES), *[data(0)] * 9]
    fates = [result.fate for result in Port(CONFIG).run(arrivals)]
    assert fates == [Fate.WHOLE] * 10 + [Fate.TRIMMED]


def test_control_overtakes_and_the_other_queues_take_turns() -> None:
    """After the frame that is being sent."""
    kinds = [Kind.DATA] * 3 + [Kind.OTHER] * 2 + [Kind.CONTROL]
    results = Port(CONFIG).run(Arrival(0, kind, BYTES) for kind in kinds)
    order = sorted(range(6), key=lambda index: results[index].left_ps)
    # All are there when the first one starts, so that control is it.
    assert order == [5, 0, 3, 1, 4, 2]
    assert results[5].left_ps == 1_024_000


def test_a_full_queue_deflects_and_tells_the_port() -> None:
    """Then it is pessimistic until T0, halftimistic until T1 since the last packet of that kind."""
    config = PortConfig(8 * GBIT, 100 * 1_029, 3 * 1_003, 25)
    port = Port(config)
    results = port.run([data(0), data(1), data(2), data(3), data(4)])
    # The first one is being sent and takes no place in the queue.
    assert [result.fate for result in results] == [Fate.WHOLE] * 4 + [Fate.DEFLECTED]
    assert results[4].queue == 1
    assert results[4].left_ps < results[1].left_ps
    edges = {6_000_999: Mode.PESSIMISTIC, 6_001_000: Mode.HALFTIMISTIC,
             24_000_999: Mode.HALFTIMISTIC, 24_001_000: Mode.OPTIMISTIC}  # fmt: skip
    assert {at: port.mode(at) for at in edges} == edges


@pytest.mark.parametrize(("mode", "share"), [(Mode.OPTIMISTIC, 1), (Mode.PESSIMISTIC, 4)])
def test_under_overload_the_share_of_the_mode_passes(mode: Mode, share: int) -> None:
    """At eight times the rate, of 800 packets in 100 us."""
    config = PortConfig(8 * GBIT, 1_029, 1 << 30, 25)
    port = Port(config)
    if mode is Mode.PESSIMISTIC:
        port._told_ns = 10**9
    whole = sum(result.fate is Fate.WHOLE
                for result in port.run(data(n * 128_625) for n in range(800)))  # fmt: skip
    assert abs(whole - 800 // 8 // share) <= 1
