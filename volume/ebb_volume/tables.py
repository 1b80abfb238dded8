"""Bins, or packets, as CSV or Parquet.

Bins: `slot_start_ns` and `bytes`, and if wanted `slot_ns`, `point`, `class`, `packets`. A bin
without a row had nothing; rows of the same bin are added up. Packets, or other events: `time_ns`
and `bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from ebb_topologies.errors import InputError
from ebb_topologies.files import replacing

from ebb_volume.notes import Notes
from ebb_volume.packets import Integers
from ebb_volume.series import MOST_BYTES, Binner, Name, Series

SCHEMA = pa.schema([
    ("slot_start_ns", pa.int64()), ("slot_ns", pa.int64()), ("point", pa.string()),
    ("class", pa.string()), ("bytes", pa.int64()), ("packets", pa.int64()),
])  # fmt: skip
PARQUET_MAGIC = b"PAR1"
BATCH_ROWS = 65_536
LATEST_NS = 2**62
SEPARATOR = "\x1f"
"""Unit separator of ASCII: in no name."""


def write(series: Sequence[Series], path: Path) -> None:
    """All bins, a row each; Parquet if the name of the file says so, else CSV."""
    tables = [_table(each) for each in series]
    whole = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    with replacing(path) as part:
        if path.suffix == ".parquet":
            pq.write_table(whole, part, compression="zstd")
        else:
            pyarrow.csv.write_csv(whole, part)


def write_csv(series: Sequence[Series], file: IO[bytes]) -> None:
    """The same as CSV, to a file that is open."""
    tables = [_table(each) for each in series]
    pyarrow.csv.write_csv(pa.concat_tables(tables) if tables else SCHEMA.empty_table(), file)


def _table(series: Series) -> pa.Table:
    count = len(series)
    starts = series.start_ns + np.arange(count, dtype=np.int64) * series.slot_ns
    columns = [
        pa.array(starts), pa.array(np.full(count, series.slot_ns)),
        pa.repeat(series.name.point, count), pa.repeat(series.name.kind, count),
        pa.array(series.bytes), pa.array(series.packets),
    ]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def parquet_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Raises `InputError` for a file that is no Parquet."""
    try:
        with pq.ParquetFile(path) as file:
            columns = [name for name in file.schema_arrow.names if name in _KNOWN]
            yield from file.iter_batches(BATCH_ROWS, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: cannot be read as Parquet: {_line(error)}") from error


def csv_batches(path: Path, file: Any) -> Iterator[pa.RecordBatch]:
    """Rows that are whole, of a file-like object; a row with more or fewer columns is left out."""
    options = pyarrow.csv.ParseOptions(invalid_row_handler=lambda _row: "skip")
    types = {name: pa.float64() for name in ("slot_start_ns", "slot_ns", "bytes", "packets",
                                             "time_ns", "time_s")}  # fmt: skip
    types |= dict.fromkeys(("slot_start_ns", "slot_ns", "time_ns"), pa.int64())
    types |= {"point": pa.string(), "class": pa.string()}
    convert = pyarrow.csv.ConvertOptions(column_types=types)
    try:
        with pyarrow.csv.open_csv(file, parse_options=options, convert_options=convert) as reader:
            yield from reader
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path}: cannot be read as CSV: {_line(error)}; expected a capture (pcap, pcapng), "
            "Parquet, or CSV with a heading that has slot_start_ns or time_ns, and bytes"
        ) from error


_KNOWN = {*SCHEMA.names, "time_ns", "time_s"}


