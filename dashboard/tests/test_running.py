"""`make run` as it is watched, with a fabric that only counts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.errors import ControllerError
from ebb_dashboard.orders import parsed
from ebb_dashboard.running import OBJECTS_EVERY_NS, RunWatch
from ebb_dashboard.serving import Serving
from ebb_experiments.results.load import Late, Load
from ebb_experiments.results.results import Results
from ebb_experiments.results.tables import BY_RECEIVER, BY_SENDER, Rows
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.run import Task
from ebb_experiments.run.wall import RunObserver
from ebb_experiments.scenario.loaded import Loaded, scenario
from ebb_topologies.files import InputError
from support import INCAST, ROOT, Told


class Counting:
    """Traffic managers: port 1 of switch s1 is always busy, and its queue is 7 bytes long."""

    async def stream(self, name: str, interval_ns: int) -> AsyncIterator[tm.Stats]:
        while True:
            stats = tm.Stats(time_ns=(now := time.monotonic_ns()))
            port = stats.ports.add(port=1, busy_ns=now)
            port.queues.add(queue=0, depth_bytes=7, max_depth_bytes=7)
            yield stats
            await asyncio.sleep(interval_ns / 1e9)


@dataclass
class FakeWall:
    """As much of a `Wall` as is watched."""

    loaded: Loaded
    loop: LoopThread
    managers: Counting | None = field(default_factory=Counting)
    controller: Any = field(default_factory=lambda: SimpleNamespace(trees=list))
    admin: None = None
    observer: RunObserver = field(default_factory=RunObserver)
    checks: int = 0

    @property
    def net(self) -> Any:
        def check() -> None:
            self.checks += 1
            if self.checks > 3:
                raise KeyboardInterrupt

        return SimpleNamespace(check=check)


def loaded() -> Loaded:
    table = {
        "schemes": ["ndp", "dctcp"],
        "single_rack": {"hosts": 6},
        "workload": INCAST,
        "dilation": 10,
    }
    return scenario(table, "watched", ROOT)


def watch() -> tuple[RunWatch, Told]:
    feed = Told()
    serving: Any = SimpleNamespace(feed=feed)
    return RunWatch(serving), feed


def task_of(each: Loaded) -> Task:
    (phase_round,) = each.rounds("ndp")
    return Task(each, "ndp", 1, phase_round, Path("unused"))


def test_a_phase_is_told_from_the_start_of_its_traffic_to_its_results() -> None:
    watched, feed = watch()
    with LoopThread() as loop:
        wall: Any = FakeWall(loaded(), loop)
        with watched.watching(wall):
            (hello,) = feed.of("hello")
            assert [scheme["name"] for scheme in hello["schemes"]] == ["ndp", "dctcp"]
            assert (hello["clock"], hello["dilation"]) == ("wall", 10)
            # Without the fabric service nothing can be broken.
            assert hello["controls"] == ["scheme", "queues", "switch", "trace"]
            task = task_of(wall.loaded)
            start_ns = time.monotonic_ns() + 300_000_000
            wall.observer.begins(task, start_ns)
            feed.until(lambda: feed.of("phase"))
            assert time.monotonic_ns() >= start_ns
            feed.until(lambda: feed.of("sample")[-1]["at_ns"] > 10_000_000)
            sample = feed.of("sample")[-1]
            # Nominal time: ten times as short as it took.
            assert sample["at_ns"] <= (time.monotonic_ns() - start_ns) / 10
            port = hello["picture"]["ports"].index(["s1", 1, 0, 1])
            assert sample["queue"][port] == 7
            assert sample["utilisation"][port] > 950
            row = {"phase": task.phase_round.traffic.name, "fct_ns": 5.0, "status": "finished"}
            tables = {name: Rows(name) for name in ("queues", "ports", "drops", "counters")}
            head = {"phase": task.phase_round.traffic.name, "round": 0, "depth_bytes": 9}
            tables["samples"] = Rows("samples", [head | {"at_ns": at} for at in (1.0, 2.0)])
            load = asdict(Load(Late(9, 2e6, 3e6), None, 0.99))
            about = {"needed_dilation": 20.0, "load": load}
            wall.observer.ended(task, Results({"flows": Rows("flows", [row]), **tables}, about))
            (line,) = feed.of("line")
            assert "did not keep up: the numbers are not valid (agents 2 ms late" in line["text"]
            assert feed.of("phase")[-1]["running"] is False
            assert feed.of("result")[0]["fct_ns"] == [5.0]
            (curve,) = feed.of("curve")
            assert (curve["t_ns"], curve["bytes"]) == ([1.0, 2.0], [9, 9])
        samples = len(feed.of("sample"))
        time.sleep(0.4)
        assert len(feed.of("sample")) == samples
    with pytest.raises(InputError, match="needs a fabric that runs"):
        asyncio.run(watched.do(parsed({"do": "queues", "link": 0})))


def test_replicas_are_told_while_a_phase_goes_on_and_at_its_end() -> None:
    watched, feed = watch()
    each, task = loaded(), task_of(loaded())
    hosts = each.topology.hosts[1:3]
    line = {"kind": "send-one-to-many", "traffic": "write", "bytes": 9}
    transfer = line | {"id": 1, "start_ns": 0, "destinations": [host.name for host in hosts]}
    ended = line | {"event": "flow", "transfer": 1, "job": 0, "stream_bytes": 9, "session": 7}
    ended |= {"role": "receiver", "status": "finished", "sha256_ok": True}
    ended |= {"local": f"{hosts[0].ip}:7011", "peer": f"{each.topology.hosts[0].ip}:40000"}
    ended |= {"offered_at_ns": 0, "started_at_ns": 0, "finished_at_ns": 2_000_000}
    ended |= dict.fromkeys((*BY_SENDER, *BY_RECEIVER), 0)
    lines: list[dict[str, Any]] = []
    player: Any = SimpleNamespace(plan=SimpleNamespace(schedule=[transfer]), lines=lambda: lines)
    start_ns = time.monotonic_ns()
    watched.continued(task, player, start_ns)
    lines.append(ended)
    # It is asked for again and again, and looked at now and then.
    watched.continued(task, player, start_ns)
    assert len(feed.of("objects")) == 1
    time.sleep(OBJECTS_EVERY_NS / 1e9)
    watched.continued(task, player, start_ns)
    first, second = (told["objects"][0]["replicas"] for told in feed.of("objects"))
    assert [of["state"] for of in first] == ["part", "part"]
    assert [of["state"] for of in second] == ["whole", "part"]
    assert feed.of("objects")[0]["phase"] == task.phase_round.traffic.name


def test_switches_that_tell_nothing_show_results_only() -> None:
    watched, feed = watch()
    with LoopThread() as loop:
        wall: Any = FakeWall(loaded(), loop, managers=None)
        with watched.watching(wall):
            assert feed.of("hello")[0]["controls"] == ["scheme"]
            wall.observer.begins(task_of(wall.loaded), time.monotonic_ns())
            assert feed.of("phase")[0]["running"] is True
    assert feed.of("sample") == []


def test_schemes_run_again_until_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    watched, feed = watch()
    ran: list[str] = []

    def again(name: str) -> None:
        ran.append(name)
        if name == "dctcp":
            raise ControllerError("switch s1 is away")

    with LoopThread() as loop:
        wall: Any = FakeWall(loaded(), loop)
        with watched.watching(wall):
            for name in ("dctcp", "ndp"):
                asyncio.run(watched.do(parsed({"do": "scheme", "scheme": name})))
            with pytest.raises(InputError, match="no scheme 'hull'"):
                asyncio.run(watched.do(parsed({"do": "scheme", "scheme": "hull"})))
            with pytest.raises(KeyboardInterrupt):
                watched.stay(wall, again)
    assert ran == ["dctcp", "ndp"]
    assert {"text": "dctcp: switch s1 is away"} in feed.of("line")
    assert "until Ctrl-C" in capsys.readouterr().out


def test_orders_of_a_page_reach_the_run() -> None:
    with Serving(port=0) as serving, LoopThread() as loop:
        watched = RunWatch(serving)
        wall: Any = FakeWall(loaded(), loop)
        with watched.watching(wall):
            found: list[Any] = []
            order = parsed({"do": "queues", "link": 0})
            thread = threading.Thread(target=lambda: found.append(asyncio.run(serving.do(order))))
            thread.start()
            thread.join(20)
            assert found[0]["ports"][0]["place"] == "s1:1"
