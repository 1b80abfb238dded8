"""From the rows of results to the tables of `make run` and its checks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from ebb_controller.scheme import known_schemes
from ebb_experiments.results.numbers import percentile
from ebb_experiments.results.results import Results
from ebb_experiments.results.switches import counter_rows
from ebb_experiments.results.tables import Row, Rows
from ebb_experiments.run.wall import lost_inside
from ebb_experiments.tour import report
from ebb_experiments.tour.checks import checks
from ebb_experiments.tour.summary import (
    FabricCounts,
    Round,
    SchemeResult,
    goodput_fraction,
    span_ns,
    total,
)

RATE = 10**9
FLOW: Row = {
    "transfer": 0, "traffic": "file", "source": "h2", "destination": "h1", "bytes": 100_000,
    "started_at_ns": 0.0, "finished_at_ns": 1e6, "fct_ns": 1e6, "status": "finished",
    "reason": None, "retransmitted": 0, "timeouts": 0, "returned": 0, "decodes": 0,
    "payload_bytes_sent": 100_000,
}  # fmt: skip
FAILED = {"status": "failed", "reason": "sender: peer vanished", "finished_at_ns": None}
QUIET = FabricCounts(1000, 100.0, 0, 0, 0, 0, 0)


def test_nearest_rank() -> None:
    values = [float(v) for v in range(1, 101)]
    assert [percentile(values, p) for p in (50, 99, 100)] == [50, 99, 100]
    assert percentile([3.0], 99) == 3
    # The rank is rounded up: of three values, half of them is two.
    assert [percentile([1, 2, 3], p) for p in (33, 50, 67)] == [1, 2, 3]
    assert math.isnan(percentile([], 50))


def test_goodput_is_over_the_whole_span_and_counts_an_object_once() -> None:
    late = FLOW | {"transfer": 1, "started_at_ns": 1e6, "finished_at_ns": 2e6}
    assert math.isclose(goodput_fraction([FLOW, late], RATE), 200_000 * 8 / 2e6)
    elsewhere = FLOW | {"destination": "h3", "finished_at_ns": 2e6}
    assert math.isclose(goodput_fraction([FLOW, elsewhere], RATE), 100_000 * 8 / 2e6)
    assert goodput_fraction([FLOW | FAILED], RATE) == 0
    assert goodput_fraction([FLOW, elsewhere | FAILED], RATE) == 0  # one of its hosts has it not
    assert span_ns([FLOW, elsewhere | FAILED]) is None


def test_what_a_sender_to_a_group_counted_is_counted_once() -> None:
    first = FLOW | {"timeouts": 2, "decodes": 1}
    second = first | {"destination": "h3", "payload_bytes_sent": None}
    assert (total([first, second], "timeouts"), total([first, second], "decodes")) == (2, 2)


def test_counts_come_from_the_tables_and_queues_are_those_of_the_busiest_port() -> None:
    place = {"switch": "s1", "port": 1, "peer": "h1", "queue": 0}
    depth = {"max_depth_bytes": 900, "average_depth_bytes": 40.0, "dropped_packets": 3}
    full = {"packets": 3, "bytes": 1}
    cells = [(0, 0)] * 12 + [(5, 1), (7, 1), (11, 1)]
    results = Results(
        {
            "flows": Rows("flows", [{"destination": "h1"}, {"destination": "h1"}]),
            "queues": Rows("queues", [place | depth, place | depth | {"peer": "h2"}]),
            "drops": Rows(
                "drops",
                [
                    *(place | full | {"reason": why} for why in ("queue-full", "deflect-failed")),
                    {"switch": "s1", "port": 2, "reason": "link-loss", "packets": 17},
                ],
            ),
            "counters": Rows(
                "counters", counter_rows({"s1": {"trimmed": [(9, 1)], "dropped": cells}}, {})
            ),
        }
    )
    # 5 were not trimmable and 11 refused by the switch that was to return them; 7 copies that
    # would have gone back where they came from are no loss.
    assert FabricCounts.of(results) == FabricCounts(900, 40.0, 6 + 5 + 11, 9, 3 + 11, 0, 0, 17)


def test_without_queues_losses_are_what_did_not_come_out_again() -> None:
    counted = {"s1": {"dropped": [(4, 0), (1, 0)], "trimmed": [(9, 0)], "trim_sent": [(7, 0)]}}
    row = lost_inside((100, 100), (200, 190), 20, counted)  # type: ignore[arg-type]
    names = ("flows", "queues")
    results = Results({name: Rows(name) for name in names})
    results.tables |= {"drops": Rows("drops", [row])}
    results.tables |= {"counters": Rows("counters", counter_rows(counted, {}))}  # type: ignore[arg-type]
    found = FabricCounts.of(results)
    assert (found.max_queue_bytes, found.dropped_packets) == (None, 100 + 20 - 90 - 5)
    assert (found.trimmed_packets, found.trim_dropped_packets) == (9, 2)


def flows(phase: str, count: int, **keys: Any) -> list[Row]:
    return [FLOW | {"traffic": phase, "transfer": n} | keys for n in range(count)]


def result(*, queue: float | None = 100.0, timeouts: int = 0, drops: int = 0) -> SchemeResult:
    fabric = FabricCounts(None if queue is None else 1000, queue, drops, 0, 0, 0, 0)
    incast = [*flows("incast", 8, timeouts=timeouts), FLOW | {"traffic": "background"}]
    return SchemeResult([Round("file", [FLOW], QUIET), Round("incast", incast, fabric)])


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


def test_senders_that_are_told_of_drops_have_no_timeout() -> None:
    claim = "fastlane: no timeout in the incast, but for notifications without room"
    # Timeouts and losses of each of eight flows.
    for timeouts, lost, holds in [(0, 0, True), (1, 0, False), (1, 8, True), (1, 7, False)]:
        found = verdicts({"fastlane": result(timeouts=timeouts, drops=lost)})
        assert found[claim] is holds
    assert verdicts({"fastlane": result(queue=None)})[claim] is None


def in_turns(longest_ends_ns: float, step_ns: float) -> SchemeResult:
    """An incast whose transfers end `step_ns` apart, and a longer one."""
    ends = [3e6 + step_ns * n for n in range(8)]
    each = [FLOW | {"traffic": "incast", "finished_at_ns": end, "fct_ns": end} for end in ends]
    longer = FLOW | {"traffic": "background", "finished_at_ns": longest_ends_ns}
    return SchemeResult([Round("incast", [*each, longer], QUIET)])


def test_the_shortest_goes_first() -> None:
    before = "pfabric: the incast ends before the longer transfer that was there first"
    turns = "pfabric: the transfers of the incast end one after another"
    for longest_ends_ns, step_ns, expected in [
        (50e6, 3e6, (True, True)),
        (10e6, 3e6, (False, True)),
        (50e6, 0.1e6, (True, False)),
    ]:
        seen = verdicts({"pfabric": in_turns(longest_ends_ns, step_ns)})
        assert (seen[before], seen[turns]) == expected
    assert verdicts({"pfabric": result(queue=None)})[before] is None
    failed = in_turns(50e6, 3e6)
    failed.rounds[0].flows[0] |= FAILED
    assert verdicts({"pfabric": failed})[turns] is False


def test_each_claim_can_fail() -> None:
    worse = {
        "tcp-droptail": result(queue=100, timeouts=0),
        "dctcp": result(queue=200),
        "hull": result(queue=300),
        "ndp": result(timeouts=1, drops=1),
    }
    worse["ndp"].rounds[1].flows[0] |= FAILED
    seen = verdicts(worse)
    expected_to_hold = {
        f"{name}: every object arrived with the right SHA-256"
        for name in ("tcp-droptail", "dctcp", "hull")
    }
    assert {claim for claim, holds in seen.items() if holds} == expected_to_hold
    told = [check.seen for check in checks(worse) if check.claim.startswith("ndp: every object")]
    assert told == ["1 failed: sender: peer vanished"]


def test_what_a_switch_without_rates_cannot_show_is_skipped_and_not_left_out() -> None:
    names = ("tcp-droptail", "dctcp", "hull", "ndp", "scdp")
    measured = {name: result(queue=100 - i, timeouts=i == 0) for i, name in enumerate(names)}
    unknown = {name: result(queue=None, timeouts=i == 0) for i, name in enumerate(names)}
    assert verdicts(measured).keys() == verdicts(unknown).keys()
    skipped = [claim for claim, holds in verdicts(unknown).items() if holds is None]
    assert len(skipped) == 3
    assert report.row("ndp", unknown, RATE)[6:8] == ["-", "-"]


def test_of_phases_that_a_scenario_does_not_have_nothing_is_claimed() -> None:
    only = {"ndp": SchemeResult([Round("all", flows("reads", 3), QUIET)])}
    assert list(verdicts(only)) == [
        "ndp: every object arrived with the right SHA-256",
        "ndp: no packet lost without its header delivered",
    ]
    cells = report.row("ndp", only, RATE)
    assert (cells[:3], len(cells)) == (["ndp", "240.0", "1.00"], 13)


def stored(end_ns: float, sent_bytes: int, *, failed: bool = False) -> SchemeResult:
    hosts = [
        FLOW | {"destination": host, "bytes": 1_000_000, "decodes": 2, "finished_at_ns": end,
                "started_at_ns": 1e6, "payload_bytes_sent": sent}
        for host, end, sent in (("h5", end_ns / 2, sent_bytes), ("h13", end_ns, None))
    ]  # fmt: skip
    if failed:
        hosts[1] |= FAILED
    noisy = replace(QUIET, trimmed_packets=10)
    crossing = FLOW | {"transfer": 9, "traffic": "others", "destination": "h5"}
    write = [*({**each, "traffic": "write"} for each in hosts), crossing]
    read = [{**each, "traffic": "read"} for each in hosts]
    return SchemeResult(
        [*result().rounds, Round("write", write, noisy), Round("read", read, noisy)]
    )


def test_the_tables_have_a_cell_per_column() -> None:
    results = {"dctcp": result(), "scdp": stored(11e6, 1_100_000)}
    cells = report.storage_row("scdp", results["scdp"], RATE)
    assert cells == ["scdp", "80.0", "80.0", "1.10", "1.10", "0", "20", "0", "8"]
    assert len(cells) == len(report.STORAGE_COLUMNS)
    first, storage = report.markdown(results, RATE).split("\n\n")
    for lines, rows in ((first.splitlines(), 2), (storage.splitlines(), 1)):
        assert len(lines) == 2 + rows
        assert len({line.count("|") for line in lines}) == 1
    assert first.startswith("| scheme | file goodput % | incast goodput % | FCT p50 ms |")
    assert len(report.table(results, RATE).columns) == len(report.row("dctcp", results, RATE))
    drawn = report.storage_table(results, RATE)
    assert drawn is not None
    assert drawn.title == (
        "storage: 1 MB from h2 to h5, h13 at once, while 1 hosts send to h5; "
        "then back from all of them"
    )
    assert report.storage_table({"dctcp": result()}, RATE) is None
    assert report.phases({"scdp": results["scdp"]}) == ["file", "incast"]
    assert report.phases({"scdp": SchemeResult(results["scdp"].rounds[2:])}) == ["write", "read"]


def test_claims_of_storage_can_hold_and_fail() -> None:
    def of_storage(scdp: SchemeResult, ndp: SchemeResult) -> list[bool | None]:
        results = {"scdp": scdp, "ndp": ndp}
        return [check.holds for check in checks(results) if "replicas" in check.claim]

    good, slow = stored(11e6, 1_100_000), stored(31e6, 3_000_000)
    assert of_storage(good, slow) == [True, True]
    assert of_storage(slow, good) == [False, False]
    assert of_storage(good, stored(31e6, 1, failed=True)) == [True, False]
    seen = verdicts({"scdp": stored(1e7, 1, failed=True)})
    assert seen["scdp: every object arrived with the right SHA-256"] is False


@pytest.mark.parametrize("several", [1, 3])
def test_rounds_are_summed_and_queues_averaged(several: int) -> None:
    each = FabricCounts(1000, 50.0, 2, 0, 0, 0, 0)
    rounds = [Round("incast", flows("incast", 1), each) for _ in range(several)]
    found = SchemeResult(rounds).fabric("incast")
    assert (found.max_queue_bytes, found.average_queue_bytes) == (1000, 50.0)
    assert found.dropped_packets == 2 * several


def test_lossless_schemes_drop_nothing_and_share_a_slowed_link() -> None:
    def ran(slow: int, drops: int = 0) -> SchemeResult:
        sent = {("p0e0", "p0a0"): slow, ("p0e0", "p0a1"): 1000 - slow, ("p0e1", "p0a0"): 7}
        fabric = replace(QUIET, dropped_packets=drops)
        return SchemeResult([Round("degraded", [FLOW], fabric, sent=sent)])

    adaptive = "detail: packets take a slowed link as far as it has room"
    random = "lps: half of the packets wait for a slowed link"
    found = verdicts({"detail": ran(200), "lps": ran(500)})
    assert found[adaptive]
    assert found[random]
    assert found["detail: no queue dropped a packet"]
    for share in (0, 90, 310, 500):  # one path, or no choice at all
        assert verdicts({"detail": ran(share)})[adaptive] is False
    assert verdicts({"lps": ran(200)})[random] is False
    dropped = {"lps": ran(500, drops=1), "fh": ran(500, drops=1)}
    told = verdicts(dropped)
    assert told["lps: no queue dropped a packet"] is False
    assert "fh: no queue dropped a packet" not in told


def test_without_flow_control_the_switches_cannot_show_it() -> None:
    silent = replace(QUIET, max_queue_bytes=None, average_queue_bytes=None)
    told = verdicts({"detail": SchemeResult([Round("incast", [FLOW], silent)])})
    assert told["detail: no queue dropped a packet"] is None


def test_nothing_is_said_of_losses_in_phases_with_faults() -> None:
    """But of all other phases it is."""
    lossy = {"ndp": result(drops=3)}
    claim = "ndp: no packet lost without its header delivered"
    assert {c.claim: c.holds for c in checks(lossy, disturbed={"incast"})}[claim] is True
    assert {c.claim: c.holds for c in checks(lossy, disturbed={"file"})}[claim] is False
    assert claim not in {c.claim for c in checks(lossy, disturbed={"file", "incast"})}


def test_files_of_schemes_say_which_checks_are_theirs() -> None:
    every = dict.fromkeys(known_schemes(), result(queue=None))
    found = {
        claim: {check.claim.partition(":")[0] for check in checks(every) if claim in check.claim}
        for claim in (
            "no packet lost without its header",
            "no queue dropped a packet",
            "but for notifications without room",
            "one after another",
        )
    }
    assert list(found.values()) == [
        {"ndp", "scdp"},
        {"detail", "lps"},
        {"fastlane", "fastlane-fh"},
        {"pfabric"},
    ]


def shared(
    fct_ns: float, *, stored: str = "finished", failed: bool = False, told: bool = True
) -> SchemeResult:
    """A foreground whose median is this, beside two transfers of storage."""
    times = (1.0, fct_ns, 1e9)
    own = [FLOW | {"traffic": "foreground", "fct_ns": fct} for fct in times]
    beside = [FLOW | {"traffic": "storage", "status": status} for status in ("finished", stored)]
    fabric = QUIET if told else replace(QUIET, max_queue_bytes=None, average_queue_bytes=None)
    rows = [*own, *([FLOW | {"traffic": "foreground"} | FAILED] if failed else []), *beside]
    return SchemeResult([Round("foreground", rows, fabric)])


def test_storage_that_gives_way_arrives_and_does_no_harm() -> None:
    arrives = "tcp-trevi: all of the storage arrives, with what is dropped of it"
    harmless = "tcp-trevi: storage does the foreground no more harm than tcp-droptail's"

    def told(trevi: SchemeResult, tcp: SchemeResult) -> tuple[bool | None, bool | None]:
        found = verdicts({"tcp-trevi": trevi, "tcp-droptail": tcp})
        return found[arrives], found[harmless]

    slow = shared(2e6)
    assert told(shared(1e6), slow) == (True, True)
    assert told(shared(2.19e6), slow) == (True, True)
    assert told(shared(2.21e6), slow) == (True, False)
    assert told(shared(1e6, stored="failed"), slow) == (False, True)
    assert told(shared(1e6, failed=True), slow) == (True, False)
    assert told(shared(1e6), shared(2e6, failed=True)) == (True, False)
    assert told(shared(1e6, told=False), shared(2e6, told=False)) == (True, None)
    # Without the other scheme there is nothing to be compared with, and no storage is no proof.
    assert harmless not in verdicts({"tcp-trevi": shared(1e6)})
    alone = SchemeResult([Round("foreground", flows("foreground", 3), QUIET)])
    assert verdicts({"tcp-trevi": alone})[arrives] is False
    seen = [check.seen for check in checks({"tcp-trevi": shared(1e6), "tcp-droptail": slow})]
    assert "median 1.00 ms against 2.00 ms" in seen


def replicated(*, lost: str = "h13", payload: int = 120_000) -> SchemeResult:
    """A write of 100 KB to three hosts, of which one does not get it, beside a foreground."""
    copies = [
        FLOW
        | {"traffic": "storage", "source": "h1", "destination": host}
        | {"payload_bytes_sent": payload if host == "h5" else None}
        | (FAILED if host == lost else {})
        for host in ("h5", "h9", "h13")
    ]
    return SchemeResult([Round("replicated", [*copies, FLOW | {"traffic": "foreground"}], QUIET)])


def test_a_write_by_trevi_does_without_a_replica_that_is_cut_off() -> None:
    arrived = "tcp-trevi: every object arrived with the right SHA-256"
    there = "tcp-trevi: every replica that is there gets the same object"
    once = "tcp-trevi: a write leaves its writer once, what is dropped and coding included"

    def told(result: SchemeResult, gone: frozenset[str]) -> dict[str, bool | None]:
        found = checks({"tcp-trevi": result}, cut_off={"replicated": gone})
        return {check.claim: check.holds for check in found}

    gone = frozenset({"h13"})
    found = told(replicated(), gone)
    assert found[arrived] and found[f"{there}, without h13"] and found[once]
    # A replica that is there has to have it, and a phase without faults needs all of them.
    found = told(replicated(lost="h9"), gone)
    assert (found[arrived], found[f"{there}, without h13"]) == (False, False)
    found = told(replicated(), frozenset())
    assert (found[arrived], found[there]) == (False, False)
    # A flow to each is not one stream.
    assert told(replicated(payload=330_000), gone)[once] is False


def test_storage_on_replicas_is_compared_with_the_foreground_beside_others() -> None:
    claim = "tcp-trevi: replicated storage does the foreground no more harm than tcp-droptail's"
    both = {"tcp-trevi": replicated(), "tcp-droptail": replicated()}
    assert verdicts(both)[claim] is True
