"""The table of a tour, for a terminal, for Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import mean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from ebb_experiments.measure import goodput_fraction, percentile
from ebb_experiments.storage import StorageResult
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
STORAGE_CAPTION = (
    "write, read: goodput of the object, counted once, as % of the line rate, until the last host "
    "has it; times sent: payload that left the senders, per byte of the object. Nominal units."
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


STORAGE_COLUMNS = (
    "scheme",
    "write %",
    "read %",
    "written, times sent",
    "read, times sent",
    "drops",
    "trims",
    "timeouts",
    "decodes",
)


def storage_row(name: str, stored: StorageResult, rate_bps: int) -> list[str]:
    """One scheme as the cells of `STORAGE_COLUMNS`."""
    transfers = (stored.write, stored.read)
    flows = [flow for transfer in transfers for flow in transfer.flows]
    return [
        name,
        *(f"{100 * transfer.goodput_fraction(rate_bps):.1f}" for transfer in transfers),
        *(f"{transfer.sent_bytes / transfer.object_bytes:.2f}" for transfer in transfers),
        str(sum(transfer.fabric.dropped_packets for transfer in transfers)),
        str(sum(transfer.fabric.trimmed_packets for transfer in transfers)),
        str(sum(flow.timeouts for flow in flows)),
        str(sum(flow.decodes for flow in flows)),
    ]


def storage_rows(results: Mapping[str, SchemeResult], rate_bps: int) -> list[list[str]]:
    return [
        storage_row(name, result.storage, rate_bps)
        for name, result in results.items()
        if result.storage is not None
    ]


def storage_table(results: Mapping[str, SchemeResult], rate_bps: int, title: str) -> Table | None:
    """None if no scheme ran the phase."""
    rows = storage_rows(results, rate_bps)
    return _drawn(STORAGE_COLUMNS, rows, title=title, caption=STORAGE_CAPTION) if rows else None


def table(results: Mapping[str, SchemeResult], rate_bps: int) -> Table:
    rows = [row(name, result, rate_bps) for name, result in results.items()]
    return _drawn(COLUMNS, rows, caption=CAPTION)


def _drawn(
    columns: Sequence[str], rows: Sequence[Sequence[str]], caption: str, title: str | None = None
) -> Table:
    drawn = Table(
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        title=title,
        title_justify="left",
        title_style="",
        caption=caption,
        caption_justify="left",
    )
    for heading in columns:
        drawn.add_column(heading, justify="left" if "scheme" in heading else "right", no_wrap=True)
    for cells in rows:
        drawn.add_row(*cells)
    return drawn


def markdown(results: Mapping[str, SchemeResult], rate_bps: int) -> str:
    """Both tables."""
    text = _markdown(PLAIN_COLUMNS, [row(n, r, rate_bps) for n, r in results.items()])
    stored = storage_rows(results, rate_bps)
    return text + ("\n" + _markdown(STORAGE_COLUMNS, stored) if stored else "")


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def as_json(results: Mapping[str, SchemeResult]) -> dict[str, Any]:
    """Everything measured, for programs."""
    return {name: asdict(result) for name, result in results.items()}
