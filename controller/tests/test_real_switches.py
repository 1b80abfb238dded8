"""The controller and real switches, under Mininet: needs root, a switch and the compiled program.

A leaf-spine with parallel links between two of its switches, with names and ports of its own, so
that a fabric that runs on this machine at the same time is not touched.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from pathlib import Path

import pytest
from built import BUILD, FULL_PROGRAM, NEEDS_PROGRAM
from ebb_controller.controller import Controller
from ebb_controller.fabric_admin import FabricAdmin
from ebb_controller.multicast import MulticastGroup
from ebb_controller.reconcile import Change
from ebb_controller.scheme import known_schemes, load_scheme
from ebb_controller.statistics import show, snapshot
from ebb_controller.traffic_manager import TrafficManagers
from ebb_topologies.mininet_net import FabricNet
from ebb_topologies.model import Topology, from_table
from ebb_topologies.processes import Process
from ebb_topologies.targets import target
from everything import everything

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    NEEDS_PROGRAM,
    pytest.mark.usefixtures("no_waiting", "own_ports"),
]

EBB = pytest.mark.skipif(
    not (BUILD / "ebb-switch").exists(), reason="no build/ebb-switch: run `make build`"
)
KINDS = [
    pytest.param("ebb", True, marks=EBB, id="ebb-fabric"),
    pytest.param("ebb", False, marks=EBB, id="ebb"),
    pytest.param(
        "bmv2",
        False,
        id="bmv2",
        marks=pytest.mark.skipif(
            shutil.which("simple_switch_grpc") is None, reason="no simple_switch_grpc on PATH"
        ),
    ),
]

GROUP = "239.1.2.3"
RECEIVE = f"""
import socket, sys
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("", 7001))
member = socket.inet_aton("{GROUP}") + socket.inet_aton(sys.argv[1])
receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
print("joined", flush=True)
try:
    while True:
        data = receiver.recv(100).decode()
        if data == "end":
            receiver.settimeout(1)  # for what took a longer way
        else:
            print(data, flush=True)
except TimeoutError:
    pass
"""
SEND = f"""
import socket, sys
own, *others = sys.argv[1:]
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 8)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
for number in range(3):
    sender.sendto(str(number).encode(), ("{GROUP}", 7001))
for other in others:
    sender.sendto(b"end", (other, 7001))
