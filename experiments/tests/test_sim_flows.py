"""From what both ends of flows tell to rows."""

from __future__ import annotations

import itertools
import tracemalloc
from typing import Any

import pytest
from ebb_experiments.results import arrow
from ebb_experiments.results.arrow import Batches
from ebb_experiments.results.flows import FlowTable, unheard
from ebb_experiments.results.tables import BY_RECEIVER, BY_SENDER, PAYLOAD
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Topology, from_table

HEAD = {"scheme": "x", "seed": 1}
COUNTS = dict.fromkeys((*BY_SENDER, PAYLOAD, *BY_RECEIVER), 1)


@pytest.fixture
def rack() -> Topology:
    links = {"rate_bps": 1_000_000_000, "delay_ns": 10_000}
    return from_table({"single_rack": {"hosts": 4}, "link_defaults": links}, "rack")


def host(number: int) -> str:
    return f"10.0.0.{number + 1}:7000"


def end(role: str, local: int, peer: int, transfer: int = 0, **keys: Any) -> dict[str, Any]:
    """At twice the nominal times."""
    return {
        "event": "flow",
        "role": role,
        "transfer": transfer,
        "job": transfer,
        "traffic": "t",
        "kind": "send-one-to-one",
        "bytes": 100,
        "stream_bytes": 120,
        "local": host(local),
        "peer": host(peer),
        "session": 7 + transfer,
        "offered_at_ns": 20 if role == "sender" else None,
        "started_at_ns": 30,
        "finished_at_ns": 220,
        "status": "finished",
        "sha256_ok": True if role == "receiver" else None,
        **COUNTS,
        **keys,
    }


def rows(rack: Topology, *lines: dict[str, Any]) -> list[dict[str, Any]]:
    flows = FlowTable(rack, Dilation(2), HEAD)
    for line in lines:
        flows.append(line)
    found: list[dict[str, Any]] = list(flows.table())
    return found


def test_both_ends_make_a_row_whichever_tells_first(rack: Topology) -> None:
    sender = end("sender", 1, 2, packets_sent=5)
    receiver = end("receiver", 2, 1, ce_marks=4)
    (row,) = rows(rack, sender, receiver)
    assert rows(rack, receiver, sender) == [row]
    assert (row["source"], row["destination"], row["status"]) == ("h1", "h2", "finished")
    assert (row["offered_at_ns"], row["finished_at_ns"], row["fct_ns"]) == (10, 110, 100)
    assert (row["packets_sent"], row["ce_marks"]) == (5, 4)


def test_an_end_without_the_other_is_told_at_the_end(rack: Topology) -> None:
    (lonely,) = rows(rack, end("sender", 1, 2))
    assert (lonely["status"], lonely["reason"]) == ("failed", "receiver: no record of this flow")
    (arrived,) = rows(rack, end("receiver", 2, 1))
    assert (arrived["status"], arrived["source"], arrived["packets_sent"]) == (
        "finished", "h1", None,
    )  # fmt: skip
    (wrong,) = rows(rack, end("sender", 1, 2), end("receiver", 2, 1, sha256_ok=False))
    assert (wrong["status"], wrong["reason"]) == ("failed", "receiver: not what was sent")


def test_objects_to_several_and_from_several_in_any_order(rack: Topology) -> None:
    many = {"kind": "send-one-to-many"}
    write = [
        end("sender", 1, 99, 1, receivers=2, **many),
        end("receiver", 2, 1, 1, **many),
        end("receiver", 3, 1, 1, **many),
    ]
    several = {"kind": "fetch-many-to-one"}
    read = [
        end("sender", 2, 1, 2, session=50, packets_sent=3, **several),
        end("sender", 3, 1, 2, session=51, packets_sent=4, **several),
        end("receiver", 1, 2, 2, session=50, senders=[{"peer": host(2)}, {"peer": host(3)}],
            **several),
    ]  # fmt: skip
    found = rows(rack, *write, *read)
    assert [(r["transfer"], r["source"], r["destination"], r["packets_sent"]) for r in found] == [
        (1, "h1", "h2", 1), (1, "h1", "h3", 1), (2, "h2 h3", "h1", 7),
    ]  # fmt: skip
    for order in itertools.permutations([*write, *read]):
        assert rows(rack, *order) == found


