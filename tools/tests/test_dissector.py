"""The Wireshark dissector reads every shared byte vector as the vector says."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DISSECTOR = ROOT / "tools" / "wireshark" / "ebb.lua"
VECTORS = json.loads((ROOT / "docs" / "wire-vectors.json").read_text())

needs_tshark = pytest.mark.skipif(
    shutil.which("tshark") is None, reason="tshark is not on PATH: apt-get install tshark"
)


def tshark(tmp_path: Path, frames: list[bytes], *arguments: str) -> list[str]:
    """Output of tshark about frames, a line each."""
    capture = tmp_path / "frames.pcap"
    records = (struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames)
    capture.write_bytes(
        struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records)
    )
    command = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-r", str(capture), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Lua" not in done.stderr, done.stderr
    return done.stdout.splitlines()


@needs_tshark
def test_every_field_is_that_of_the_vector(tmp_path: Path) -> None:
    of_ebb = [each for each in VECTORS if each["fields"].get("ebb", {}).get("version") == 1]
    assert len(of_ebb) > 10
    names = list(of_ebb[0]["fields"]["ebb"])
    fields = [argument for name in names for argument in ("-e", f"ebb.{name}")]
    frames = [bytes.fromhex(each["frame"]) for each in of_ebb]
    lines = tshark(tmp_path, frames, "-T", "fields", *fields, "-e", "_ws.expert.message")
    for vector, line in zip(of_ebb, lines, strict=True):
        *values, told = line.split("\t")
        read = {name: int(value, 0) for name, value in zip(names, values, strict=True)}
        assert read == vector["fields"]["ebb"], vector["name"]
        assert ("checksum is wrong" in told) != vector["ebb_checksum_ok"], vector["name"]
        assert ("has cut the payload" in told) == bool(read["flags"] & 4), vector["name"]


@needs_tshark
def test_the_list_says_what_a_packet_is_about(tmp_path: Path) -> None:
    by_name = {each["name"]: bytes.fromhex(each["frame"]) for each in VECTORS}
    expected = {
        "ndp-data-fin-retransmit": "DATA packet 69, session 0xc0ffee42 [FIN,RETRANSMIT]",
        "scdp-symbol-full": "SYMBOL block 300 symbol 66051, session 0xc0ffee42 [REPAIR]",
        "pull-fin": "PULL 112 packets in all, session 0xc0ffee42 [FIN]",
        "nack": "NACK packet 68, session 0xc0ffee42",
        "reset": "RESET impossible or too large sizes, session 0xc0ffee42",
    }
    lines = tshark(
        tmp_path,
        [by_name[name] for name in expected],
        *("-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info"),
    )
    assert lines == [f"Ebb\t{text}" for text in expected.values()]


@needs_tshark
def test_other_packets_of_protocol_253_are_left_alone(tmp_path: Path) -> None:
    """One of another version, one that is cut within the header, and one of somebody else."""
    vectors: dict[str, Any] = {each["name"]: each for each in VECTORS}
    whole = bytes.fromhex(vectors["pull"]["frame"])
    frames = [
        bytes.fromhex(vectors["data-bad-version"]["frame"]),
        whole[: 14 + 20 + 47],
        whole[: 14 + 20] + bytes(48),
    ]
    lines = tshark(tmp_path, frames, "-T", "fields", "-e", "ebb.session", "-e", "_ws.col.Protocol")
    assert [line.partition("\t")[0] for line in lines] == ["", "", ""]
    assert all("Ebb" not in line for line in lines)
