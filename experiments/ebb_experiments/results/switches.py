"""What switches counted, as rows: queues, ports, drops, delays and the program's counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.controller import Counters
from ebb_controller.drop_reason import reason
from ebb_controller.mechanisms import COUNTERS
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Topology

from ebb_experiments.results.tables import Row, Rows

COUNTED_TWICE = "egress"
"""Reason of the switch for what the program dropped after a queue, and counts by a reason of its
own."""


@dataclass(frozen=True)
class SwitchTables:
    """Statistics of all switches (`ebb_tm.proto`), in time as slow as they ran until here."""

    statistics: Mapping[str, tm.Stats]
    """Statistics by switch."""
    topology: Topology
    """The topology, with nominal rates."""
    dilation: Dilation
    at_ns: float
    """For how long the switches have counted, in ns as slow as they ran."""
    head: Row
    kind: type[Rows] = Rows

    def tables(self) -> dict[str, Rows]:
        rows = {
            "ports": self._ports(),
            "queues": self._queues(),
            "drops": self._drops(),
            "delays": self._delays(),
        }
        return {name: self.kind(name, each) for name, each in rows.items()}

    def _place(self, switch: str, port: int) -> Row:
        far = self.topology.neighbours[switch].get(port)
        peer = None if far is None else far[0].node
        return self.head | {"switch": switch, "port": port, "peer": peer}

    def _ports(self) -> Iterator[Row]:
        for switch, port in self._each_port():
            far = self.topology.neighbours[switch].get(port.port)
            yield self._place(switch, port.port) | {
                "rate_bps": None if far is None else far[1].rate_bps,
                **_counts("transmitted", port.transmitted),
                "busy_ns": self.dilation.nominal_time(port.busy_ns),
                "utilisation": port.busy_ns / self.at_ns if self.at_ns else None,
            }

    def _each_port(self) -> Iterator[tuple[str, tm.PortStats]]:
        for switch, statistics in self.statistics.items():
            for port in statistics.ports:
                yield switch, port

    def _each_queue(self) -> Iterator[tuple[Row, tm.QueueStats]]:
        for switch, port in self._each_port():
            for queue in port.queues:
                yield self._place(switch, port.port) | {"queue": queue.queue}, queue

    def _queues(self) -> Iterator[Row]:
        depths = ("depth", "max_depth", "average_depth", "arrival_depth")
        for place, queue in self._each_queue():
            row = dict(place)
            for name in ("enqueued", "dequeued", "deflected", "transmitted"):
                row |= _counts(name, getattr(queue, name))
            row["dropped_packets"] = sum(drop.count.packets for drop in queue.drops)
            row["dropped_bytes"] = sum(drop.count.bytes for drop in queue.drops)
            row["egress_dropped_packets"] = queue.egress_dropped.packets
            row["ecn_ce_packets"] = queue.ecn_ce.packets
            for name in (f"{depth}_{unit}" for unit in ("packets", "bytes") for depth in depths):
                row[name] = getattr(queue, name)
            for name in ("average_delay_ns", "max_delay_ns"):
                row[name] = self.dilation.nominal_time(getattr(queue, name))
            yield row

    def _drops(self) -> Iterator[Row]:
        """Drops outside of queues and in them, by port; `egress`: by the program, after a queue."""
        for switch, statistics in self.statistics.items():
            drops = [(drop.port, None, drop.reason, drop.count) for drop in statistics.drops]
            for port in statistics.ports:
                for queue in port.queues:
                    told = [(drop.reason, drop.count) for drop in queue.drops]
                    if queue.egress_dropped.packets:
                        told.append((COUNTED_TWICE, queue.egress_dropped))
                    drops += [(port.port, queue.queue, *each) for each in told]
            drops.sort(key=lambda d: (d[0], -1 if d[1] is None else d[1], d[2]))
            for port, queue, why, count in drops:
                place = self._place(switch, port) | {"queue": queue, "reason": why}
                yield place | {"packets": count.packets, "bytes": count.bytes}

    def _delays(self) -> Iterator[Row]:
        for place, queue in self._each_queue():
            for bucket in queue.delays:
                yield place | {
                    "from_ns": self.dilation.nominal_time(bucket.from_ns),
                    "below_ns": self.dilation.nominal_time(bucket.below_ns),
                    "packets": bucket.packets,
                }


def _counts(name: str, count: tm.Count) -> Row:
    return {f"{name}_packets": count.packets, f"{name}_bytes": count.bytes}


def counter_rows(counters: Mapping[str, Counters], head: Row) -> Iterator[Row]:
    """What the program counted by port or reason, as the controller read it; zeros are left out."""
    for switch, tables in counters.items():
        for counter, cells in tables.items():
            by = COUNTERS[counter].index if counter in COUNTERS else "port"
            if by == "multicast group":
                continue
            by_reason = by == "drop reason"
            for index, (packets, size) in enumerate(cells):
                if packets:
                    yield head | {
                        "switch": switch,
                        "counter": counter,
                        "port": None if by_reason else index,
                        "reason": reason(index) if by_reason else None,
                        "packets": packets,
                        "bytes": size,
                    }
