"""A scenario of `ebb-sim` under the wall clock: what both have in common must come out alike.

The same workload, parameters, seeds and controller; instead of simulated hosts an `ebb-agent bench`
in the namespace of each, and instead of the simulator one `ebb-switch` process. Needs root. Faults
and samples are not part of it: `make run` has those.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebb_controller.controller import Controller
from ebb_controller.traffic_manager import Statistics, TrafficManagers
from ebb_topologies.hosts import host_list
from ebb_topologies.mininet_net import FabricNet
from ebb_topologies.targets import target

from ebb_experiments.agents import Agent, AgentError, agent_parameters
from ebb_experiments.fabric import LoopThread
from ebb_experiments.sim.flows import FlowTable
from ebb_experiments.sim.results import Results, counter_rows
from ebb_experiments.sim.run import Binaries, read_counters
from ebb_experiments.sim.scenario import Loaded
from ebb_experiments.sim.tables import Row, table

SETTLE_SECONDS = 0.5
"""For the senders to hear that all has arrived."""
LEAD_SECONDS = 3.0
"""For all agents to come up, before the schedule begins."""


@dataclass
class WallRun:
    """One scheme with one seed, as `ebb_experiments.sim.run.Run`."""

    loaded: Loaded
    name: str
    seed: int
    binaries: Binaries
    directory: Path
    patience_seconds: float = 60.0
    """Of the whole run after its start."""

    def go(self) -> Results:
        """Flows and counters. Raises what the parts of the fabric raise."""
        dilation, scheme = self.loaded.dilation, self.loaded.schemes[self.name]
        slowed = dilation.topology(self.loaded.topology)
        with ExitStack() as stack:
            fused = target("ebb", self.binaries.directory, fused=True)
            net = stack.enter_context(FabricNet(slowed, fused, self.directory / "fabric"))
            loop = stack.enter_context(LoopThread())
            managers = TrafficManagers(slowed)
            stack.callback(lambda: loop.run(managers.close()))
            program = self.binaries.program
            controller = Controller(slowed, program, "bytes", traffic_managers=managers)
            loop.run(controller.__aenter__())
            stack.callback(lambda: loop.run(controller.__aexit__()))
            loop.run(controller.configure(scheme.fabric))
            lines = self._traffic(net)
            counters = loop.run(read_counters(controller))
            statistics = loop.run(managers.statistics())
        head = {"scheme": self.name, "seed": self.seed}
        flows = FlowTable(self.loaded.topology, dilation, head)
        for line in lines:
            flows.append(line)
        return Results(
            {
                "flows": flows.table(),
                "counters": table("counters", counter_rows(counters, head)),
                "drops": table("drops", drop_rows(statistics, head)),
            }
        )

    def _traffic(self, net: FabricNet) -> list[dict[str, Any]]:
        """Every host does its share of the workload; what all of them told."""
        dilation, scheme = self.loaded.dilation, self.loaded.schemes[self.name]
        topology = self.loaded.topology
        nominal = agent_parameters(self.binaries.agent, scheme)
        nominal["nic"] |= {
            "rate_bps": min(link.rate_bps for link in topology.links),
            "mtu_bytes": self.loaded.spec.mtu_bytes,
        }
        files = {
            "params": dilation.slow(nominal),
            "workload": dilation.slow({"seed": self.seed} | self.loaded.keys_of_workload),
            "hosts": host_list(topology),
        }
        for name, content in files.items():
            (self.directory / f"{name}.json").write_text(json.dumps(content))
        start_ns = time.monotonic_ns() + round(LEAD_SECONDS * 1e9)
        agents = []
        for index, host in enumerate(topology.hosts):
            command = [
                *(str(self.binaries.agent), "bench", "--json", "--scheme", scheme.transport),
                *("--workload", str(self.directory / "workload.json"), "--self", host.name),
                *("--hosts", str(self.directory / "hosts.json")),
                *("--params", str(self.directory / "params.json")),
                *("--start-at-ns", str(start_ns), "--protocol-seed", str(self.seed + index)),
            ]
            output = self.directory / f"{host.name}.jsonl"
            with output.open("wb") as sink:
                agents.append(
                    Agent(
                        net.spawn_on(host.name, host.name, command, stdout=sink), output, net.check
                    )
                )
        expected = self._deliveries()
        deadline = time.monotonic() + LEAD_SECONDS + self.patience_seconds
        told: list[dict[str, Any]] = []
        # The agents themselves stay for those who may have missed the end, for a slowed while.
        while sum(line.get("role") == "receiver" for line in told) < expected:
            if time.monotonic() > deadline:
                raise AgentError(f"{expected} objects should have arrived; told: {told}")
            net.check()
            time.sleep(0.05)
            told = [line for agent in agents for line in agent.lines() if line["event"] in TOLD]
        time.sleep(SETTLE_SECONDS)
        told = [line for agent in agents for line in agent.lines() if line["event"] in TOLD]
        net.processes.stop([agent.process for agent in agents])
        return told

    def _deliveries(self) -> int:
        """Objects times their destinations."""
        command = [str(self.binaries.agent), "workload", str(self.directory / "workload.json")]
        command += ["--hosts", str(self.directory / "hosts.json")]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return sum(len(json.loads(line)["destinations"]) for line in said.splitlines())


TOLD = ("flow", "transfer")


def drop_rows(statistics: Statistics, head: Row) -> Iterator[Row]:
    """What the switches dropped, in queues and elsewhere."""
    for switch, ports in statistics.items():
        for port in ports.values():
            elsewhere = (None, port.dropped_packets)
            for queue, dropped in (*((q.queue, q.dropped_packets) for q in port.queues), elsewhere):
                place = head | {"switch": switch, "port": port.port, "queue": queue}
                yield from (place | {"reason": r, "packets": n} for r, n in dropped.items())
