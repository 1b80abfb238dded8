"""Metrics of a trial: small pure functions on its tables.

`sample` gives the numbers that a metric is made from (a flow's, a job's, each), `value` the metric.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import polars as pl
from ebb_controller.mechanisms import summed
from ebb_topologies.model import Topology

from ebb_experiments.results.numbers import nearest_rank
from ebb_experiments.results.results import NO_LOSS
from ebb_experiments.results.switches import COUNTED_TWICE
from ebb_experiments.study.arrivals import fairness, goodput_meanwhile, rates
from ebb_experiments.study.estimates import Numbers, Sample
from ebb_experiments.study.metric_spec import (
    ConcurrentGoodput,
    Delay,
    Fairness,
    Flows,
    Jobs,
    Metric,
    Network,
    Port,
    Rates,
    Samples,
    Stat,
    TenantMessages,
    Tenants,
    Volume,
)
from ebb_experiments.study.store import Tables
from ebb_experiments.study.volumes import volume

ETHERNET_BYTES, IPV4_BYTES, TCP_BYTES, EBB_BYTES = 14, 20, 20, 48
"""Headers without options, as in `common/wire` (tests compare docs/wire-vectors.json)."""
HEADER_BYTES = ETHERNET_BYTES + IPV4_BYTES + TCP_BYTES
"""Bytes of headers for the ideal time of all transports, so that slowdowns compare: those of
TCP."""
EBB_HEADER_BYTES = IPV4_BYTES + EBB_BYTES
"""Bytes of headers in an IP packet of NDP, SCDP and Trevi (docs/wire-format.md)."""
SHOWN_POINTS = 2_000
"""How many points of a curve over time are kept."""
LEAST_BEYOND = 10
"""Samples that must lie beyond a percentile for it to say something."""
STEPS = 50
"""Into how many instants the time of a packet is divided."""


def value(metric: Metric, tables: Tables, topology: Topology, mtu_bytes: int) -> float | None:
    """Value of a metric; none: there is nothing that it could be made from."""
    number = _value(metric, tables, topology, mtu_bytes)
    return None if number is None or math.isnan(number) else number * metric.scale


def sample(metric: Metric, tables: Tables, topology: Topology, mtu_bytes: int) -> Numbers:
    """Numbers that `value` is made from, in units of the metric; only flows and jobs have them."""
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
        case TenantMessages():
            return _of_messages(metric, tables["flows"])
        case Delay():
            return _delay(metric, tables)
        case Port():
            return _port(metric, tables["ports"])
        case Network():
            return _network(metric, tables)
        case ConcurrentGoodput():
            return goodput_meanwhile(metric, tables)
        case Fairness():
            return statistic(fairness(metric, tables), metric.stat)
        case Tenants():
            return _of_tenants(metric, tables)
        case Volume():
            return volume(metric, tables)
        case Samples() | Rates():
            return None


def statistic(numbers: Numbers, stat: Stat) -> float | None:
    """A statistic of numbers; percentiles are nearest ranks, as everywhere in Ebb."""
    if len(numbers) == 0:
        return None
    if stat == "mean":
        return float(numbers.mean())
    if stat in ("max", "min"):
        return float(numbers.max() if stat == "max" else numbers.min())
    return float(np.sort(numbers)[nearest_rank(len(numbers), float(stat[1:])) - 1])


# -- tenants --------------------------------------------------------------------------------------


IN_META = {"network-utilisation": "utilisation", "occupancy": "occupancy", "late": "late"}
"""Metrics that are a number of the trial, and what it calls them."""


def _of_tenants(metric: Tenants, tables: Tables) -> float | None:
    if metric.of in IN_META:
        number = tables.meta["numbers"].get(IN_META[metric.of])
        return None if number is None else float(number)
    tenants = tables["tenants"]
    if metric.class_ is not None:
        tenants = tenants.filter(pl.col("class") == metric.class_)
    if metric.of == "rejected":
        return _one(tenants, (~pl.col("admitted")).mean())
    column = "placement_ns" if metric.of == "placement-time" else "stretch"
    assert metric.stat is not None
    return statistic(_array(tenants.filter(pl.col(column).is_not_null()), column), metric.stat)


def tenants_row(
    metrics: dict[str, Metric], tables: Tables, scheme: str, seed: int, labels: dict[str, Any]
) -> Row:
    """Numbers of a trial at flow level."""
    found: dict[str, float | None] = {}
    for name, metric in metrics.items():
        assert isinstance(metric, Tenants)
        number = _of_tenants(metric, tables)
        found[name] = None if number is None else number * metric.scale
    return {"scheme": scheme, "seed": seed, "labels": labels, **NOTHING, **found}


# -- flows ----------------------------------------------------------------------------------------


ENDED = pl.col("status") == "finished"


def chosen(metric: Flows, flows: pl.LazyFrame) -> pl.LazyFrame:
    """Rows of the traffic, sizes and destination that the metric is about."""
    if metric.after_ns:
        flows = flows.filter(pl.col("offered_at_ns") >= metric.after_ns)
    if metric.above_bytes:
        flows = flows.filter(pl.col("bytes") > metric.above_bytes)
    if metric.up_to_bytes is not None:
        flows = flows.filter(pl.col("bytes") <= metric.up_to_bytes)
    if metric.traffic is not None:
        flows = flows.filter(_named(metric.traffic))
    if metric.destination is not None:
        flows = flows.filter(pl.col("destination") == metric.destination)
    return flows


def _named(pattern: str) -> pl.Expr:
    """Flows of the parts of the workload that a pattern names."""
    if "*" not in pattern:
        return pl.col("traffic") == pattern
    expression = ".*".join(map(re.escape, pattern.split("*")))
    return pl.col("traffic").cast(pl.String).str.contains(f"^{expression}$")


def _of_messages(metric: TenantMessages, flows: pl.LazyFrame) -> float | None:
    """Share of tenants, among those with messages; percentiles are nearest ranks."""
    flows = flows.filter(_named(metric.traffic))
    if metric.of == "tenants-beyond":
        took = pl.when(ENDED).then(pl.col("fct_ns")).otherwise(math.inf)
        number = took.mean() if metric.stat == "mean" else took.quantile(0.99, "equiprobable")
    else:
        number = ((pl.col("timeouts").fill_null(0) > 0) | ~ENDED).mean()
    tenants = flows.group_by("traffic").agg(number=number)
    return _one(tenants, (pl.col("number") > metric.limit).mean())


def flow_numbers(metric: Flows, flows: pl.LazyFrame, topology: Topology, mtu_bytes: int) -> Numbers:
    """Values of a metric of flows, one per flow."""
    flows = chosen(metric, flows)
    still = flows.filter(pl.col("status") == "unfinished", pl.col("open_ns").is_not_null())
    flows = flows.filter(ENDED)
    if metric.of == "goodput" and metric.unfinished:
        ended = _array(flows, pl.col("bytes") * 8e9 / pl.col("fct_ns"))
        open_ = _array(still, pl.col("arrived_bytes") * 8e9 / pl.col("open_ns"))
        return np.concatenate([ended, open_])
    if metric.of == "surplus":
        packets = (pl.col("stream_bytes") / (mtu_bytes - EBB_HEADER_BYTES)).ceil()
        return _array(flows, pl.col("packets_received") - packets)
    if metric.of == "fct":
        return _array(flows, "fct_ns")
    if metric.of == "goodput":
        return _array(flows, pl.col("bytes") * 8e9 / pl.col("fct_ns"))
    if metric.of == "slowdown":
        known = flows.select("source", "destination", "bytes", "fct_ns").collect()
        times: Numbers = known["fct_ns"].to_numpy()
        return times / ideal_ns(known, topology, mtu_bytes)
    return _array(flows, metric.of)


def _of_flows(metric: Flows, flows: pl.LazyFrame, topology: Topology, mtu: int) -> float | None:
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
    """How many numbers lie above a box plot's whiskers (Tukey)."""
    if len(numbers) == 0:
        return 0
    lower, upper = np.percentile(numbers, [25, 75])
    return int((numbers > upper + 1.5 * (upper - lower)).sum())


