"""A k=4 fat-tree that runs in real time, for benchmarks: brought up, loaded, looked at.

```
 h1 ─veth─┐                                          ┌─veth─ h9     one `ebb-agent` per host
 h2 ─veth─┴─ 20 switches: one process, or one each ──┴─veth─ h10
```
"""

from __future__ import annotations

import dataclasses
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ebb_controller.mechanisms import FabricParameters
from ebb_topologies import preflight
from ebb_topologies.files import InputError
from ebb_topologies.model import Host, Topology
from ebb_topologies.processes import Process
from ebb_topologies.targets import EbbFabricTarget, target
from ebb_topologies.traffic_manager import traffic_manager_config

from ebb_experiments.bench.machine import REALTIME_PRIORITY, busy_seconds, realtime
from ebb_experiments.bench.section import Context
from ebb_experiments.run.agents import Agent, Line
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.players import AgentWorkloads, Plan, Player
from ebb_experiments.run.run import Binaries
from ebb_experiments.run.usage import Usage
from ebb_experiments.run.wall import FabricSetup, Wall
from ebb_experiments.scenario.faults import file_name
from ebb_experiments.scenario.loaded import Loaded

COALESCE_US = 1000
"""How long frames wait for more at the switches: two and a half full packets at 100 Mbit/s."""
SETTLE_SECONDS = 1.0
"""Pause for packets under way, and for the ends of the streams."""
START_SECONDS = 2.0
"""Time that the agents get to come up before they start together."""
PATIENCE_SECONDS = 20.0
"""How long agents that should have ended are waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """Processor time, in seconds."""

    switches: float
    agents: float
    machine: float
    """Time of all processes of the machine, interrupts included."""
    clock: float
    """By the wall clock, which each of them may take once per processor."""

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(
            switches=self.switches - other.switches,
            agents=self.agents - other.agents,
            machine=self.machine - other.machine,
            clock=self.clock - other.clock,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A permutation at one rate: sums over all hosts."""

    rate_bps: float
    """Rate of each host in bit/s, Ethernet headers included."""
    seconds: float
    offered: int
    """How many packets the rate asks for."""
    sent: int
    """How many packets the agents sent; fewer if they were kept from sending in time."""
    received: int
    reordered: int
    delay_p50_ns: float
    """Median delay: that of the hosts' medians."""
    delay_p99_ns: float
    """99th percentile of the delay at the worst host."""
    agent_drops: int
    """Frames that did not fit into the socket buffers of the agents."""
    drops: dict[str, int]
    """Packets that the switches dropped, by reason."""
    cpu: Cpu
    """Processor time while the hosts sent; of the agents, from their start to their end."""
    packet_hops: float
    """Packets received, each times the number of switches on its way."""

    @property
    def delivered(self) -> float:
        """Received over due packets; 1 without loss and lateness."""
        return self.received / self.offered

    @property
    def packets_per_second(self) -> float:
        """Received packets per second, of all hosts."""
        return self.received / self.seconds

    @property
    def switch_us_per_hop(self) -> float | None:
        """Processor time of the switches per packet and switch, in us; none without packets."""
        return self.cpu.switches * 1e6 / self.packet_hops if self.packet_hops else None

    def as_json(self) -> Line:
        """The load with its share of delivered packets."""
        return dataclasses.asdict(self) | {"delivered": self.delivered}


@dataclass(frozen=True, slots=True)
class Kind:
    """Switches that are measured."""

    name: str
    """Name in the table."""
    switch: str
    """As `SWITCH` of `make run`."""
    fused: bool = True
    """One process for all switches."""
    rings: bool = False
    """Hosts share memory with the switches."""


@dataclass(frozen=True)
class TunedFabric(EbbFabricTarget):
    """One process for all switches, which wakes up for all that came within `COALESCE_US`."""

    def fabric_command(self, file: Path, pcap: Path | None) -> list[str]:
        """The command with `--coalesce-us`."""
        return [*super().fabric_command(file, pcap), "--coalesce-us", str(COALESCE_US)]


