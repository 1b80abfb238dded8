"""A kernel's TCP behind `ebb-agent pace`, at a switch that polices and drops void frames.

```
 g: applications ── ebb-agent pace ──┐
 b: applications, unpaced ───────────┼── switch ── r
```

`g` is guaranteed a rate; `b` fills the link to `r` with best effort.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from binaries import ROOT, needs_root, needs_switches
from ebb_controller.controller import Controller
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.program import Program
from ebb_controller.scheme import load_scheme
from ebb_controller.traffic_manager import TrafficManagers
from ebb_experiments.run.kernel_tcp import BUMP, Bump
from ebb_topologies.mininet_net import FabricNet
from ebb_topologies.model import Topology, from_table
from ebb_topologies.targets import target

pytestmark = [needs_root, needs_switches]

BUILD = ROOT / "build"
LINK_BPS = 100_000_000
RATE_BPS = 20_000_000
BURST_BYTES = 15_380
PEAK_BPS = 40_000_000
LATE_NS = 40_000_000
"""How late frames may leave the pacer on a busy machine before the meter notices it."""
CONFORMING_BYTES = BURST_BYTES + RATE_BPS * LATE_NS // 8_000_000_000
"""Bytes above the guarantee that the meter lets pass: the burst, and frames that come late."""
SECONDS = 1.5
GUARANTEED, BEST_EFFORT = 34, 0
SEND = """
import socket, sys, time
to, port, dscp, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
with socket.socket() as sender:
    sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    sender.connect((to, port))
    end, sent = time.monotonic() + seconds, 0
    sender.settimeout(0.1)
    while time.monotonic() < end:
        try:
            sent += sender.send(bytes(4096))
        except TimeoutError:
            pass
"""
RECEIVE = """
import socket, sys, time
ports, seconds = sys.argv[1].split(","), float(sys.argv[2])
listeners = [socket.create_server(("", int(port))) for port in ports]
print("ready", flush=True)
peers = [listener.accept()[0] for listener in listeners]
def read(peer):
    try:
        return len(peer.recv(1 << 20))
    except BlockingIOError:
        return 0
for peer in peers:
    peer.setblocking(False)
    while read(peer):
        pass
got, start, took = [0] * len(peers), time.monotonic(), 0
while took < seconds:
    time.sleep(0.001)
    for number, peer in enumerate(peers):
        got[number] += read(peer)
    took = time.monotonic() - start