def ideal_ns(flows: pl.DataFrame, topology: Topology, mtu_bytes: int) -> Numbers:
    """Time of a flow alone in the network, store and forward: every link's delay, the first packet
    on every link, the others on the slowest. With several sources from the nearest."""
    ends = flows.select("source", "destination")
    paths = {
        pair: _path(topology, _nearest(topology, *pair), pair[1]) for pair in ends.unique().rows()
    }
    delay, every_link, slowest = np.array([paths[pair] for pair in ends.rows()]).reshape(-1, 3).T
    size: Numbers = flows["bytes"].to_numpy().astype(np.float64)
    content = mtu_bytes - (HEADER_BYTES - ETHERNET_BYTES)
    first = np.minimum(size, content) + HEADER_BYTES
    wire = size + np.ceil(size / content) * HEADER_BYTES
    found: Numbers = delay + first * 8 * every_link + (wire - first) * 8 * slowest
    return found


def _nearest(topology: Topology, sources: str, destination: str) -> str:
    return min(sources.split(), key=lambda source: topology.distances(destination)[source])


def _path(topology: Topology, source: str, destination: str) -> tuple[float, float, float]:
    """Along one of the shortest paths: the sum of the delays in ns, the sum of ns per bit, and ns
    per bit of the slowest link."""
    here, delay, times = source, 0.0, []
    while here != destination:
        port = (
            next(iter(topology.neighbours[here]))
            if topology.is_host(here)
            else topology.next_hops(here, destination)[0]
        )
        end, link = topology.neighbours[here][port]
        delay += link.delay_ns
        times.append(1e9 / link.rate_bps)
        here = end.node
    return delay, sum(times), max(times)


