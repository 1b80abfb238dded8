"""The table of a tour, for a terminal, for Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from statistics import mean
from typing import Any

from rich.table import Table

from ebb_experiments.measure import percentile
from ebb_experiments.tour import SchemeResult

COLUMNS = (
    ("scheme", "left"),
    ("file\ngoodput", "right"),
    ("FCT p50\nms", "right"),
    ("p99\nms", "right"),
    ("max\nms", "right"),
    ("incast\ngoodput", "right"),
    ("queue max\nKB", "right"),
    ("avg\nKB", "right"),
    ("drops", "right"),
    ("trims", "right"),
    ("CE\nmarks", "right"),
    ("retrans-\nmissions", "right"),
    ("time-\nouts", "right"),
    ("de-\ncodes", "right"),
)


def row(name: str, result: SchemeResult, rate_bps: int) -> list[str]:
    """One scheme as the cells of `COLUMNS`; all times nominal."""
    times = [flow.fct_ns / 1e6 for flow in result.incast if flow.ok]
    fabric = result.incast_fabric
    flows = result.flows
    return [
        name,
        f"{100 * result.file.goodput_fraction(rate_bps):.1f} %",
        *(f"{percentile(times, p):.2f}" for p in (50, 99, 100)),
        f"{100 * mean_goodput(result, rate_bps):.1f} %",
        f"{fabric.max_queue_bytes / 1e3:.1f}",
        f"{fabric.average_queue_bytes / 1e3:.1f}",
        *(
            str(count)
            for count in (
                fabric.dropped_packets,
                fabric.trimmed_packets,
                fabric.ce_marks,
                sum(flow.retransmitted for flow in flows),
                sum(flow.timeouts for flow in flows),
                sum(flow.decodes for flow in flows),
            )
        ),
    ]


def mean_goodput(result: SchemeResult, rate_bps: int) -> float:
    """Mean goodput of the incast flows as a share of the line rate they share."""
    shares = [flow.goodput_fraction(rate_bps) for flow in result.incast if flow.ok]
    return mean(shares) * len(result.incast) / _rounds(result) if shares else 0.0


def _rounds(result: SchemeResult) -> int:
    return max(1, len(result.background))


def table(results: Mapping[str, SchemeResult], rate_bps: int) -> Table:
    drawn = Table(title="incast FCT, queue at the receiver's port; nominal units")
    for heading, side in COLUMNS:
        drawn.add_column(heading, justify="left" if side == "left" else "right")
    for name, result in results.items():
        drawn.add_row(*row(name, result, rate_bps))
    return drawn


def markdown(results: Mapping[str, SchemeResult], rate_bps: int) -> str:
    headings = [heading.replace("-\n", "").replace("\n", " ") for heading, _ in COLUMNS]
    lines = [
        "| " + " | ".join(headings) + " |",
        "|" + "|".join("---" if side == "left" else "---:" for _, side in COLUMNS) + "|",
        *("| " + " | ".join(row(n, r, rate_bps)) + " |" for n, r in results.items()),
    ]
    return "\n".join(lines) + "\n"


def as_json(results: Mapping[str, SchemeResult]) -> dict[str, Any]:
    """Everything measured, for programs."""
    return {
        name: {
            "file": asdict(result.file),
            "incast": [asdict(flow) for flow in result.incast],
            "background": [asdict(flow) for flow in result.background],
            "file_fabric": asdict(result.file_fabric),
            "incast_fabric": asdict(result.incast_fabric),
        }
        for name, result in results.items()
    }
