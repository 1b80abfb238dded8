"""Metrics of the arrival of objects over time (table `arrivals`): rates while several are under
way."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from ebb_experiments.study.metric_spec import ConcurrentGoodput, Fairness, Rates
from ebb_experiments.study.store import Tables

Numbers = npt.NDArray[np.float64]
FAIR = 0.95
"""Least Jain's index at which flows count as sharing equally."""


@dataclass(frozen=True)
class Arrival:
    """Progress of an object at a destination."""

    transfer: int
    destination: str
    begin_ns: float
    """Nominal time at which it was offered."""
    end_ns: float
    """Nominal time at which it was complete; infinite: it was not at the end of the run."""
    at_ns: Numbers
    """Nominal times of the samples, from the offer on."""
    bytes: Numbers
    """Bytes that have arrived, at each of these."""

    def by(self, instants: Numbers) -> Numbers:
        """Bytes that have arrived by these instants, linear between samples."""
        return np.interp(instants, self.at_ns, self.bytes)


def arrivals(tables: Tables, traffic: str) -> list[Arrival]:
    """Objects of a part of the workload, in the order of their start."""
    flows = tables["flows"].filter(pl.col("traffic") == traffic)
    columns = ("transfer", "destination", "offered_at_ns", "finished_at_ns", "status", "bytes")
    samples: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for row in tables["arrivals"].collect().iter_rows(named=True):
        key = (row["transfer"], row["destination"])
        samples.setdefault(key, []).append((row["at_ns"], float(row["bytes"])))
    found = []
    for row in flows.select(columns).collect().iter_rows(named=True):
        if row["offered_at_ns"] is None:
            continue
        points = [(row["offered_at_ns"], 0.0)]
        points += sorted(samples.get((row["transfer"], row["destination"]), []))
        complete = row["status"] == "finished"
        if complete:
            points.append((row["finished_at_ns"], float(row["bytes"])))
        at, size = np.array(points).T
        end = row["finished_at_ns"] if complete else float("inf")
        found.append(
            Arrival(row["transfer"], row["destination"], row["offered_at_ns"], end, at, size)
        )
    return sorted(found, key=lambda arrival: (arrival.begin_ns, arrival.transfer))


def goodput_meanwhile(metric: ConcurrentGoodput, tables: Tables) -> float | None:
    """Goodput in bit/s of all objects of the part together, in the time in which every part has
    objects under way; none: there is no such time."""
    parts = {name: arrivals(tables, name) for name in {metric.traffic, *metric.while_}}
    if not all(parts.values()):
        return None
    begin = max(min(a.begin_ns for a in part) for part in parts.values())
    ends = [max(a.end_ns for a in part) for part in parts.values()]
    sampled = max(float(a.at_ns[-1]) for part in parts.values() for a in part)
    window = np.array([begin, min(*ends, sampled)])
    if window[1] <= window[0]:
        return None
    delivered = sum(float(np.diff(a.by(window))[0]) for a in parts[metric.traffic])
    return delivered * 8e9 / float(window[1] - window[0])


def rates(metric: Rates | Fairness, tables: Tables) -> tuple[Numbers, list[Numbers]]:
    """Instants a period apart, and for each object its rate in bit/s in the period before each; NaN
    in a period in which it was not under way all the time."""
    every = arrivals(tables, metric.traffic)
    instants = np.unique(np.concatenate([a.at_ns[1:] for a in every])) if every else np.array([])
    # Instants of the samples are a period apart; starts and ends lie between them.
    periods = np.diff(instants)
    if len(periods) == 0:
        return instants, []
    period = float(np.max(periods))
    grid = np.arange(period, float(instants[-1]) + period / 2, period)
    found = []
    for arrival in every:
        rate = np.diff(arrival.by(grid)) * 8e9 / period
        under_way = (grid[:-1] >= arrival.begin_ns) & (grid[1:] <= arrival.end_ns)
        found.append(np.where(under_way, rate, np.nan))
    return grid[1:], found


def jain(shares: Numbers) -> float:
    """Jain's index of fairness: 1 if all are equal, 1/n if one has all."""
    squares = float((shares**2).sum())
    return float(shares.sum()) ** 2 / (len(shares) * squares) if squares else 1.0


def fairness(metric: Fairness, tables: Tables) -> Numbers:
    """`jain`: the index of every period in which the same two objects or more were under way, from
    `settle_ns` after the last start or end on. `convergence`: for each start of an object beside
    others the time in ns after which the index stays at `FAIR` or above until the next start or
    end."""
    at, each = rates(metric, tables)
    changes = sorted(
        {edge for a in arrivals(tables, metric.traffic) for edge in (a.begin_ns, a.end_ns)}
    )
    found = []
    for begin, end in pairwise(changes):
        inside = [i for i, t in enumerate(at) if begin < t <= end]
        index = []
        for i in inside:
            shares = np.array([rate[i] for rate in each if not np.isnan(rate[i])])
            if len(shares) >= 2:
                index.append((float(at[i]) - begin, jain(shares)))
        if metric.of == "jain":
            found += [value for since, value in index if since >= metric.settle_ns]
        elif index and any(a.begin_ns == begin for a in arrivals(tables, metric.traffic)):
            unfair = [since for since, value in index if value < FAIR]
            found.append(max(unfair, default=index[0][0]))
    return np.array(found)
