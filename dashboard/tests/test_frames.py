"""Descriptions of captured frames, whatever is in the file."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from ebb_dashboard import frames
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import ARP, Ether


def header(order: str) -> bytes:
    return struct.pack(f"{order}IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 1)


def capture(path: Path, *packets: bytes, order: str = ">") -> Path:
    """A file with a frame per microsecond, cut after 60 bytes, in either order of bytes."""
    records = (
        struct.pack(f"{order}IIII", 7, 1000 * n, len(packet[:60]), len(packet)) + packet[:60]
        for n, packet in enumerate(packets)
    )
    path.write_bytes(header(order) + b"".join(records))
    return path


@pytest.mark.parametrize("order", ["<", ">"])
def test_frames_in_a_line_each(tmp_path: Path, order: str) -> None:
    tcp = Ether() / IP(src="10.0.0.2", dst="10.0.1.3", tos=(10 << 2) | 3, ttl=62) / TCP()
    ebb = Ether() / IP(src="10.0.0.2", dst="10.0.1.3", proto=253, tos=2) / (b"x" * 1400)
    file = capture(tmp_path / "x", *map(bytes, (tcp, ebb, Ether() / ARP(), b"\x02")), order=order)
    first, second, third, short = frames.first(file, "in")
    assert first == {
        "at_ns": 7_000_000_000,
        "direction": "in",
        "bytes": 54,
        "text": "10.0.0.2 > 10.0.1.3 TCP, dscp 10, ecn CE, ttl 62",
    }
    assert (second["at_ns"], second["bytes"]) == (7_000_001_000, 1434)
    assert "NDP, SCDP or Trevi, dscp 0, ecn ECT(0)" in second["text"]
    assert third["text"] == "Ethernet type 0x0806"
    assert short["text"] == "no whole Ethernet header"


def test_only_so_many_are_told(tmp_path: Path) -> None:
    file = capture(tmp_path / "x", *[b"\0" * 60] * 500)
    assert len(frames.first(file, "out")) == frames.MAX_FRAMES


@pytest.mark.parametrize("cut", [0, 3, 23, 24, 30, 41, 80])
def test_a_file_that_is_cut_short_tells_what_is_whole(tmp_path: Path, cut: int) -> None:
    file = capture(tmp_path / "x", b"\0" * 60, b"\0" * 60)
    file.write_bytes(file.read_bytes()[:cut])
    assert frames.first(file, "in") == []
    assert frames.first(tmp_path / "missing", "in") == []


def test_random_bytes_are_no_harm(tmp_path: Path) -> None:
    draw = random.Random(1)
    for _ in range(200):
        file = tmp_path / "x"
        file.write_bytes(header("<") + draw.randbytes(draw.randrange(300)))
        frames.first(file, "in")
        frames.described(draw.randbytes(draw.randrange(60)))
