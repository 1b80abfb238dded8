# SPDX-License-Identifier: Apache-2.0
"""The wire vectors, and the scapy layer behind them, checked against numbers from elsewhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ebb_scapy import (
    EBB_HEADER_BYTES,
    MIN_TRIM_SIZE,
    Ebb,
    Flag,
    crc32c,
    internet_checksum,
    returned,
    trimmed,
)
from scapy.layers.inet import IP
from scapy.layers.l2 import Ether
from wire_vectors import FILE, TRIM_SIZE, render

VECTORS: list[dict[str, Any]] = json.loads(FILE.read_text())
BY_NAME = {vector["name"]: vector for vector in VECTORS}


def frame_of(name: str) -> bytes:
    return bytes.fromhex(BY_NAME[name]["frame"])


def test_the_committed_file_is_what_the_program_makes() -> None:
    assert FILE.read_text() == render(), "run `python ptf-tests/wire_vectors.py`"


@pytest.mark.parametrize(
    ("data", "crc"),
    # RFC 3720, appendix B.4, and the check value of the CRC catalogue
    [
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_crc32c(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


def test_internet_checksum_of_rfc_1071() -> None:
    assert internet_checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0x220D


def test_header_has_48_bytes_and_round_trips() -> None:
    header = Ebb(flags=Flag.SYN, block=300, symbol=0x010203, pull=7, multicast_group=9)
    raw = bytes(header)
    assert len(raw) == EBB_HEADER_BYTES
    assert bytes(Ebb(raw)) == raw
    assert internet_checksum(raw) == 0


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["fields"].get("ipv4")],
                         ids=lambda v: v["name"])  # fmt: skip
def test_ipv4_header_is_right(vector: dict[str, Any]) -> None:
    frame = bytes.fromhex(vector["frame"])
    assert internet_checksum(frame[14:34]) == 0
    assert Ether(frame)[IP].len == len(frame) - 14


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["fields"].get("ebb")],
                         ids=lambda v: v["name"])  # fmt: skip
def test_fields_stand_where_the_document_says(vector: dict[str, Any]) -> None:
    header = bytes.fromhex(vector["frame"])[34:82]
    ebb = vector["fields"]["ebb"]
    assert header[0] == ebb["version"] << 4 | ebb["type"]
    assert header[1] == ebb["flags"]
    assert header[2] == ebb["level"]
    assert header[3] == ebb["sender"] << 4 | ebb["senders"]
    offsets = {
        "sport": (4, 2), "dport": (6, 2), "session": (8, 4), "block": (12, 4), "symbol": (16, 3),
        "priority": (19, 1), "pull": (20, 4), "entropy": (24, 2), "checksum": (26, 2),
        "payload_crc": (28, 4), "object_length": (32, 8), "symbol_size": (40, 2),
        "block_symbols": (42, 2), "payload_length": (44, 2), "multicast_group": (46, 2),
    }  # fmt: skip
    for name, (at, size) in offsets.items():
        assert int.from_bytes(header[at : at + size], "big") == ebb[name], name


def test_pfc_frames_are_those_of_the_standard() -> None:
    # IEEE 802.1Q, 36.1.3.3 and 802.3, 31D: address, type, opcode, vector, eight times, padding.
    header = "0180c200000102000000000788080101"
    times = {"pfc-pause": "0008" "000000000000ffff0000000000000000",
             "pfc-resume": "0008" "00000000000000000000000000000000",
             "pfc-several": "00c1" "ffff0000000000000000000000020000"}  # fmt: skip
    for name, rest in times.items():
        assert frame_of(name) == bytes.fromhex(header + rest).ljust(60, b"\0"), name


def test_vectors_name_their_damage() -> None:
    assert {v["name"] for v in VECTORS if v["ebb_checksum_ok"] is False} == {"pull-bad-checksum"}
    assert {v["name"] for v in VECTORS if v["payload_crc_ok"] is False} == {"data-bad-crc"}


@pytest.mark.parametrize("name", ["ndp-data-syn", "scdp-symbol-full"])
@pytest.mark.parametrize("size", [MIN_TRIM_SIZE, TRIM_SIZE, 200])
def test_trim(name: str, size: int) -> None:
    whole = frame_of(name)
    cut = trimmed(whole, size)
    before, after = Ether(whole), Ether(cut)
    assert len(cut) == size
    assert after[IP].len == size - 14
    assert after[IP].tos & 3 == before[IP].tos & 3
    assert internet_checksum(cut[14:34]) == 0
    assert internet_checksum(cut[34:82]) == 0
    assert int(after[Ebb].flags) == int(before[Ebb].flags) | Flag.TRIMMED
    untouched = {f.name for f in Ebb.fields_desc} - {"flags", "checksum"}
    for field in untouched:
        assert after[Ebb].getfieldval(field) == before[Ebb].getfieldval(field)


@pytest.mark.parametrize("name", ["ndp-data-trimmed", "ndp-data-trimmed-min"])
def test_return(name: str) -> None:
    header = frame_of(name)
    back = returned(header)
    before, after = Ether(header), Ether(back)
    assert (after[IP].src, after[IP].dst) == (before[IP].dst, before[IP].src)
    assert after[IP].chksum == before[IP].chksum
    assert internet_checksum(back[14:34]) == 0
    assert internet_checksum(back[34:82]) == 0
    assert int(after[Ebb].flags) == int(before[Ebb].flags) | Flag.RETURNED
    assert len(back) == len(header)
    for field in {f.name for f in Ebb.fields_desc} - {"flags", "checksum"}:
        assert after[Ebb].getfieldval(field) == before[Ebb].getfieldval(field)


def test_a_short_frame_is_not_trimmed() -> None:
    whole = frame_of("pull")
    assert trimmed(whole, len(whole)) == whole
