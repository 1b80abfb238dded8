"""A lab that runs: the clock stands still but for `Lab.run`."""

from __future__ import annotations

import heapq
import itertools
import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ebb_topologies import installation
from ebb_topologies.errors import InputError
from ebb_topologies.model import Switch, Topology
from ebb_topologies.nearest import hint
from ebb_topologies.targets import DROP_PORT
from ebb_topologies.traffic_manager import (
    PortParameters,
    QueueParameters,
    traffic_manager_config,
)

from ebb_experiments.lab import file
from ebb_experiments.lab.agents import Agents
from ebb_experiments.lab.file import LabSpec
from ebb_experiments.lab.programs import Compiled, compiled
from ebb_experiments.run.conversation import Conversation, Line

FIRST_PORT = 9559
"""TCP port at which the first switch serves; the others have the ones after it."""
MAX_PORT = 65_535
THREADS = 1
"""Hosts interrupt the clock so often that more would wait for each other."""
OPTIONS = {
    "--grpc-server-addr, or grpc_server_addr and fabric_socket of the fabric file": (
        "--first-port, or first_port of Lab"
    )
}
"""Options of a lab in place of those that switches name in errors."""
QUEUE_PACKETS = 250
"""Packets of each queue for which a lab does not say more."""
Receive = Callable[[int, bytes], object]
"""Takes a frame without FCS, and when its last bit arrived, ns."""


