"""The prompt of a fabric that is up: what it says first, and the command that loads a scheme."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms import PROGRAMS
from ebb_controller.scheme import Scheme, known_schemes, load_scheme
from ebb_topologies.files import InputError, write
from ebb_topologies.mininet_cli import PromptContext
from ebb_topologies.mininet_links import ControlError
from ebb_topologies.model import Topology

from ebb_experiments.run.agents import AgentError, agent_parameters
from ebb_experiments.run.wall import Wall
from ebb_experiments.scenario.faults import file_name


def at_prompt(wall: Wall, parameters: Path) -> None:
    """Loads the first scheme and prepares the prompt. `parameters`: folder for those of agents."""
    name, scheme = next(iter(wall.loaded.schemes.items()))
    loaded = _load(wall, parameters, name, scheme)

    def load(name: str) -> str:
        try:
            scheme = load_scheme(name)
            there, chip = wall.setup.program.name, wall.setup.program.chip
            if chip is None and scheme.fabric.program not in PROGRAMS[: PROGRAMS.index(there) + 1]:
                raise InputError(
                    f"{name} needs the program {scheme.fabric.program}, and the switches have "
                    f"{there}: quit, then make run CLI=1 SCHEME={name}"
                )
            return _load(wall, parameters, name, scheme)
        except (InputError, ControllerError, AgentError) as error:
            raise ControlError(str(error)) from error

    topology, slower = wall.loaded.topology, wall.loaded.dilation.factor
    wall.net.prompt_context = PromptContext(
        greeting=f"{loaded}\n{greeting(topology, slower, wall.net.fused)}",
        dilation=slower,
        path=str(wall.setup.binaries.directory.resolve()),
        load_scheme=load,
    )


def _load(wall: Wall, folder: Path, name: str, scheme: Scheme) -> str:
    """Queues and tables of every switch, and the parameters for agents that one starts oneself."""
    loaded = wall.loaded
    wall.configure(scheme.fabric, loaded.groups)
    nic = {"rate_bps": loaded.host_bps, "mtu_bytes": loaded.spec.mtu_bytes}
    nominal = agent_parameters(wall.setup.binaries.agent, scheme, **nic)
    path = write_parameters(folder, name, loaded.dilation.slow(nominal))
    return f"{scheme.label} is loaded; parameters for ebb-agent: --params {os.path.relpath(path)}"


def write_parameters(folder: Path, name: str, parameters: Mapping[str, Any]) -> Path:
    """A file for `ebb-agent --params`, which knows how slow the fabric runs."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{file_name(Path(name).stem)}.json"
    write(path, json.dumps(parameters, indent=1))
    return path


def greeting(topology: Topology, slower: float, fused: bool) -> str:
    """Description of the fabric, with commands to try."""
    first, last = topology.hosts[0].name, topology.hosts[-1].name
    inner = topology.inner_links[0] if topology.inner_links else topology.links[0]
    link = f"{inner.a.node} {inner.b.node}"
    tries = [
        (f"{first} ping -c 3 {last}", f"the times are {slower:g} times the nominal ones"),
        (f"iperf {first} {last}", "the kernel's TCP; nominal, as all that ebb-agent prints here"),
        (f"scheme {known_schemes()[0]}", f"another one, of {', '.join(known_schemes())}"),
        (f"link {link} down", "then `reroute`, or wait for what hosts do" if fused else ""),
        ("links" if fused else "net", "links that are not well" if fused else "every link"),
    ]
    width = max(len(command) for command, _ in tries) + 2
    lines = [f"  {command:{width}}{about}".rstrip() for command, about in tries]
    head = (
        f"{topology.name}: hosts {first} to {last}, {len(topology.switches)} switches, "
        f"{slower:g} times slower than nominal. Try:"
    )
    return "\n".join([head, *lines, "  help, quit", ""])
