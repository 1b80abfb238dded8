"""Tables of results: their columns, and the rows that a run adds to them."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self

from ebb_topologies.files import replacing

Row = dict[str, Any]
TEXT, SMALL, INTEGER, NUMBER = "text", "small", "integer", "number"
"""Kinds of values; small: integers of 32 bits."""

BY_SENDER = ("packets_sent", "retransmitted", "timeouts", "returned")
BY_RECEIVER = ("packets_received", "trimmed", "ce_marks", "duplicates", "decodes", "unneeded")
"""Counters of each end of a flow (docs/agent-records.md); of several senders the sum."""
PAYLOAD = "payload_bytes_sent"
"""Counted likewise, but of a sender to a group only in the row of its first receiver (none in the
others), so that sums over rows are right."""
_RUN = (
    ("scheme", TEXT),
    ("seed", INTEGER),
    ("phase", TEXT),
    ("round", SMALL),
)
"""Columns that every table has; rounds of a phase count from 0."""
_SKIPPED = "skipped_ns"
"""Nominal time that a row does not count because it has been skipped; none: nothing may be."""
_PORT = (("switch", TEXT), ("port", SMALL), ("peer", TEXT))
_QUEUE = (*_PORT, ("queue", SMALL))


def _columns(kind: str, *names: str) -> tuple[tuple[str, str], ...]:
    return tuple((name, kind) for name in names)


COLUMNS: dict[str, dict[str, str]] = {
    name: dict([*_RUN, *columns])
    for name, columns in {
        "flows": (
            *_columns(INTEGER, "transfer", "job"),
            *_columns(TEXT, "traffic", "kind", "source", "destination"),
            *_columns(INTEGER, "bytes", "stream_bytes"),
            *_columns(NUMBER, "offered_at_ns", "started_at_ns", "finished_at_ns", "fct_ns"),
            *_columns(TEXT, "status", "reason"),
            *_columns(INTEGER, *BY_SENDER, PAYLOAD, *BY_RECEIVER),
            *_columns(INTEGER, "arrived_bytes"),
            *_columns(NUMBER, "open_ns"),
            *_columns(SMALL, "skipped"),
        ),
        "ports": (
            *_PORT,
            *_columns(INTEGER, "rate_bps", "transmitted_packets", "transmitted_bytes"),
            *_columns(NUMBER, "busy_ns", "utilisation", _SKIPPED),
        ),
        "queues": (
            *_QUEUE,
            *_columns(
                INTEGER,
                *("enqueued_packets", "enqueued_bytes", "dequeued_packets", "dequeued_bytes"),
                *("deflected_packets", "deflected_bytes", "dropped_packets", "dropped_bytes"),
                *("egress_dropped_packets", "transmitted_packets", "transmitted_bytes"),
                *("ecn_ce_packets", "depth_packets", "depth_bytes"),
                *("max_depth_packets", "max_depth_bytes"),
            ),
            *_columns(
                NUMBER,
                *("average_depth_packets", "average_depth_bytes"),
                *("arrival_depth_packets", "arrival_depth_bytes"),
                *("average_delay_ns", "max_delay_ns", _SKIPPED),
            ),
        ),
        "drops": (
            *_QUEUE,
            ("reason", TEXT),
            *_columns(INTEGER, "packets", "bytes"),
            (_SKIPPED, NUMBER),
        ),
        "delays": (
            *_QUEUE,
            *_columns(NUMBER, "from_ns", "below_ns"),
            ("packets", INTEGER),
        ),
        "counters": (
            *_columns(TEXT, "switch", "counter"),
            *_columns(SMALL, "port"),
            *_columns(TEXT, "reason"),
            *_columns(INTEGER, "packets", "bytes"),
            (_SKIPPED, NUMBER),
        ),
        "samples": (
            ("at_ns", NUMBER),
            *_QUEUE,
            *_columns(INTEGER, "depth_packets", "depth_bytes"),
        ),
        "volume": (
            *_columns(INTEGER, "slot_start_ns", "slot_ns"),
            ("point", TEXT),
            ("class", SMALL),
            *_columns(INTEGER, "bytes", "packets"),
        ),
        "tenants": (
            *_columns(TEXT, "tenant", "source", "destination"),
            *_columns(INTEGER, "packets"),
            *_columns(NUMBER, "mean_ns", "longest_ns", "bound_ns", "capacity_ns"),
            ("conforms", SMALL),
        ),
        "arrivals": (
            ("transfer", INTEGER),
            ("destination", TEXT),
            ("at_ns", NUMBER),
            ("bytes", INTEGER),
        ),
    }.items()
}
"""Columns of every table, and what is in them; any may have none."""


class Kind(Protocol):
    """Makes tables of one kind, by their names."""

    def __call__(self, name: str, rows: Iterable[Row] = (), /) -> Rows:
        """A table with these rows."""
        ...


class Rows:
    """Rows of one table, with all its columns. For many there is `arrow.Batches`."""

    FILES: tuple[str, ...] = ("csv",)
    """Kinds of files that `writers` write."""

    def __init__(self, name: str, rows: Iterable[Row] = ()) -> None:
        self.name = name
        self._rows: list[Row] = []
        self.extend(rows)

    def append(self, row: Row) -> None:
        """Adds a row; columns that it lacks have no value."""
        self._rows.append({column: row.get(column) for column in COLUMNS[self.name]})

    def extend(self, rows: Iterable[Row]) -> None:
        """Adds rows."""
        for row in rows:
            self.append(row)

    def extend_columns(self, same: Row, columns: Mapping[str, Sequence[Any]]) -> None:
        """Takes rows that have the values of `same` in common and differ in `columns`, which are
        equally long."""
        for values in zip(*columns.values(), strict=True):
            self.append(same | dict(zip(columns, values, strict=True)))

    def extend_runs(
        self,
        same: Row,
        places: Mapping[str, Sequence[Any]],
        lengths: Sequence[int],
        columns: Mapping[str, Sequence[Any]],
    ) -> None:
        """Takes rows as `extend_columns` does. Runs of rows have the values of a place in common;
        `lengths` are those of the runs."""
        each = [place for place, length in enumerate(lengths) for _ in range(length)]
        own = {name: [values[place] for place in each] for name, values in places.items()}
        self.extend_columns(same, own | dict(columns))

    @staticmethod
    def quotients(values: array[int], divisor: float) -> Sequence[float]:
        """A column of the values, which are of 64 bits without a sign, each divided."""
        return [value / divisor for value in values]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rows) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def column(self, name: str) -> Iterator[Any]:
        """Values of a column, in the order of the rows."""
        return (row[name] for row in self)

    def sort(self, *columns: str) -> None:
        """Sorts rows by columns; those without a value come last."""
        self._rows.sort(key=lambda row: [(row[c] is None, row[c]) for c in columns])

    def join(self, other: Self) -> None:
        """Takes the rows of a table of the same kind."""
        self._rows += other._rows

    def writers(self, directory: Path) -> Sequence[Callable[[], None]]:
        """Each writes one of the files that have the name of the table; beside each other if one
        likes."""
        return (partial(self._write_csv, directory),)

    def write(self, directory: Path) -> None:
        """Writes the rows as files that have the name of the table."""
        for write in self.writers(directory):
            write()

    def _write_csv(self, directory: Path) -> None:
        with replacing(directory / f"{self.name}.csv") as part, part.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS[self.name])
            writer.writeheader()
            writer.writerows(self._rows)


def read_rows(directory: Path, name: str) -> Iterator[Row]:
    """The rows of a table that `Rows.write` wrote as CSV; none if it is not there."""
    path = directory / f"{name}.csv"
    if not path.exists():
        return
    kinds = COLUMNS[name]
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            yield {column: _value(kinds[column], row.get(column) or "") for column in kinds}


def _value(kind: str, text: str) -> Any:
    if not text:
        return None
    return text if kind == TEXT else float(text) if kind == NUMBER else int(text)
