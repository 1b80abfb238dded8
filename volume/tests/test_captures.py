"""Captures, whole and damaged, as bins."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import capture_files as made
import numpy as np
import pyarrow as pa
import pytest
from ebb_topologies.errors import InputError
from ebb_volume import captures, sources, streams
from ebb_volume.headers import network
from ebb_volume.notes import Damaged, Notes
from ebb_volume.selection import Selection
from ebb_volume.series import Binner, Name
from ebb_volume.sources import Loaded

FRAME = made.ethernet(made.ipv4())
MS = 10**6


def load(path: Path, content: bytes, slot_ns: int = MS, **more: object) -> Loaded:
    path.write_bytes(content)
    return sources.load([path], slot_ns, keep_edges=True, **more)  # type: ignore[arg-type]


def volumes(loaded: Loaded) -> dict[str, list[int]]:
    return {str(series.name): series.bytes.tolist() for series in loaded.series}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_pcap_of_either_order_and_resolution(tmp_path: Path, order: str, nano: bool) -> None:
    frames: list[made.Frame] = [(0, FRAME), (999_999, FRAME, 1500), (3 * MS, FRAME)]
    loaded = load(tmp_path / "a.pcap", made.pcap(frames, order, nano))
    assert volumes(loaded) == {"a": [114 + 1500, 0, 0, 114]}
    (series,) = loaded.series
    assert series.start_ns == made.BEGIN_S * 10**9
    assert series.packets.tolist() == [2, 0, 0, 1]
    assert not list(loaded.notes)


def test_nanoseconds_are_not_rounded(tmp_path: Path) -> None:
    loaded = load(tmp_path / "a.pcap", made.pcap([(7, FRAME), (9, FRAME)], nano=True), 1)
    assert loaded.series[0].bytes.tolist() == [114, 0, 114]
    assert loaded.series[0].start_ns == made.BEGIN_S * 10**9 + 7


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_with_interfaces_of_different_units(tmp_path: Path, order: str) -> None:
    """Microseconds, nanoseconds and 2^-20 s; an unknown block and a second section."""
    content = (
        made.section(order)
        + made.interface(order=order)
        + made.interface(options=made.resolution(9, order), order=order)
        + made.interface(options=made.resolution(0x80 | 20, order), order=order)
        + made.block(0xBAD, bytes(40), order)
        + made.enhanced(0, 2_000, FRAME, order=order)
        + made.enhanced(1, 2_000_000, FRAME, 200, order=order)
        + made.enhanced(2, 1 << 19, FRAME, order=order)
        + made.section(order)
        + made.interface(order=order)
        + made.enhanced(0, 1_000, FRAME, 300, order=order)
    )
    loaded = load(tmp_path / "a.pcapng", content)
    (series,) = loaded.series
    assert (series.start_ns, series.bytes[0], series.bytes[1]) == (MS, 300, 314)
    assert (len(series), series.bytes[-1]) == (500, 114)
    assert not list(loaded.notes)


def test_compressed_captures_are_the_same(tmp_path: Path) -> None:
    plain = made.pcap([(i * 100_000, FRAME) for i in range(5_000)])
    expected = volumes(load(tmp_path / "a.pcap", plain))
    assert volumes(load(tmp_path / "a.pcap.gz", gzip.compress(plain))) == expected
    two = gzip.compress(plain[:1000]) + gzip.compress(plain[1000:])
    assert volumes(load(tmp_path / "a.pcap.gz", two)) == expected
    packed = pa.Codec("zstd").compress(plain, asbytes=True)
    assert volumes(load(tmp_path / "a.pcap.zst", packed)) == expected


def test_records_across_pieces_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of 37 bytes give what a file in one piece gives."""
    frames: list[made.Frame] = [(i * MS, FRAME[: 20 + i % 90], 60 + i) for i in range(200)]
    ng = made.section() + made.interface()
    ng += b"".join(made.enhanced(0, t // 1000, f, n) for t, f, n in frames)  # type: ignore[misc]
    for content in (made.pcap(frames), ng):
        whole = load(tmp_path / "a.pcap", content)
        with monkeypatch.context() as patch:
            patch.setattr(streams, "PIECE_BYTES", 37)
            assert volumes(load(tmp_path / "a.pcap", content)) == volumes(whole)
        assert sum(volumes(whole)["a"]) == sum(60 + i for i in range(200))


# -- what is wrong with an input: one line, and the good part --------------------------------------


def good(path: Path, content: bytes, packets: int, *words: str) -> None:
    """That many packets are used, and a remark has these words."""
    loaded = load(path, content)
    assert loaded.packets == packets
    assert sum(int(series.packets.sum()) for series in loaded.series) == packets
    (note,) = loaded.notes
    assert "\n" not in note
    for word in words:
        assert word in note, note


def refused(path: Path, content: bytes, *words: str) -> None:
    with pytest.raises(InputError) as caught:
        load(path, content)
    assert "\n" not in str(caught.value)
    for word in words:
        assert word in str(caught.value)


THREE = made.pcap([(i * MS, FRAME) for i in range(3)])


def test_an_empty_file_and_one_of_a_header(tmp_path: Path) -> None:
    refused(tmp_path / "a.pcap", b"", "a.pcap: is empty")
    refused(tmp_path / "a.pcap", THREE[:24], "a.pcap: no packet that counts")
    refused(tmp_path / "a.pcap", THREE[:20], "20 bytes", "24")
    refused(tmp_path / "a.pcap", b"\x7fELF" + bytes(100), "expected a capture (pcap, pcapng)")


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        sources.load([tmp_path / "a.pcap"])


def test_a_capture_that_was_cut_off(tmp_path: Path) -> None:
    for cut in (1, 50, 114, 120):
        good(tmp_path / "a.pcap", THREE[:-cut], 2, "ends within a packet", "are used")
    ng = made.section() + made.interface() + made.enhanced(0, 5, FRAME) * 2
    good(tmp_path / "a.pcapng", ng[:-1], 1, "ends within a block")


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_a_compressed_capture_that_was_cut_off(tmp_path: Path, ending: str) -> None:
    payload = np.random.default_rng(1).bytes(1_000)
    plain = made.pcap([(i * 10_000, payload[i % 400 :][:600]) for i in range(6_000)])
    zstd = pa.Codec("zstd").compress(plain, asbytes=True)
    content = gzip.compress(plain) if ending == "gz" else zstd
    loaded = load(tmp_path / f"a.pcap.{ending}", content[: len(content) // 2])
    assert 100 < loaded.packets < 5_900
    (note,) = loaded.notes
    assert "gzip data ends early" in note or "Truncated compressed stream" in note


def test_a_length_that_lies(tmp_path: Path) -> None:
    lie = struct.pack("<IIII", made.BEGIN_S, 0, 2**32 - 1, 60)
    good(tmp_path / "a.pcap", THREE + lie + bytes(100), 3, "4294967295 bytes", "damaged")
    good(tmp_path / "a.pcap", THREE + lie, 3, "byte 414")
    late = THREE + made.record(made.BEGIN_S, 0, FRAME, 2**31)
    good(tmp_path / "a.pcap", late, 3, "impossible time or length")
    late = THREE + made.record(made.BEGIN_S, 2_000_000, FRAME, 60)
    good(tmp_path / "a.pcap", late, 3, "impossible time or length")


@pytest.mark.parametrize("length", [0, 4, 13, 2**32 - 4])
def test_a_block_length_that_lies(tmp_path: Path, length: int) -> None:
    """Among them 0, at which a reader could stay for ever."""
    ng = made.section() + made.interface() + made.enhanced(0, 5, FRAME) * 2
    good(tmp_path / "a.pcapng", ng + struct.pack("<II", 6, length) + bytes(64), 2, "damaged")


def test_packets_that_do_not_fit_their_block_or_section(tmp_path: Path) -> None:
    ng = made.section() + made.interface() + made.enhanced(0, 5, FRAME)
    longer = made.block(6, struct.pack("<IIIII", 0, 0, 5, 4096, 4096) + bytes(32))
    good(tmp_path / "a.pcapng", ng + longer, 1, "longer than their block")
    good(tmp_path / "a.pcapng", ng + made.enhanced(7, 5, FRAME), 1, "interfaces it does not have")
    good(tmp_path / "a.pcapng", ng + made.block(3, bytes(64)), 1, "without time stamps")
    bomb = made.section() + made.interface() * 5_000 + made.enhanced(0, 5, FRAME)
    refused(tmp_path / "a.pcapng", bomb, "more than 4096 interfaces")
    odd = made.section() + made.interface(options=made.resolution(0xFF))
    refused(tmp_path / "a.pcapng", odd, "no clock has")


def test_random_damage_never_raises(tmp_path: Path) -> None:
    """Bytes of good captures changed at random: every one is read to an end, and what is read is
    never more than the file has room for."""
    rng = random.Random(1)
    ng = made.section() + made.interface() + made.enhanced(0, 5, FRAME) * 20
    for content in (made.pcap([(i * MS, FRAME) for i in range(20)], nano=True), ng) * 150:
        damaged = bytearray(content)
        for _ in range(rng.randrange(1, 6)):
            damaged[rng.randrange(24, len(damaged))] = rng.randrange(256)
        notes = Notes()
        found = list(captures.packets(Path("a"), [bytes(damaged)], notes))
        assert sum(len(each) for each in found) <= len(content) // 16
        binner = Binner(MS, notes, max_bins=1 << 16)
        for each in found:
            Selection(by=("protocol", "dscp")).add(binner, "a", each)
        assert sum(len(series) for series in binner.series()) <= 1 << 18


def test_a_decompression_bomb_is_not_read_further(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap.gz"
    path.write_bytes(gzip.compress(THREE + bytes(64 << 20)))
    stream = streams.Stream(path, free_bytes=1 << 20)
    total = 0
    with pytest.raises(Damaged, match="more than 250 times as many"):
        for piece in stream:
            total += len(piece)
            assert len(piece) <= streams.PIECE_BYTES
    assert total < 24 << 20
    stream.close()


def test_the_clocks_of_interfaces_are_their_own(tmp_path: Path) -> None:
    """A piece of a file is read interface by interface."""
    first = 1_700_000_000 * 10**6
    content = made.section() + made.interface() + made.interface()
    for number in range(20):
        content += made.enhanced(number % 2, first + number * 10**6, FRAME)
    loaded = load(tmp_path / "a.pcapng", content)
    assert loaded.packets == 20
    assert list(loaded.notes) == []


def test_a_clock_that_steps_back(tmp_path: Path) -> None:
    content = made.pcap([(5_000 * MS, FRAME), (0, FRAME), (1 * MS, FRAME)])
    good(tmp_path / "a.pcap", content, 3, "steps back, by 5.000 s")


def test_a_clock_that_jumps_by_decades(tmp_path: Path) -> None:
    """The packets before are kept, and memory for half a century of milliseconds is not taken."""
    content = THREE + made.record(made.BEGIN_S + 10**9, 0, FRAME, 114)
    loaded = load(tmp_path / "a.pcap", content)
    assert volumes(loaded) == {"a": [114, 114, 114]}
    assert any("too far from the others' are left out" in note for note in loaded.notes)
    content = made.pcap([]) + made.record(0, 0, FRAME, 114) + THREE[24:]
    assert volumes(load(tmp_path / "a.pcap", content)) == {"a": [114, 114, 114]}


def test_gaps_are_empty_bins(tmp_path: Path) -> None:
    loaded = load(tmp_path / "a.pcap", made.pcap([(0, FRAME), (900 * MS, FRAME)]))
    (series,) = loaded.series
    assert (len(series), int((series.bytes == 0).sum())) == (901, 899)


def test_link_types_that_differ_are_remarked(tmp_path: Path) -> None:
    ng = made.section() + made.interface() + made.interface(link_type=101)
    ng += made.enhanced(0, 0, FRAME) + made.enhanced(1, 0, made.ipv4())
    loaded = load(tmp_path / "a.pcapng", ng)
    assert volumes(loaded) == {"a": [214]}
    assert any("different link types (1, 101)" in note for note in loaded.notes)
    ip = load(tmp_path / "a.pcapng", ng, selection=Selection(length="ip"))
    assert volumes(ip) == {"a": [200]}


def test_ctrl_c_leaves_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "PIECE_BYTES", 1 << 12)
    seen = 0

    def watch(_path: Path, _read: int, _of: int | None) -> None:
        nonlocal seen
        seen += 1
        if seen == 3:
            raise KeyboardInterrupt

    content = made.pcap([(i * MS, FRAME) for i in range(1000)])
    loaded = load(tmp_path / "a.pcap", content, watch=watch)
    assert loaded.interrupted
    assert 60 < loaded.packets < 120
    assert any("interrupted" in note for note in loaded.notes)


def test_a_capture_in_several_files_is_one_point(tmp_path: Path) -> None:
    """In whatever order they are given; only its own first and last bin are partial."""
    for part in range(3):
        frames: list[made.Frame] = [((part * 4 + i) * MS, FRAME) for i in range(4)]
        (tmp_path / f"a{part}.pcap").write_bytes(made.pcap(frames))
    paths = [tmp_path / f"a{part}.pcap" for part in (2, 0, 1)]
    (series,) = sources.load(paths, MS, point="uplink").series
    assert (str(series.name), series.bytes.tolist()) == ("uplink", [114] * 10)
    assert [str(each.name) for each in sources.load(paths, MS).series] == ["a2", "a0", "a1"]


def test_edges_are_left_out_of_what_is_fitted(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(made.pcap([(i * MS // 2, FRAME) for i in range(10)]))
    assert [len(series) for series in sources.load([path], MS).series] == [3]


# -- classes, lengths ------------------------------------------------------------------------------


def test_lengths_of_frame_and_ip_behind_tags(tmp_path: Path) -> None:
    """The frame's length has tags and tunnels in it; the IP length is that of the first header."""
    packet = made.ipv4(protocol=47, length=80)
    frames: list[made.Frame] = [
        (0, made.ethernet(packet)),
        (0, made.ethernet(packet, tags=[0x8100])),
        (0, made.ethernet(packet, tags=[0x88A8, 0x8100])),
        (0, made.ethernet(bytes([0, 0, 1, 64]) + packet, kind=0x8847)),
        (0, made.ethernet(bytes(46), kind=0x0806)),
    ]
    content = made.pcap(frames)
    frame = load(tmp_path / "a.pcap", content)
    assert volumes(frame) == {"a": [94 + 98 + 102 + 98 + 60]}
    ip = load(tmp_path / "a.pcap", content, selection=Selection(length="ip", overhead_bytes=24))
    assert volumes(ip) == {"a": [4 * (80 + 24)]}
    by = load(tmp_path / "a.pcap", content, selection=Selection(by=("protocol",)))
    assert volumes(by) == {"a gre": [94 + 98 + 102 + 98], "a not-ip": [60]}


def test_direction_prefix_and_dscp(tmp_path: Path) -> None:
    ours, theirs = (10, 0, 0, 1), (192, 0, 2, 1)
    packets = [made.ipv4(ours, theirs, dscp=10), made.ipv4(theirs, ours), made.ipv4(ours, ours),
               made.ipv4(theirs, theirs)]  # fmt: skip
    six = made.ipv6(bytes.fromhex("20010db8") + bytes(12), bytes(16))
    frames: list[made.Frame] = [(0, made.ethernet(packet)) for packet in packets]
    content = made.pcap([*frames, (0, made.ethernet(six, kind=0x86DD))])
    inside = [network("10.0.0.0/8"), network("2001:db8::/32")]
    selection = Selection(by=("direction",), inside=inside)
    found = volumes(load(tmp_path / "a.pcap", content, selection=selection))
    assert found == {"a out": [114 + 62], "a in": [114], "a within": [114], "a through": [114]}
    prefixes = [network("10.0.0.0/8"), network("10.0.0.0/24")]
    selection = Selection(by=("prefix", "dscp"), prefixes=prefixes)
    found = volumes(load(tmp_path / "a.pcap", content, selection=selection))
    assert found == {
        "a 10.0.0.0/24/dscp-10": [114], "a 10.0.0.0/24/dscp-0": [228],
        "a other/dscp-0": [114 + 62],
    }  # fmt: skip


def test_headers_that_were_not_kept_are_of_no_class(tmp_path: Path) -> None:
    content = made.pcap([(0, FRAME[:20], 114), (0, FRAME[:33], 114), (0, FRAME[:34], 114)])
    found = load(tmp_path / "a.pcap", content, selection=Selection(by=("protocol",)))
    assert volumes(found) == {"a not-ip": [228], "a tcp": [114]}


def test_classes_of_a_hostile_capture_are_bounded() -> None:
    rng = np.random.default_rng(1)
    frames: list[made.Frame] = [
        (0, made.ethernet(made.ipv4(protocol=int(p), dscp=int(d), length=20)))
        for p, d in zip(rng.integers(0, 256, 4000), rng.integers(0, 64, 4000), strict=True)
    ]
    binner = Binner(MS, Notes())
    for packets in captures.packets(Path("a"), [made.pcap(frames)], Notes()):
        Selection(by=("protocol", "dscp")).add(binner, "a", packets)
    series = binner.series()
    assert len(series) == 257
    assert sum(int(each.packets.sum()) for each in series) == 4000
    assert any(each.name.kind == "other" for each in series)


def test_bins_add_up_in_any_order() -> None:
    """Against a dictionary, with times that go back and forth."""
    rng = np.random.default_rng(2)
    binner, expected = Binner(10, Notes()), dict[int, int]()
    for _ in range(50):
        times = rng.integers(0, 100_000, 40)
        sizes = rng.integers(1, 1500, 40)
        binner.add(Name("a"), times, sizes)
        for time, size in zip(times.tolist(), sizes.tolist(), strict=True):
            expected[time // 10] = expected.get(time // 10, 0) + size
    (series,) = binner.series()
    first = series.start_ns // 10
    found = {first + i: v for i, v in enumerate(series.bytes.tolist()) if v}
    assert found == expected
    assert int(series.packets.sum()) == 2000


def test_bins_of_all_series_together_are_bounded() -> None:
    """However many series there are, and wherever their packets lie."""
    rng = np.random.default_rng(3)
    notes = Notes()
    binner = Binner(1, notes, max_bins=10_000)
    for number in range(200):
        times = rng.integers(0, 10**6, 20)
        binner.add(Name("a", str(number)), times, np.ones(20, np.int64))
        series = binner.series()
        assert sum(len(each) for each in series) <= 10_000
    assert binner.left_out > 0
    kept = sum(int(each.packets.sum()) for each in series)
    assert kept + binner.left_out == 4_000
    assert any("too far from the others'" in note for note in notes)


@pytest.mark.parametrize("slot_ns", [0, -5])
def test_bins_that_are_not_longer_than_0(slot_ns: int) -> None:
    with pytest.raises(InputError, match="longer than 0"):
        Binner(slot_ns, Notes())
