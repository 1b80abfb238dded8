"""One scheme of a scenario in virtual time, from files to results in nominal units."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebb_controller.controller import Controller, Program
from ebb_controller.scheme import Scheme
from ebb_controller.traffic_manager import TrafficManagers
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError
from ebb_topologies.hosts import host_list
from ebb_topologies.model import Topology

from ebb_experiments.agents import agent_parameters
from ebb_experiments.fabric import LoopThread
from ebb_experiments.measure import Flow, pair
from ebb_experiments.sim.scenario import SimScenario
from ebb_experiments.sim.simulator import FlowSpec, Pause, Progress, Report, Simulator


@dataclass(frozen=True, slots=True)
class Binaries:
    """What `make build` leaves."""

    directory: Path

    @property
    def simulator(self) -> Path:
        return self.directory / "ebb-simulator"

    @property
    def agent(self) -> Path:
        return self.directory / "ebb-agent"

    @property
    def program(self) -> Program:
        return Program(self.directory / "fabric.p4info.txtpb", self.directory / "fabric.json")


@dataclass(frozen=True, slots=True)
class SimResult:
    """What one scheme did."""

    flows: list[Flow]
    """Nominal."""
    pause: Pause
    """Where the clock stopped, in the simulator's units."""
    report: Report


def transfers(
    binaries: Binaries, topology: Topology, workload: Path, directory: Path
) -> list[dict[str, Any]]:
    """The workload's transfers between the hosts of the topology, nominal, by time.

    `directory` gets the list of hosts that the workload is drawn for.
    """
    directory.mkdir(parents=True, exist_ok=True)
    hosts = directory / "hosts.json"
    hosts.write_text(json.dumps(host_list(topology)))
    done = subprocess.run(
        [str(binaries.agent), "workload", str(workload), "--hosts", str(hosts)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise InputError(done.stderr.strip().removeprefix("ebb-agent: "))
    return [json.loads(line) for line in done.stdout.splitlines()]


def flow_specs(listed: list[dict[str, Any]], dilation: Dilation) -> list[FlowSpec]:
    """As the simulator takes them. Raises `InputError` for kinds that it cannot do yet."""
    for transfer in listed:
        if transfer["kind"] != "send-one-to-one" or transfer.get("after"):
            raise InputError(
                f"transfer {transfer['id']} of the workload is a {transfer['kind']}"
                f"{' that waits for another' if transfer.get('after') else ''}; "
                "in virtual time hosts send one-to-one at given times so far"
            )
    return [
        FlowSpec(
            id=transfer["id"],
            source=transfer["sources"][0],
            destination=transfer["destinations"][0],
            bytes=transfer["bytes"],
            start_at_ns=round(dilation.time(transfer["start_ns"])),
            priority=transfer["priority"],
        )
        for transfer in listed
    ]


def run_scheme(
    binaries: Binaries,
    scenario: SimScenario,
    topology: Topology,
    scheme: Scheme,
    listed: list[dict[str, Any]],
    directory: Path,
    threads: int = 0,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> SimResult:
    """Raises `SimulatorError`, `ControllerError` or `InputError` with the reason."""
    dilation = Dilation(scenario.dilation)
    slowed = dilation.topology(topology)
    parameters = dilation.slow(agent_parameters(binaries.agent, scheme))
    rates = {link.rate_bps for link in slowed.links}
    parameters["nic"] |= {"rate_bps": min(rates), "mtu_bytes": scenario.mtu_bytes}
    simulator = Simulator(
        binaries.simulator,
        slowed,
        scheme.transport,
        parameters,
        scheme.fabric,
        flow_specs(listed, dilation),
        directory,
        seed=scenario.seed,
        threads=threads,
    )
    with simulator, LoopThread() as loop:
        managers = TrafficManagers(slowed)
        controller = Controller(slowed, binaries.program, "bytes", traffic_managers=managers)
        loop.run(controller.__aenter__())
        try:
            loop.run(controller.configure(scheme.fabric))
            limit = round(dilation.time(scenario.limit_ns))
            pause = simulator.run(limit, until_flows_end=True, on_progress=on_progress)
            report = simulator.report()
        finally:
            loop.run(controller.__aexit__())
            loop.run(managers.close())
    sent = [record for record in simulator.records if record["role"] == "sender"]
    received = [record for record in simulator.records if record["role"] == "receiver"]
    return SimResult(pair(sent, received, dilation), pause, report)
