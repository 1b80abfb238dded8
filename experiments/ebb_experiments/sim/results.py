"""Results of a run as tables, in nominal units: rows, their columns, Parquet and CSV files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from ebb_controller.controller import Counters
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import replacing, write
from ebb_topologies.model import Topology

from ebb_experiments.sim.tables import SCHEMAS, Row, Rows, table

Line = dict[str, Any]

COUNTERS = (
    "port_in",
    "port_out",
    "phantom_marked",
    "step_marked",
    "trimmed",
    "trim_sent",
    "returned",
    "mlfq_demoted",
    "dropped",
)
"""Of fabric.p4: all are indexed by port, but for `dropped`, which is by reason."""
DROP_REASONS = (
    "none",
    "truncated",
    "ipv4-version",
    "ipv4-header-length",
    "ipv4-total-length",
    "ipv4-checksum",
    "ttl-expired",
    "ebb-version",
    "unknown-ethertype",
    "no-route",
    "route-drop",
    "arp-unanswered",
    "not-trimmable",
    "replica-to-source",
    "return-refused",
)
"""p4src/include/drop_reason.p4, in its order."""
NO_LOSS = ("replica-to-source", "link-corrupt")
"""Counted among the drops, but nothing is missing: a multicast copy that would go back where it
came from, and a frame that went on with a bit flipped."""
COUNTED_TWICE = ("egress",)
"""The target's word for what the program counts by its reason."""


@dataclass
class Results:
    """What one scheme did with one seed, nominal."""

    tables: dict[str, pa.Table]
    """With the columns of `SCHEMAS`."""
    run: dict[str, Any] = field(default_factory=dict)
    """What was run, with what and how long it took: run.json."""

    def rows(self, name: str) -> list[Row]:
        """Of a table that is not long."""
        rows: list[Row] = self.tables[name].to_pylist()
        return rows

    @property
    def flows(self) -> list[Row]:
        """If there are not many."""
        return self.rows("flows")

    @property
    def unfinished(self) -> int:
        """Flows that failed or did not end, and transfers that came to none."""
        return int(pc.sum(pc.not_equal(self.tables["flows"]["status"], "finished")).as_py() or 0)

    def total(self, counter: str) -> int:
        rows = (row for row in self.rows("counters") if row["counter"] == counter)
        return sum(row["packets"] for row in rows)

    @property
    def losses(self) -> dict[str, int]:
        """Packets by reason, wherever they were lost."""
        lost: dict[str, int] = {}
        rows = [*self.rows("drops"), *self.rows("counters")]
        for row in rows:
            reason = row["reason"]
            if reason is not None and reason not in (*NO_LOSS, *COUNTED_TWICE):
                lost[reason] = lost.get(reason, 0) + row["packets"]
        return lost

    @property
    def marks(self) -> int:
        """CE marks that the switches set."""
        return self.total("step_marked") + self.total("phantom_marked")

    def write(self, directory: Path) -> None:
        """Every table as `.parquet` and `.csv`; run.json last: it says that all is there. All of
        them or none: an `OSError` names the file that could not be written."""
        directory.mkdir(parents=True, exist_ok=True)
        try:
            for name, content in self.tables.items():
                with replacing(directory / f"{name}.parquet") as part:
                    pyarrow.parquet.write_table(content, part)
                with replacing(directory / f"{name}.csv") as part:
                    pyarrow.csv.write_csv(content, part)
            write(directory / RUN, json.dumps(self.run, indent=1, default=str) + "\n")
        except OSError:
            clear(directory)
            raise


RUN = "run.json"
FILES = tuple(f"{name}.{kind}" for name in SCHEMAS for kind in ("parquet", "csv"))


def clear(directory: Path) -> None:
    """Takes the results of an earlier run away, so that they are not taken for those of this."""
    for name in (RUN, *FILES):
        (directory / name).unlink(missing_ok=True)


