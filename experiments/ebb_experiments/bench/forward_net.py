"""Two hosts and a process between them that forwards from one veth to the other.

```
 a: eth1 ──veth── in │ process │ out ──veth── eth1 :b
                  this namespace
```
"""

from __future__ import annotations

import contextlib
import enum
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import finsy
from ebb_controller.controller import Controller
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.mechanisms.route import IPV4_ROUTE, next_hop
from ebb_controller.program import Program as Compiled
from ebb_topologies.files import InputError
from ebb_topologies.model import Topology, from_table
from ebb_topologies.processes import ProcessTable

from ebb_experiments.bench.machine import output_of, realtime
from ebb_experiments.bench.section import Context
from ebb_experiments.bench.testbed import INTERFACE, Middle, Testbed
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.usage import Usage

SETTLE_SECONDS = 0.3
"""Pause for packets under way."""
START_SECONDS = 10.0
"""How long a process may take to come up."""
NEXT_HOP = "02:00:00:00:00:09"
"""MAC address of no interface: the receiver's kernel counts the packets and drops them."""


class Program(enum.Enum):
    """Programs that the switches run."""

    ROUTER = "router"
    FABRIC = "fabric"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarder:
    """A process between the two veths."""

    name: str
    command: list[str]
    is_switch: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Outcome of packets at one rate."""

    sent: int
    received: int
    cpu_s: float
    """Processor time of the process between the veths."""


class ForwardNet(Testbed):
    """The two hosts; use it as a context manager, and `between` inside. The receiver has no
    address: its kernel counts the packets and throws them away."""

    def __init__(self, context: Context, tool: str, program: Program) -> None:
        super().__init__(Middle.HERE, addressed=False)
        self.context = context
        self.tool = tool
        self.program = program
        self.pid = 0

    @contextlib.contextmanager
    def between(self, forwarder: Forwarder) -> Iterator[None]:
        """Runs the process, and fills its tables if it is a switch."""
        topology = _rack()
        grpc = topology.switches[0].grpc_port
        known = {"{1}": self.ports[0], "{2}": self.ports[1], "{grpc}": str(grpc)}
        command = [*realtime(self.context), *forwarder.command]
        for name, value in known.items():
            command = [part.replace(name, value) for part in command]
        processes = ProcessTable(self.context.directory)
        with ExitStack() as stack:
            stack.callback(processes.stop)
            process = processes.spawn(f"forward-{self.program.value}-{forwarder.name}", command)
            self.pid = process.popen.pid
            if forwarder.is_switch:
                loop = stack.enter_context(LoopThread())
                compiled = _compiled(self.context, self.program)
                if self.program is Program.ROUTER:
                    loop.run(_fill_router(f"127.0.0.1:{grpc}", compiled))
                else:
                    controller = Controller(topology, compiled, "packets")
                    stack.enter_context(loop.inside(controller))
                    loop.run(controller.configure(FabricParameters().without_traffic_manager(), []))
            else:
                time.sleep(SETTLE_SECONDS)
            if not process.running:
                raise process.died()
            yield

    def load(self, frame_bytes: int, rate: int, seconds: float) -> Load:
        """Sends packets of a length at a rate."""
        topology = _rack()
        first, second = topology.hosts
        cpu_s = Usage.of(self.pid).cpu_seconds
        before = self._arrived()
        what = (str(frame_bytes), str(rate), f"{seconds:g}")
        packet = (first.gateway_mac, first.ip, second.ip)
        sent = output_of(
            *self.inside("a"), *realtime(self.context), self.tool, "send", INTERFACE, *what, *packet
        )
        time.sleep(SETTLE_SECONDS)
        received = self._arrived() - before
        return Load(
            sent=json.loads(sent)["frames"],
            received=received,
            cpu_s=Usage.of(self.pid).cpu_seconds - cpu_s,
        )

    def _arrived(self) -> int:
        """How many frames came to the second host."""
        text = output_of("ip", "-n", self.namespace("b"), "-j", "-s", "link", "show", INTERFACE)
        return int(json.loads(text)[0]["stats64"]["rx"]["packets"])


def _rack() -> Topology:
    links = {"rate_bps": 10_000_000_000, "delay_ns": 0}
    return from_table({"single_rack": {"hosts": 2}, "link_defaults": links}, "bench forward")


def _compiled(context: Context, program: Program) -> Compiled:
    """The compiled program. The router's is compiled here: `make build` has only that of the
    fabric."""
    build = context.root / "build"
    if program is Program.FABRIC:
        return Compiled(build / "fabric.p4info.txtpb", build / "fabric.json")
    p4info = context.directory / "ipv4_router.p4info.txtpb"
    output = context.directory / "ipv4_router.json"
    source = context.root / "p4src" / "ipv4_router.p4"
    compiler = context.agent.parent / "ebb-p4c"
    output_of(str(compiler), "-o", str(output), "--p4runtime-files", str(p4info), str(source))
    return Compiled(p4info, output)


async def _fill_router(address: str, compiled: Compiled) -> None:
    options = finsy.SwitchOptions(p4info=compiled.p4info, p4blob=compiled.json)
    # The table of the router has the names of that of the fabric.
    entry = IPV4_ROUTE.entry_for({"dst": "10.0.0.0/24"}, next_hop(2, "02:00:00:00:00:02", NEXT_HOP))
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            async with finsy.Switch("bench", address, options) as switch:
                await switch.write([+entry])
            return
        except finsy.P4ClientError as error:
            if time.monotonic() > deadline:
                raise InputError(f"the switch at {address} takes no program: {error}") from error
            time.sleep(0.2)
