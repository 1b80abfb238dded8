"""Tables of many rows, in Arrow's batches, and as Parquet."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import accumulate, compress
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from ebb_topologies.files import replacing

from ebb_experiments.results.tables import COLUMNS, INTEGER, NUMBER, SMALL, TEXT, Row, Rows

KINDS = {TEXT: pa.string(), SMALL: pa.int32(), INTEGER: pa.int64(), NUMBER: pa.float64()}
SCHEMAS: dict[str, pa.Schema] = {
    name: pa.schema([(column, KINDS[kind]) for column, kind in columns.items()])
    for name, columns in COLUMNS.items()
}


class _NoPandas:
    """A finder of modules (PEP 451) that says that there is no pandas."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name)


def _leave_pandas() -> None:
    """At its first array pyarrow imports all of pandas, if that is installed, to ask whether the
    array is one of pandas. It looks only once; to convert to pandas it looks again."""
    sys.meta_path.insert(0, _NoPandas)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(_NoPandas)


_leave_pandas()


def get_ready() -> None:
    """Imports what `Batches` computes with, which takes a third of a second: beside something
    else."""
    import_module("pyarrow.compute")


BATCH_ROWS = 8_192
"""How many rows become a batch: a row takes kilobytes as a dict and about 200 bytes in a batch."""


class Batches(Rows):
    """Rows that become a batch as soon as there are enough for one."""

    FILES = ("parquet", "csv")

    def __init__(self, name: str, rows: Iterable[Row] = ()) -> None:
        self._table = SCHEMAS[name].empty_table()
        self._batches: list[pa.RecordBatch] = []
        super().__init__(name, rows)

    def append(self, row: Row) -> None:
        """Adds a row."""
        self._rows.append(row)
        if len(self._rows) >= BATCH_ROWS:
            self._pack()

    def extend_columns(self, same: Row, columns: Mapping[str, Sequence[Any] | pa.Array]) -> None:
        """As of `Rows`, without a dict for each row: the block becomes a batch."""
        length = len(next(iter(columns.values())))
        if not length:
            return
        self._pack()
        arrays = [
            _array(columns[field.name], field.type)
            if field.name in columns
            else pa.repeat(pa.scalar(same.get(field.name), field.type), length)
            for field in SCHEMAS[self.name]
        ]
        self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=SCHEMAS[self.name]))

    def extend_runs(
        self,
        same: Row,
        places: Mapping[str, Sequence[Any]],
        lengths: Sequence[int],
        columns: Mapping[str, Sequence[Any]],
    ) -> None:
        """As of `Rows`, without a value in Python for each row of what rows have in common."""
        if not any(lengths):
            return
        schema = SCHEMAS[self.name]
        ends = pa.array(accumulate(filter(None, lengths)), pa.int32())
        own = {
            name: _runs(ends, pa.array(compress(values, lengths), schema.field(name).type))
            for name, values in places.items()
        }
        self.extend_columns(same, own | dict(columns))

    @staticmethod
    def quotients(values: array[int], divisor: float) -> pa.Array:
        """As of `Rows`, without a number in Python for each."""
        import pyarrow.compute as pc

        return pc.divide(_integers(values).cast(pa.float64(), safe=False), divisor)

    def _pack(self) -> None:
        if self._rows:
            schema = SCHEMAS[self.name]
            self._batches.append(pa.RecordBatch.from_pylist(self._rows, schema=schema))
            self._rows.clear()

    def table(self) -> pa.Table:
        """Arrow table of all rows so far."""
        self._pack()
        if self._batches:
            more = pa.Table.from_batches(self._batches, schema=SCHEMAS[self.name])
            self._table = pa.concat_tables([self._table, more])
            self._batches.clear()
        return self._table

    def __iter__(self) -> Iterator[Row]:
        for batch in self.table().to_batches():
            yield from batch.to_pylist()

    def __len__(self) -> int:
        return len(self.table())

    def column(self, name: str) -> Iterator[Any]:
        """Values of a column, in the order of the rows."""
        for chunk in self.table()[name].chunks:
            yield from chunk.to_pylist()

    def sort(self, *columns: str) -> None:
        """Sorts rows by columns; those without a value come last."""
        self._table = self.table().sort_by([(column, "ascending") for column in columns])

    def join(self, other: Self) -> None:
        """Appends the rows of another table with these columns."""
        self._table = pa.concat_tables([self.table(), other.table()])

    def writers(self, directory: Path) -> Sequence[Callable[[], None]]:
        """Write `NAME.parquet` and `NAME.csv` into a folder."""
        self.table()  # once, before threads ask for it
        parquet = partial(self._write_parquet, directory)
        return (parquet, *super().writers(directory))

    def _write_parquet(self, directory: Path) -> None:
        with replacing(directory / f"{self.name}.parquet") as part:
            pyarrow.parquet.write_table(self.table(), part)

    def _write_csv(self, directory: Path) -> None:
        with replacing(directory / f"{self.name}.csv") as part:
            pyarrow.csv.write_csv(self.table(), part)


def _array(values: Sequence[Any] | pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(values, array):
        return _integers(values).cast(kind)
    return values if isinstance(values, pa.Array) else pa.array(values, kind)


def _integers(values: array[int]) -> pa.Array:
    """Unsigned integers of 64 bits, which are not copied."""
    return pa.Array.from_buffers(pa.uint64(), len(values), [None, pa.py_buffer(values)])


def _runs(ends: pa.Array, values: pa.Array) -> pa.Array:
    """Each value as often as its run is long, by the ends of all runs."""
    import pyarrow.compute as pc

    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, values))


def table(rows: Rows) -> pa.Table:
    """Arrow table of rows of either kind."""
    if isinstance(rows, Batches):
        return rows.table()
    return pa.Table.from_pylist(list(rows), schema=SCHEMAS[rows.name])