# -- jobs -----------------------------------------------------------------------------------------


def job_numbers(metric: Jobs, flows: pl.LazyFrame) -> Numbers:
    """Values of a metric of jobs, one per job."""
    begun = pl.coalesce(pl.col("offered_at_ns").min(), pl.col("started_at_ns").min())
    each = pl.col("bytes").filter(pl.col("transfer").is_first_distinct())
    jobs = (
        flows.filter(pl.col("traffic") == metric.traffic)
        .group_by("job", maintain_order=True)
        .agg(
            ended=ENDED.all(),
            took=pl.col("finished_at_ns").max() - begun,
            once=pl.col("bytes").max(),
            each=each.sum(),
        )
    )
    if metric.of == "completion":
        return _array(jobs.filter("ended"), "took")
    goodput = pl.col(metric.bytes) * 8e9 / pl.col("took")
    return _array(jobs, pl.when("ended").then(goodput).otherwise(0.0))


# -- switches -------------------------------------------------------------------------------------


def _delay(metric: Delay, tables: Tables) -> float | None:
    queues, delays = (
        _at(metric.peer, _queue(metric.queue, tables[name])) for name in ("queues", "delays")
    )
    if metric.stat == "max":
        return _one(queues, pl.col("max_delay_ns").max())
    packets = pl.col("dequeued_packets")
    if not _one(queues, packets.sum()):
        return None
    low, high, counts = (_array(delays, name) for name in ("from_ns", "below_ns", "packets"))
    share = None if metric.stat == "mean" else float(metric.stat[1:]) / 100
    if metric.of_each == "packet":
        if share is not None:
            return histogram_percentile(low, high, counts, share)
        queues = queues.filter(packets > 0)
        return _one(queues, (pl.col("average_delay_ns") * packets).sum() / packets.sum())
    ports = _at(metric.peer, tables["ports"])
    busy, rate = (_one(ports, pl.col(name).max()) for name in ("utilisation", "rate_bps"))
    if busy is None or rate is None:
        return None
    sending = 0.0
    if metric.of_each == "probe":
        each = pl.col("transmitted_bytes").sum() / pl.col("transmitted_packets").sum()
        sending = (_one(ports, each) or 0.0) * 8e9 / rate
    if share is None:
        depth = _one(queues, pl.col("average_depth_bytes").sum()) or 0.0
        return depth * 8e9 / rate + busy * sending / 2
    if share <= 1 - busy:
        return 0.0
    return histogram_percentile(*spread(low, high, counts, sending), 1 - (1 - share) / busy)