class Lab:
    """A network of switches and hosts, as a context manager.

    The switches serve P4Runtime and BF Runtime while the clock stands still: before, between and
    after runs, and while a callback of a run works.
    """

    def __init__(
        self,
        topology: Topology,
        spec: LabSpec,
        folder: Path,
        *,
        first_port: int = FIRST_PORT,
        build: Path | None = None,
    ) -> None:
        """`folder`: paths of `spec` are relative to it. `build`: folder of Ebb's programs; none:
        the usual one."""
        self.topology = topology
        self.now_ns = 0
        """Time on the clock."""
        ports = itertools.count(first_port)
        self.addresses = {s.name: f"127.0.0.1:{next(ports)}" for s in topology.switches}
        """Where each switch serves P4Runtime and BF Runtime."""
        if (last := next(ports) - 1) > MAX_PORT:
            raise InputError(f"switches would serve at ports {first_port} to {last}, of {MAX_PORT}")
        self.flows: list[Line] = []
        """Flows of agents that have ended, at both ends, and transfers that have not begun one, as
        lines of the simulator (docs/simulation.md)."""
        self.unfinished = 0
        """Transfers of agents that have not ended, those not started yet included."""
        external = None if spec.agents is None else spec.agents.external
        names = [host.name for host in topology.hosts]
        self._hosts = frozenset(names if external is None else external)
        self._spec = spec
        self._folder = folder.absolute()
        self._build = build or installation.programs()
        self._receivers: dict[str, Receive] = {}
        self._leaving: dict[str, list[Line]] = {}
        self._calls: list[tuple[int, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._scratch = TemporaryDirectory[str](prefix="ebb-lab-")
        self._conversation: Conversation | None = None

    @classmethod
    def open(cls, path: Path, *, first_port: int = FIRST_PORT, build: Path | None = None) -> Lab:
        """The lab of a file. Raises `InputError` for what is wrong in it."""
        topology, spec = file.read(path)
        file.check_paths(spec, path.parent, str(path))
        return cls(topology, spec, path.parent, first_port=first_port, build=build)

    @classmethod
    def of(cls, table: dict[str, Any], folder: Path, *, first_port: int = FIRST_PORT) -> Lab:
        """The lab of a table with the keys of a file, whose paths are relative to `folder`."""
        topology, spec = file.split(table, "lab", "lab")
        file.check_paths(spec, folder, "lab")
        return cls(topology, spec, folder, first_port=first_port)

    def __enter__(self) -> Lab:
        try:
            scratch = Path(self._scratch.name)
            compiler, simulator = (self._program(name) for name in ("ebb-p4c", "ebb-simulator"))
            agents = self._agents()
            programs = compiled(self._spec.program, self._folder, compiler, scratch)
            network = scratch / "network.json"
            network.write_text(json.dumps(self._network(programs, agents)))
            log = scratch / "simulator.log"
            self._conversation = Conversation(simulator, network, log, THREADS, OPTIONS)
            ready = self._conversation.next("ready")
            self.unfinished = ready["transfers"]
            if refused := ready.get("refused"):
                raise InputError("; ".join(refused))
        except BaseException:
            self._end(patience=0.0)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # In the middle of a run it would not look whether there are orders.
        self._end(patience=5.0 if kind is None else 0.0)

    def attach(self, host: str, receive: Receive) -> None:
        """Has `receive` called for each frame that arrives at a host. Those that arrive at a host
        without one are lost."""
        self._receivers[self._host(host)] = receive

    def send(self, host: str, frame: bytes, at_ns: int | None = None) -> None:
        """Has a host send a frame without FCS, whose first bit leaves at `at_ns` (none: now), or
        after the frames that are due before."""
        at_ns = self.now_ns if at_ns is None else at_ns
        if at_ns < self.now_ns:
            raise InputError(f"{host} cannot send at {at_ns} ns: it is {self.now_ns} ns by now")
        timed = {"at_ns": at_ns, "frame": b64encode(frame).decode()}
        self._leaving.setdefault(self._host(host), []).append(timed)

    def call(self, at_ns: int, function: Callable[[], object]) -> None:
        """Has `function` called in the run in which the clock shows `at_ns`: at once if that is
        over. Calls of the same time are in order."""
        heapq.heappush(self._calls, (max(at_ns, self.now_ns), next(self._numbers), function))

    def run(self, until_ns: int, *, flows: bool = False) -> None:
        """Lets the clock run until it shows `until_ns`, frames of that time excluded. Calls of that
        time are made. `flows`: at most until all transfers of agents have ended."""
        while not (flows and self.unfinished == 0):
            due = self._calls[0][0] if self._calls else until_ns
            if due > self.now_ns and self.now_ns < until_ns:
                self._advance(min(due, until_ns), flows=flows)
            elif due <= self.now_ns and self._calls:
                heapq.heappop(self._calls)[2]()
            else:
                return

    def _advance(self, until_ns: int, *, flows: bool) -> None:
        """Runs until then or until frames have arrived, which receivers are given."""
        for host, frames in self._leaving.items():
            self._running.order({"do": "send", "host": host, "frames": frames})
        self._leaving.clear()
        order = {"do": "run", "until_ns": until_ns, "flows": flows, "frames": True}
        self._running.order(order)
        arrived: list[Line] = []
        for line in self._running.lines():
            match line["event"]:
                case "frame":
                    arrived.append(line)
                case "flow" | "transfer":
                    self.flows.append(line)
                case "paused":
                    self.now_ns, self.unfinished = line["at_ns"], line["unfinished"]
                    break
        else:
            raise self._running.died()
        for line in arrived:
            if (receive := self._receivers.get(line["host"])) is not None:
                receive(line["at_ns"], b64decode(line["frame"]))

    def _agents(self) -> Agents | None:
        spec = self._spec.agents
        if spec is None:
            return None
        return Agents(spec, self.topology, self._folder, self._program("ebb-agent"))

    def _network(self, programs: dict[str, Compiled], agents: Agents | None) -> Line:
        """Content of the network file."""
        topology = self.topology
        overhead = self._spec.frame_overhead_bytes
        nobody = {  # All hosts are external.
            "transport": "ndp",
            "params": {"nic": {"frame_overhead_bytes": overhead}},
            "seed": 1,
        }
        scratch = Path(self._scratch.name)
        return {
            **(nobody if agents is None else agents.network(scratch, overhead)),
            "reaction_ns": self._spec.reaction_ns,
            "switches": [self._switch(each, programs[each.name]) for each in topology.switches],
            "hosts": [
                {
                    "name": host.name,
                    "ip": host.ip,
                    "mac": host.mac,
                    "gateway_mac": host.gateway_mac,
                    "rate_bps": topology.link(host).rate_bps,
                    **({} if agents is None else agents.labels(host)),
                    "external": host.name in self._hosts,
                }
                for host in topology.hosts
            ],
            "links": [
                [
                    {"node": end.node, "port": 0 if topology.is_host(end.node) else end.port}
                    for end in link.ends
                ]
                for link in topology.links
            ],
        }

    def _switch(self, switch: Switch, program: Compiled) -> Line:
        spec = self._spec.program[switch.name]
        ports = spec.ports or PortParameters(
            queue=[
                QueueParameters(id=number, capacity_packets=QUEUE_PACKETS)
                for number in range(program.queues)
            ]
        )
        queues = traffic_manager_config(self.topology, switch, ports)
        device_id = switch.device_id if spec.device_id is None else spec.device_id
        return {
            "name": switch.name,
            "device_id": device_id,
            "grpc_server_addr": self.addresses[switch.name],
            "cpu_port": spec.cpu_port,
            "drop_port": DROP_PORT,
            "traffic_manager": queues | {"depth_unit": spec.depth_unit},
            **program.files,
        }

    def _host(self, name: str) -> str:
        if name not in self._hosts:
            known = [host.name for host in self.topology.hosts]
            if name in known:
                raise InputError(f"an agent plays {name}: name it in agents.external")
            raise InputError(f"there is no host '{name}'; {hint(name, known)}")
        return name

    def _program(self, name: str) -> Path:
        path = self._build / name
        if not path.exists():
            raise InputError(f"{path} is missing: {installation.remedy(path)}")
        return path

    @property
    def _running(self) -> Conversation:
        if self._conversation is None:
            raise InputError("the lab does not run: use it as `with Lab.open(..) as lab:`")
        return self._conversation

    def _end(self, patience: float) -> None:
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.end(patience)
        self._scratch.cleanup()
