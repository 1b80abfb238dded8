"""Summary of a scheme in a phase for the page, from the tables of results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ebb_controller.mechanisms.trimming import TRIMMED
from ebb_experiments.results.numbers import percentile
from ebb_experiments.results.results import NO_LOSS, Results
from ebb_experiments.results.tables import Row, Rows
from ebb_experiments.results.tenants import slowest

from ebb_dashboard.picture import Port
from ebb_dashboard.statistics_delta import PER_MILLE
from ebb_dashboard.story import Curve

MAX_FLOWS = 1000
"""Most points of a distribution of completion times; of more flows every Nth is shown."""
PERCENTS = (50, 99, 100)


def by_phase(results: Results) -> Iterator[tuple[str, Results]]:
    """Results of a scheme, phase by phase."""
    phases = dict.fromkeys(row["phase"] for rows in results.tables.values() for row in rows)
    for phase in phases:
        yield (
            phase,
            Results(
                {
                    name: Rows(name, (row for row in rows if row["phase"] == phase))
                    for name, rows in results.tables.items()
                },
                results.run,
            ),
        )


def summary(scheme: str, phase: str, results: Results, ports: Sequence[Port]) -> dict[str, Any]:
    """The keys of `result` (docs/dashboard.md). Rounds of the phase are taken together."""
    flows = results.flows
    times = sorted(row["fct_ns"] for row in flows if row["fct_ns"] is not None)
    return {
        "scheme": scheme,
        "phase": phase,
        "flows": len(flows),
        "fct_ns": thinned(times),
        "percentiles_ns": [percentile(times, percent) for percent in PERCENTS] if times else None,
        "drop": sum(results.losses.values()),
        "trim": results.total(TRIMMED.name),
        "mark": results.marks,
        "tenants": [
            {
                "tenant": each.tenant,
                "source": each.source,
                "destination": each.destination,
                "longest_ns": each.longest_ns,
                "bound_ns": each.bound_ns,
                "conforms": each.conforms,
            }
            for each in slowest(results.tables.get("tenants", ()))
        ],
        "utilisation": _by_port(results.tables.get("ports", ()), ports, _share, _mean),
        "queue": _by_port(results.tables.get("queues", ()), ports, _longest, max),
        "dropped": _by_port(_losses(results.tables.get("drops", ())), ports, _packets, sum),
    }


def curves(samples: Iterable[Row]) -> dict[str, Curve]:
    """Depth of the longest of the sampled queues over time, by phase; of several rounds the first.
    Rows are in the order of time."""
    found: dict[str, Curve] = {}
    rounds: dict[str, int] = {}
    longest: dict[str, tuple[float, int]] = {}
    for row in samples:
        phase, at, size = row["phase"], row["at_ns"], row["depth_bytes"] or 0
        if rounds.setdefault(phase, row["round"]) != row["round"]:
            continue
        curve = found.setdefault(phase, Curve())
        before = longest.get(phase)
        if before is not None and before[0] == at:
            longest[phase] = (at, max(before[1], size))
            continue
        if before is not None:
            curve.add(*before)
        longest[phase] = (at, size)
    for phase, last in longest.items():
        found[phase].add(*last)
    return found


def thinned(values: Sequence[float]) -> list[float]:
    """At most `MAX_FLOWS` of sorted values, evenly spread, the first and the last among them."""
    if len(values) <= MAX_FLOWS:
        return list(values)
    step = (len(values) - 1) / (MAX_FLOWS - 1)
    return [values[round(index * step)] for index in range(MAX_FLOWS)]


def _share(row: Row) -> int:
    return min(PER_MILLE, round(PER_MILLE * (row["utilisation"] or 0)))


def _longest(row: Row) -> int:
    return int(row["max_depth_bytes"] or 0)


def _packets(row: Row) -> int:
    return int(row["packets"] or 0)


def _losses(drops: Iterable[Row]) -> Iterator[Row]:
    return (row for row in drops if row["reason"] not in NO_LOSS)


def _mean(values: Sequence[int]) -> int:
    return round(sum(values) / len(values))


def _by_port(rows: Iterable[Row], ports: Sequence[Port], value: Any, join: Any) -> list[int]:
    """A number for each port: `join` of the `value`s of its rows; 0 without rows."""
    found: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows:
        found[row["switch"], row["port"]].append(value(row))
    return [int(join(found.get((port.switch, port.port), [0]))) for port in ports]
