"""A scenario of `ebb-sim` under the wall clock: what both have in common must come out alike.

The same workload, parameters, seeds and controller; instead of simulated hosts an `ebb-agent bench`
in the namespace of each, and instead of the simulator one `ebb-switch` process. Needs root. Faults,
samples and arrivals over time are not part of it: `make run` has faults.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.controller import Controller
from ebb_controller.multicast import MulticastGroup
from ebb_controller.scheme import Scheme
from ebb_controller.traffic_manager import TrafficManagers, lateness
from ebb_topologies.files import write
from ebb_topologies.hosts import host_list
from ebb_topologies.mininet_net import FabricNet
from ebb_topologies.targets import target

from ebb_experiments.agents import Agent, AgentError, agent_parameters
from ebb_experiments.load import Late, Load, Processors
from ebb_experiments.loop import LoopThread
from ebb_experiments.sim.flows import FlowTable
from ebb_experiments.sim.results import Results, SwitchTables, counter_rows
from ebb_experiments.sim.run import Binaries, read_counters, versions
from ebb_experiments.sim.scenario import Loaded
from ebb_experiments.sim.tables import table

SETTLE_SECONDS = 0.5
"""For the senders to hear that all has arrived."""
LEAD_SECONDS = 3.0
"""For all agents to come up, before the schedule begins."""
GRACE_SECONDS = 60.0
"""Agents that nobody stops give up that long after the limit."""
POLL_SECONDS = 0.05
BEYOND_LIMIT = 1.2
"""An object that a link cannot carry until the limit is cut to this times what it can: an agent
makes its content and hash before it sends."""
TOLD = ("flow", "transfer")

Line = dict[str, Any]


@dataclass
class WallRun:
    """One scheme with one seed, as `ebb_experiments.sim.run.Run`."""

    loaded: Loaded
    name: str
    seed: int
    binaries: Binaries
    directory: Path
    loop: LoopThread | None = None
    """Runs of one process share it, because grpcio's is bound to the first; none: its own."""

    def go(self) -> Results:
        """Raises what the parts of the fabric raise."""
        begun = time.monotonic()
        dilation, spec = self.loaded.dilation, self.loaded.spec
        slowed = dilation.topology(self.loaded.topology)
        files = self._files()
        schedule = self._schedule()
        with ExitStack() as stack:
            fused = target("ebb", self.binaries.directory, fused=True)
            net = stack.enter_context(FabricNet(slowed, fused, self.directory / "fabric"))
            loop = self.loop or stack.enter_context(LoopThread())
            managers = TrafficManagers(slowed)
            stack.callback(lambda: loop.run(managers.close()))
            controller = Controller(
                slowed, self.binaries.program, "bytes", traffic_managers=managers
            )
            loop.run(controller.__aenter__())
            stack.callback(lambda: loop.run(controller.__aexit__()))
            loop.run(controller.configure(self._scheme.fabric, self._groups(schedule)))
            start_ns = time.monotonic_ns() + round(LEAD_SECONDS * 1e9)
            agents = self._agents(net, start_ns)
            counted_ns = start_ns + round(dilation.time(spec.warm_up_ns))
            time.sleep(max(0.0, (counted_ns - time.monotonic_ns()) / 1e9))
            loop.run(managers.raw(reset=True))
            processors = Processors()
            self._wait(net, agents, schedule, start_ns)
            busy = processors.share()
            statistics = loop.run(managers.raw())
            ended_ns = time.monotonic_ns()
            time.sleep(SETTLE_SECONDS)
            counters = loop.run(read_counters(controller))
            net.processes.stop([agent.process for agent in agents])
            lines = [line for agent in agents for line in agent.lines() if line["event"] in TOLD]
        head = {"scheme": self.name, "seed": self.seed}
        flows = FlowTable(self.loaded.topology, dilation, head)
        for line in lines:
            flows.append(_since(line, start_ns))
        reports = [switch_report(name, stats) for name, stats in statistics.items()]
        counted = ended_ns - counted_ns
        switches = SwitchTables(reports, self.loaded.topology, dilation, counted, head)
        load = Load(
            agents=Late.together(agent.late() for agent in agents),
            switches=Late.together(Late.told(lateness(each)) for each in statistics.values()),
            processors=busy,
        )
        slowest = min(link.rate_bps for link in self.loaded.topology.links)
        late_ns = [line["late_ns"] for line in lines if line.get("late_ns")]
        return Results(
            {
                "flows": flows.table(),
                **switches.tables(),
                "counters": table("counters", counter_rows(counters, head)),
            },
            {
                "scenario": self.loaded.name,
                "scheme": self.name,
                "seed": self.seed,
                "clock": "wall",
                "dilation": dilation.factor,
                "latest_start_ns": max(late_ns, default=0) / dilation.factor,
                "load": asdict(load),
                "needed_dilation": load.needed(dilation.factor, spec.mtu_bytes * 8e9 / slowest),
                "simulated_ns": (ended_ns - start_ns) / dilation.factor,
                "parameters": {
                    "scenario": spec.model_dump(exclude_none=True, exclude={"workload"}),
                    "scheme": self._scheme.model_dump(),
                    **files,
                },
                "versions": versions(self.binaries),
                "wall_seconds": time.monotonic() - begun,
            },
        )

    @property
    def _scheme(self) -> Scheme:
        return self.loaded.schemes[self.name]

    def _files(self) -> dict[str, Any]:
        """Of the agents: parameters and workload, slowed, and the hosts."""
        dilation = self.loaded.dilation
        nominal = agent_parameters(self.binaries.agent, self._scheme)
        nominal["nic"] |= {
            "rate_bps": min(link.rate_bps for link in self.loaded.topology.links),
            "mtu_bytes": self.loaded.spec.mtu_bytes,
        }
        workload = within(self.loaded.keys_of_workload, self.loaded.spec.limit_ns)
        files = {
            "params": dilation.slow(nominal),
            "workload": dilation.slow({"seed": self.seed} | workload),
            "hosts": host_list(self.loaded.topology),
        }
        self.directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            write(self.directory / f"{name}.json", json.dumps(content))
        return {name: files[name] for name in ("params", "workload")}

    def _schedule(self) -> list[Line]:
        """The transfers, as every agent computes them."""
        command = [str(self.binaries.agent), "workload", str(self.directory / "workload.json")]
        command += ["--hosts", str(self.directory / "hosts.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            told = done.stderr.strip().replace(command[2], self.loaded.workload_place)
            raise AgentError(f"the workload: {told}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def _groups(self, schedule: list[Line]) -> list[MulticastGroup]:
        """Only SCDP sends to a group; the others have a flow for each receiver."""
        if self._scheme.transport != "scdp":
            return []
        several = [line for line in schedule if line["kind"] == "send-one-to-many"]
        members = dict.fromkeys(tuple(sorted(line["destinations"])) for line in several)
        return [
            MulticastGroup.of(self.loaded.topology, number, each)
            for number, each in enumerate(members, start=1)
        ]

    def _agents(self, net: FabricNet, start_ns: int) -> list[Agent]:
        """Every host does its share of the workload."""
        patience = self.loaded.dilation.time(self.loaded.spec.limit_ns) + GRACE_SECONDS * 1e9
        agents = []
        for index, host in enumerate(self.loaded.topology.hosts):
            command = [
                *(str(self.binaries.agent), "bench", "--json", "--lateness"),
                *("--scheme", self._scheme.transport),
                *("--workload", str(self.directory / "workload.json"), "--self", host.name),
                *("--hosts", str(self.directory / "hosts.json")),
                *("--params", str(self.directory / "params.json")),
                *("--start-at-ns", str(start_ns), "--protocol-seed", str(self.seed + index)),
                *("--patience-ns", str(round(patience))),
            ]
            output = self.directory / f"{host.name}.jsonl"
            with output.open("wb") as sink:
                process = net.spawn_on(host.name, host.name, command, stdout=sink)
            agents.append(Agent(process, output, net.check))
        return agents

    def _wait(
        self, net: FabricNet, agents: list[Agent], schedule: list[Line], start_ns: int
    ) -> None:
        """Until everything has arrived that the run ends with, or until the limit. The agents stay
        for those who may have missed the end, for a slowed while."""
        ends_with = self.loaded.spec.ends_with
        deliveries = sum(
            len(line["destinations"])
            for line in schedule
            if not ends_with or line["traffic"] in ends_with
        )
        end_ns = start_ns + self.loaded.dilation.time(self.loaded.spec.limit_ns)
        while time.monotonic_ns() < end_ns:
            net.check()
            told = (line for agent in agents for line in agent.lines())
            arrived = sum(
                line.get("role") == "receiver"
                and (not ends_with or line.get("traffic") in ends_with)
                for line in told
            )
            if arrived >= deliveries:
                return
            time.sleep(POLL_SECONDS)


def within(workload: dict[str, Any], limit_ns: int) -> dict[str, Any]:
    """The workload with objects of fixed size no longer than a link carries until the limit."""
    most = round(workload["link_rate_bps"] * limit_ns / 8e9 * BEYOND_LIMIT)
    traffic = []
    for each in workload.get("traffic", ()):
        size = each.get("size", {})
        if size.get("type") == "fixed" and size["bytes"] > most:
            each = each | {"size": size | {"bytes": most}}
        traffic.append(each)
    return workload | {"traffic": traffic}


def _since(line: Line, start_ns: int) -> Line:
    """With times since the start, as those of the simulator."""
    times = ("offered_at_ns", "started_at_ns", "finished_at_ns")
    known = (name for name in times if line.get(name) is not None)
    return line | {name: line[name] - start_ns for name in known}


def switch_report(switch: str, stats: tm.Stats) -> Line:
    """What `ebb-switch --report json` and the simulator say of a switch, as far as tables need."""
    return {
        "switch": switch,
        "ports": [
            {
                "port": port.port,
                "transmitted": _count(port.transmitted),
                "busy_ns": port.busy_ns,
                "queues": [_queue(queue) for queue in port.queues],
            }
            for port in stats.ports
        ],
        "drops": list(_drops(stats)),
    }


def _count(count: tm.Count) -> Line:
    return {"packets": count.packets, "bytes": count.bytes}


def _queue(queue: tm.QueueStats) -> Line:
    counts = ("enqueued", "dequeued", "deflected", "egress_dropped", "transmitted", "ecn_ce")
    plain = (
        *("queue", "depth_packets", "depth_bytes", "max_depth_packets", "max_depth_bytes"),
        *("average_depth_packets", "average_depth_bytes"),
        *("arrival_depth_packets", "arrival_depth_bytes", "average_delay_ns", "max_delay_ns"),
    )
    return {
        **{name: getattr(queue, name) for name in plain},
        **{name: _count(getattr(queue, name)) for name in counts},
        "dropped": {drop.reason: _count(drop.count) for drop in queue.drops},
        "delays": [
            {"from_ns": b.from_ns, "below_ns": b.below_ns, "packets": b.packets}
            for b in queue.delays
        ],
    }


def _drops(stats: tm.Stats) -> Iterator[Line]:
    """In queues and elsewhere."""
    for port in stats.ports:
        for queue in port.queues:
            for drop in queue.drops:
                place = {"port": port.port, "queue": queue.queue, "reason": drop.reason}
                yield place | _count(drop.count)
    for other in stats.drops:
        yield {"port": other.port, "queue": None, "reason": other.reason} | _count(other.count)