"""
BUSY_SECONDS = 20.0
"""Time that a busy machine may take for something that is usually instant."""


def topology() -> Topology:
    leaves, spines, hosts = ["xl1", "xl2"], ["xs1", "xs2"], ["xh1", "xh2", "xh3", "xh4"]
    links = [[leaf, spine] for leaf in leaves for spine in spines] + [["xl1", "xs1"]]
    links += [[host, leaves[index % 2]] for index, host in enumerate(hosts)]
    return from_table(
        {
            "switch": [{"name": name} for name in (*leaves, *spines)],
            "host": [{"name": name} for name in hosts],
            "link": [{"ends": ends} for ends in links],
            "link_defaults": {"rate_bps": 100_000_000},
        },
        "test",
    )


def unreachable(net: FabricNet) -> list[str]:
    """The host pairs that cannot ping each other."""

    def lost(pair: tuple[str, str]) -> bool:
        command = ["ping", "-n", "-q", "-c", "1", "-W", "3", net.topology.host(pair[1]).ip]
        return net.run_on(pair[0], command, timeout=10)[0] != 0

    pairs = list(permutations([host.name for host in net.topology.hosts], 2))
    with ThreadPoolExecutor(len(pairs)) as pool:
        return [
            f"{a}-{b}" for (a, b), gone in zip(pairs, pool.map(lost, pairs), strict=True) if gone
        ]


def multicast_deliveries(net: FabricNet, sender: str) -> dict[str, list[str]]:
    """Sends 0, 1, 2 to the group; returns what every other host received, by host."""
    ips = {host.name: str(host.ip) for host in net.topology.hosts}
    others = [name for name in ips if name != sender]
    receivers: dict[str, Process] = {}
    printed = {host: net.run_dir / f"received-{host}" for host in others}
    for host, path in printed.items():
        with path.open("wb") as sink:
            command = ["python3", "-c", RECEIVE, ips[host]]
            receivers[host] = net.spawn_on(host, f"receive-{host}", command, stdout=sink)
    try:
        wait_until(lambda: all(path.read_text() for path in printed.values()), "not all joined")
        command = ["python3", "-c", SEND, ips[sender], *(ips[host] for host in others)]
        code, output = net.run_on(sender, command, timeout=BUSY_SECONDS)
        assert code == 0, output
        wait_until(lambda: not any(p.running for p in receivers.values()), "no end arrived")
    finally:
        net.processes.stop(list(receivers.values()))
    return {host: path.read_text().split()[1:] for host, path in printed.items()}


def wait_until(condition: Callable[[], bool], problem: str) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.02)


SAME = {"tcp-tenants", "trevi-cr"}
"""Schemes with the entries of the one before them, whose queues and hosts differ."""


async def scenario(net: FabricNet, controller: Controller, deflects: bool) -> None:
    for name in known_schemes():
        parameters = load_scheme(name).fabric
        if not deflects:
            parameters = parameters.without_traffic_manager()
        changes = await controller.configure(parameters)
        assert name in SAME or all(change.total for change in changes.values()), name
        again = await controller.configure(parameters)
        assert set(again.values()) == {Change()}, f"{name} is not what reads back"
        assert await asyncio.to_thread(unreachable, net) == [], name

    # Ranges with priorities, and every mechanism at once; no scheme has that.
    for thresholds in ([10_000, 100_000], [20_000, 100_000]):
        parameters = everything(
            hosts=["xh1", "xh2"],
            return_to_sender=False,
            mlfq_queues=[3, 2, 1],
            mlfq_thresholds_bytes=thresholds,
        )
        if not deflects:
            parameters = parameters.without_traffic_manager()
        await controller.configure(parameters)
        assert set((await controller.configure(parameters)).values()) == {Change()}

    members = ("xh1", "xh2", "xh3")
    await controller.configure(parameters, [MulticastGroup(GROUP, 7, members)])
    for sender in ("xh1", "xh4"):  # a member of the group, and a host that is none
        received = await asyncio.to_thread(multicast_deliveries, net, sender)
        expected = {host: ["0", "1", "2"] if host in members else [] for host in received}
        assert received == expected
    assert {c.deleted for c in (await controller.configure(parameters)).values()} == {3}

    switch = net.topology.switch("xl1")
    installs = controller.installs(switch.name)
    if net.fused:
        async with FabricAdmin(net.fabric_socket) as admin:
            await admin.restart_switch(switch.name)
    else:
        process = net.switch_processes[switch.name]
        process.popen.kill()
        process.popen.wait()
        net.start_switch(switch)
    await asyncio.wait_for(controller.settled(switch.name, installs + 1), 20)
    # A busy machine may take longer than a ping waits: one more round before it counts.
    lost = await asyncio.to_thread(unreachable, net)
    assert not lost or await asyncio.to_thread(unreachable, net) == []

    counters = await controller.counters("port_out")
    assert sum(packets for packets, _bytes in counters["xs1"]["port_out"]) > 0
    rows = await snapshot(controller)
    assert [row.switch for row in rows if row.counters is None] == []
    assert all((row.queues is not None) == deflects for row in rows)
    assert show(rows).row_count == 4


@pytest.mark.parametrize(("kind", "fused"), KINDS)
def test_every_scheme_on_real_switches(kind: str, fused: bool, tmp_path: Path) -> None:
    """Also with a process per switch (`FUSED=0`), which other tests do without."""
    chosen = target(kind, BUILD, fused)
    deflects = chosen.has_traffic_manager

    async def run(net: FabricNet) -> None:
        managers = TrafficManagers(net.topology) if deflects else None
        depth_unit = "bytes" if deflects else "packets"
        try:
            async with Controller(
                net.topology,
                FULL_PROGRAM,
                depth_unit,  # type: ignore[arg-type]
                traffic_managers=managers,
            ) as controller:
                await scenario(net, controller, deflects)
            if managers is not None:
                assert set(await managers.statistics()) == {"xl1", "xl2", "xs1", "xs2"}
        finally:
            if managers is not None:
                await managers.close()

    with FabricNet(topology(), chosen, tmp_path) as net:
        asyncio.run(asyncio.wait_for(run(net), 120))
