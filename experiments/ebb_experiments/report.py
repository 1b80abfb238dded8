"""The table of a tour, for a terminal, for Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from statistics import mean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from ebb_experiments.measure import goodput_fraction, percentile
from ebb_experiments.tour import SchemeResult

COLUMNS = (
    "\nscheme",
    "file\n%",
    "incast\n%",
    "FCT ms\np50",
    "\np99",
    "\nmax",
    "queue\nmax KB",
    "avg\nKB",
    "\ndrops",
    "\ntrims",
    "\nCE",
    "\nretx",
    "\nRTOs",
    "\ndecodes",
)
CAPTION = (
    "file, incast: goodput as % of the line rate; FCT of the incast's flows; queue at the "
    "receiver's port during the incast; retx, RTOs, decodes: of all flows. Nominal units."
)
PLAIN_COLUMNS = (
    "scheme",
    "file goodput %",
    "incast goodput %",
    "FCT p50 ms",
    "FCT p99 ms",
    "FCT max ms",
    "queue max KB",
    "queue average KB",
    "drops",
    "trims",
    "CE marks",
    "retransmitted",
    "timeouts",
    "decodes",
)


def row(name: str, result: SchemeResult, rate_bps: int) -> list[str]:
    """One scheme as the cells of `COLUMNS`; all times nominal."""
    times = [flow.fct_ns / 1e6 for flow in result.incast if flow.ok]
    fabric = result.incast_fabric
    flows = result.flows
    return [
        name,
        f"{100 * goodput_fraction([result.file], rate_bps):.1f}",
        f"{100 * mean(goodput_fraction(r.flows, rate_bps) for r in result.rounds):.1f}",
        *(f"{percentile(times, p):.2f}" for p in (50, 99, 100)),
        _kilobytes(fabric.max_queue_bytes),
        _kilobytes(fabric.average_queue_bytes),
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


def _kilobytes(count: float | None) -> str:
    return "-" if count is None else f"{count / 1e3:.1f}"


def table(results: Mapping[str, SchemeResult], rate_bps: int) -> Table:
    drawn = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        caption=CAPTION,
        caption_justify="left",
    )
    for heading in COLUMNS:
        drawn.add_column(heading, justify="left" if "scheme" in heading else "right", no_wrap=True)
    for name, result in results.items():
        drawn.add_row(*row(name, result, rate_bps))
    return drawn


def markdown(results: Mapping[str, SchemeResult], rate_bps: int) -> str:
    lines = [
        "| " + " | ".join(PLAIN_COLUMNS) + " |",
        "|---|" + "---:|" * (len(PLAIN_COLUMNS) - 1),
        *("| " + " | ".join(row(n, r, rate_bps)) + " |" for n, r in results.items()),
    ]
    return "\n".join(lines) + "\n"


def as_json(results: Mapping[str, SchemeResult]) -> dict[str, Any]:
    """Everything measured, for programs."""
    return {name: asdict(result) for name, result in results.items()}