def test_a_straggler_has_a_flow_of_its_own_with_the_session_of_its_group(rack: Topology) -> None:
    many = {"kind": "send-one-to-many"}
    group = end("sender", 1, 99, packets_sent=90, **many) | {"peer": "239.1.2.3:7000"}
    straggler = end("sender", 1, 3, packets_sent=4, **many)
    receivers = [end("receiver", each, 1, **many) for each in (2, 3)]
    for order in itertools.permutations([group, straggler, *receivers]):
        found = rows(rack, *order)
        assert [(r["destination"], r["status"], r["packets_sent"]) for r in found] == [
            ("h2", "finished", 90), ("h3", "finished", 94),
        ]  # fmt: skip


def test_transfers_without_a_flow_are_told_once(rack: Topology) -> None:
    common = {"event": "transfer", "job": 0, "traffic": "t", "kind": "query", "bytes": 1}
    told = rows(
        rack,
        common | {"transfer": 3, "status": "unfinished", "part": "receive", "reason": "not come"},
        common | {"transfer": 3, "status": "unfinished", "part": "start", "reason": "why"},
        common | {"transfer": 0, "status": "unfinished"},
        end("sender", 1, 2),
        end("receiver", 2, 1),
        end("sender", 1, 2) | {"transfer": None},
    )
    assert [(row["transfer"], row["status"], row["reason"]) for row in told] == [
        (0, "finished", None),
        (3, "unfinished", "why"),
    ]


def test_what_no_agent_tells_of_is_told_all_the_same(rack: Topology) -> None:
    common = {"job": 0, "traffic": "t", "kind": "send-one-to-one", "bytes": 9}
    schedule = [common | {"id": each, "start_ns": each * 100} for each in range(4)]
    ends = [end("sender", 1, 2), end("receiver", 2, 1)]
    lines = [*ends, {"event": "transfer", "transfer": 1, "status": "failed", **common}]
    found = rows(rack, *lines, *unheard(schedule, lines, 250))
    assert [(row["transfer"], row["status"]) for row in found] == [
        (0, "finished"), (1, "failed"), (2, "unfinished"),
    ]  # fmt: skip
    assert found[2]["reason"] == "unfinished at the end of the run: no agent tells of it"


def test_a_million_flows_fit(rack: Topology) -> None:
    """Memory for each flow of many, in batches: ten times less than as lines."""
    count = 10_000
    held = []
    for _ in range(2):
        flows = FlowTable(rack, Dilation(2), HEAD, Batches)
        tracemalloc.start()
        for number in range(count):
            flows.append(end("receiver", 2, 1, number))
            flows.append(end("sender", 1, 2, number))
        used, _peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        table = arrow.table(flows.table())
        assert len(table) == count
        assert table.nbytes < 400 * count
        # Flows that wait for their batch are Python's, the rest is Arrow's.
        held.append(used + table.nbytes)
    # In one of the two the interpreter may move its table of interned strings, some megabytes.
    assert min(held) < 1_000 * count


def test_what_is_open_at_the_end_has_what_has_arrived(rack: Topology) -> None:
    common = {"job": 0, "traffic": "t", "kind": "send-one-to-one", "bytes": 9_000}
    still = {"event": "open", "transfer": 3, "host": "h2", "peer": host(1), **common}
    flows = FlowTable(rack, Dilation(2), HEAD)
    flows.append({"event": "transfer", "transfer": 3, "status": "unfinished", **common})
    flows.append(still | {"offered_at_ns": 100, "arrived_bytes": 4_000})
    (row,) = flows.table(until_ns=1_100)
    assert (row["source"], row["destination"], row["status"]) == ("h1", "h2", "unfinished")
    assert (row["offered_at_ns"], row["arrived_bytes"], row["open_ns"]) == (50, 4_000, 500)
    assert row["fct_ns"] is None
    assert row["reason"] == "unfinished at the end of the run: 4000 of 9000 bytes have arrived"
