"""What a phase of a run did: flows and fabric, as numbers in nominal units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Any

from ebb_topologies.dilation import Dilation

from ebb_experiments.load import Load

Record = dict[str, Any]
"""A line of an agent about a flow that has ended (docs/agent-records.md)."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One object from one sender to one receiver: its two records joined."""

    bytes: int
    started_ns: float
    """When the sender was told to send, nominal, since some epoch."""
    finished_ns: float
    """When the receiver had the last byte."""
    retransmitted: int
    timeouts: int
    decodes: int
    returned: int
    """Headers that switches returned to the sender."""
    ok: bool
    why: str = ""

    @property
    def fct_ns(self) -> float:
        """Flow completion time, nominal."""
        return self.finished_ns - self.started_ns


def goodput_fraction(flows: Sequence[Flow], rate_bps: int) -> float:
    """Object bits per second as a share of a line rate, from the first start to the last finish."""
    done = [flow for flow in flows if flow.ok]
    if not done:
        return 0.0
    span = max(flow.finished_ns for flow in done) - min(flow.started_ns for flow in done)
    return sum(flow.bytes for flow in done) * 8e9 / span / rate_bps


@dataclass(frozen=True, slots=True)
class FabricCounts:
    """Sums over every port of the fabric during a phase; queues are those of the bottleneck, and
    None where the switches have no rate and so no bottleneck (BMv2)."""

    max_queue_bytes: int | None
    average_queue_bytes: float | None
    dropped_packets: int
    """For want of room, by a queue or by the program that it handed the packet back to."""
    trimmed_packets: int
    trim_dropped_packets: int
    """Headers that reached neither the receiver nor, where they are returned, the sender."""
    returned_packets: int
    """Headers turned round to their sender."""
    ce_marks: int
    link_lost_packets: int = 0
    """On faulty links, as far as the switches tell: BMv2 does not."""
    load: Load | None = None
    """How busy the machine was meanwhile; none: not measured, or there were several phases."""

    @classmethod
    def total(cls, counts: Sequence[FabricCounts]) -> FabricCounts:
        """Several phases: sums, the highest maximum, the mean of the averages."""
        highest = [c.max_queue_bytes for c in counts if c.max_queue_bytes is not None]
        averages = [c.average_queue_bytes for c in counts if c.average_queue_bytes is not None]
        return cls(
            max_queue_bytes=max(highest, default=None),
            average_queue_bytes=mean(averages) if averages else None,
            dropped_packets=sum(c.dropped_packets for c in counts),
            trimmed_packets=sum(c.trimmed_packets for c in counts),
            trim_dropped_packets=sum(c.trim_dropped_packets for c in counts),
            returned_packets=sum(c.returned_packets for c in counts),
            ce_marks=sum(c.ce_marks for c in counts),
            link_lost_packets=sum(c.link_lost_packets for c in counts),
        )


def join(sent: Record, received: Record | None, dilation: Dilation) -> Flow:
    """The flow that a sender's and a receiver's record describe together."""
    reasons = [
        f"{record['role']}: {record.get('reason') or 'failed'}"
        for record in (sent, received)
        if record is not None and record["status"] != "finished"
    ]
    if received is None:
        reasons.append("receiver: no record of this flow")
    end = received["finished_at_ns"] if received else sent["finished_at_ns"]
    return Flow(
        bytes=sent["object_bytes"],
        started_ns=sent["started_at_ns"] / dilation.factor,
        finished_ns=end / dilation.factor,
        retransmitted=sent.get("retransmitted", 0),
        timeouts=sent.get("timeouts", 0),
        decodes=(received or {}).get("decodes", 0),
        returned=sent.get("returned", 0),
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
