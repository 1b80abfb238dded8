"""Metrics of a trial: small pure functions on its tables.

`sample` gives the numbers that a metric is made from (a flow's, a job's, each), `value` the metric.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from ebb_topologies.model import Topology

from ebb_experiments.study.metric_spec import (
    Delay,
    Flows,
    Jobs,
    Metric,
    Network,
    Port,
    Samples,
    Stat,
)
from ebb_experiments.study.store import Tables

Numbers = npt.NDArray[np.float64]
HEADER_BYTES = 54
"""Ethernet, IPv4 and TCP; NDP and SCDP have 82. For the ideal time only."""
MARKS = ("step_marked", "phantom_marked")


def value(metric: Metric, tables: Tables, topology: Topology, mtu_bytes: int) -> float | None:
    """None: there is nothing that it could be made from."""
    number = _value(metric, tables, topology, mtu_bytes)
    return None if number is None or math.isnan(number) else number * metric.scale


def sample(metric: Metric, tables: Tables, topology: Topology, mtu_bytes: int) -> Numbers:
    """What `value` is made from, in units of the metric; only flows and jobs have one."""
    if isinstance(metric, Flows):
        return flow_numbers(metric, tables["flows"], topology, mtu_bytes) * metric.scale
    if isinstance(metric, Jobs):
        return job_numbers(metric, tables["flows"]) * metric.scale
    return np.array([])


def _value(metric: Metric, tables: Tables, topology: Topology, mtu: int) -> float | None:
    match metric:
        case Flows():
            return _of_flows(metric, tables["flows"], topology, mtu)
        case Jobs():
            numbers = job_numbers(metric, tables["flows"])
            if metric.stat == "above-share":
                above = numbers * metric.scale > _limit(metric.limit)
                return float(above.mean()) / metric.scale if len(numbers) else None
            return statistic(numbers, metric.stat)
        case Delay():
            return _delay(metric, tables["queues"], tables["delays"])
        case Port():
            return _port(metric, tables["ports"])
        case Network():
            return _network(metric, tables)
        case Samples():
            return None


def statistic(numbers: Numbers, stat: Stat) -> float | None:
    """Percentiles are nearest ranks, as everywhere in Ebb."""
    if len(numbers) == 0:
        return None
    if stat == "mean":
        return float(numbers.mean())
    if stat in ("max", "min"):
        return float(numbers.max() if stat == "max" else numbers.min())
    share = float(stat[1:]) / 100
    rank = max(1, math.ceil(share * len(numbers) - 1e-9))
    return float(np.sort(numbers)[rank - 1])


# -- flows ----------------------------------------------------------------------------------------


def chosen(metric: Flows, flows: pa.Table) -> pa.Table:
    """Rows of the traffic, sizes and destination that the metric is about."""
    keep = pc.greater_equal(flows["bytes"], metric.above_bytes)
    if metric.above_bytes:
        keep = pc.greater(flows["bytes"], metric.above_bytes)
    if metric.up_to_bytes is not None:
        keep = pc.and_(keep, pc.less_equal(flows["bytes"], metric.up_to_bytes))
    if metric.traffic is not None:
        keep = pc.and_(keep, pc.equal(flows["traffic"], metric.traffic))
    if metric.destination is not None:
        keep = pc.and_(keep, pc.equal(flows["destination"], metric.destination))
    return flows.filter(keep)


def flow_numbers(metric: Flows, flows: pa.Table, topology: Topology, mtu_bytes: int) -> Numbers:
    flows = chosen(metric, flows)
    flows = flows.filter(pc.equal(flows["status"], "finished"))
    if metric.of == "fct":
        return _array(flows["fct_ns"])
    if metric.of == "goodput":
        return _array(flows["bytes"]) * 8e9 / _array(flows["fct_ns"])
    if metric.of == "slowdown":
        return _array(flows["fct_ns"]) / ideal_ns(flows, topology, mtu_bytes)
    return _array(flows[metric.of])


def _of_flows(metric: Flows, flows: pa.Table, topology: Topology, mtu: int) -> float | None:
    numbers = flow_numbers(metric, flows, topology, mtu)
    if metric.stat == "sum":
        return float(numbers.sum())
    if metric.stat == "share":
        return float((numbers > 0).mean()) if len(numbers) else None
    if metric.stat == "above":
        return float((numbers * metric.scale > _limit(metric.limit)).sum()) / metric.scale
    if metric.stat == "outliers":
        return outliers(numbers) / metric.scale
    return statistic(numbers, metric.stat)


def outliers(numbers: Numbers) -> int:
    """As the points above a box plot's whiskers (Tukey)."""
    if len(numbers) == 0:
        return 0
    lower, upper = np.percentile(numbers, [25, 75])
    return int((numbers > upper + 1.5 * (upper - lower)).sum())