def spread(
    from_: Numbers, below: Numbers, packets: Numbers, sending_ns: float
) -> tuple[Numbers, Numbers, Numbers]:
    """From what packets wait to what is still to be sent at instants while the port is busy. That
    falls at the port's rate, and rises by a packet's time when one arrives that then waits for
    what was there: between what a packet waits and as much and its own time it is as long as the
    port needs for the packet (level crossings; Brill 1975)."""
    if sending_ns == 0:
        return from_, below, packets
    parts = (np.arange(STEPS) + 0.5) * sending_ns / STEPS
    waited = np.where(from_ > 0, np.sqrt(from_ * below), 0.0)
    each = np.add.outer(waited, parts).ravel()
    return each, each * (1 + 1e-9), np.repeat(packets / STEPS, STEPS)


def histogram_percentile(
    from_: Numbers, below: Numbers, packets: Numbers, share: float
) -> float | None:
    """A percentile of a histogram; inside a bucket logarithms count as spread evenly. The lowest
    bucket is of packets that did not wait."""
    if packets.sum() == 0:
        return None
    order = np.argsort(from_, kind="stable")
    rank = share * packets.sum()
    before = 0.0
    for low, high, count in zip(from_[order], below[order], packets[order], strict=True):
        if before + count >= rank:
            part = (rank - before) / count
            return float(low * (high / low) ** part) if low > 0 else 0.0
        before += count
    return float(below.max())


def _port(metric: Port, ports: pl.LazyFrame) -> float | None:
    if metric.of == "balance":
        # A port that leads nowhere (to the processor) is none of them.
        begins = pl.col("switch").str.starts_with(metric.switches)
        of_them = ports.filter(begins, pl.col("peer").is_not_null())
        packets = _array(of_them, "transmitted_packets")
        return float(packets.std() / packets.mean()) if packets.sum() else None
    if isinstance(metric.peer, list):
        each = [_port(metric.model_copy(update={"peer": peer}), ports) for peer in metric.peer]
        known = [number for number in each if number is not None]
        return float(np.mean(known)) if known else None
    ports = _at(metric.peer, ports)
    if metric.of == "utilisation":
        return _one(ports, pl.col("utilisation").mean())
    share = pl.col("utilisation")
    window = (pl.col("busy_ns") / share).filter(share > 0).max()
    bits = pl.col("transmitted_bytes").sum() * 8e9
    rate = pl.when(pl.len() > 0).then((bits / window).fill_null(0.0))
    return _one(ports, rate)


def depths(metric: Samples, samples: pl.LazyFrame) -> tuple[Numbers, Numbers]:
    """Times and depths in bytes, all queues of the port together."""
    total = (
        _at(metric.peer, samples).group_by("at_ns").agg(pl.col("depth_bytes").sum()).sort("at_ns")
    )
    return _array(total, "at_ns"), _array(total, "depth_bytes") * metric.scale


def _network(metric: Network, tables: Tables) -> float | None:
    flows = tables["flows"]
    if metric.traffic is not None:
        flows = flows.filter(pl.col("traffic") == metric.traffic)
    if metric.of == "finished":
        return _one(flows, ENDED.mean())
    if metric.of == "ended_at":
        return _one(flows.filter(ENDED), pl.col("finished_at_ns").max())
    counted = pl.col("packets").sum()
    counters = tables["counters"].filter(pl.col("counter").is_in(summed(metric.of)))
    if metric.of != "lost":
        return _one(counters, counted) or 0.0
    lost = ~pl.col("reason").is_in([*NO_LOSS, *COUNTED_TWICE])
    return sum(_one(each.filter(lost), counted) or 0.0 for each in (counters, tables["drops"]))


def _at(peer: str | None, table: pl.LazyFrame) -> pl.LazyFrame:
    return table if peer is None else table.filter(pl.col("peer") == peer)


def _queue(queue: int | None, table: pl.LazyFrame) -> pl.LazyFrame:
    return table if queue is None else table.filter(pl.col("queue") == queue)


def _array(table: pl.LazyFrame, what: str | pl.Expr) -> Numbers:
    expression = pl.col(what) if isinstance(what, str) else what
    column = table.select(expression.cast(pl.Float64).alias("x")).collect()["x"]
    numbers: Numbers = column.to_numpy()
    return numbers


