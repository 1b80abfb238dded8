"""The running fabric: network, controller and agents, and what its switches count.

One fabric is brought up for all schemes; between schemes the controller changes the tables and the
traffic managers' queues at run time.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebb_controller.controller import Controller, Counters
from ebb_controller.multicast import tree_ports
from ebb_controller.traffic_manager import Statistics, TrafficManagers
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import write
from ebb_topologies.mininet_net import FabricNet
from ebb_topologies.model import Host, Topology
from ebb_topologies.processes import Process

from ebb_experiments.agents import Agent, AgentRunner, agent_parameters
from ebb_experiments.fault_runner import FaultRunner
from ebb_experiments.load import Late, Load, Processors
from ebb_experiments.loop import LoopThread
from ebb_experiments.measure import FabricCounts, Flow, Record, pair
from ebb_experiments.scenario import Scenario, Scheme

AGENT_PORT = 7000
MARK_COUNTERS = ("phantom_marked", "step_marked")
TRIM_COUNTERS = ("trimmed", "trim_sent", "returned")
DROP_COUNTER = "dropped"
REPLICATED_COUNTER = "replicated"
NOT_TRIMMABLE, RETURN_REFUSED = 12, 14
"""Drop reasons of p4src/include/drop_reason.p4 for packets that a queue had no room for."""
LINK_DROPS = ("link-down", "link-loss", "port-down")
"""Drop reasons of the switch for frames that a faulty link lost."""
PING_SECONDS = 60.0
START_SECONDS = 0.4
"""For the agents of a phase to come up and wait for their common start."""
SETTLE_NS = 2_000_000
"""Nominal, after that."""
SLOWEST = 40
"""A phase is given up after this many times its duration at line rate (plus timeouts)."""


@dataclass(frozen=True, slots=True)
class PingResult:
    pairs: int
    lost: list[str]


@dataclass
class Fabric:
    """The running network with everything that steers it."""

    scenario: Scenario
    net: FabricNet
    topology: Topology
    """As slow as it runs."""
    dilation: Dilation
    controller: Controller
    traffic_managers: TrafficManagers | None
    loop: LoopThread
    agent_binary: Path
    faults: FaultRunner
    processors: Processors = field(default_factory=Processors)
    _started: list[Agent] = field(default_factory=list)
    """Agents of the phase under way."""

    # -- bring-up ---------------------------------------------------------------------------

    def configure(self, scheme: Scheme) -> None:
        """Puts a scheme in force: queues and tables of every switch."""
        parameters = scheme.fabric
        if self.traffic_managers is None:
            parameters = parameters.without_deflection()
        self.loop.run(self.controller.configure(parameters, self.scenario.groups))

    def ping_all(self) -> PingResult:
        """Every host pings every other one, all at the same time."""
        hosts = self.topology.hosts
        directory = self.net.run_dir / "pings"
        directory.mkdir(exist_ok=True)
        running: list[tuple[Process, Path]] = []
        for host in hosts:
            each = "; ".join(
                f"ping -n -q -c 1 -W 3 {other.ip} >/dev/null || echo {host.name}-{other.name}"
                for other in hosts
                if other is not host
            )
            path = directory / host.name
            with path.open("wb") as sink:
                name = f"ping-{host.name}"
                process = self.net.spawn_on(host.name, name, ["sh", "-c", each], stdout=sink)
            running.append((process, path))
        deadline = time.monotonic() + PING_SECONDS
        while any(process.running for process, _ in running) and time.monotonic() < deadline:
            self.net.check()
            time.sleep(0.02)
        lost = [line for _, path in running for line in path.read_text().split()]
        lost += [f"{p.name} (not done after {PING_SECONDS:g} s)" for p, _ in running if p.running]
        self.net.processes.stop([process for process, _ in running])
        return PingResult(len(hosts) * (len(hosts) - 1), lost)

    # -- agents -----------------------------------------------------------------------------

    def agents(self, name: str, scheme: Scheme) -> AgentRunner:
        rates = {link.rate_bps for link in self.topology.links}
        parameters: dict[str, Any] = self.dilation.slow(agent_parameters(self.agent_binary, scheme))
        parameters["nic"] |= {"rate_bps": min(rates), "mtu_bytes": self.scenario.spec.mtu_bytes}
        path = self.net.run_dir / "params" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        write(path, json.dumps(parameters, indent=2))
        return AgentRunner(
            self.net,
            self.agent_binary,
            scheme.transport,
            path,
            AGENT_PORT,
            prefix=name,
            started=self._started,
        )

    def collect(self, sent: list[Record], receiver: Agent, limit: float) -> list[Flow]:
        """Waits for the receiver's records of what was sent, then stops it."""
        expected = {(record["local"], record["session"]) for record in sent}

        def complete(records: list[Record]) -> bool:
            return expected <= {(record["peer"], record["session"]) for record in records}

        receiver.wait_for(complete, limit)
        self.net.processes.stop([receiver.process])
        return pair(sent, receiver.records(), self.dilation)

    def start_time(self) -> int:
        """CLOCK_MONOTONIC, for what is to start together and is about to be spawned."""
        start = time.monotonic_ns() + round(START_SECONDS * 1e9 + self.dilation.time(SETTLE_NS))
        self.processors.begin(start)
        return start

    def time_limit(self, size: int) -> float:
        """Seconds of wall clock after which a phase counts as stuck."""
        slowest_link = min(link.rate_bps for link in self.topology.links)
        return 10 + SLOWEST * size * 8 / slowest_link

    # -- counting ---------------------------------------------------------------------------

    def start_counting(self) -> dict[str, int]:
        statistics = None
        if self.traffic_managers is not None:
            statistics = self.loop.run(self.traffic_managers.statistics(reset=True))
        self.processors.begin()
        return self._snapshot(statistics)

    def counts(self, before: dict[str, int], receiver: Host) -> FabricCounts:
        statistics = None
        if self.traffic_managers is not None:
            statistics = self.loop.run(self.traffic_managers.statistics())
        load = self._load()
        after = self._snapshot(statistics)
        delta = {name: after[name] - before[name] for name in after}
        marks = sum(delta[name] for name in MARK_COUNTERS)
        trims = delta["trimmed"]
        if statistics is None:
            # What the interfaces took in, with its copies, and did not give out again, and the
            # program did not drop.
            copies = delta["copies"]
            lost = delta["taken_in"] + copies - delta["given_out"] - delta[DROP_COUNTER]
            trims_lost = trims - delta["trim_sent"]
            return FabricCounts(None, None, lost, trims, trims_lost, 0, marks, load=load)
        bottleneck = self.topology.attachment(receiver)
        queues = statistics[bottleneck.node][bottleneck.port].queues
        everywhere = [q for s in statistics.values() for port in s.values() for q in port.queues]
        return FabricCounts(
            max_queue_bytes=max((q.max_depth_bytes for q in queues), default=0),
            average_queue_bytes=sum(q.average_depth_bytes for q in queues),
            dropped_packets=sum(sum(q.dropped_packets.values()) for q in everywhere)
            + delta["not_trimmable"]
            + delta["return_refused"],
            trimmed_packets=trims,
            trim_dropped_packets=sum(q.dropped_packets.get("deflect-failed", 0) for q in everywhere)
            + delta["return_refused"],
            returned_packets=delta["returned"],
            ce_marks=marks,
            # A restarted switch counts from zero again: this phase only lost what it counts now.
            link_lost_packets=max(0, delta["lost_on_links"]),
            load=load,
        )

    def _load(self) -> Load:
        """How busy the machine was since the start of the phase, whose agents have ended."""
        processors = self.processors.share()
        agents = Late.together(agent.late() for agent in self._started)
        self._started.clear()
        switches = None
        if self.traffic_managers is not None:
            told = self.loop.run(self.traffic_managers.lateness())
            switches = Late.together(map(Late.told, told))
        return Load(agents, switches, processors)

    @property
    def packet_ns(self) -> float:
        """Nominal time of a full-size packet on the slowest link."""
        slowest = min(link.rate_bps for link in self.scenario.topology.links)
        return self.scenario.spec.mtu_bytes * 8e9 / slowest

    def _snapshot(self, statistics: Statistics | None) -> dict[str, int]:
        """Sums over the fabric: the program's counters, the frames in and out of switches, and what
        links lost."""
        names = (*MARK_COUNTERS, *TRIM_COUNTERS, DROP_COUNTER, REPLICATED_COUNTER)
        tables = self.loop.run(self.controller.counters(*names))
        sums = {
            name: sum(packets for table in tables.values() for packets, _ in table[name])
            for name in names
        }
        for name, reason in (("not_trimmable", NOT_TRIMMABLE), ("return_refused", RETURN_REFUSED)):
            sums[name] = sum(table[DROP_COUNTER][reason][0] for table in tables.values())
        sums["copies"] = sum(self._copies(name, table) for name, table in tables.items())
        taken_in, given_out = self.net.switched_frames()
        lost = 0
        if statistics is not None:
            ports = [port for switch in statistics.values() for port in switch.values()]
            lost = sum(port.dropped_packets.get(why, 0) for port in ports for why in LINK_DROPS)
        return sums | {"taken_in": taken_in, "given_out": given_out, "lost_on_links": lost}

    def _copies(self, switch: str, table: Counters) -> int:
        """How many more packets a switch made of those that it sent to multicast groups."""
        return sum(
            table[REPLICATED_COUNTER][group.group][0] * (len(ports) - 1)
            for group in self.scenario.groups
            if (ports := tree_ports(self.topology, group, switch))
        )


def same_file(path: Path, content: bytes) -> bool:
    """Whether a received file has the SHA-256 of what was sent; ours, not the agent's word."""
    if not path.exists():
        return False
    return hashlib.sha256(path.read_bytes()).digest() == hashlib.sha256(content).digest()