def ideal_ns(flows: pa.Table, topology: Topology, mtu_bytes: int) -> Numbers:
    """Time of a flow alone in the network, store and forward: every link's delay, the first packet
    on every link, the others on the slowest. With several sources from the nearest."""
    paths: dict[tuple[str, str], tuple[float, list[float]]] = {}
    content = mtu_bytes - (HEADER_BYTES - 14)
    found = []
    for sources, destination, size in zip(
        *(flows[name].to_pylist() for name in ("source", "destination", "bytes")), strict=True
    ):
        source = min(sources.split(), key=lambda s: topology.distances(destination)[s])
        ends = (source, destination)
        if ends not in paths:
            paths[ends] = _path(topology, *ends)
        delay, rates = paths[ends]
        first = min(size, content) + HEADER_BYTES
        wire = size + math.ceil(size / content) * HEADER_BYTES
        found.append(
            delay + sum(first * 8e9 / rate for rate in rates) + (wire - first) * 8e9 / min(rates)
        )
    return np.array(found)


def _path(topology: Topology, source: str, destination: str) -> tuple[float, list[float]]:
    """Sum of the delays and the rates along one of the shortest paths."""
    here, delay, rates = source, 0.0, []
    while here != destination:
        port = (
            next(iter(topology.neighbours[here]))
            if topology.is_host(here)
            else topology.next_hops(here, destination)[0]
        )
        end, link = topology.neighbours[here][port]
        delay += link.delay_ns
        rates.append(float(link.rate_bps))
        here = end.node
    return delay, rates


# -- jobs -----------------------------------------------------------------------------------------


def job_numbers(metric: Jobs, flows: pa.Table) -> Numbers:
    flows = flows.filter(pc.equal(flows["traffic"], metric.traffic))
    jobs: dict[int, list[dict[str, Any]]] = {}
    columns = ("job", "transfer", "destination", "bytes", "offered_at_ns", "started_at_ns",
               "finished_at_ns", "status")  # fmt: skip
    for row in flows.select(columns).to_pylist():
        jobs.setdefault(row["job"], []).append(row)
    found = []
    for rows in jobs.values():
        ended = all(row["status"] == "finished" for row in rows)
        if not ended:
            if metric.of == "job-goodput":
                found.append(0.0)
            continue
        begun = [row["offered_at_ns"] for row in rows if row["offered_at_ns"] is not None]
        first = min(begun) if begun else min(row["started_at_ns"] for row in rows)
        took = max(row["finished_at_ns"] for row in rows) - first
        if metric.of == "completion":
            found.append(took)
            continue
        sizes = {row["transfer"]: row["bytes"] for row in rows}
        content = max(sizes.values()) if metric.bytes == "once" else sum(sizes.values())
        found.append(content * 8e9 / took)
    return np.array(found, dtype=np.float64)


# -- switches -------------------------------------------------------------------------------------


def _delay(metric: Delay, queues: pa.Table, delays: pa.Table) -> float | None:
    queues, delays = (_at(metric.peer, _queue(metric.queue, t)) for t in (queues, delays))
    if metric.stat == "max":
        return _of(pc.max(queues["max_delay_ns"]).as_py())
    packets = _array(queues["dequeued_packets"])
    if packets.sum() == 0:
        return None
    if metric.stat == "mean":
        return float((_array(queues["average_delay_ns"]) * packets).sum() / packets.sum())
    low, high, packets = (_array(delays[name]) for name in ("from_ns", "below_ns", "packets"))
    return histogram_percentile(low, high, packets, float(metric.stat[1:]) / 100)