# -- switches -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SwitchTables:
    """Statistics of all switches, in the simulator's units until here."""

    reports: list[Line]
    topology: Topology
    """Nominal."""
    dilation: Dilation
    at_ns: float
    """For how long they have counted."""
    head: Row

    def tables(self) -> dict[str, pa.Table]:
        rows = {
            "ports": self._ports(),
            "queues": self._queues(),
            "drops": self._drops(),
            "delays": self._delays(),
        }
        return {name: table(name, each) for name, each in rows.items()}

    def _place(self, switch: str, port: int) -> Row:
        far = self.topology.neighbours[switch].get(port)
        peer = None if far is None else far[0].node
        return self.head | {"switch": switch, "port": port, "peer": peer}

    def _ports(self) -> Iterator[Row]:
        for switch, port in self._each_port():
            far = self.topology.neighbours[switch].get(port["port"])
            yield self._place(switch, port["port"]) | {
                "rate_bps": None if far is None else far[1].rate_bps,
                "transmitted_packets": port["transmitted"]["packets"],
                "transmitted_bytes": port["transmitted"]["bytes"],
                "busy_ns": port["busy_ns"] / self.dilation.factor,
                "utilisation": port["busy_ns"] / self.at_ns if self.at_ns else None,
            }

    def _each_port(self) -> Iterator[tuple[str, Line]]:
        for report in self.reports:
            for port in report["ports"]:
                yield report["switch"], port

    def _each_queue(self) -> Iterator[tuple[Row, Line]]:
        for switch, port in self._each_port():
            for queue in port["queues"]:
                yield self._place(switch, port["port"]) | {"queue": queue["queue"]}, queue

    def _queues(self) -> Iterator[Row]:
        for place, queue in self._each_queue():
            row = dict(place)
            for name in ("enqueued", "dequeued", "deflected", "transmitted"):
                row[f"{name}_packets"] = queue[name]["packets"]
                row[f"{name}_bytes"] = queue[name]["bytes"]
            row["dropped_packets"] = sum(count["packets"] for count in queue["dropped"].values())
            row["dropped_bytes"] = sum(count["bytes"] for count in queue["dropped"].values())
            row["egress_dropped_packets"] = queue["egress_dropped"]["packets"]
            row["ecn_ce_packets"] = queue["ecn_ce"]["packets"]
            for unit in ("packets", "bytes"):
                for name in ("depth", "max_depth", "average_depth", "arrival_depth"):
                    row[f"{name}_{unit}"] = queue[f"{name}_{unit}"]
            for name in ("average_delay_ns", "max_delay_ns"):
                row[name] = queue[name] / self.dilation.factor
            yield row

    def _drops(self) -> Iterator[Row]:
        for report in self.reports:
            for drop in report["drops"]:
                yield self._place(report["switch"], drop["port"]) | {
                    key: drop[key] for key in ("queue", "reason", "packets", "bytes")
                }

    def _delays(self) -> Iterator[Row]:
        for place, queue in self._each_queue():
            for bucket in queue["delays"]:
                yield place | {
                    "from_ns": bucket["from_ns"] / self.dilation.factor,
                    "below_ns": bucket["below_ns"] / self.dilation.factor,
                    "packets": bucket["packets"],
                }


def counter_rows(counters: Mapping[str, Counters], head: Row) -> list[Row]:
    """What the program counted, as the controller read it; zeros are left out."""
    return [
        head
        | {
            "switch": switch,
            "counter": counter,
            "port": None if counter == "dropped" else index,
            "reason": DROP_REASONS[index] if counter == "dropped" else None,
            "packets": packets,
            "bytes": size,
        }
        for switch, tables in counters.items()
        for counter, cells in tables.items()
        for index, (packets, size) in enumerate(cells)
        if packets and (counter != "dropped" or index < len(DROP_REASONS))
    ]


class SampleTable:
    """Of `sample` lines; the `sampling` line before them says which queues they are of."""

    def __init__(self, topology: Topology, dilation: Dilation, head: Row) -> None:
        self._topology = topology
        self._dilation = dilation
        self._head = head
        self._places: list[Row] = []
        self._rows = Rows("samples")

    def append(self, line: Line) -> None:
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
        head = self._head | {"at_ns": line["at_ns"] / self._dilation.factor}
        for place, packets, size in zip(self._places, line["packets"], line["bytes"], strict=True):
            self._rows.append(head | place | {"depth_packets": packets, "depth_bytes": size})

    def table(self) -> pa.Table:
        return self._rows.table()


class ArrivalTable:
    """Of `arrivals` lines: how much of an object had arrived when."""

    def __init__(self, dilation: Dilation, head: Row) -> None:
        self._dilation = dilation
        self._head = head
        self._rows = Rows("arrivals")

    def append(self, line: Line) -> None:
        head = self._head | {"transfer": line["transfer"], "destination": line["host"]}
        for at_ns, size in zip(line["at_ns"], line["bytes"], strict=True):
            self._rows.append(head | {"at_ns": at_ns / self._dilation.factor, "bytes": size})

    def table(self) -> pa.Table:
        return self._rows.table()
