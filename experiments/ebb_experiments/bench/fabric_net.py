"""A k=4 fat-tree that runs in real time, for benchmarks: brought up, loaded, looked at.

```
 h1 ─veth─┐                                          ┌─veth─ h9     one `ebb-agent` per host
 h2 ─veth─┴─ 20 switches: one process, or one each ──┴─veth─ h10
```
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebb_controller.controller import Program
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.multicast import MulticastGroup
from ebb_topologies import preflight
from ebb_topologies.files import InputError
from ebb_topologies.model import Host, Switch, Topology, from_table
from ebb_topologies.processes import Process
from ebb_topologies.targets import EbbFabricTarget, target
from ebb_topologies.traffic_manager import traffic_manager_config

from ebb_experiments.bench.line import REALTIME_PRIORITY
from ebb_experiments.bench.machine import machine_cpu_s, process_cpu_s
from ebb_experiments.bench.section import Context
from ebb_experiments.run.fabric import Fabric
from ebb_experiments.run.loop import LoopThread

Record = dict[str, Any]
LINK_DELAY_NS = 100_000
"""Propagation delay of every link: 10 us at 1 Gbit/s, ten times slower."""
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
    machine: float
    """Time of all processes of the machine, interrupts included."""

    def __sub__(self, other: Cpu) -> Cpu:
        return Cpu(switches=self.switches - other.switches, machine=self.machine - other.machine)


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
    """Processor time while the hosts sent."""
    agents_cpu_s: float
    packet_hops: float
    """Packets received, each times the number of switches on its way."""

    @property
    def delivered(self) -> float:
        return self.received / self.offered

    @property
    def packets_per_second(self) -> float:
        return self.received / self.seconds

    @property
    def switch_us_per_hop(self) -> float | None:
        return self.cpu.switches * 1e6 / self.packet_hops if self.packet_hops else None

    def as_json(self) -> Record:
        return dataclasses.asdict(self) | {"delivered": self.delivered}


@dataclass(frozen=True)
class TunedFabric(EbbFabricTarget):
    """One process for all switches, which wakes up for all that came within `COALESCE_US`."""

    def fabric_command(self, file: Path, pcap: Path | None) -> list[str]:
        return [*super().fabric_command(file, pcap), "--coalesce-us", str(COALESCE_US)]


class BenchFabric(Fabric):
    """The running fabric; use as a context manager."""

    def __init__(
        self, context: Context, switch: str, fused: bool, rate_bps: int, threads: int = 1
    ) -> None:
        build = context.root / "build"
        chosen = target(switch, build, fused)
        if isinstance(chosen, EbbFabricTarget):
            chosen = TunedFabric(chosen.binary, threads=threads)
        super().__init__(
            fat_tree(rate_bps),
            chosen,
            Program(build / "fabric.p4info.txtpb", build / "fabric.json"),
            context.directory / f"fabric-{switch}",
            LoopThread(),
            config_file=self._config_file,
        )
        self.context = context
        self.fused = fused
        self.pairs = permutation(self.topology)
        self.parameters = FabricParameters()
        self._runs = 0

    def _start(self, stack: ExitStack) -> None:
        logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)  # what matters is raised
        self.directory.mkdir(exist_ok=True)
        files = [self.context.agent, self.program.p4info, self.program.json]
        preflight.check(self.topology, self.target, files, self.directory)
        stack.enter_context(self.loop)
        super()._start(stack)
        self.run_first(self.net.switch_processes.values())

    def _config_file(self, switch: Switch) -> Path:
        """The traffic-manager file of a switch: links between threads need their delays from the
        start."""
        config = traffic_manager_config(self.topology, switch, self.parameters.ports)
        path = self.directory / f"{switch.name}-tm.json"
        path.write_text(json.dumps(config))
        return path

    @property
    def has_traffic_manager(self) -> bool:
        return self.managers is not None

    def configure(
        self, parameters: FabricParameters, groups: Sequence[MulticastGroup] = ()
    ) -> None:
        self.parameters = parameters
        super().configure(parameters, groups)

    def set_rate(self, rate_bps: int) -> None:
        """Sets another rate for all links; without a traffic manager there is none to set."""
        if self.managers is None:
            return
        topology = fat_tree(rate_bps)
        configs = {
            switch.name: traffic_manager_config(topology, switch, self.parameters.ports)
            for switch in topology.switches
        }
        self.loop.run(self.managers.configure(configs))

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
        agents = {
            source.name: self.spawn(source, "load", ["load", to.ip, *arguments])
            for source, to in self.pairs
        }
        self.wait_ready(agents, start_ns)
        with self.on_time():
            sleep_until(start_ns)
            cpu_before = self.cpu()
            sleep_until(start_ns + round(seconds * 1e9))
            cpu = self.cpu() - cpu_before
        records = {host: self.end(agent, SETTLE_SECONDS) for host, agent in agents.items()}
        after = self.drops()
        return self._summary(rate_bps, seconds, packet_bytes, records, after - before, cpu)

    def _summary(
        self,
        rate_bps: float,
        seconds: float,
        packet_bytes: int,
        records: dict[str, list[Record]],
        drops: Counter[str],
        cpu: Cpu,
    ) -> Load:
        sent = [_one(lines, direction="sent") for lines in records.values()]
        ends = [_one(lines, event="end") for lines in records.values()]
        offered = sum(record["packets"] + record["skipped"] + record["refused"] for record in sent)
        by_address = {host.ip: host for host in self.topology.hosts}
        received = hops = reordered = 0
        medians, tails = [], []
        for name, lines in records.items():
            for record in lines:
                if record.get("direction") != "received" or not record["received"]:
                    continue
                received += record["received"]
                reordered += record["reordered"]
                hops += record["received"] * self.hops(by_address[record["peer"]].name, name)
                medians.append(record["delay"]["p50_ns"])
                tails.append(record["delay"]["p99_ns"])
        return Load(
            rate_bps=rate_bps,
            seconds=seconds,
            offered=offered,
            sent=sum(record["packets"] for record in sent),
            received=received,
            reordered=reordered,
            delay_p50_ns=sorted(medians)[len(medians) // 2] if medians else 0.0,
            delay_p99_ns=max(tails, default=0.0),
            agent_drops=sum(end["kernel_drops"] for end in ends),
            drops=dict(drops),
            cpu=cpu,
            agents_cpu_s=sum(end["cpu_ns"] for end in ends) / 1e9,
            packet_hops=hops,
        )

    def hops(self, source: str, to: str) -> int:
        """How many switches are between two hosts."""
        return self.topology.distances(to)[source] - 1

    # -- agents -----------------------------------------------------------------------------

    def interface(self, host: Host) -> str:
        (port,) = self.topology.neighbours[host.name]
        return f"{host.name}-eth{port}"

    def spawn(self, host: Host, name: str, arguments: list[str]) -> tuple[Process, Path]:
        """Starts an agent of a host; returns it and the file that its lines go to."""
        self._runs += 1
        full_name = f"{name}-{self._runs}-{host.name}"
        output = self.directory / "records" / f"{full_name}.jsonl"
        output.parent.mkdir(exist_ok=True)
        first = ["chrt", "--rr", str(REALTIME_PRIORITY)] if self.context.realtime else []
        command = [*first, str(self.context.agent), *arguments]
        command += ["--interface", self.interface(host)]
        with output.open("wb") as sink:
            return self.net.spawn_on(host.name, full_name, command, stdout=sink), output

    def wait_ready(self, agents: dict[str, tuple[Process, Path]], start_ns: int) -> None:
        """Waits until all agents listen; that must be before the first one sends."""
        for process, output in agents.values():
            while '"ready"' not in output.read_text():
                if not process.running:
                    raise process.died()
                if time.monotonic_ns() > start_ns:
                    raise InputError(
                        f"the agents were not ready within {START_SECONDS:g} s: "
                        "this machine is too busy for a benchmark"
                    )
                time.sleep(0.01)

    def end(self, agent: tuple[Process, Path], seconds: float) -> list[Record]:
        """Waits for an agent that is about to end; returns its lines."""
        process, output = agent
        deadline = time.monotonic() + seconds + PATIENCE_SECONDS
        while process.running:
            if time.monotonic() > deadline:
                raise InputError(f"{process.name} does not end (log: {process.log})")
            time.sleep(0.01)
        if process.popen.returncode != 0:
            raise process.died()
        return [json.loads(line) for line in output.read_text().splitlines()]

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

    def cpu(self) -> Cpu:
        processes = {process.popen.pid for process in self.net.switch_processes.values()}
        return Cpu(switches=sum(process_cpu_s(pid) for pid in processes), machine=machine_cpu_s())

    @contextmanager
    def on_time(self) -> Iterator[None]:
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

    def run_first(self, processes: Iterable[Process]) -> None:
        """With `--realtime` lets processes run before all others of the machine; switches, too."""
        if not self.context.realtime:
            return
        parameters = os.sched_param(REALTIME_PRIORITY)
        for process in processes:
            for thread in Path(f"/proc/{process.popen.pid}/task").iterdir():
                os.sched_setscheduler(int(thread.name), os.SCHED_RR, parameters)


def fat_tree(rate_bps: int) -> Topology:
    links = {"rate_bps": rate_bps, "delay_ns": LINK_DELAY_NS}
    return from_table({"fat_tree": {"k": 4}, "link_defaults": links}, "bench fabric")


def permutation(topology: Topology, seed: int = 1) -> list[tuple[Host, Host]]:
    """Every host sends to one and receives from one, not itself."""
    hosts, others = list(topology.hosts), list(topology.hosts)
    chance = random.Random(seed)
    while any(a is b for a, b in zip(hosts, others, strict=True)):
        chance.shuffle(others)
    return list(zip(hosts, others, strict=True))


def sleep_until(monotonic_ns: int) -> None:
    time.sleep(max(0, monotonic_ns - time.monotonic_ns()) / 1e9)


def _one(lines: list[Record], **wanted: str) -> Record:
    """The only one of the lines that has these values."""
    matches: Callable[[Record], bool] = lambda line: wanted.items() <= line.items()  # noqa: E731
    (found,) = filter(matches, lines)
    return found
