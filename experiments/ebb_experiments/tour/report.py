"""The table of a run under the wall clock, for a terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean

from rich.table import Table

from ebb_experiments.results.numbers import percentile
from ebb_experiments.tour import tenants
from ebb_experiments.tour.drawing import drawn, plain
from ebb_experiments.tour.summary import Round, SchemeResult, goodput_fraction, total

Results = Mapping[str, SchemeResult]
"""Results by scheme."""
STORED, READ = "write", "read"
"""Phases of the table of storage."""
CLOSELY = "incast"
"""The phase whose flows and queues the table shows, if there is one; else the last."""
AFTER_GOODPUT = (
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
    "{phases}: goodput as % of the line rate. FCT, queue at the receiver's port: of phase "
    "{closely}. retx, RTOs, decodes: of all flows of {phases}. Nominal units."
)
STORAGE_CAPTION = (
    "write, read: goodput of the object, counted once, as % of the line rate, until the last host "
    "has it; times sent: payload that left the senders, per byte of the object. Nominal units."
)
PLAIN_AFTER_GOODPUT = (
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


def phases(results: Results) -> list[str]:
    """Those that every scheme ran, without those of the table of storage if there are others."""
    ran = [{each.phase: None for each in result.rounds} for result in results.values()]
    common = [phase for phase in ran[0] if all(phase in other for other in ran)] if ran else []
    return [phase for phase in common if phase not in (STORED, READ)] or common


def closely(results: Results) -> str:
    """The phase that figures beside the mean are of."""
    common = phases(results)
    return CLOSELY if CLOSELY in common else common[-1]


def row(name: str, results: Results, rate_bps: int) -> list[str]:
    """One scheme as the cells of the table; all times nominal."""
    result, common = results[name], phases(results)
    times = completion_ms(result, closely(results))
    fabric = result.fabric(closely(results))
    flows = [flow for phase in common for each in result.of(phase) for flow in each.flows]
    goodputs = (
        mean(goodput_fraction(each.flows, rate_bps) for each in result.of(phase))
        for phase in common
    )
    return [
        name,
        *(f"{100 * goodput:.1f}" for goodput in goodputs),
        *(f"{percentile(times, p):.2f}" for p in (50, 99, 100)),
        _kilobytes(fabric.max_queue_bytes),
        _kilobytes(fabric.average_queue_bytes),
        *(
            str(count)
            for count in (
                fabric.dropped_packets,
                fabric.trimmed_packets,
                fabric.ce_marks,
                *(total(flows, key) for key in ("retransmitted", "timeouts", "decodes")),
            )
        ),
    ]


def completion_ms(result: SchemeResult, phase: str) -> list[float]:
    """How long the flows took that a phase is about, in all its rounds."""
    flows = (flow for each in result.of(phase) for flow in each.own)
    return [flow["fct_ns"] / 1e6 for flow in flows if flow["status"] == "finished"]


def columns(results: Results) -> tuple[str, ...]:
    """Names of the cells of `row`."""
    goodput = (f"{phase} goodput %" for phase in phases(results))
    return ("scheme", *goodput, *PLAIN_AFTER_GOODPUT)


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


def storage_row(name: str, result: SchemeResult, rate_bps: int) -> list[str]:
    """One scheme as the cells of `STORAGE_COLUMNS`."""
    moved = _stored(result)
    flows = [flow for each in moved for flow in each.own]
    fabric = result.fabric(STORED, READ)
    return [
        name,
        *(f"{100 * goodput_fraction(each.own, rate_bps):.1f}" for each in moved),
        *(f"{each.sent_bytes / each.object_bytes:.2f}" for each in moved),
        str(fabric.dropped_packets),
        str(fabric.trimmed_packets),
        str(total(flows, "timeouts")),
        str(total(flows, "decodes")),
    ]


def _stored(result: SchemeResult) -> list[Round]:
    """The first write and the first read; none, if the scheme does not do both."""
    both = [result.one(STORED), result.one(READ)]
    return [each for each in both if each is not None] if None not in both else []


def storage_rows(results: Results, rate_bps: int) -> list[list[str]]:
    """Rows of the table of storage, one per scheme that has stored objects."""
    return [
        storage_row(name, result, rate_bps) for name, result in results.items() if _stored(result)
    ]


def storage_table(results: Results, rate_bps: int) -> Table | None:
    """The table of storage; none if no scheme writes and reads."""
    rows = storage_rows(results, rate_bps)
    if not rows:
        return None
    write = _stored(results[rows[0][0]])[0]
    others = [flow for flow in write.flows if flow not in write.own]
    targets = sorted({flow["destination"] for flow in write.own}, key=_in_order)
    title = (
        f"storage: {write.object_bytes / 1e6:g} MB from {write.own[0]['source']} to "
        f"{', '.join(targets)} at once"
    )
    if others:
        title += f", while {len(others)} hosts send to {others[0]['destination']}"
    title += "; then back from all of them"
    return drawn(STORAGE_COLUMNS, rows, title=title, caption=STORAGE_CAPTION)


def _in_order(host: str) -> tuple[int, str]:
    """Key by which hosts sort: h5 comes before h13."""
    return len(host), host


def table(results: Results, rate_bps: int) -> Table:
    """The table of a run, a row per scheme."""
    rows = [row(name, results, rate_bps) for name in results]
    common, looked_at = phases(results), closely(results)
    caption = CAPTION.format(phases=", ".join(common), closely=looked_at)
    columns = ("\nscheme", *(f"{phase}\n%" for phase in common), *AFTER_GOODPUT)
    return drawn(columns, rows, caption=caption)


def markdown(results: Results, rate_bps: int) -> str:
    """All tables as Markdown."""
    rows = [row(name, results, rate_bps) for name in results]
    text = plain(columns(results), rows)
    stored = storage_rows(results, rate_bps)
    text += "\n" + plain(STORAGE_COLUMNS, stored) if stored else ""
    return text + tenants.markdown(results)
