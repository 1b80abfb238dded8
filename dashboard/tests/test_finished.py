"""Results in a folder, as they are shown."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ebb_dashboard.finished import Finished
from ebb_dashboard.orders import parsed
from ebb_dashboard.summary import MAX_FLOWS, thinned
from ebb_experiments.results.results import Results
from ebb_experiments.results.tables import Row, Rows
from ebb_topologies.files import InputError
from support import Told

PORTS = [("s1", 1, "h1"), ("s1", 2, "h2"), ("s1", 3, "s2"), ("s2", 1, "s1"), ("s2", 2, "h3")]
RUN = {"scenario": "small", "dilation": 10, "parameters": {"scheme": {"label": "A \x1b label"}}}


def store(directory: Path, scheme: str, ports: list[tuple[str, int, str]] = PORTS) -> None:
    """Results of two phases: in `two` twice as much happens."""
    rows: dict[str, list[Row]] = {name: [] for name in ("flows", "ports", "queues", "drops")}
    rows |= {"counters": [], "samples": []}
    for factor, phase in enumerate(("one", "two"), start=1):
        head = {"scheme": scheme, "seed": 1, "phase": phase, "round": 0}
        rows["flows"] += [
            head | {"fct_ns": 10.0 * factor * n, "status": "finished"} for n in (3, 1, 2)
        ]
        rows["flows"].append(head | {"status": "failed"})
        for switch, port, peer in ports:
            place = head | {"switch": switch, "port": port, "peer": peer}
            busy = {"rate_bps": 1_000_000, "utilisation": 0.25 * factor}
            rows["ports"].append(place | busy)
            rows["queues"].append(
                place
                | {"queue": 0, "max_depth_bytes": 100 * factor * port, "enqueued_packets": 1}
                | {"dropped_packets": 0, "egress_dropped_packets": 0, "max_delay_ns": 1.5}
            )
        rows["drops"].append(
            head | {"switch": "s1", "port": 1, "peer": "h1", "reason": "queue-full", "packets": 4}
        )
        rows["counters"] += [
            head | {"switch": "s1", "counter": "trimmed", "port": 1, "packets": 5 * factor}
        ]
        for at, depths in ((0.0, (1, 9)), (5.0, (30, 2))):
            rows["samples"] += [
                head | {"at_ns": at, "switch": "s1", "port": n, "queue": 0, "depth_bytes": depth}
                for n, depth in enumerate(depths, start=1)
            ]
    tables = {name: Rows(name, each) for name, each in rows.items()}
    Results(tables, RUN | {"scheme": scheme, "seed": 1}).write(directory / scheme)


def test_the_volume_of_a_link(tmp_path: Path) -> None:
    store(tmp_path, "ndp")
    head = {"scheme": "ndp", "seed": 1, "phase": "one", "round": 0, "slot_ns": 1_000}
    slots = [
        head | {"slot_start_ns": 1_000 * n, "point": "s1:2", "class": 0, "bytes": 10 + n}
        for n in range(20)
    ]
    Rows("volume", slots).write(tmp_path / "ndp")
    finished = Finished(tmp_path)
    link = next(i for i, wire in enumerate(finished.picture.links) if str(wire.b) == "s1:2")
    told = asyncio.run(finished.do(parsed({"do": "volume", "link": link})))
    (series,) = told["series"]
    assert (series["place"], series["scheme"], series["slots"]) == ("s1:2", "ndp", 20)
    with pytest.raises(InputError, match="there is no link 99"):
        asyncio.run(finished.do(parsed({"do": "volume", "link": 99})))


def test_tenants_and_their_bounds(tmp_path: Path) -> None:
    store(tmp_path, "silo")
    head = {"scheme": "silo", "seed": 1, "phase": "one", "round": 0, "source": "a-1"}
    about = {"tenant": "a", "packets": 3, "mean_ns": 5.0, "capacity_ns": 60.0, "conforms": 1}
    rows = [
        head | about | {"destination": name, "longest_ns": longest, "bound_ns": bound}
        for name, longest, bound in (("a-2", 30.0, 50.0), ("a-3", 20.0, 25.0))
    ]
    Rows("tenants", rows).write(tmp_path / "silo")
    feed: Any = Told()
    Finished(tmp_path).publish(feed)
    told = {each["phase"]: each["tenants"] for each in feed.of("result")}
    slowest = {"tenant": "a", "source": "a-1", "destination": "a-3", "conforms": True}
    assert told == {"one": [slowest | {"longest_ns": 20.0, "bound_ns": 25.0}], "two": []}


def test_all_that_a_run_left(tmp_path: Path) -> None:
    for scheme in ("ndp", "hull"):
        store(tmp_path / "results", scheme)
    feed: Any = Told()
    Finished(tmp_path).publish(feed)
    (hello,) = feed.of("hello")
    assert (hello["title"], hello["clock"], hello["dilation"]) == ("small", "finished", 10)
    assert hello["schemes"] == [
        {"name": "hull", "label": "A \\x1b label"},
        {"name": "ndp", "label": "A \\x1b label"},
    ]
    assert hello["picture"]["rows"] == [["h1", "h2", "h3"], ["s1", "s2"]]
    results = {(each["scheme"], each["phase"]): each for each in feed.of("result")}
    assert len(results) == 4
    two = results["ndp", "two"]
    assert (two["flows"], two["fct_ns"]) == (4, [20.0, 40.0, 60.0])
    assert two["percentiles_ns"] == [40.0, 60.0, 60.0]
    assert (two["drop"], two["trim"], two["mark"]) == (4, 10, 0)
    assert two["utilisation"] == [500] * 5
    ports = hello["picture"]["ports"]
    assert two["queue"] == [200 * port for _switch, port, _link, _end in ports]
    assert [n for n in two["dropped"] if n] == [4]
    curve = next(each for each in feed.of("curve") if each["phase"] == "one")
    assert (curve["t_ns"], curve["bytes"]) == ([0.0, 5.0], [9, 30])


def test_questions_are_answered_from_the_tables(tmp_path: Path) -> None:
    store(tmp_path, "ndp")
    finished = Finished(tmp_path)

    def do(**order: Any) -> Any:
        return asyncio.run(finished.do(parsed(order)))

    (port,) = do(do="queues", link=0)["ports"]
    assert (port["place"], port["to"]) == ("s1:1", "h1")
    assert [queue["max_depth_bytes"] for queue in port["queues"]] == [100, 200]
    cells = do(do="switch", switch="s1")["counters"]
    assert [(cell["name"], cell["packets"]) for cell in cells] == [
        ("ndp: trimmed", 5),
        ("ndp: trimmed", 10),
    ]
    for order in ({"do": "restart", "switch": "s1"}, {"do": "link", "link": 0, "up": False}):
        with pytest.raises(InputError, match="the run has ended"):
            do(**order)


def test_what_is_left_of_a_run_on_another_topology_is_left_out(tmp_path: Path) -> None:
    store(tmp_path, "ndp")
    store(tmp_path, "old", PORTS[:2])
    os.utime(tmp_path / "old" / "run.json", (1, 1))
    feed: Any = Told()
    Finished(tmp_path).publish(feed)
    assert [scheme["name"] for scheme in feed.of("hello")[0]["schemes"]] == ["ndp"]
    assert feed.of("line") == [{"text": "left out, of another topology: old"}]


def test_a_folder_without_results(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there are no results of a run in it \(run.json\)"):
        Finished(tmp_path)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("run.json", "{"),
        ("run.json", "[]"),
        ("run.json", json.dumps({"scheme": "ndp"})),
        ("flows.csv", "scheme,fct_ns\nndp,soon\n"),
        ("queues.csv", "scheme,phase\nndp," + "x" * 200_000),
    ],
)
def test_damaged_results_are_named(tmp_path: Path, file: str, text: str) -> None:
    store(tmp_path, "ndp")
    (tmp_path / "ndp" / file).write_text(text)
    with pytest.raises(InputError, match=f"^{tmp_path / 'ndp'}"):
        Finished(tmp_path)


def test_many_completion_times_keep_their_ends() -> None:
    few = thinned([float(n) for n in range(10 * MAX_FLOWS)])
    assert len(few) == MAX_FLOWS
    assert (few[0], few[-1]) == (0.0, 10 * MAX_FLOWS - 1)
    assert thinned([1.0, 2.0]) == [1.0, 2.0]