@dataclass
class Metered(AgentWorkloads):
    """Agents that play a workload, and what everybody takes of the processors meanwhile."""

    read: Callable[[Iterable[Process]], Cpu]
    """Reads the processor time so far, that of these agents too."""
    before: Cpu | None = None
    after: Cpu | None = None

    def done(self) -> bool:
        """Reads the processor times meanwhile: the last read before the end counts."""
        self.after = self.read(agent.process for agent in self.plan.agents.started)
        self.before = self.before or self.after
        return super().done()

    @property
    def cpu(self) -> Cpu:
        """Processor time from the start of the traffic to its end."""
        assert self.before is not None
        assert self.after is not None
        return self.after - self.before


class BenchFabric(Wall):
    """The running fabric of a scenario; use as a context manager."""

    metered: Metered
    """Processor time of the last task."""

    def __init__(self, context: Context, kind: Kind, loaded: Loaded) -> None:
        binaries = Binaries(context.root / "build")
        chosen = target(kind.switch, binaries.directory, kind.fused)
        if isinstance(chosen, EbbFabricTarget):
            chosen = TunedFabric(chosen.binary)
        directory = context.directory / f"fabric-{file_name(kind.name)}"
        first = realtime(context)
        program = binaries.program(loaded.topology)
        setup = FabricSetup(chosen, program, binaries, directory, runner=first, rings=kind.rings)
        super().__init__(loaded, setup, LoopThread())
        self.context = context
        self.pairs = ring(self.topology)
        self._loads = 0

    def _start(self, stack: ExitStack) -> None:
        self.directory.mkdir(exist_ok=True)
        files = [self.context.agent, self.program.p4info, self.program.json]
        preflight.check(self.topology, self.target, files, self.directory)
        stack.enter_context(self.loop)
        super()._start(stack)
        self._run_first(self.net.switch_processes.values())

    @property
    def has_traffic_manager(self) -> bool:
        """False for BMv2."""
        return self.managers is not None

    def set_rate(self, rate_bps: int, parameters: FabricParameters) -> None:
        """Sets another rate for all links, and queues anew; without a traffic manager there are
        none to set."""
        if self.managers is None:
            return
        links = tuple(dataclasses.replace(link, rate_bps=rate_bps) for link in self.topology.links)
        topology = dataclasses.replace(self.topology, links=links)
        configs = {
            switch.name: traffic_manager_config(topology, switch, parameters.ports)
            for switch in topology.switches
        }
        self.loop.run(self.managers.configure(configs))

    def player(self, plan: Plan) -> Player:
        """A player that measures processor time meanwhile."""
        self.metered = Metered(plan, self.cpu)
        return self.metered

    # -- load -------------------------------------------------------------------------------

    def load(self, rate_bps: float, seconds: float, packet_bytes: int) -> Load:
        """Every host sends to another one at this rate, all at the same time."""
        before = self.drops()
        start_ns = time.monotonic_ns() + round(START_SECONDS * 1e9)
        arguments = [
            *("--rate-bps", str(round(rate_bps)), "--seconds", f"{seconds:g}"),
            *("--packet-bytes", str(packet_bytes), "--settle-seconds", f"{SETTLE_SECONDS:g}"),
            *("--start-at-ns", str(start_ns), "--json"),
        ]
        self._loads += 1
        agents = self.agents(self.directory / "records", f"load-{self._loads}")
        by_host = {}
        for source, to in self.pairs:
            (port,) = self.topology.neighbours[source.name]
            own = ("--interface", f"{source.name}-eth{port}")
            name = f"{agents.prefix}-{source.name}"
            by_host[source.name] = agents.start(
                *(source.name, name, "load", to.ip, *arguments, *own),
                *agents.ring(source.name),
            )
        for agent in by_host.values():  # they must listen before the first one sends
            agent.wait_ready((start_ns - time.monotonic_ns()) / 1e9)
        with self._on_time():
            sleep_until(start_ns)
            cpu_before = self.cpu()
            sleep_until(start_ns + round(seconds * 1e9))
            cpu = self.cpu() - cpu_before
        deadline = time.monotonic() + SETTLE_SECONDS + PATIENCE_SECONDS
        records = {host: _lines_at_end(agent, deadline) for host, agent in by_host.items()}
        drops = self.drops() - before
        return self._summary(rate_bps, seconds, records, drops, cpu)

    def _summary(
        self,
        rate_bps: float,
        seconds: float,
        records: dict[str, list[Line]],
        drops: Counter[str],
        cpu: Cpu,
    ) -> Load:
        every = [line for lines in records.values() for line in lines]
        sent = [line for line in every if line.get("direction") == "sent"]
        ends = [line for line in every if line.get("event") == "end"]
        by_address = {host.ip: host.name for host in self.topology.hosts}
        received = [
            (line, self.topology.distances(host)[by_address[line["peer"]]] - 1)
            for host, lines in records.items()
            for line in lines
            if line.get("direction") == "received" and line["received"]
        ]
        medians = sorted(line["delay"]["p50_ns"] for line, _hops in received)
        agents_ns: int = sum(end["cpu_ns"] for end in ends)
        return Load(
            rate_bps=rate_bps,
            seconds=seconds,
            offered=sum(line["packets"] + line["skipped"] + line["refused"] for line in sent),
            sent=sum(line["packets"] for line in sent),
            received=sum(line["received"] for line, _hops in received),
            reordered=sum(line["reordered"] for line, _hops in received),
            delay_p50_ns=medians[len(medians) // 2] if medians else 0.0,
            delay_p99_ns=max((line["delay"]["p99_ns"] for line, _hops in received), default=0.0),
            agent_drops=sum(end["kernel_drops"] for end in ends),
            drops=dict(drops),
            cpu=dataclasses.replace(cpu, agents=agents_ns / 1e9),
            packet_hops=sum(line["received"] * hops for line, hops in received),
        )

    # -- counting ---------------------------------------------------------------------------

    def drops(self) -> Counter[str]:
        """Packets that the switches have dropped so far, by reason; of BMv2, which does not tell
        them apart, what came in and did not go out."""
        if self.managers is None:
            taken_in, given_out = self.net.switched_frames()
            return Counter({"lost in switches": taken_in - given_out})
        found: Counter[str] = Counter()
        for told in self.loop.run(self.managers.statistics()).values():
            in_queues = (
                drop for port in told.ports for queue in port.queues for drop in queue.drops
            )
            for drop in (*in_queues, *told.drops):
                found[drop.reason] += drop.count.packets
        return found

    def cpu(self, agents: Iterable[Process] = ()) -> Cpu:
        """Processor time so far, of these agents and of all switches."""
        switches = {process.popen.pid for process in self.net.switch_processes.values()}
        return Cpu(
            switches=sum(Usage.of(pid).cpu_seconds for pid in switches),
            agents=sum(Usage.of(agent.popen.pid).cpu_seconds for agent in agents),
            machine=busy_seconds(),
            clock=time.monotonic(),
        )

    @contextmanager
    def _on_time(self) -> Iterator[None]:
        """With `--realtime` this thread runs before others, so that it looks at them when it means
        to."""
        if not self.context.realtime:
            yield
            return
        first = os.sched_param(REALTIME_PRIORITY + 1)
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, first)
        try:
            yield
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))

    def _run_first(self, processes: Iterable[Process]) -> None:
        """With `--realtime` lets processes run before all others of the machine."""
        if not self.context.realtime:
            return
        parameters = os.sched_param(REALTIME_PRIORITY)
        for process in processes:
            for thread in Path(f"/proc/{process.popen.pid}/task").iterdir():
                os.sched_setscheduler(int(thread.name), os.SCHED_RR, parameters)


def ring(topology: Topology, seed: int = 1) -> list[tuple[Host, Host]]:
    """Every host sends to one and receives from one: the next in a ring that is drawn."""
    hosts = list(topology.hosts)
    random.Random(seed).shuffle(hosts)
    return list(zip(hosts, [*hosts[1:], hosts[0]], strict=True))


def sleep_until(monotonic_ns: int) -> None:
    """Sleeps until this time of CLOCK_MONOTONIC."""
    time.sleep(max(0, monotonic_ns - time.monotonic_ns()) / 1e9)


def _lines_at_end(agent: Agent, deadline: float) -> list[Line]:
    """Waits for an agent that is about to end, until then at the latest (`time.monotonic`); returns
    what it printed."""
    while agent.process.running:
        if time.monotonic() > deadline:
            raise InputError(f"{agent.process.name} does not end (log: {agent.process.log})")
        time.sleep(0.01)
    if agent.process.popen.returncode != 0:
        raise agent.process.died()
    return list(agent.lines())