print(took, *got, flush=True)
"""


def rack() -> Topology:
    hosts = ["pg", "pb", "pr"]
    return from_table(
        {
            "switch": [{"name": "ps1"}],
            "host": [{"name": name} for name in hosts],
            "link": [{"ends": [name, "ps1"]} for name in hosts],
            "link_defaults": {"rate_bps": LINK_BPS},
        },
        "pace",
    )


def parameters() -> FabricParameters:
    """Those of Silo, with a contract for `pg`."""
    fabric = load_scheme("silo").fabric
    assert fabric.policing is not None
    contract = {
        "hosts": ["pg"],
        "guarantee_bps": RATE_BPS,
        "burst_bytes": CONFORMING_BYTES,
        "peak_bps": PEAK_BPS,
        "peak_burst_bytes": 1_538 + PEAK_BPS * LATE_NS // 8_000_000_000,
    }
    policing = fabric.policing.model_validate({"excess": "best-effort", "contract": [contract]})
    return fabric.model_copy(update={"policing": policing})


@contextmanager
def paced(net: FabricNet, folder: Path) -> Iterator[dict[str, Any]]:
    """`pg` behind its pacer, whose report is there after the context."""
    bump, report = Bump(net, "pg"), dict[str, Any]()
    guarantee = folder / "guarantee.toml"
    guarantee.write_text(
        f"rate_bps = {RATE_BPS}\nburst_bytes = {BURST_BYTES}\npeak_bps = {PEAK_BPS}\n"
        f"[void_frames]\nlink_bps = {LINK_BPS}\nbatch_ns = 1_000_000\n"
    )
    bump.up()
    ends = ["--inside", BUMP, "--outside", bump.interface, "--guarantee", str(guarantee)]
    output = (folder / "pace.jsonl").open("wb")
    command = [str(BUILD / "ebb-agent"), "pace", "--json", *ends]
    process = net.spawn_on("pg", "pace-pg", command, stdout=output)
    try:
        wait_for_line(folder / "pace.jsonl")
        report["inside"] = bump.inside
        yield report
        process.popen.send_signal(signal.SIGTERM)
        process.popen.wait(10)
        report |= json.loads((folder / "pace.jsonl").read_text().splitlines()[-1])
    finally:
        net.processes.stop([process])
        bump.down()


def wait_for_line(path: Path) -> None:
    deadline = time.monotonic() + 10
    while "\n" not in path.read_text():
        assert time.monotonic() < deadline, f"nothing in {path.name}"
        time.sleep(0.01)


def carried(net: FabricNet, folder: Path, inside: tuple[str, ...] = ()) -> list[float]:
    """Bytes a second that arrive from `pg`, guaranteed, and from `pb`, best effort."""
    printed = folder / "received"
    with printed.open("wb") as sink:
        command = [sys.executable, "-c", RECEIVE, "5001,5002", str(SECONDS)]
        receiver = net.spawn_on("pr", "receive-pr", command, stdout=sink)
    wait_for_line(printed)
    to = net.topology.host("pr").ip
    senders = [
        net.spawn_on(
            host,
            f"send-{host}",
            [*way, sys.executable, "-c", SEND, to, port, str(dscp), str(SECONDS + 0.5)],
        )
        for host, way, port, dscp in (
            ("pg", inside, "5001", GUARANTEED),
            ("pb", (), "5002", BEST_EFFORT),
        )
    ]
    try:
        receiver.popen.wait(SECONDS + 15)
    except subprocess.TimeoutExpired:
        pytest.fail("nothing arrived")
    finally:
        net.processes.stop([receiver, *senders])
    took, *got = map(float, printed.read_text().splitlines()[1].split())
    return [each / took for each in got]


async def counts(controller: Controller) -> dict[str, int]:
    """Packets that the switch counted, over all its ports."""
    names = ("void_in", "policed_yellow", "policed_red")
    found = (await controller.counters(*names))["ps1"]
    return {name: sum(packets for packets, _ in found[name]) for name in names}


def test_a_kernel_that_is_paced_keeps_its_guarantee_and_one_that_is_not_is_policed(
    tmp_path: Path,
) -> None:
    async def run(net: FabricNet) -> None:
        managers = TrafficManagers(net.topology)
        program = Program.of(BUILD, parameters())
        try:
            async with Controller(
                net.topology, program, "bytes", traffic_managers=managers
            ) as controller:
                await controller.configure(parameters())
                await check(net, controller)
        finally:
            await managers.close()

    async def check(net: FabricNet, controller: Controller) -> None:
        with paced(net, tmp_path) as report:
            own, other = await asyncio.to_thread(carried, net, tmp_path, report["inside"])
        seen = await counts(controller)
        # A full segment has 1,448 bytes in 1,538 of the wire.
        guaranteed = RATE_BPS / 8 * 1_448 / 1_538
        assert 0.7 * guaranteed < own < guaranteed + CONFORMING_BYTES / SECONDS, (own, other)
        assert other > own, "best effort has the rest of the link"
        assert seen == {"void_in": report["void_frames"], "policed_yellow": 0, "policed_red": 0}
        assert seen["void_in"] > 0

        # Without its pacer the same kernel sends more; the first hop lets the guarantee pass alone.
        await asyncio.to_thread(carried, net, tmp_path)
        attacked = await counts(controller)
        assert attacked["void_in"] == seen["void_in"]
        assert attacked["policed_yellow"] + attacked["policed_red"] > 0

    with FabricNet(rack(), target("ebb", BUILD, fused=True), tmp_path) as net:
        asyncio.run(asyncio.wait_for(run(net), 60))
