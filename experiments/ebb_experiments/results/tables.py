"""Tables of results: their columns, and how rows become tables while a run goes on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

Row = dict[str, Any]

BY_SENDER = ("packets_sent", "retransmitted", "timeouts", "returned")
BY_RECEIVER = ("packets_received", "trimmed", "ce_marks", "duplicates", "decodes", "unneeded")
"""What each end of a flow counts: docs/agent-records.md. Of several senders the sum."""
PAYLOAD = "payload_bytes_sent"
"""Likewise, but of a sender to a group only in the row of its first receiver (none in the others):
so sums over rows are right."""
_RUN = (
    ("scheme", pa.string()),
    ("seed", pa.int64()),
    ("phase", pa.string()),
    ("round", pa.int32()),
)
"""Rounds of a phase count from 0."""
_PORT = (("switch", pa.string()), ("port", pa.int32()), ("peer", pa.string()))
_QUEUE = (*_PORT, ("queue", pa.int32()))


def _columns(kind: pa.DataType, *names: str) -> tuple[tuple[str, pa.DataType], ...]:
    return tuple((name, kind) for name in names)


SCHEMAS: dict[str, pa.Schema] = {
    name: pa.schema([*_RUN, *columns])
    for name, columns in {
        "flows": (
            *_columns(pa.int64(), "transfer", "job"),
            *_columns(pa.string(), "traffic", "kind", "source", "destination"),
            *_columns(pa.int64(), "bytes", "stream_bytes"),
            *_columns(pa.float64(), "offered_at_ns", "started_at_ns", "finished_at_ns", "fct_ns"),
            *_columns(pa.string(), "status", "reason"),
            *_columns(pa.int64(), *BY_SENDER, PAYLOAD, *BY_RECEIVER),
            *_columns(pa.int64(), "arrived_bytes"),
            *_columns(pa.float64(), "open_ns"),
        ),
        "ports": (
            *_PORT,
            *_columns(pa.int64(), "rate_bps", "transmitted_packets", "transmitted_bytes"),
            *_columns(pa.float64(), "busy_ns", "utilisation"),
        ),
        "queues": (
            *_QUEUE,
            *_columns(
                pa.int64(),
                *("enqueued_packets", "enqueued_bytes", "dequeued_packets", "dequeued_bytes"),
                *("deflected_packets", "deflected_bytes", "dropped_packets", "dropped_bytes"),
                *("egress_dropped_packets", "transmitted_packets", "transmitted_bytes"),
                *("ecn_ce_packets", "depth_packets", "depth_bytes"),
                *("max_depth_packets", "max_depth_bytes"),
            ),
            *_columns(
                pa.float64(),
                *("average_depth_packets", "average_depth_bytes"),
                *("arrival_depth_packets", "arrival_depth_bytes"),
                *("average_delay_ns", "max_delay_ns"),
            ),
        ),
        "drops": (*_QUEUE, ("reason", pa.string()), *_columns(pa.int64(), "packets", "bytes")),
        "delays": (
            *_QUEUE,
            *_columns(pa.float64(), "from_ns", "below_ns"),
            ("packets", pa.int64()),
        ),
        "counters": (
            *_columns(pa.string(), "switch", "counter"),
            *_columns(pa.int32(), "port"),
            *_columns(pa.string(), "reason"),
            *_columns(pa.int64(), "packets", "bytes"),
        ),
        "samples": (
            ("at_ns", pa.float64()),
            *_QUEUE,
            *_columns(pa.int64(), "depth_packets", "depth_bytes"),
        ),
        "arrivals": (
            ("transfer", pa.int64()),
            ("destination", pa.string()),
            ("at_ns", pa.float64()),
            ("bytes", pa.int64()),
        ),
    }.items()
}

BATCH_ROWS = 8_192
"""A row takes kilobytes as a dict and about 200 bytes in a batch."""


class Rows:
    """Rows of one table, in Arrow's batches as soon as there are enough for one."""

    def __init__(self, name: str) -> None:
        self._schema = SCHEMAS[name]
        self._waiting: list[Row] = []
        self._batches: list[pa.RecordBatch] = []

    def append(self, row: Row) -> None:
        self._waiting.append(row)
        if len(self._waiting) >= BATCH_ROWS:
            self._pack()

    def extend(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.append(row)

    def _pack(self) -> None:
        if self._waiting:
            self._batches.append(pa.RecordBatch.from_pylist(self._waiting, schema=self._schema))
            self._waiting.clear()

    def table(self) -> pa.Table:
        """Of all rows so far."""
        self._pack()
        return pa.Table.from_batches(self._batches, schema=self._schema)


def table(name: str, rows: Iterable[Row]) -> pa.Table:
    built = Rows(name)
    built.extend(rows)
    return built.table()
