"""Joining the two records of a flow, percentiles, and the checks on the results."""

from __future__ import annotations

import math
from dataclasses import replace

from ebb_experiments.checks import checks
from ebb_experiments.measure import FabricCounts, Flow, goodput_fraction, pair, percentile
from ebb_experiments.report import COLUMNS, PLAIN_COLUMNS, markdown, row
from ebb_experiments.tour import Round, SchemeResult
from ebb_topologies.dilation import Dilation

SENT = {
    "role": "sender", "status": "finished", "local": "10.0.0.2", "peer": "10.0.0.3", "session": 7,
    "object_bytes": 1000, "started_at_ns": 5_000, "finished_at_ns": 9_000,
    "retransmitted": 2, "timeouts": 1, "returned": 4,
}  # fmt: skip
RECEIVED = {
    "role": "receiver", "status": "finished", "local": "10.0.0.3", "peer": "10.0.0.2", "session": 7,
    "object_bytes": 1000, "started_at_ns": 6_000, "finished_at_ns": 8_000, "decodes": 3,
}  # fmt: skip


def test_a_flow_lasts_from_the_first_send_to_the_last_arrival() -> None:
    (flow,) = pair([SENT], [RECEIVED], Dilation(10))
    assert flow.ok
    assert math.isclose(flow.fct_ns, 300)  # 3000 ns of wall clock, ten times slower than nominal
    assert (flow.retransmitted, flow.timeouts, flow.decodes, flow.returned) == (2, 1, 3, 4)
    assert math.isclose(goodput_fraction([flow], 10**9), 1000 * 8 / 300)


def test_sessions_are_not_mixed_up() -> None:
    other = {**RECEIVED, "session": 8, "finished_at_ns": 1}
    (flow,) = pair([SENT], [other, RECEIVED], Dilation(1))
    assert flow.fct_ns == 3_000


def test_a_flow_without_a_receivers_record_has_failed() -> None:
    (flow,) = pair([SENT], [], Dilation(1))
    assert not flow.ok
    assert "no record" in flow.why


def test_a_failed_receiver_is_named_with_its_reason() -> None:
    bad = {**RECEIVED, "status": "failed", "reason": "hash mismatch"}
    (flow,) = pair([SENT], [bad], Dilation(1))
    assert flow.why == "receiver: hash mismatch"


def test_nearest_rank() -> None:
    values = [float(v) for v in range(1, 101)]
    assert [percentile(values, p) for p in (50, 99, 100)] == [50, 99, 100]
    assert percentile([3.0], 99) == 3
    # The rank is rounded up: of three values, half of them is two.
    assert [percentile([1, 2, 3], p) for p in (33, 50, 67)] == [1, 2, 3]
    assert math.isnan(percentile([], 50))


GOOD = Flow(100_000, 0.0, 1e6, 0, 0, 0, 0, ok=True)
QUIET = FabricCounts(1000, 100.0, 0, 0, 0, 0, 0)


def result(*, queue: float | None = 100.0, timeouts: int = 0, drops: int = 0) -> SchemeResult:
    flow = replace(GOOD, timeouts=timeouts)
    highest = None if queue is None else 1000
    fabric = FabricCounts(highest, queue, drops, 0, 0, 0, 0)
    return SchemeResult(GOOD, QUIET, [Round([flow] * 8, [*[flow] * 8, GOOD], fabric)])


def verdicts(results: dict[str, SchemeResult]) -> dict[str, bool | None]:
    return {check.claim: check.holds for check in checks(results)}


def test_what_the_papers_say_passes() -> None:
    results = {
        "tcp-droptail": result(queue=300, timeouts=3, drops=40),
        "dctcp": result(queue=200),
        "hull": result(queue=100),
        "ndp": result(),
        "scdp": result(),
    }
    seen = verdicts(results)
    assert len(seen) == 12
    assert all(seen.values()), seen


def test_each_claim_can_fail() -> None:
    worse = {
        "tcp-droptail": result(queue=100, timeouts=0),
        "dctcp": result(queue=200),
        "hull": result(queue=300),
        "ndp": result(timeouts=1, drops=1),
    }
    worse["ndp"].rounds[0].flows[0] = replace(GOOD, ok=False, why="sender: peer vanished")
    seen = verdicts(worse)
    expected_to_hold = {
        f"{name}: every object arrived with the right SHA-256"
        for name in ("tcp-droptail", "dctcp", "hull")
    }
    assert {claim for claim, holds in seen.items() if holds} == expected_to_hold


def test_what_a_switch_without_rates_cannot_show_is_skipped_and_not_left_out() -> None:
    names = ("tcp-droptail", "dctcp", "hull", "ndp", "scdp")
    measured = {name: result(queue=100 - i, timeouts=i == 0) for i, name in enumerate(names)}
    unknown = {name: result(queue=None, timeouts=i == 0) for i, name in enumerate(names)}
    assert verdicts(measured).keys() == verdicts(unknown).keys()
    skipped = [claim for claim, holds in verdicts(unknown).items() if holds is None]
    assert len(skipped) == 3
    assert row("ndp", unknown["ndp"], 10**9)[6:8] == ["-", "-"]


def test_goodput_of_a_round_is_over_its_whole_span() -> None:
    late = replace(GOOD, started_ns=1e6, finished_ns=2e6)
    assert math.isclose(goodput_fraction([GOOD, late], 10**9), 200_000 * 8 / 2e6)
    assert goodput_fraction([replace(GOOD, ok=False)], 10**9) == 0


def test_the_table_has_a_cell_per_column() -> None:
    results = {"ndp": result()}
    cells = row("ndp", results["ndp"], 10**9)
    assert len(cells) == len(COLUMNS) == len(PLAIN_COLUMNS)
    table = markdown(results, 10**9).splitlines()
    assert len({line.count("|") for line in table}) == 1
