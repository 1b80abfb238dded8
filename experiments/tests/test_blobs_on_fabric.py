"""The blob store over switches: its groups are those that the controller has found at the locator,
and a write is one stream through them, whether its replicas live or not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random

import pytest
from binaries import BINARIES, needs_root, needs_switches
from ebb_controller.mechanisms.route import REPLICATED
from ebb_controller.program import Program
from ebb_controller.scheme import load_scheme
from ebb_controller.tracts import GroupNumbers, follow
from ebb_experiments.blobs.store import Store
from ebb_experiments.run.agents import agent_parameters
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.run import read_counters
from ebb_topologies.model import from_table
from ebb_topologies.targets import target

pytestmark = [needs_root, needs_switches]

RATE_BPS = 40_000_000
REPLICAS = ("r2", "r3", "r4")
# Names of its own, so that no fabric that runs at the same time is touched.
TOPOLOGY = {
    "switch": [{"name": name} for name in ("bs1", "bs2", "bs3")],
    "host": [{"name": name} for name in ("r1", *REPLICAS)],
    "link": [
        {"ends": list(ends), "rate_bps": RATE_BPS, "delay_ns": 100_000}
        for ends in (
            ("r1", "bs1"), ("bs1", "bs2"), ("bs1", "bs3"),
            ("r2", "bs2"), ("r3", "bs2"), ("r4", "bs3"),
        )
    ],
}  # fmt: skip
BYTES = 2_000_000
"""Length of a blob: 0.4 s at the rate, so that a replica can be killed while it is written."""


class Stored:
    """A store on a fabric, whose controller follows it."""

    def __init__(self, scheme: str, folder: Path, stack: ExitStack) -> None:
        from ebb_experiments.run.fabric import Fabric

        loaded, topology = load_scheme(scheme), from_table(TOPOLOGY, "here")
        self.loop = stack.enter_context(LoopThread())
        program = Program.of(BINARIES.directory, loaded.fabric)
        chosen = target("ebb", BINARIES.directory, fused=True)
        self.fabric = stack.enter_context(
            Fabric(topology, chosen, program, folder / "fabric", self.loop)
        )
        self.fabric.configure(loaded.fabric)
        parameters = agent_parameters(BINARIES.agent, loaded, rate_bps=RATE_BPS)
        parameters[scheme]["give_up_ns"] = 1_500_000_000
        self.store = Store(
            self.fabric, BINARIES.agent, folder / "store", scheme, REPLICAS, parameters
        )
        stack.callback(self.store.stop)
        self.store.start()
        self.said: list[str] = []
        following = follow(
            str(self.store.socket),
            GroupNumbers(topology, ()),
            self.fabric.controller,
            loaded.fabric,
            self.said.append,
        )
        stack.callback(self.loop.start(following).cancel)
        self.wait(lambda: self.store.alive() == len(REPLICAS) and self.groups == [REPLICAS])

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """Members of the groups that are installed."""
        return [group.members for group, _tree in self.fabric.controller.trees()]

    def replicated(self) -> int:
        """Packets to groups that the switch of the writer has sent on so far."""
        cells = self.loop.run(read_counters(self.fabric.controller))["bs1"][REPLICATED.name]
        return sum(packets for packets, _bytes in cells)

    def wait(self, condition: object) -> None:
        assert callable(condition)
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)

    def put(self, name: str, content: bytes) -> dict[str, object]:
        path = self.store.folder / name
        path.write_bytes(content)
        outcome = self.store.command("r1", "put", str(path), "--multicast")
        assert outcome.code == 0, (outcome.lines, outcome.log.read_text())
        return outcome.lines[0]

    def get(self, name: str) -> bytes:
        path = self.store.folder / f"{name}.read"
        outcome = self.store.command("r1", "get", name, "--output", str(path))
        assert outcome.code == 0, (outcome.lines, outcome.log.read_text())
        return path.read_bytes()


@pytest.fixture(params=["trevi", "scdp"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stored]:
    with ExitStack() as stack:
        yield Stored(request.param, tmp_path, stack)


def test_a_write_is_one_stream_and_outlives_a_replica(stored: Stored) -> None:
    first, second = Random(1).randbytes(BYTES), Random(2).randbytes(BYTES)
    assert stored.put("first", first)["status"] == "stored"
    # A packet has at most 1444 bytes of payload; one stream is sent, with its coding.
    once = BYTES / 1444
    assert once <= stored.replicated() < 1.5 * once
    assert all(len(list(stored.store.tracts(host).glob("tract-*"))) == 1 for host in REPLICAS)

    killer = threading.Timer(0.3, lambda: stored.store.kill("r4"))
    killer.start()
    line = stored.put("second", second)
    killer.join()
    assert line["status"] == "stored"
    # The table has two replicas now; so has the group.
    stored.wait(lambda: stored.groups == [("r2", "r3")])
    assert (stored.get("first"), stored.get("second")) == (first, second)

    stored.store.start_replica("r4")
    stored.wait(lambda: stored.groups == [REPLICAS])
    (status,) = (
        line for line in stored.store.command("r1", "repair").lines if line["did"] == "repair"
    )
    assert (status["short"], status["lost"]) == (0, 0)
    for host in ("r2", "r3"):
        stored.store.kill(host)
    assert (stored.get("first"), stored.get("second")) == (first, second)
