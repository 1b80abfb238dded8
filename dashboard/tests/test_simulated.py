"""A simulation that is watched: the same run, and what can be asked and done while it goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ebb_controller.drop_reason import named
from ebb_controller.errors import ControllerError
from ebb_dashboard import cli
from ebb_dashboard.installed import InstalledGroups
from ebb_dashboard.orders import AnyOrder, parsed
from ebb_dashboard.simulated import Simulated
from ebb_experiments.results.tables import read_rows
from ebb_experiments.run.run import Run
from ebb_experiments.run.virtual import Virtual
from ebb_topologies.files import InputError
from support import BINARIES, WRITE, Told, needs_simulator, running, simulated

LEAF_SPINE = {"fat_tree": None, "leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 4}}


def do(watched: Simulated, **order: Any) -> Any:
    async def ask() -> Any:
        return await watched.do(parsed(order))

    return asyncio.run(ask())


def watch(told: Told, directory: Path, samples_hz: float, **keys: Any) -> Simulated:
    return simulated(told, directory, samples_hz, **(LEAF_SPINE | keys))  # type: ignore[arg-type]


def test_volume_is_counted_where_the_command_line_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    taken: list[Any] = []

    class Stub:
        def __init__(self, loaded: Any, *_: object, **__: object) -> None:
            taken.append(loaded)

        def run(self, *, stay: bool) -> None:
            assert not stay

    monkeypatch.setattr("ebb_dashboard.simulated.Simulated", Stub)
    monkeypatch.setattr(cli, "_say", lambda _serving: None)
    words = ["sim", "sim/incast", "--once", "--out", str(tmp_path)]
    for more in ([], ["--volume", "0.5"]):
        options = cli.arguments([*words, *more])
        assert cli._sim(options, cast(Any, SimpleNamespace(feed=None))) == 0
    slots = [
        {scheme.fabric.volume and scheme.fabric.volume.slot_ns for scheme in one.schemes.values()}
        for one in taken
    ]
    assert slots == [{None}, {500_000}]


@needs_simulator
def test_a_run_that_is_watched_is_the_same_run(tmp_path: Path) -> None:
    told = Told()
    watched = watch(told, tmp_path, samples_hz=10_000)
    watched.run(stay=False)
    alone = Run(watched.loaded, "ndp", 1, Virtual(BINARIES), tmp_path / "alone").go()
    stored = list(read_rows(tmp_path / "ndp", "flows"))
    kept = ("source", "destination", "fct_ns", "packets_sent", "trimmed")
    assert [[row[k] for k in kept] for row in stored] == [
        [row[k] for k in kept] for row in alone.flows
    ]
    (result,) = told.of("result")
    assert result["fct_ns"] == sorted(row["fct_ns"] for row in alone.flows)
    assert result["trim"] > 0
    samples = told.of("sample")
    assert [sample["at_ns"] for sample in samples[:3]] == [0, 50_000, 100_000]
    assert max(max(sample["queue"]) for sample in samples) > 1500
    # Trims between two samples are all trims.
    seen = sum(n for sample in samples for _port, kind, n in sample["events"] if kind == "trim")
    assert seen == result["trim"]
    assert max(max(sample["utilisation"]) for sample in samples) > 900
    assert [phase["running"] for phase in told.of("phase")] == [True, False]


@needs_simulator
def test_copies_that_would_go_back_are_no_drops(tmp_path: Path) -> None:
    told = Told()
    watched = simulated(told, tmp_path, 10_000, workload=WRITE, schemes=["scdp"])  # type: ignore[arg-type]
    watched.run(stay=False)
    reasons = {row["reason"] for row in read_rows(tmp_path / "scdp", "counters")}
    assert {*named("replica-to-source")} <= reasons
    queues = read_rows(tmp_path / "scdp", "queues")
    assert sum(row["egress_dropped_packets"] for row in queues) == 0
    assert "egress" not in {row["reason"] for row in read_rows(tmp_path / "scdp", "drops")}
    events = [event for sample in told.of("sample") for event in sample["events"]]
    assert [event for event in events if event[1] == "drop"] == []
    assert told.of("result")[0]["drop"] == 0


@needs_simulator
def test_what_can_be_asked_and_done(tmp_path: Path) -> None:
    told = Told()
    watched = watch(told, tmp_path, samples_hz=0)
    links = [(str(link.a), str(link.b)) for link in watched.picture.links]
    spine = next(n for n, ends in enumerate(links) if ends == ("l0:5", "s0:1"))
    with pytest.raises(ControllerError, match="no fabric runs"):
        do(watched, do="reroute")
    with running(watched):
        told.until(lambda: told.of("links"))
        assert do(watched, do="link", link=spine, up=False)["text"] == "l0:5 - s0:1: down"
        assert told.of("links")[-1]["states"][spine] == "down"
        assert "avoided: l0 - s0" in do(watched, do="reroute")["text"]
        do(watched, do="link", link=0, rate_bps=250_000_000, loss=0.01)
        assert told.of("links")[-1]["states"][0] == "loss 0.01, 250 Mbit/s"
        held = do(watched, do="switch", switch="l0")
        tables = {table["name"]: table["entries"] for table in held["tables"]}
        assert any(each.startswith("dst 10.0.1.0/24 -> ") for each in tables["ipv4_route"])
        assert "default -> set_hash_seed" in tables["hash_settings"][0]
        assert any("dst_mac 02:" in each for each in held["others"]["entries"])
        # The controller has installed it again when this returns.
        do(watched, do="restart", switch="s1")
        held = do(watched, do="switch", switch="s1")
        assert any(table["entries"] for table in held["tables"])
        (leaf,) = do(watched, do="queues", link=0)["ports"]
        assert leaf["place"] == "l0:1" and leaf["queues"]
        for wrong in ({"link": 99, "do": "queues"}, {"switch": "h1", "do": "switch"}):
            with pytest.raises(InputError, match="there is no"):
                do(watched, **wrong)
        with pytest.raises(InputError, match="no scheme 'x'"):
            do(watched, do="scheme", scheme="x")
        trace = in_background(watched, parsed({"do": "trace", "switch": "l1", "packets": 2}))
        time.sleep(0.2)  # until the switch knows of it
        do(watched, do="pace", samples_hz=50)
        visits = trace()["visits"]
        assert len({visit["packet"] for visit in visits}) == 2
        assert any("ipv4_route" in line for visit in visits for line in visit["lines"])
        do(watched, do="pace", samples_hz=10_000 / 10)


@needs_simulator
def test_the_switches_hold_the_groups_that_are_told_and_replicas_follow(tmp_path: Path) -> None:
    told = Told()
    watched = simulated(
        told,  # type: ignore[arg-type]
        *(tmp_path, 0),
        workload=WRITE,
        schemes=["trevi"],
    )
    with running(watched):
        told.until(lambda: told.of("groups"))
        (group,) = told.of("groups")[-1]["groups"]
        assert group["members"] == ["h5", "h9", "h13"]
        held = do(watched, do="switch", switch="p1e0")
        assert any(each.startswith("multicast group 1 ->") for each in held["others"]["entries"])
        # As somebody sees them who has no controller: read from the switches.
        fabric = watched._fabric
        assert fabric is not None
        read = asyncio.run(InstalledGroups(fabric.picture, fabric._addresses).sample())
        assert read.groups == [group]
        do(watched, do="pace", samples_hz=1000)
        told.until(lambda: told.of("objects"))
    (written,) = told.of("objects")[-1]["objects"]
    assert [(each["host"], each["state"]) for each in written["replicas"]] == [
        *(("h13", "whole"), ("h5", "whole"), ("h9", "whole")),
    ]


def in_background(watched: Simulated, order: AnyOrder) -> Callable[[], Any]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(ask(watched, order))))
    thread.start()

    def result() -> Any:
        thread.join(30)
        return found[0]

    return result


async def ask(watched: Simulated, order: AnyOrder) -> Any:
    return await watched.do(order)


@needs_simulator
def test_a_scheme_runs_again_when_asked(tmp_path: Path) -> None:
    told = Told()
    watched = watch(told, tmp_path, samples_hz=1000)
    with running(watched):
        told.until(lambda: told.of("result"))
        do(watched, do="scheme", scheme="ndp")
        told.until(lambda: len(told.of("result")) == 2)
        first, second = told.of("result")
        assert first == second
