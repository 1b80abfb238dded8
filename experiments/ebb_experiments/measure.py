"""What a phase of a run did: flows and fabric, as numbers in nominal units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ebb_topologies.dilation import Dilation

from ebb_experiments.agents import Record


@dataclass(frozen=True, slots=True)
class Flow:
    """One object from one sender to one receiver: its two records joined."""

    bytes: int
    fct_ns: float
    """From the sender's start to the receiver's last byte, nominal."""
    retransmitted: int
    timeouts: int
    decodes: int
    ok: bool
    why: str = ""

    def goodput_fraction(self, rate_bps: int) -> float:
        """Delivered bits per second as a share of the line rate."""
        return self.bytes * 8e9 / self.fct_ns / rate_bps


@dataclass(frozen=True, slots=True)
class FabricCounts:
    """Sums over every port of the fabric during a phase; queues are those of the bottleneck."""

    max_queue_bytes: int
    average_queue_bytes: float
    dropped_packets: int
    trimmed_packets: int
    trim_dropped_packets: int
    ce_marks: int


def join(sent: Record, received: Record | None, dilation: Dilation) -> Flow:
    """The flow that a sender's and a receiver's record describe together."""
    reasons = [
        f"{record['role']}: {record.get('reason') or 'failed'}"
        for record in (sent, received)
        if record is not None and record["status"] != "ok"
    ]
    if received is None:
        reasons.append("receiver: no record of this flow")
    end = received["finished_at_ns"] if received else sent["finished_at_ns"]
    return Flow(
        bytes=sent["object_bytes"],
        fct_ns=(end - sent["started_at_ns"]) / dilation.factor,
        retransmitted=sent.get("retransmitted", 0),
        timeouts=sent.get("timeouts", 0),
        decodes=(received or {}).get("decodes", 0),
        ok=not reasons,
        why="; ".join(reasons),
    )


def pair(sent: Sequence[Record], received: Iterable[Record], dilation: Dilation) -> list[Flow]:
    """Joins records by session: the sender's (address, session) names a flow at both ends."""
    arrived = {(record["peer"], record["session"]): record for record in received}
    return [
        join(record, arrived.get((record["local"], record["session"])), dilation) for record in sent
    ]


def percentile(values: Sequence[float], percent: float) -> float:
    """Nearest-rank percentile."""
    if not values:
        return math.nan
    ordered = sorted(values)
    rank = math.ceil(percent / 100 * len(ordered))
    return ordered[max(0, rank - 1)]
