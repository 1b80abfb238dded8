"""Common parts of the dashboard's tests: where things are, and a simulation that people watch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ebb_dashboard.feed import Feed
from ebb_dashboard.simulated import Simulated
from ebb_experiments.run.run import Binaries
from ebb_experiments.scenario.loaded import all_at_once, scenario

ROOT = Path(__file__).resolve().parents[2]
BINARIES = Binaries(ROOT / "build")
missing = [
    name
    for name in ("ebb-simulator", "ebb-agent", "fabric.json")
    if not (BINARIES.directory / name).exists()
]
needs_simulator = pytest.mark.skipif(
    bool(missing), reason=f"needs build/{', '.join(missing)}: run `make build`"
)
INCAST = {"traffic": [all_at_once("incast", {"type": "incast", "senders": 5}, 60_000)]}

WRITE = {
    "group": [
        {"name": "writer", "hosts": ["h1"]},
        {"name": "replicas", "hosts": ["h5", "h9", "h13"]},
    ],
    "traffic": [
        {
            "name": "write",
            "pattern": {
                "type": "storage-write",
                "placement": "any",
                "clients": "writer",
                "servers": "replicas",
            },
            "arrivals": {"type": "once"},
            "size": {"type": "fixed", "bytes": 200_000},
        }
    ],
}
"""An object to three replicas."""


class Told:
    """A feed that keeps what it is told."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self._changed = threading.Condition()

    def publish(self, event: str, data: dict[str, Any]) -> None:
        with self._changed:
            self.messages.append((event, data))
            self._changed.notify_all()

    def of(self, event: str) -> list[dict[str, Any]]:
        return [data for name, data in self.messages if name == event]

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, seconds), self.messages[-3:]


def simulated(feed: Feed, directory: Path, samples_hz: float, **keys: Any) -> Simulated:
    """A scenario on a fat-tree of 20 switches, unless the keys say another one."""
    table = {"schemes": ["ndp"], "workload": INCAST, "fat_tree": {"k": 4}, **keys}
    loaded = scenario(table, "watched", ROOT)
    return Simulated(
        loaded, BINARIES, directory, feed, sample_every_ns=50_000, samples_hz=samples_hz
    )


@contextmanager
def running(watched: Simulated, stay: bool = True) -> Iterator[threading.Thread]:
    """Runs it beside the block, and has it end with the block."""
    failures: list[BaseException] = []

    def run() -> None:
        try:
            watched.run(stay)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        watched.end()
        thread.join(60)
    assert not thread.is_alive()
    if failures:
        raise failures[0]
