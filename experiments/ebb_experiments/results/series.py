"""Samples during a run: queues, and bytes that have arrived."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Topology

from ebb_experiments.results.tables import Kind, Row, Rows

Line = dict[str, Any]


class SampleTable:
    """Rows from `sample` lines; the `sampling` line before them says which queues they are of."""

    def __init__(
        self, topology: Topology, dilation: Dilation, head: Row, kind: Kind = Rows
    ) -> None:
        self._topology = topology
        self._dilation = dilation
        self._head = head
        self._places: list[Row] = []
        self._kind = kind

    @cached_property
    def _rows(self) -> Rows:
        return self._kind("samples")

    def append(self, line: Line) -> None:
        """Adds a line of samples, or the one that names their places."""
        if line["event"] == "sampling":
            self._places = [
                {
                    "switch": queue["switch"],
                    "port": queue["port"],
                    "peer": self._topology.neighbours[queue["switch"]][queue["port"]][0].node,
                    "queue": queue["queue"],
                }
                for queue in line["queues"]
            ]
            return
        head = self._head | {"at_ns": self._dilation.nominal_time(line["at_ns"])}
        for place, packets, size in zip(self._places, line["packets"], line["bytes"], strict=True):
            self._rows.append(head | place | {"depth_packets": packets, "depth_bytes": size})

    def table(self) -> Rows:
        """Rows of the table `samples`."""
        return self._rows


class ArrivalTable:
    """Rows from `arrivals` lines: how much of an object had arrived when."""

    def __init__(self, dilation: Dilation, head: Row, kind: Kind = Rows) -> None:
        self._dilation = dilation
        self._head = head
        self._kind = kind

    @cached_property
    def _rows(self) -> Rows:
        return self._kind("arrivals")

    def append(self, line: Line) -> None:
        """Adds the arrivals of an object."""
        head = self._head | {"transfer": line["transfer"], "destination": line["host"]}
        for at_ns, size in zip(line["at_ns"], line["bytes"], strict=True):
            self._rows.append(head | {"at_ns": self._dilation.nominal_time(at_ns), "bytes": size})

    def table(self) -> Rows:
        """Rows of the table `arrivals`."""
        return self._rows
