"""A fabric of one process as Mininet shows it, with a stand-in for the process; needs root."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ebb_topologies.mininet_cli import FabricCLI
from ebb_topologies.mininet_links import ControlError
from ebb_topologies.mininet_net import FabricNet
from mininet.log import lg
from probes import interfaces, runs
from test_mininet_net import StandIn, nothing_is_left, topology

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    pytest.mark.usefixtures("own_ports"),
]
__all__ = ["nothing_is_left"]  # a fixture

LISTEN_ALL = """
import json, socket, sys, time
servers = [
    socket.create_server(("127.0.0.1", int(switch["grpc_server_addr"].split(":")[1])))
    for switch in json.load(open(sys.argv[1]))["switch"]
]
time.sleep(60)
"""


@dataclass(frozen=True)
class FusedStandIn(StandIn):
    def fabric_command(self, file: Path, pcap: Path | None) -> list[str]:
        return [sys.executable, "-c", LISTEN_ALL, str(file)]


@dataclass
class FakeControl:
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    states: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)

    def set_link(self, a: str, b: str, *, up: bool) -> None:
        self.calls.append((a, b, up))

    def link_states(self) -> dict[tuple[str, str], tuple[str, str]]:
        return self.states

    def restart_switch(self, name: str) -> None:
        self.calls.append(("restart", name))

    def reroute(self) -> str:
        return "7 changes"

    def start_capture(self, at: str, toward: str, name: str) -> tuple[str, str]:
        if "/" in name:
            raise ControlError(f"cannot write {name}")
        self.calls.append(("capture", at, toward, name))
        return f"run/{name}_in.pcap", f"run/{name}_out.pcap"

    def stop_capture(self, at: str, toward: str) -> None:
        self.calls.append(("stop", at, toward))


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    """Output of Mininet at its prompt."""
    stream, handler = io.StringIO(), lg.handlers[0]
    before = handler.setStream(stream)
    yield stream
    handler.setStream(before)


def ask(net: FabricNet, *lines: str) -> None:
    """Types lines at Mininet's prompt."""
    cli = FabricCLI.__new__(FabricCLI)
    cli.mn, cli.fabric, cli.locals = net.net, net, {}
    lg.setLogLevel("output")
    for line in lines:
        cli.onecmd(line)


def test_only_links_to_hosts_are_interfaces(tmp_path: Path, said: io.StringIO) -> None:
    with FabricNet(topology(), FusedStandIn(), tmp_path) as net:
        ours = {name for name in interfaces() if name.startswith("zz")}
        assert ours == {"zza-eth3", "zzb-eth3"}
        assert len({process.popen.pid for process in net.switch_processes.values()}) == 1
        assert net.switched_frames() is not None
        ask(net, "nodes", "net", "links all", "dump", "ports")
        printed = said.getvalue()
        pid = net.switch_processes["zza"].popen.pid
    assert "zza zzb zzh1 zzh2" in printed
    assert "zza-eth1:zzb-eth1 zza-eth2:zzb-eth2 zza-eth3:zzh1-eth1" in printed
    assert "zza-eth1<->zzb-eth1 (OK OK)" in printed
    assert "zzh1-eth1<->zza-eth3 (OK OK)" in printed
    assert "zza-eth1:None,zza-eth2:None,zza-eth3:None" in printed
    assert "<FabricHost zzh1: zzh1-eth1:10.0.0.2 " in printed
    assert "zza-eth1:1 zza-eth2:2 zza-eth3:3" in printed
    assert not runs(pid)


def test_links_go_down_and_up_in_the_process(tmp_path: Path, said: io.StringIO) -> None:
    with FabricNet(topology(), FusedStandIn(), tmp_path) as net:
        ask(net, "link zza zzb down")
        assert "the fabric does not run" in said.getvalue()
        control = net.control = FakeControl()
        ask(net, "link zza zzb down", "link zzh1 zza up")
        # Both interfaces of a link are asked, as Mininet does; both links between the switches.
        first, second = ("zza:1", "zzb:1", False), ("zza:2", "zzb:2", False)
        assert control.calls[:4] == [first, first, second, second]
        assert set(control.calls[4:]) == {("zzh1", "zza:3", True)}
        control.states = {("zza:1", "zzb:1"): ("down", "loss 0.5")}
        ask(net, "links all")
        assert "zza-eth1<->zzb-eth1 (down loss 0.5)" in said.getvalue()
        assert "zza-eth2<->zzb-eth2 (OK OK)" in said.getvalue()
        # The host keeps its routes.
        _, routes = net.run_on("zzh1", ["ip", "route"], timeout=5)
        assert "default via" in routes


def test_captures_and_restarts_at_the_prompt(tmp_path: Path, said: io.StringIO) -> None:
    with FabricNet(topology(), FusedStandIn(), tmp_path) as net:
        control = net.control = FakeControl()
        ask(net, "pcap zza zzb x", "pcap zza:2 stop", "restart zza", "pcap zza", "restart")
        ask(net, "reroute")
        assert "7 changes" in said.getvalue()
        assert control.calls == [
            ("capture", "zza", "zzb", "x"),
            ("stop", "zza:2", ""),
            ("restart", "zza"),
        ]
        ask(net, "pcap zza zzb /nowhere/x.pcap")
    printed = said.getvalue()
    assert "capturing to run/x_in.pcap and run/x_out.pcap until `pcap zza zzb stop`" in printed
    assert "usage: pcap SWITCH NODE NAME|stop" in printed
    assert "usage: restart SWITCH" in printed
    assert "cannot write /nowhere/x.pcap" in printed


def test_a_process_per_switch_has_links_of_the_kernel(tmp_path: Path, said: io.StringIO) -> None:
    with FabricNet(topology(), StandIn(), tmp_path) as net:
        ask(net, "pcap zza zzb x")
        assert "every switch has a process of its own" in said.getvalue()
        ask(net, "link zzh1 zza down")
        _, routes = net.run_on("zzh1", ["ip", "route"], timeout=5)
        assert routes == ""
        ask(net, "link zzh1 zza up")
        _, routes = net.run_on("zzh1", ["ip", "route"], timeout=5)
        assert "default via 10.0.0.1 dev zzh1-eth1" in routes
        _, neighbours = net.run_on("zzh1", ["ip", "neigh"], timeout=5)
        assert "10.0.0.1" in neighbours
        ask(net, "restart nobody")
        assert "there is no switch 'nobody' to restart; switches: zza, zzb" in said.getvalue()
        before = net.switch_processes["zza"].popen.pid
        ask(net, "restart zza")
        assert not runs(before)
        assert net.switch_processes["zza"].running