@dataclass
class TableReader:
    """Puts rows into bins. Raises `InputError`."""

    path: Path
    notes: Notes
    slot_ns: int | None
    """Length of bins; none: that of the table."""
    binner: Binner | None = None
    own_slot_ns: int | None = None
    """`slot_ns` of the table, as the first rows have it."""
    _dropped: dict[str, int] = field(default_factory=dict)

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Takes the rows of a file. Raises `InputError` if none of them is a bin or a packet."""
        for batch in batches:
            if batch.num_rows:
                self._batch(batch)
        if self.binner is None:
            raise InputError(f"{self.path}: has no rows that are bins or packets{self._why()}")
        for what, count in self._dropped.items():
            self.notes.add(f"{self.path}: {count} rows {what} are left out")

    def _why(self) -> str:
        return "".join(f"; {count} rows {what}" for what, count in self._dropped.items())

    def _batch(self, batch: pa.RecordBatch) -> None:
        names = batch.schema.names
        if "bytes" not in names or not {"slot_start_ns", "time_ns", "time_s"} & set(names):
            raise InputError(
                f"{self.path}: has the columns {', '.join(names)[:200]}; expected bytes, and "
                "slot_start_ns (bins) or time_ns or time_s (packets)"
            )
        is_bins = "slot_start_ns" in names
        time_ns = self._times(batch, "slot_start_ns" if is_bins else "time_ns")
        sizes = _numbers(batch["bytes"])
        good = np.ones(batch.num_rows, np.bool_)
        for what, bad in (
            ("without a number of bytes", ~np.isfinite(sizes)),
            ("with a negative volume", sizes < 0),
            ("with a volume above 2^53 bytes", sizes > MOST_BYTES),
            ("without a time that can be", (time_ns < 0) | (time_ns > LATEST_NS)),
        ):
            self._drop(what, bad & good)
            good &= ~bad
        if is_bins:
            good &= self._same_length(batch, time_ns, good)
        self._put(batch, time_ns, sizes, good, is_bins)

    def _drop(self, what: str, rows: Any) -> None:
        if count := int(np.count_nonzero(rows)):
            self._dropped[what] = self._dropped.get(what, 0) + count

    def _times(self, batch: pa.RecordBatch, name: str) -> Integers:
        if name in batch.schema.names:
            column = batch[name]
            if pa.types.is_timestamp(column.type):
                column = pc.cast(column, pa.timestamp("ns"), safe=False)
            elif not pa.types.is_integer(column.type):
                return np.full(batch.num_rows, -1)
            column = pc.fill_null(pc.cast(column, pa.int64(), safe=False), -1)
            return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)
        seconds = _numbers(batch["time_s"])
        return np.where((seconds >= 0) & (seconds < 2**32), seconds * 1e9, -1).astype(np.int64)

    def _same_length(self, batch: pa.RecordBatch, time_ns: Integers, good: Any) -> Any:
        """Rows whose bin is as long as the others'."""
        if "slot_ns" not in batch.schema.names:
            if self.own_slot_ns is None:
                steps = np.diff(np.unique(time_ns[good]))
                self.own_slot_ns = int(np.median(steps)) if len(steps) else self.slot_ns
            return good
        lengths = _numbers(batch["slot_ns"])
        positive = good & (lengths > 0) & (lengths < LATEST_NS)
        self._drop("with a bin that is not longer than 0", good & ~positive)
        if self.own_slot_ns is None and positive.any():
            self.own_slot_ns = int(np.median(lengths[positive]))
        same = positive & (lengths == self.own_slot_ns)
        self._drop(f"with bins of another length than {self.own_slot_ns} ns", positive & ~same)
        return same

    def _put(
        self, batch: pa.RecordBatch, time_ns: Integers, sizes: Any, good: Any, is_bins: bool
    ) -> None:
        at = np.flatnonzero(good)
        if not len(at):
            return
        if self.binner is None:
            slot_ns = self.own_slot_ns if is_bins else self.slot_ns
            if not slot_ns:
                raise InputError(f"{self.path}: does not say how long a bin is: give --bin")
            # Bins of a table need not begin at multiples of their length.
            offset_ns = int(time_ns[at[0]]) % slot_ns if is_bins else 0
            self.binner = Binner(slot_ns, self.notes, offset_ns=offset_ns)
        packets = np.ones(batch.num_rows)
        if "packets" in batch.schema.names:
            packets = np.nan_to_num(_numbers(batch["packets"]), posinf=0).clip(0, MOST_BYTES)
        for name, rows in _names(batch, self.path.name):
            chosen = rows & good
            self.binner.add(
                name, time_ns[chosen], sizes[chosen].astype(np.int64),
                packets[chosen].astype(np.int64),
            )  # fmt: skip


def _names(batch: pa.RecordBatch, default: str) -> Iterator[tuple[Name, Any]]:
    """Series of a batch, with the rows of each."""
    columns = [
        pc.fill_null(pc.cast(batch[name], pa.string()), missing)
        if name in batch.schema.names
        else pa.repeat(missing, batch.num_rows)
        for name, missing in (("point", default), ("class", "all"))
    ]
    keys = pc.binary_join_element_wise(*columns, SEPARATOR).dictionary_encode()
    numbers = keys.indices.to_numpy(zero_copy_only=False)
    for number, key in enumerate(keys.dictionary.to_pylist()):
        point, _, kind = key.partition(SEPARATOR)
        yield Name(point, kind), numbers == number


def _numbers(column: pa.Array) -> Any:
    """As float64, exact up to 2^53; what is no number is NaN."""
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return np.full(len(column), np.nan)
    return pc.fill_null(pc.cast(column, pa.float64(), safe=False), np.nan).to_numpy(
        zero_copy_only=False
    )


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