def histogram_percentile(
    from_: Numbers, below: Numbers, packets: Numbers, share: float
) -> float | None:
    """Inside a bucket as if logarithms were spread evenly; the lowest bucket begins at 0, there
    the values themselves."""
    if packets.sum() == 0:
        return None
    order = np.argsort(from_, kind="stable")
    rank = share * packets.sum()
    before = 0.0
    for low, high, count in zip(from_[order], below[order], packets[order], strict=True):
        if before + count >= rank:
            part = (rank - before) / count
            return float(low * (high / low) ** part if low > 0 else high * part)
        before += count
    return float(below.max())


def _port(metric: Port, ports: pa.Table) -> float | None:
    if metric.of == "balance":
        keep = pc.starts_with(ports["switch"], metric.switches)
        packets = _array(ports.filter(keep)["transmitted_packets"])
        return float(packets.std() / packets.mean()) if packets.sum() else None
    if isinstance(metric.peer, list):
        each = [_port(metric.model_copy(update={"peer": peer}), ports) for peer in metric.peer]
        known = [number for number in each if number is not None]
        return float(np.mean(known)) if known else None
    ports = _at(metric.peer, ports)
    if len(ports) == 0:
        return None
    if metric.of == "utilisation":
        return _of(pc.mean(ports["utilisation"]).as_py())
    busy, share = _array(ports["busy_ns"]), _array(ports["utilisation"])
    window = (busy[share > 0] / share[share > 0]).max(initial=0.0)
    return float(_array(ports["transmitted_bytes"]).sum() * 8e9 / window) if window else 0.0


def depths(metric: Samples, samples: pa.Table) -> tuple[Numbers, Numbers]:
    """Times and depths in bytes, all queues of the port together."""
    samples = _at(metric.peer, samples)
    total = samples.group_by("at_ns").aggregate([("depth_bytes", "sum")]).sort_by("at_ns")
    return _array(total["at_ns"]), _array(total["depth_bytes_sum"]) * metric.scale


def _network(metric: Network, tables: Tables) -> float | None:
    flows = tables["flows"]
    if metric.traffic is not None:
        flows = flows.filter(pc.equal(flows["traffic"], metric.traffic))
    ended = flows.filter(pc.equal(flows["status"], "finished"))
    if metric.of == "finished":
        return len(ended) / len(flows) if len(flows) else None
    if metric.of == "ended_at":
        return _of(pc.max(ended["finished_at_ns"]).as_py())
    counters = tables["counters"]
    names = {"trims": ("trimmed",), "marks": MARKS, "lost": ("dropped",)}[metric.of]
    keep = pc.is_in(counters["counter"], value_set=pa.array(names))
    total = float(pc.sum(counters.filter(keep)["packets"]).as_py() or 0)
    if metric.of == "lost":
        drops = tables["drops"]
        other = pc.is_in(drops["reason"], value_set=pa.array(["link-corrupt", "egress"]))
        total += float(pc.sum(drops.filter(pc.invert(other))["packets"]).as_py() or 0)
        copies = pc.equal(counters["reason"], "replica-to-source")
        total -= float(pc.sum(counters.filter(copies)["packets"]).as_py() or 0)
    return total


def _at(peer: str | None, table: pa.Table) -> pa.Table:
    return table if peer is None else table.filter(pc.equal(table["peer"], peer))


def _queue(queue: int | None, table: pa.Table) -> pa.Table:
    return table if queue is None else table.filter(pc.equal(table["queue"], queue))


def _array(column: pa.ChunkedArray) -> Numbers:
    numbers: Numbers = column.to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _of(number: float | None) -> float | None:
    return None if number is None else float(number)


def _limit(limit: float | None) -> float:
    if limit is None:
        raise ValueError("`above` needs a limit")
    return limit


Row = dict[str, Any]
"""A trial: `scheme`, `seed`, `labels` and the metrics by name."""


def row(
    metrics: dict[str, Metric],
    tables: Tables,
    scheme: str,
    seed: int,
    labels: dict[str, Any],
    topology: Topology,
    mtu_bytes: int,
) -> Row:
    compute: Callable[[Metric], float | None] = lambda metric: value(  # noqa: E731
        metric, tables, topology, mtu_bytes
    )
    named = {name: compute(metric) for name, metric in metrics.items()}
    return {"scheme": scheme, "seed": seed, "labels": labels, **named}
