"""Checks of a scenario by the agent's rules, before anything runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from ebb_controller.scheme import Scheme
from ebb_topologies.files import InputError
from ebb_topologies.hosts import host_list
from ebb_topologies.installation import remedy
from ebb_topologies.model import Topology

from ebb_experiments.run.agents import agent_parameters, check_transports, transports
from ebb_experiments.scenario.loaded import Loaded, Traffic


def check_inputs(agent: Path, scenarios: Iterable[Loaded]) -> None:
    """Has the agent read the parameters of every scheme and the workload of every phase, each
    content once. Raises `InputError`, which names the file and the key."""
    if not agent.is_file():
        raise InputError(f"{agent} is missing: {remedy(agent)}")
    read: set[str] = set()

    def new(*content: object) -> bool:
        text = repr(content)
        return text not in read and not read.add(text)  # type: ignore[func-returns-value]

    for loaded in scenarios:
        for scheme in loaded.schemes.values():
            if new(scheme):
                check_parameters(agent, scheme)
            if loaded.tenancy is not None:
                check_vms(agent, scheme)
        for traffic in loaded.phases:
            check_transports(agent, f"phase {traffic.name}", traffic.transports or ())
            if new(traffic.workload, loaded.topology.members):
                check_workload(agent, traffic, loaded.topology)


def check_parameters(agent: Path, scheme: Scheme) -> None:
    """Raises `InputError` if the agent cannot run with the parameters of a scheme."""
    parameters = agent_parameters(agent, scheme)
    with TemporaryDirectory(prefix="ebb-check-") as folder:
        file = Path(folder, "params.json")
        file.write_text(json.dumps(parameters))
        command = [str(agent), "params", "--params", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = done.stderr.strip().removeprefix(f"ebb-agent: in the parameters file {file}: ")
        raise InputError(f"scheme {scheme.label}: agent parameter {why}")


def check_vms(agent: Path, scheme: Scheme) -> None:
    """Raises `InputError` for a transport that VMs cannot have."""
    for name in (scheme.transport, *scheme.transport_of.values()):
        if transports(agent)[name].groups:
            raise InputError(
                f"scheme {scheme.label}: {name} sends to groups, in which the VMs of tenants are "
                "not; choose ndp or a transport of the TCP family"
            )


def check_workload(agent: Path, traffic: Traffic, topology: Topology) -> None:
    """Raises `InputError` if the agent cannot make transfers of the workload on these hosts."""
    with TemporaryDirectory(prefix="ebb-check-") as folder:
        workload, hosts = Path(folder, "workload.json"), Path(folder, "hosts.json")
        workload.write_text(json.dumps(traffic.workload))
        hosts.write_text(json.dumps(host_list(topology)))
        command: list[str | Path] = [agent, "workload", workload, "--hosts", hosts, "--limit", "0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        why = done.stderr.strip().removeprefix("ebb-agent: ").removeprefix(f"workload {workload}: ")
        raise InputError(f"{traffic.place}: workload: {why}")
