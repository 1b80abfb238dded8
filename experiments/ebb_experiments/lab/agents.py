"""Agents of a lab: hosts that Ebb's transports play, with the traffic of a workload."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ebb_controller.scheme import Scheme
from ebb_topologies.errors import InputError
from ebb_topologies.hosts import host_entry
from ebb_topologies.model import Host, Topology
from ebb_topologies.nearest import hint
from pydantic import Field

from ebb_experiments.run.agents import agent_parameters
from ebb_experiments.run.checking import check_parameters, check_workload
from ebb_experiments.run.conversation import Line
from ebb_experiments.run.simulator import WORKLOAD
from ebb_experiments.scenario.loaded import Traffic, workload_of
from ebb_experiments.scenario.spec import Spec


class AgentsSpec(Spec):
    """Traffic of the hosts that the script does not play."""

    transport: str
    """Transport of these hosts: `ebb-agent transports` prints them."""
    workload: str | dict[str, Any]
    """Workload file, relative to the lab's, or its keys (docs/workloads.md)."""
    params: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    """Parameters that differ from the defaults, by section, as `ebb-agent params` prints them."""
    external: tuple[str, ...] = ()
    """Hosts that the script plays nevertheless; they take part in no transfer."""
    seed: int = Field(default=1, ge=0)
    """Seed of session ids and ports, and of a workload without one."""


class Agents:
    """The agents of a lab, checked."""

    def __init__(self, spec: AgentsSpec, topology: Topology, folder: Path, binary: Path) -> None:
        """`binary`: `ebb-agent`. Raises `InputError` for what is wrong."""
        self._spec, self._topology = spec, topology
        scheme = Scheme(transport=spec.transport, label="agents", agent=spec.params)
        check_parameters(binary, scheme)
        self._parameters = agent_parameters(binary, scheme)
        keys, place = workload_of(spec.workload, topology, folder, "agents")
        self._workload = {"seed": spec.seed} | keys
        check_workload(binary, Traffic("agents", self._workload, place), topology)

    def network(self, folder: Path, frame_overhead_bytes: int) -> Line:
        """Keys of the network file in the folder, where the workload is written, too."""
        (folder / WORKLOAD).write_text(json.dumps(self._workload))
        self._parameters["nic"]["frame_overhead_bytes"] = frame_overhead_bytes
        return {
            "transport": self._spec.transport,
            "params": self._parameters,
            "seed": self._spec.seed,
            "workload": WORKLOAD,
        }

    def labels(self, host: Host) -> dict[str, str]:
        """Rack and pod of a host, by which workloads choose."""
        entry = host_entry(self._topology, host.name)
        return {"rack": entry["rack"], "pod": entry["pod"]}


def check_external(spec: AgentsSpec, topology: Topology, where: str) -> None:
    """Raises `InputError` if a host that the script plays does not exist, or too few are left."""
    known = [host.name for host in topology.hosts]
    for name in spec.external:
        if name not in known:
            raise InputError(
                f"{where}: 'agents.external': there is no host '{name}'; {hint(name, known)}"
            )
    left = len(set(known) - set(spec.external))
    if left < 2:
        raise InputError(
            f"{where}: 'agents.external': agents play {left} of {len(known)} hosts, and transfers "
            "have two ends; leave them two hosts, or leave 'agents' out"
        )
