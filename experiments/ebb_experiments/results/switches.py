"""Counters of switches as rows: queues, ports, drops, delays and those of the program."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeAlias

from ebb_controller.drop_reason import reason
from ebb_controller.mechanisms import COUNTERS
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Topology

from ebb_experiments.results.tables import Kind, Row, Rows

if TYPE_CHECKING:  # a simulation has statistics only once its clock has run
    from ebb_controller import ebb_tm_pb2 as tm
    from ebb_controller.controller import Counters

EGRESS = "egress"
"""Reason of the switch for what the program dropped after a queue."""
COUNTED_TWICE = (EGRESS, "ingress-mark-to-drop")
"""Reasons of the switch for what the program dropped, and counts by reasons of its own."""
SWITCHES_AT_ONCE = 32
"""How many switches become rows together: with few the same is done for each table again and again,
with many their columns take memory."""

Columns = Mapping[str, Sequence[Any]]
"""Values of equally many rows by column."""
PortQueue: TypeAlias = "tuple[str, int, tm.QueueStats]"
"""A switch, the number of a port, and one of its queues."""


SwitchPort: TypeAlias = "tuple[str, tm.PortStats]"
"""A switch and one of its ports."""


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
    kind: Kind = Rows

    def tables(self) -> dict[str, Rows]:
        """The tables by name, but that of delays."""
        tables = {name: self.kind(name) for name in ("ports", "queues", "drops")}
        tables["drops"].extend(self._drops())
        for ports in self._several():
            queues = _queues_of(ports)
            tables["ports"].extend_columns(self.head, self._ports(ports))
            tables["queues"].extend_columns(self.head, self._queues(queues))
        return tables

    def delays(self) -> Rows:
        """The table of delays: nearly all rows, and all in columns."""
        table = self.kind("delays")
        for ports in self._several():
            queues = _queues_of(ports)
            delays = [queue.delays for _name, _port, queue in queues]
            table.extend_runs(
                self.head,
                self._place_of(queues),
                [len(buckets.packets) for buckets in delays],
                self._delays(delays, table),
            )
        return table

    def _several(self) -> Iterator[list[SwitchPort]]:
        """Ports of all switches, in batches of several switches."""
        switches = iter(self.statistics.items())
        while several := list(islice(switches, SWITCHES_AT_ONCE)):
            yield [(name, port) for name, stats in several for port in stats.ports]

    def _place(self, switch: str, port: int) -> Row:
        return self.head | {"switch": switch, "port": port, "peer": self._peer(switch, port)}

    def _place_of(self, queues: Sequence[PortQueue]) -> Columns:
        return {
            "switch": [switch for switch, _port, _queue in queues],
            "port": [port for _switch, port, _queue in queues],
            "peer": [self._peer(switch, port) for switch, port, _queue in queues],
            "queue": [queue.queue for _switch, _port, queue in queues],
        }

    def _peer(self, switch: str, port: int) -> str | None:
        far = self.topology.neighbours[switch].get(port)
        return None if far is None else far[0].node

    def _rate_bps(self, switch: str, port: int) -> int | None:
        far = self.topology.neighbours[switch].get(port)
        return None if far is None else far[1].rate_bps

    def _ports(self, ports: Sequence[SwitchPort]) -> Columns:
        statistics = [port for _switch, port in ports]
        busy = [port.busy_ns for port in statistics]
        return {
            "switch": [switch for switch, _port in ports],
            "port": [port.port for port in statistics],
            "peer": [self._peer(switch, port.port) for switch, port in ports],
            "rate_bps": [self._rate_bps(switch, port.port) for switch, port in ports],
            **_counts("transmitted", [port.transmitted for port in statistics]),
            "busy_ns": self.dilation.nominal_times(busy),
            "utilisation": [ns / self.at_ns if self.at_ns else None for ns in busy],
        }

    def _queues(self, queues: Sequence[PortQueue]) -> Columns:
        statistics = [queue for _switch, _port, queue in queues]
        drops = [[drop.count for drop in queue.drops] for queue in statistics]
        columns: dict[str, Sequence[Any]] = {
            **self._place_of(queues),
            "dropped_packets": [sum(count.packets for count in each) for each in drops],
            "dropped_bytes": [sum(count.bytes for count in each) for each in drops],
            "egress_dropped_packets": [queue.egress_dropped.packets for queue in statistics],
            "ecn_ce_packets": [queue.ecn_ce.packets for queue in statistics],
        }
        for name in ("enqueued", "dequeued", "deflected", "transmitted"):
            columns |= _counts(name, list(map(attrgetter(name), statistics)))
        for depth in ("depth", "max_depth", "average_depth", "arrival_depth"):
            for name in (f"{depth}_packets", f"{depth}_bytes"):
                columns[name] = list(map(attrgetter(name), statistics))
        for name in ("average_delay_ns", "max_delay_ns"):
            columns[name] = self.dilation.nominal_times(map(attrgetter(name), statistics))
        return columns

    def _delays(self, delays: Sequence[tm.DelayBuckets], table: Rows) -> Columns:
        """Columns of a row for each bucket: half a million of them with a thousand hosts."""
        unit = self.dilation.time(1.0)
        return {
            "from_ns": table.quotients(_all(buckets.from_ns for buckets in delays), unit),
            "below_ns": table.quotients(_all(buckets.below_ns for buckets in delays), unit),
            "packets": _all(buckets.packets for buckets in delays),
        }

    def _drops(self) -> Iterator[Row]:
        """Drops outside of queues and in them, by port; `egress`: by the program, after a queue."""
        for switch, statistics in self.statistics.items():
            drops = [(drop.port, None, drop.reason, drop.count) for drop in statistics.drops]
            for port in statistics.ports:
                for queue in port.queues:
                    reasons = [(drop.reason, drop.count) for drop in queue.drops]
                    if queue.egress_dropped.packets:
                        reasons.append((EGRESS, queue.egress_dropped))
                    drops += [(port.port, queue.queue, *each) for each in reasons]
            drops.sort(key=lambda d: (d[0], -1 if d[1] is None else d[1], d[2]))
            for port, queue, why, count in drops:
                place = self._place(switch, port) | {"queue": queue, "reason": why}
                yield place | {"packets": count.packets, "bytes": count.bytes}


def _queues_of(ports: Sequence[SwitchPort]) -> list[PortQueue]:
    return [(name, port.port, queue) for name, port in ports for queue in port.queues]


def _all(columns: Iterable[Iterable[int]]) -> array[int]:
    """Numbers of 64 bits without a sign, those of one column after those of another."""
    numbers = array("Q")
    for column in columns:
        numbers.extend(column)
    return numbers


def _counts(name: str, counts: Sequence[tm.Count]) -> Columns:
    return {
        f"{name}_packets": [count.packets for count in counts],
        f"{name}_bytes": [count.bytes for count in counts],
    }


def _index(counter: str) -> str:
    """Meaning of the index into a counter."""
    return COUNTERS[counter].index if counter in COUNTERS else "port"


def is_reported(counter: str) -> bool:
    """Whether the table `counters` has a counter: not those by multicast group, which have a
    thousand cells at each switch."""
    return _index(counter) != "multicast group"


def counter_rows(counters: Mapping[str, Counters], head: Row) -> Iterator[Row]:
    """Counters of the program by port or reason, as the controller read them, without zeros."""
    for switch, tables in counters.items():
        for counter, cells in tables.items():
            if not is_reported(counter):
                continue
            by_reason = _index(counter) == "drop reason"
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