def _one(table: pl.LazyFrame, what: pl.Expr) -> float | None:
    """A number of a table; none where there is nothing: no rows, or 0 / 0."""
    number = table.select(what.cast(pl.Float64).alias("x")).collect()["x"].first()
    assert number is None or isinstance(number, float)
    return None if number is None or math.isnan(number) else number


def _limit(limit: float | None) -> float:
    if limit is None:
        raise ValueError("`above` needs a limit")
    return limit


def ended_share(metric: Metric, flows: pl.LazyFrame) -> float | None:
    """Share of the flows that a metric is about that ended well, where it leaves the others out;
    none: it does not, or is about none."""
    match metric:
        case Flows(of="goodput", unfinished=True):
            return None
        case Flows():
            return _one(chosen(metric, flows), ENDED.mean())
        case Jobs(of="completion"):
            return _one(flows.filter(pl.col("traffic") == metric.traffic), ENDED.mean())
        case _:
            return None


def few_beyond(metric: Metric, count: int) -> bool:
    """Whether so few of `count` flows or jobs lie beyond a percentile that it says nothing."""
    percent = metric.percentile
    return percent is not None and beyond(percent, count) < LEAST_BEYOND


def beyond(percent: float, count: int) -> float:
    """Samples of a number of them that lie beyond a percentile."""
    return count * (100 - percent) / 100


def unended(flows: pl.LazyFrame) -> dict[str, int]:
    """Why flows did not end well, and how many for each reason, most first; numbers in reasons are
    left out."""
    reason = pl.coalesce("reason", "status").str.replace_all(r"\d+", "N").alias("reason")
    counted = flows.filter(~ENDED).group_by(reason).agg(flows=pl.len())
    found = counted.sort("flows", "reason", descending=[True, False]).collect()
    return dict(zip(found["reason"], found["flows"], strict=True))


Row = dict[str, Any]
"""Numbers of a trial: `scheme`, `seed`, `labels` and the metrics by name. Beside them
`flows`: how many there were; `unended`: why not all ended well; of the metrics of
flows and jobs `ended`: `ended_share`, and `counts`: of how many they are; `samples`: of some of
them these numbers; `curves`: of metrics over time what a figure draws; `commit` of what ran it,
`seconds` that it took."""
NOTHING: Row = {"flows": 0, "unended": {}, "ended": {}, "counts": {}, "samples": {}, "curves": {}}


def row(
    metrics: dict[str, Metric],
    tables: Tables,
    scheme: str,
    seed: int,
    labels: dict[str, Any],
    topology: Topology,
    mtu_bytes: int,
    kept: Collection[str] = (),
) -> Row:
    """`kept`: metrics whose samples or curves are wanted whatever their size."""
    compute: Callable[[Metric], float | None] = lambda metric: value(  # noqa: E731
        metric, tables, topology, mtu_bytes
    )
    named = {name: compute(metric) for name, metric in metrics.items()}
    flows = tables["flows"]
    shares = {name: ended_share(metric, flows) for name, metric in metrics.items()}
    numbers = {
        name: sample(metric, tables, topology, mtu_bytes)
        for name, metric in metrics.items() if isinstance(metric, Flows | Jobs)
    }  # fmt: skip
    about = {
        "flows": int(_one(flows, pl.len()) or 0),
        "unended": unended(flows),
        "ended": {name: share for name, share in shares.items() if share is not None},
        "counts": {name: len(each) for name, each in numbers.items()},
        "samples": {
            name: Sample.of(each) for name, each in numbers.items()
            if name in kept or few_beyond(metrics[name], len(each))
        },
        "curves": {
            name: curves(metric, tables) for name, metric in metrics.items() if name in kept
        },
    }  # fmt: skip
    return {"scheme": scheme, "seed": seed, "labels": labels, **about, **named}


def curves(metric: Metric, tables: Tables) -> list[tuple[Numbers, Numbers]]:
    """Points of figures over time: times in ns and values, of each line."""
    if isinstance(metric, Samples):
        return [thinned(*depths(metric, tables["samples"]))]
    if isinstance(metric, Rates):
        at, each = rates(metric, tables)
        return [thinned(at, rate * metric.scale) for rate in each]
    return []


def thinned(at: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """A curve with at most `SHOWN_POINTS` points."""
    step = -(-len(at) // SHOWN_POINTS) or 1
    return at[::step], values[::step]
