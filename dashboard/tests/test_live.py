"""A fabric of real switches in one process, looked at by somebody who knows its socket only."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ebb_controller.errors import ControllerError
from ebb_controller.tracts import LocatorError
from ebb_dashboard.live import Watcher, attached
from ebb_dashboard.orders import parsed
from ebb_topologies.dilation import Dilation
from ebb_topologies.fabric_file import fabric_file
from ebb_topologies.files import InputError
from ebb_topologies.model import Switch, Topology, from_table
from ebb_topologies.traffic_manager import PortParameters, traffic_manager_config
from support import BINARIES, ROOT, Told

pytestmark = pytest.mark.skipif(
    not (BINARIES.directory / "ebb-switch").exists(), reason="needs build/ebb-switch: `make build`"
)


class Store:
    """A blob store whose locator is there at the second question."""

    def __init__(self) -> None:
        self.questions = 0

    async def sample(self, _hosts: Any) -> dict[str, Any]:
        self.questions += 1
        if self.questions == 1:
            raise LocatorError("locator at x: no answer")
        return {"objects": [], "servers": []}


@pytest.fixture
def fabric(tmp_path: Path, own_ports: None) -> Iterator[Path]:
    """The socket of a leaf-spine without hosts, which needs neither root nor interfaces."""
    topology = from_table(
        {
            "leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 1},
            "link_defaults": {"rate_bps": 10_000_000},
        },
        "test",
    )
    (tmp_path / "fabric.json").write_text(json.dumps(_without_hosts(topology, tmp_path)))
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [str(ROOT / "build" / "ebb-switch"), "--fabric", str(tmp_path / "fabric.json")],
            stdout=log,
            stderr=log,
        )
    try:
        deadline = time.monotonic() + 20
        while not _answers(topology.switches[-1]):
            assert process.poll() is None and time.monotonic() < deadline, (
                tmp_path / "log"
            ).read_text()
            time.sleep(0.05)
        yield tmp_path / "fabric.sock"
    finally:
        process.terminate()
        process.wait(20)


def _without_hosts(topology: Topology, folder: Path) -> dict[str, Any]:
    def config(switch: Switch) -> Path:
        file = folder / f"{switch.name}.json"
        file.write_text(json.dumps(traffic_manager_config(topology, switch, PortParameters())))
        return file

    table = fabric_file(topology, config)
    table["host"] = []
    for switch in table["switch"]:
        switch["interfaces"] = {}
    return table


def _answers(switch: Switch) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", switch.grpc_port)) == 0


async def test_a_fabric_is_found_by_its_socket(fabric: Path) -> None:
    shown, streams, admin = await attached(fabric, Dilation(10))
    try:
        drawn = shown.picture
        assert (sorted(drawn.switches), drawn.hosts) == (["l0", "l1", "s0", "s1"], [])
        # Nominal: ten times what the ports run at.
        assert {link.rate_bps for link in drawn.links} == {100_000_000}
        feed = Told()
        store: Any = Store()
        watcher: Any = Watcher(shown, streams, feed, store)  # type: ignore[arg-type]
        watching = asyncio.create_task(watcher.run())
        try:
            await _until(lambda: len(feed.of("sample")) > 2)
            assert feed.of("links")[-1]["states"] == ["up"] * 4
            assert {"text": "locator at x: no answer"} in feed.of("line")
            await _until(lambda: feed.of("objects"))
            assert feed.of("objects") == [{"objects": [], "servers": []}]
            # Switches without a program have no groups, and nobody complains of it.
            assert (feed.of("groups"), len(feed.of("line"))) == ([], 1)
            told = await shown.do(parsed({"do": "link", "link": 1, "up": False}))
            assert told["text"].endswith(": down")
            await _until(lambda: feed.of("links")[-1]["states"][1] == "down")
            await shown.do(parsed({"do": "link", "link": 2, "rate_bps": 50_000_000}))
            await _until(lambda: feed.of("links")[-1]["states"][2] == "50 Mbit/s")
            await shown.do(parsed({"do": "restart", "switch": "s0"}))
        finally:
            watching.cancel()
        a = drawn.links[0].a
        capture = {"do": "capture", "switch": a.node, "port": a.port}
        files = (await shown.do(parsed(capture | {"on": True})))["files"]
        assert "complete" in (await shown.do(parsed(capture | {"on": False})))["text"]
        assert all(Path(file).exists() for file in files)
        with pytest.raises(ControllerError, match="it does not answer: FAILED_PRECONDITION"):
            await shown.do(parsed({"do": "switch", "switch": "l0"}))
        with pytest.raises(InputError, match="'reroute' is nothing that this fabric can do"):
            await shown.do(parsed({"do": "reroute"}))
    finally:
        await admin.close()


async def test_no_fabric_at_the_socket(tmp_path: Path) -> None:
    with pytest.raises(ControllerError, match="no fabric answers at"):
        await attached(tmp_path / "fabric.sock", Dilation(1))


async def _until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
