"""Counts of switches as rows: by columns and row by row they are the same."""

from __future__ import annotations

from typing import Any

import pytest
from ebb_controller import ebb_tm_pb2 as tm
from ebb_experiments.results.arrow import Batches
from ebb_experiments.results.switches import SwitchTables
from ebb_experiments.results.tables import COLUMNS, Rows
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Topology, from_table

HEAD = {"scheme": "ndp", "seed": 1, "phase": "all", "round": 0}


@pytest.fixture
def rack() -> Topology:
    return from_table({"single_rack": {"hosts": 2}}, "test")


def statistics(rack: Topology) -> dict[str, tm.Stats]:
    """Statistics of a switch with two ports that lead to hosts, one of them used, and one that
    leads nowhere."""
    used, idle = sorted(rack.neighbours["s1"])
    count = tm.Count(packets=2, bytes=3000)
    delays = tm.DelayBuckets(from_ns=[0, 320], below_ns=[10, 330], packets=[1, 1])
    drops = [tm.Drops(reason="full", count=count)]
    queue = tm.QueueStats(queue=3, enqueued=count, drops=drops, delays=delays, max_delay_ns=330)
    ports = [
        tm.PortStats(port=used, transmitted=count, busy_ns=500, queues=[queue, tm.QueueStats()]),
        tm.PortStats(port=idle, queues=[tm.QueueStats()]),
        tm.PortStats(port=99),
    ]
    return {"s1": tm.Stats(ports=ports)}


def rows_of(table: Rows) -> list[dict[str, Any]]:
    assert all(set(row) == set(COLUMNS[table.name]) for row in table)
    return [{key: value for key, value in row.items() if value is not None} for row in table]


@pytest.mark.parametrize("kind", [Rows, Batches])
def test_rows_of_a_switch(rack: Topology, kind: type[Rows]) -> None:
    switches = SwitchTables(statistics(rack), rack, Dilation(2), 1000.0, HEAD, kind)
    tables = {**switches.tables(), "delays": switches.delays()}
    used, idle = sorted(rack.neighbours["s1"])
    place = {"switch": "s1", "port": used, "peer": rack.neighbours["s1"][used][0].node}
    ports = rows_of(tables["ports"])
    assert [row["port"] for row in ports] == [used, idle, 99]
    assert ports[0] == HEAD | place | {
        "rate_bps": 1_000_000_000,
        "transmitted_packets": 2,
        "transmitted_bytes": 3000,
        "busy_ns": 250.0,
        "utilisation": 0.5,
    }
    assert {"peer", "rate_bps"} & set(ports[2]) == set()  # it leads nowhere
    queues = rows_of(tables["queues"])
    assert [(row["port"], row["queue"]) for row in queues] == [(used, 3), (used, 0), (idle, 0)]
    assert queues[0]["dropped_bytes"] == 3000
    assert queues[0]["max_delay_ns"] == 165.0
    assert rows_of(tables["delays"]) == [
        HEAD | place | {"queue": 3, "from_ns": 0.0, "below_ns": 5.0, "packets": 1},
        HEAD | place | {"queue": 3, "from_ns": 160.0, "below_ns": 165.0, "packets": 1},
    ]
    assert [row["reason"] for row in rows_of(tables["drops"])] == ["full"]


def test_blocks_of_columns_and_rows_keep_their_order() -> None:
    for kind in (Rows, Batches):
        table = kind("drops", [{"port": 1}])
        table.extend_columns({"switch": "s1"}, {"port": [2, 3], "reason": [None, "full"]})
        table.extend_columns({"switch": "s1"}, {"port": [], "reason": []})
        table.append({"port": 4})
        assert list(table.column("port")) == [1, 2, 3, 4]
        assert list(table.column("switch")) == [None, "s1", "s1", None]
        assert list(table.column("reason")) == [None, None, "full", None]
        assert len(table) == 4
