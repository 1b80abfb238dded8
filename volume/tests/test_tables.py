"""Bins and packets as CSV and Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ebb_topologies.errors import InputError
from ebb_volume import sources, tables
from ebb_volume.series import Name, Series
from ebb_volume.sources import Loaded

MS = 10**6
HEAD = "slot_start_ns,slot_ns,point,class,bytes,packets\n"


def csv(path: Path, text: str, slot_ns: int | None = None) -> Loaded:
    path.write_text(text)
    return sources.load([path], slot_ns)


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    """Two points with classes, bins that do not begin at multiples of their length, and a gap."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(0, 10**12, (2, 500))
    sizes[:, 0] = sizes[:, -1] = 1
    written = [
        Series(Name(point, kind), 7 * MS + 3, MS, sizes[i], sizes[i] // 1000 + 1)
        for i, (point, kind) in enumerate((("s1:2", "all"), ("s1:3", "tcp/é")))
    ]
    path = tmp_path / name
    tables.write(written, path)
    loaded = sources.load([path])
    assert [each.name for each in loaded.series] == [each.name for each in written]
    for before, after in zip(written, loaded.series, strict=True):
        assert (after.start_ns, after.slot_ns) == (before.start_ns, before.slot_ns)
        assert (after.bytes == before.bytes).all()
        assert (after.packets == before.packets).all()
    assert not list(loaded.notes)


def test_bins_are_joined_to_longer_ones_that_are_whole(tmp_path: Path) -> None:
    """From 3 ms on: the first bin of 5 ms that is whole begins at 5 ms."""
    rows = "".join(f"{i * MS},{MS},p,all,{i},1\n" for i in range(3, 21))
    loaded = csv(tmp_path / "a.csv", HEAD + rows, 5 * MS)
    (series,) = loaded.series
    assert series.start_ns == 5 * MS
    assert series.bytes.tolist() == [sum(range(i, i + 5)) for i in (5, 10, 15)]
    with pytest.raises(InputError, match="a multiple of these is expected"):
        csv(tmp_path / "a.csv", HEAD + rows, 1_500_000)
    with pytest.raises(InputError, match="no whole bin of 50000000 ns"):
        csv(tmp_path / "a.csv", HEAD + rows, 50 * MS)


def test_rows_that_are_missing_are_empty_bins_and_twice_the_same_adds_up(tmp_path: Path) -> None:
    rows = f"0,{MS},p,all,5,1\n{4 * MS},{MS},p,all,6,1\n{4 * MS},{MS},p,all,7,2\n"
    (series,) = csv(tmp_path / "a.csv", HEAD + rows).series
    assert series.bytes.tolist() == [5, 0, 0, 0, 13]
    assert series.packets.tolist() == [1, 0, 0, 0, 3]


def test_only_two_columns_are_needed(tmp_path: Path) -> None:
    """The length of a bin is the usual step, the point the file's name."""
    text = "bytes,slot_start_ns\n" + "".join(f"{i},{i * 300}\n" for i in range(1, 9))
    (series,) = csv(tmp_path / "week.csv", text).series
    assert (series.slot_ns, str(series.name), len(series)) == (300, "week.csv", 8)


@pytest.mark.parametrize("column, unit", [("time_ns", 10**9), ("time_s", 1)])
def test_packets_of_a_table(tmp_path: Path, column: str, unit: int) -> None:
    text = f"{column},bytes\n" + "".join(f"{i * unit},{i}\n" for i in range(1, 9))
    (series,) = csv(tmp_path / "a.csv", text, 2 * 10**9).series
    assert series.bytes.tolist() == [1, 2 + 3, 4 + 5, 6 + 7, 8]


def test_rows_that_cannot_be_are_left_out_and_counted(tmp_path: Path) -> None:
    good = f"0,{MS},p,all,5,1\n{MS},{MS},p,all,6,1\n"
    for row, words in (
        (f"{2 * MS},{MS},p,all,-7,1", "1 rows with a negative volume"),
        (f"{2 * MS},{MS},p,all,nan,1", "1 rows without a number of bytes"),
        (f"{2 * MS},{MS},p,all,1e30,1", "above 2^53 bytes"),
        (f"-5,{MS},p,all,7,1", "without a time that can be"),
        (f"{2 * MS},0,p,all,7,1", "a bin that is not longer than 0"),
        (f"{2 * MS},{2 * MS},p,all,7,1", "of another length than 1000000 ns"),
    ):
        loaded = csv(tmp_path / "a.csv", HEAD + good + row + "\n")
        assert loaded.series[0].bytes.tolist() == [5, 6]
        (note,) = loaded.notes
        assert words in note
    loaded = csv(tmp_path / "a.csv", HEAD + good + "1,2\n")
    assert loaded.series[0].bytes.tolist() == [5, 6]


@pytest.mark.parametrize(
    "text, words",
    [
        ("a,b\n1,2\n", "expected bytes, and slot_start_ns"),
        (HEAD, "has no rows"),
        ("", "is empty"),
        ("bytes,slot_start_ns\nx,1\n", "cannot be read as CSV"),
        (HEAD + "5,-1,p,all,7,1\n", "not longer than 0"),
    ],
)
def test_a_table_of_which_nothing_can_be_used(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        csv(tmp_path / "a.csv", text)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "garbage", [b"\xd4\xc3\xb2 bytes\xff\xfe,\n\x00", b"bytes,slot_start_ns\n1\0,2\n"]
)
def test_what_is_no_text_is_not_looked_at_as_a_table(
    tmp_path: Path, garbage: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "garbage"
    path.write_bytes(garbage)
    with pytest.raises(InputError, match="garbage: is no text; expected a capture"):
        sources.load([path])
    rows = b"".join(b"%d,%d\n" % (ms * 1_000_000, ms) for ms in range(1, 300_000))
    path.write_bytes(b"slot_start_ns,bytes\n" + rows + garbage)
    loaded = sources.load([path])
    assert len(loaded.series[0]) > 50_000
    (note,) = loaded.notes
    assert "is no text" in note and "the rows before it are used" in note
    assert capfd.readouterr() == ("", "")


def test_a_parquet_file_that_is_damaged_or_of_other_types(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1" + bytes(100))
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        sources.load([path])
    pq.write_table(pa.table({"slot_start_ns": ["x"], "bytes": [[1]]}), path)
    with pytest.raises(InputError, match="has no rows that are bins or packets"):
        sources.load([path])
