"""The Mininet network, with a stand-in for the switch; needs root.

The stand-in is a Python program that listens on the gRPC port and does nothing else: these tests
are about namespaces, interfaces and processes. Ports and names are chosen so that a fabric that
runs on this machine at the same time is not touched.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from ebb_topologies.files import InputError
from ebb_topologies.mininet_net import FabricNet, remove_interfaces
from ebb_topologies.model import Switch, Topology, from_table
from ebb_topologies.processes import ProcessDied
from probes import interfaces, runs

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.usefixtures("own_ports"),
]

LISTEN = (
    "import socket, sys, time; "
    "server = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(60)"
)
PREFIXES = ("zy", "zz")
"""Nodes of these tests have names that begin so."""
FAIL = "import sys; sys.exit('port 2: frobnication failed')"


@dataclass(frozen=True)
class StandIn:
    program: str = LISTEN
    binary: Path = Path(sys.executable)
    has_traffic_manager: bool = False

    def listens(self, switch: Switch) -> dict[str, int]:
        return {"gRPC": switch.grpc_port}

    def command(
        self, switch: Switch, interfaces: dict[int, str], config: Path | None, pcap: Path | None
    ) -> list[str]:
        return [sys.executable, "-c", self.program, str(switch.grpc_port)]


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = ours()
    yield
    assert ours() == before


def ours() -> set[str]:
    """Interfaces of these tests; another fabric of this machine may come and go meanwhile."""
    return {name for name in interfaces() if name.startswith(PREFIXES)}


def topology(prefix: str = "zz") -> Topology:
    """Two switches with two links between them and a host each."""
    a, b = f"{prefix}a", f"{prefix}b"
    return from_table(
        {
            "switch": [{"name": a}, {"name": b}],
            "host": [{"name": f"{prefix}h1"}, {"name": f"{prefix}h2"}],
            "link": [
                {"ends": [a, b]},
                {"ends": [a, b]},
                {"ends": [f"{prefix}h1", a]},
                {"ends": [f"{prefix}h2", b]},
            ],
        },
        "test",
    )


def test_up_and_down(tmp_path: Path) -> None:
    with FabricNet(topology(), StandIn(), tmp_path) as net:
        links = ["zza-eth1", "zza-eth2", "zza-eth3", "zzb-eth1", "zzb-eth2", "zzb-eth3"]
        assert set(links) <= interfaces()
        assert all(process.running for process in net.switch_processes.values())
        code, output = net.run_on("zzh1", ["ip", "-o", "route"], timeout=5)
        assert code == 0
        assert "default via 10.0.0.1 dev zzh1-eth1" in output
        _, output = net.run_on("zzh2", ["ip", "-o", "neigh"], timeout=5)
        assert f"10.0.0.1 dev zzh2-eth1 lladdr {net.topology.host('zzh2').gateway_mac}" in output
        _, output = net.run_on("zzh1", ["ethtool", "-k", "zzh1-eth1"], timeout=5)
        for feature in ("tx-checksumming", "tcp-segmentation-offload", "generic-receive-offload"):
            assert f"{feature}: off" in output
        pids = [process.popen.pid for process in net.switch_processes.values()]
    assert not any(runs(pid) for pid in pids)


def test_a_switch_that_dies_at_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(ProcessDied, match="zza ended with exit code 1: port 2: frob"),
        FabricNet(topology(), StandIn(FAIL), tmp_path),
    ):
        pass


def test_a_switch_that_never_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebb_topologies.mininet_net.START_SECONDS", 0.3)
    mute = StandIn("import time; time.sleep(60)")
    with (
        pytest.raises(TimeoutError, match=r"zza does not listen on 127.0.0.1:\d+ after 0 s"),
        FabricNet(topology(), mute, tmp_path),
    ):
        pass


def test_an_interface_that_has_gone_is_named(tmp_path: Path) -> None:
    with FabricNet(topology(), StandIn(), tmp_path) as net:
        subprocess.run(["ip", "link", "del", "zza-eth1"], check=True)
        with pytest.raises(InputError, match="switch zza: interface zza-eth1 is missing"):
            net.start_switch(net.topology.switch("zza"))


def test_two_runs_in_one_directory(tmp_path: Path) -> None:
    with FabricNet(topology(), StandIn(), tmp_path) as net:
        with (
            pytest.raises(InputError, match="another run is under way"),
            FabricNet(topology(), StandIn(), tmp_path),
        ):
            pass
        assert all(process.running for process in net.switch_processes.values())
        assert "zza-eth1" in interfaces()


def test_only_our_interfaces_are_removed(tmp_path: Path) -> None:
    subprocess.run(
        ["ip", "link", "add", "zza-eth1", "type", "veth", "peer", "zzother-eth1"], check=True
    )
    subprocess.run(["ip", "link", "add", "zzmine", "type", "veth", "peer", "zzmine2"], check=True)
    try:
        assert remove_interfaces(topology(), tmp_path) == ["zza-eth1"]
        assert "zzmine" in interfaces()
    finally:
        subprocess.run(["ip", "link", "del", "zzmine"], check=True)


RUN = """
import sys, time
from pathlib import Path
from ebb_topologies import model
model.FIRST_GRPC_PORT = int(sys.argv[2])
sys.path.insert(0, sys.argv[3])
from test_mininet_net import StandIn, topology
from ebb_topologies.mininet_net import FabricNet
with FabricNet(topology(sys.argv[4]), StandIn(), Path(sys.argv[1])) as net:
    print(*(process.popen.pid for process in net.switch_processes.values()), flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_after_the_next_start(tmp_path: Path, number: signal.Signals) -> None:
    """Interfaces of a killed run go with the next start, even one with another topology."""
    from ebb_topologies import model

    command = [sys.executable, "-c", RUN, str(tmp_path), str(model.FIRST_GRPC_PORT)]
    with subprocess.Popen(
        [*command, str(Path(__file__).parent), "zy"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # A shell that starts us in the background has SIGINT ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as run:
        assert run.stdout is not None
        pids = run.stdout.readline().split()
        assert len(pids) == 2
        run.send_signal(number)
        run.wait(10)
    if number == signal.SIGKILL:
        assert runs(pids[0])
        assert "zya-eth1" in interfaces()
    with FabricNet(topology(), StandIn(), tmp_path):
        assert not any(runs(pid) for pid in pids)
        assert not any(name.startswith("zy") for name in interfaces())
