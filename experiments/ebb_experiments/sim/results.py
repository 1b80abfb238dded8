"""Results of a run as tables, in nominal units: rows, their columns, Parquet and CSV files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from ebb_controller.controller import Counters
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Topology

Row = dict[str, Any]
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

_BY_SENDER = ("packets_sent", "retransmitted", "timeouts", "returned")
_BY_RECEIVER = ("packets_received", "trimmed", "ce_marks", "duplicates", "decodes", "unneeded")
"""What each end of a flow counts: docs/agent-records.md. Of several senders the sum."""
_RUN = (("scheme", pa.string()), ("seed", pa.int64()))
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
            *_columns(pa.int64(), *_BY_SENDER, *_BY_RECEIVER),
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
    }.items()
}


@dataclass
class Results:
    """What one scheme did with one seed. Rows have the columns of `SCHEMAS`, nominal."""

    tables: dict[str, list[Row]]
    run: dict[str, Any] = field(default_factory=dict)
    """What was run, with what and how long it took: run.json."""

    @property
    def flows(self) -> list[Row]:
        return self.tables["flows"]

    def total(self, counter: str) -> int:
        rows = (row for row in self.tables["counters"] if row["counter"] == counter)
        return sum(row["packets"] for row in rows)

    @property
    def losses(self) -> dict[str, int]:
        """Packets by reason, wherever they were lost."""
        lost: dict[str, int] = {}
        rows = [*self.tables["drops"], *self.tables["counters"]]
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
        """Every table as `.parquet` and `.csv`; run.json last: it says that all is there."""
        directory.mkdir(parents=True, exist_ok=True)
        for name, rows in self.tables.items():
            table = pa.Table.from_pylist(rows, schema=SCHEMAS[name])
            pyarrow.parquet.write_table(table, directory / f"{name}.parquet")
            pyarrow.csv.write_csv(table, directory / f"{name}.csv")
        (directory / "run.json").write_text(json.dumps(self.run, indent=1, default=str) + "\n")


FILES = tuple(f"{name}.{kind}" for name in SCHEMAS for kind in ("parquet", "csv"))


def clear(directory: Path) -> None:
    """Takes the results of an earlier run away, so that they are not taken for those of this."""
    for name in ("run.json", *FILES):
        (directory / name).unlink(missing_ok=True)


# -- flows ----------------------------------------------------------------------------------------


def flow_rows(
    lines: Iterable[Line], topology: Topology, dilation: Dilation, head: Row
) -> list[Row]:
    """A row for each object at each of its destinations, and for each transfer that came to none.

    Both ends of a flow tell their part; the sender's address and session name it at both. What is
    fetched from several hosts is one flow at the receiver, whose record lists the senders, and one
    at each of these.
    """
    lines = list(lines)
    names = {host.ip: host.name for host in topology.hosts}
    flows = [line for line in lines if line["event"] == "flow" and line.get("transfer") is not None]
    senders = [flow for flow in flows if flow["role"] == "sender"]
    by_session = {(flow["local"], flow["session"]): flow for flow in senders}
    by_ends = {(flow["local"], flow["peer"], flow["transfer"]): flow for flow in senders}
    rows: list[Row] = []
    met: set[int] = set()
    for line in flows:
        if line["role"] != "receiver":
            continue
        sent = [by_session.get((line["peer"], line["session"]))]
        sent += [
            by_ends.get((each["peer"], line["local"], line["transfer"]))
            for each in line.get("senders", ())
        ]
        found = list({id(flow): flow for flow in sent if flow is not None}.values())
        met.update(id(flow) for flow in found)
        rows.append(_flow_row(line, found, names, dilation))
    rows += [_flow_row(None, [flow], names, dilation) for flow in senders if id(flow) not in met]
    told = {row["transfer"] for row in rows}
    rows += [
        _transfer_row(line)
        for line in lines
        if line["event"] == "transfer" and line["transfer"] not in told
    ]
    rows.sort(key=lambda row: (row["transfer"], row["destination"] or "", row["source"] or ""))
    return [head | row for row in rows]


def _flow_row(
    received: Line | None, sent: list[Line], names: Mapping[str, str], dilation: Dilation
) -> Row:
    ends = [*sent, *([received] if received else [])]
    line = received or sent[0]
    sources = [flow["local"] for flow in sent] or [line["peer"]]
    destination = received["local"] if received else line["peer"]
    offered = next((e["offered_at_ns"] for e in ends if e["offered_at_ns"] is not None), None)
    started = min(end["started_at_ns"] for end in ends)
    reasons = [
        f"{end['role']}: {end.get('reason') or end['status']}"
        for end in ends
        # A receiver that has all does not need every one of its senders.
        if end["status"] != "finished" and (end is received or len(sent) == 1)
    ]
    if received is None and not reasons:
        reasons = ["receiver: no record of this flow"]
    if received is not None and received.get("sha256_ok") is False:
        reasons.append("receiver: not what was sent")
    times = {"offered_at_ns": offered, "started_at_ns": started}
    if received is not None and not reasons:
        finished = received["finished_at_ns"]
        begun = started if offered is None else offered
        times |= {"finished_at_ns": finished, "fct_ns": finished - begun}
    return {
        **{key: line[key] for key in ("transfer", "job", "traffic", "kind", "bytes")},
        "stream_bytes": line["stream_bytes"],
        "source": _named(sources, names),
        "destination": _named([destination], names),
        **_nominal(times, dilation),
        "status": "failed" if reasons else "finished",
        "reason": "; ".join(reasons) or None,
        **{key: sum(flow[key] for flow in sent) if sent else None for key in _BY_SENDER},
        **{key: received[key] if received else None for key in _BY_RECEIVER},
    }


def _named(ends: Iterable[str], names: Mapping[str, str]) -> str:
    """Names of hosts; the address of a group is left as it is."""
    addresses = (end.partition(":")[0] for end in ends)
    return " ".join(sorted({names.get(address, address) for address in addresses}))


def _transfer_row(line: Line) -> Row:
    return {
        **{key: line[key] for key in ("transfer", "job", "traffic", "kind", "bytes")},
        "source": None,
        "destination": None,
        "status": line["status"],
        "reason": line.get("reason"),
    }


def _nominal(times: Mapping[str, Any], dilation: Dilation) -> Row:
    return {k: None if t is None else t / dilation.factor for k, t in times.items()}


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

    def tables(self) -> dict[str, list[Row]]:
        return {
            "ports": list(self._ports()),
            "queues": list(self._queues()),
            "drops": list(self._drops()),
            "delays": list(self._delays()),
        }

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
        """Bucket 0 is below 1 ns of the simulator's, bucket i from 2^(i-1) ns to below 2^i ns."""
        for place, queue in self._each_queue():
            for bucket, packets in enumerate(queue["delay_histogram_ns"]):
                if packets:
                    yield place | {
                        "from_ns": (2.0 ** (bucket - 1) if bucket else 0.0) / self.dilation.factor,
                        "below_ns": 2.0**bucket / self.dilation.factor,
                        "packets": packets,
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


def sample_rows(
    lines: Iterable[Line], topology: Topology, dilation: Dilation, head: Row
) -> Iterator[Row]:
    """A `sampling` line says which queues the numbers of the `sample` lines after it are of."""
    places: list[Row] = []
    for line in lines:
        if line["event"] == "sampling":
            places = [
                {
                    "switch": queue["switch"],
                    "port": queue["port"],
                    "peer": topology.neighbours[queue["switch"]][queue["port"]][0].node,
                    "queue": queue["queue"],
                }
                for queue in line["queues"]
            ]
            continue
        at = {"at_ns": line["at_ns"] / dilation.factor}
        for place, packets, size in zip(places, line["packets"], line["bytes"], strict=True):
            yield head | at | place | {"depth_packets": packets, "depth_bytes": size}
