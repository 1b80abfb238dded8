"""Events and utilisation of every port between two reads of its switch's statistics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ebb_controller import ebb_tm_pb2 as tm
from ebb_experiments.results.results import NO_LOSS

from ebb_dashboard.picture import Port


def lost(queue: tm.QueueStats) -> int:
    """Packets that a queue dropped, or the program after it in egress."""
    packets: int = queue.egress_dropped.packets
    packets += sum(drop.count.packets for drop in queue.drops)
    return packets


KINDS: dict[str, Callable[[tm.PortStats], int]] = {
    "drop": lambda port: sum(map(lost, port.queues)),
    "trim": lambda port: sum(queue.deflected.packets for queue in port.queues),
    "mark": lambda port: sum(queue.ecn_ce.packets for queue in port.queues),
    "pause": lambda port: sum(queue.pauses_received for queue in port.queues),
}
"""Counts of the queues of a port, by kind: packets lost, packets that did not fit and were
deflected to the program (which trims them or answers), packets that left with CE, pauses that the
neighbour requested."""
PER_MILLE = 1000
OUTSIDE = "outside"
"""Kind of losses at a port outside of its queues, shown as `drop`; a reset of the statistics of
queues does not clear their counts."""


@dataclass(frozen=True, slots=True)
class _PortReading:
    """Counters of a port at one reading."""

    time_ns: int
    busy_ns: int
    counts: dict[str, int]
    longest: dict[int, int]
    """Largest depth of each queue since a reset, bytes."""


class StatisticsDelta:
    """Difference between the statistics of switches (`ebb_tm.proto`) and those read before."""

    def __init__(self, ports: Sequence[Port]) -> None:
        self._ports = ports
        self._seen: dict[tuple[str, int], _PortReading] = {}
        self.latest: dict[str, tm.Stats] = {}
        """Last statistics of each switch."""

    def take(self, statistics: Mapping[str, tm.Stats]) -> dict[str, Any]:
        """The keys `utilisation`, `queue`, `events` of `sample` (docs/dashboard.md)."""
        self.latest.update(statistics)
        by_place = {
            (switch, port.port): (stats, port)
            for switch, stats in statistics.items()
            for port in stats.ports
        }
        outside = _outside(statistics)
        utilisation, queue, events = [], [], []
        for index, place in enumerate(self._ports):
            key = (place.switch, place.port)
            stats, port = by_place.get(key, (None, None))
            if stats is None or port is None:
                utilisation.append(0)
                queue.append(0)
                continue
            counts = {kind: count(port) for kind, count in KINDS.items()}
            counts[OUTSIDE] = outside.get(key, 0)
            longest = {each.queue: each.max_depth_bytes for each in port.queues}
            now = _PortReading(stats.time_ns, port.busy_ns, counts, longest)
            before = self._seen.get(key)
            self._seen[key] = now
            utilisation.append(0 if before is None else _busy(before, now))
            depth = sum(each.depth_bytes for each in port.queues)
            queue.append(depth if before is None else max(depth, _peak(before, now)))
            if before is not None:
                events += [[index, kind, n] for kind, n in _since(before, now).items() if n]
        return {"utilisation": utilisation, "queue": queue, "events": events}


def _outside(statistics: Mapping[str, tm.Stats]) -> dict[tuple[str, int], int]:
    """Packets lost outside of queues, by switch and port."""
    found: dict[tuple[str, int], int] = {}
    for switch, stats in statistics.items():
        for drop in stats.drops:
            if drop.reason in NO_LOSS:
                continue
            key = (switch, drop.port)
            found[key] = found.get(key, 0) + drop.count.packets
    return found


def _busy(before: _PortReading, now: _PortReading) -> int:
    """Share of the time between two readings in which the port sent, in thousandths. Counters that
    went back have been reset, or the switch was restarted: they count from zero."""
    time_ns = now.time_ns - before.time_ns
    busy_ns = now.busy_ns - before.busy_ns if now.busy_ns >= before.busy_ns else now.busy_ns
    return min(PER_MILLE, round(PER_MILLE * busy_ns / time_ns)) if time_ns > 0 else 0


def _peak(before: _PortReading, now: _PortReading) -> int:
    """The largest depth of a queue of the port between two readings, bytes, as far as it is known:
    where the largest depth since a reset has changed; else 0."""
    return max(
        (size for queue, size in now.longest.items() if size != before.longest.get(queue)),
        default=0,
    )


def _since(before: _PortReading, now: _PortReading) -> dict[str, int]:
    """Events between two readings, by kind. Counters that went back count from zero."""
    found = {
        kind: count - before.counts[kind] if count >= before.counts[kind] else count
        for kind, count in now.counts.items()
    }
    found["drop"] += found.pop(OUTSIDE)
    return found
