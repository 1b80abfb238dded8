"""What must hold after a tour: the papers' claims as far as this fabric can show them.

Each check says what it compared, so that a failure can be read without the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from ebb_experiments.tour import SchemeResult

TRIMMING_SCHEMES = ("ndp", "scdp")
QUEUE_ORDER = ("tcp-droptail", "dctcp", "hull")
"""Average queue in the incast, longest first (HULL sections 3.1 and 6.1)."""


@dataclass(frozen=True, slots=True)
class Check:
    claim: str
    holds: bool | None
    """None: skipped, because these switches cannot show it."""
    seen: str


NO_RATE = "BMv2 has no link rate (docs/targets.md)"


def checks(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    """Every check that the schemes that were run allow."""
    for name, result in results.items():
        failed = [flow.why for flow in result.flows if not flow.ok]
        seen = f"{len(result.flows)} flows" if not failed else f"{len(failed)} failed: {failed[0]}"
        yield Check(f"{name}: every object arrived with the right SHA-256", not failed, seen)
    yield from _no_losses(results)
    yield from _queue_order(results)
    yield from _timeouts(results)


def _no_losses(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    for name in TRIMMING_SCHEMES:
        if name in results:
            counts = (results[name].file_fabric, results[name].incast_fabric)
            dropped = sum(c.dropped_packets for c in counts)
            lost_headers = sum(c.trim_dropped_packets for c in counts)
            yield Check(
                f"{name}: no packet lost without its header delivered",
                dropped == 0 and lost_headers == 0,
                f"{dropped} dropped, {lost_headers} trimmed headers lost",
            )


def _queue_order(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    present = [name for name in QUEUE_ORDER if name in results]
    for longer, shorter in pairwise(present):
        high = results[longer].incast_fabric.average_queue_bytes
        low = results[shorter].incast_fabric.average_queue_bytes
        claim = f"{shorter}: average queue in the incast below {longer}'s"
        if low is None or high is None:
            yield Check(claim, None, NO_RATE)
        else:
            yield Check(claim, low < high, f"{low / 1e3:.1f} KB against {high / 1e3:.1f} KB")


def _timeouts(results: Mapping[str, SchemeResult]) -> Iterator[Check]:
    for name in TRIMMING_SCHEMES:
        if name in results:
            count = sum(flow.timeouts for flow in results[name].incast)
            yield Check(f"{name}: no timeout in the incast", count == 0, f"{count} timeouts")
    if "tcp-droptail" in results:
        claim = "tcp-droptail: the incast does run into timeouts"
        count = sum(flow.timeouts for flow in results["tcp-droptail"].incast)
        if results["tcp-droptail"].incast_fabric.max_queue_bytes is None:
            yield Check(claim, None, NO_RATE)
        else:
            yield Check(claim, count > 0, f"{count} timeouts")
