"""The file of a lab: the keys of a topology file, and a program for each switch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from ebb_topologies import model
from ebb_topologies.errors import InputError
from ebb_topologies.files import load, named_alike, validate
from ebb_topologies.model import Spec, Topology, TopologySpec
from ebb_topologies.nearest import hint
from ebb_topologies.traffic_manager import PortParameters
from pydantic import Field, model_validator

from ebb_experiments.lab.agents import AgentsSpec, check_external

Architecture = Literal["v1model", "tna", "t2na", "psa"]


class ProgramSpec(Spec):
    """The program of a switch, and how controllers reach it."""

    p4: str | None = None
    """Source, which is compiled when the lab starts; relative to the file, as all paths. None:
    `json` and `p4info` are given."""
    arch: Architecture | None = None
    """Architecture that the source is compiled for; none: that whose file it includes."""
    include: tuple[str, ...] = ()
    """Folders for `#include`."""
    define: tuple[str, ...] = ()
    """Macros, as `NAME` or `NAME=VALUE`."""
    json_file: Annotated[str | None, Field(alias="json")] = None
    """A compiled program: BMv2 JSON."""
    p4info: str | None = None
    """P4Info of the compiled program."""
    bf_rt_schema: str | None = None
    """Schema of BF Runtime of the compiled program; none: that is not served."""
    device_id: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """Device id for controllers; none: the number of the switch, from 1. Clients of BF Runtime
    have 0."""
    cpu_port: Annotated[int, Field(ge=1, le=510)] | None = None
    """Port whose packets are those of controllers; none: there is no such port."""
    depth_unit: Literal["packets", "bytes"] = "packets"
    """Unit of the depths that programs for v1model read, as on BMv2; for Tofino these are cells."""
    ports: PortParameters | None = None
    """Queues of every port with a link; none: all of the architecture, 250 packets each, under
    strict priority."""

    @model_validator(mode="after")
    def _one_form(self) -> ProgramSpec:
        if (self.p4 is None) == (self.json_file is None):
            raise ValueError("give p4, or else json and p4info")
        if (self.json_file is None) != (self.p4info is None):
            raise ValueError("give json and p4info together")
        if self.json_file is None and self.bf_rt_schema is not None:
            raise ValueError("bf_rt_schema is for json; for p4 it is made here")
        if self.p4 is None and (self.arch or self.include or self.define):
            raise ValueError("arch, include and define are for p4, which is compiled here")
        return self


class LabSpec(Spec):
    """Keys of a lab file beside those of its topology."""

    program: dict[str, ProgramSpec]
    """Programs, by the names of switches; each switch has one."""
    agents: AgentsSpec | None = None
    """Traffic of hosts that Ebb's transports play; none: the script plays all."""
    reaction_ns: Annotated[int, Field(ge=1, le=1_000_000_000)] = 1_000
    """Hosts react to what has arrived at multiples of this time, ns."""

    @property
    def frame_overhead_bytes(self) -> int:
        """Bytes that a frame costs on any link beyond its own."""
        return max(self._overheads().values(), default=0)

    def _overheads(self) -> dict[str, int]:
        """The same, by switch."""
        ports = {name: each.ports or PortParameters() for name, each in self.program.items()}
        return {name: each.frame_overhead_bytes for name, each in ports.items()}

    @model_validator(mode="after")
    def _same_links(self) -> LabSpec:
        overheads = self._overheads()
        if len(set(overheads.values())) > 1:
            said = ", ".join(f"{name} {bytes_}" for name, bytes_ in overheads.items())
            raise ValueError(f"frame_overhead_bytes must be the same at all switches: {said}")
        return self


def read(path: Path) -> tuple[Topology, LabSpec]:
    """The topology and the programs of a file. Raises `InputError` for what is wrong in it."""
    return split(load(path), str(path), path.stem)


def split(table: dict[str, Any], where: str, name: str) -> tuple[Topology, LabSpec]:
    """The same of the table of a file; `where` names it in errors, `name` is that of the
    topology."""
    own = {key: table[key] for key in LabSpec.model_fields if key in table}
    rest = {key: value for key, value in table.items() if key not in own}
    known = [*LabSpec.model_fields, *TopologySpec.model_fields]
    for key in table:
        if key not in known:
            raise InputError(f"{where}: unknown key '{key}'; {hint(key, known)}")
    spec = validate(LabSpec, own, where)
    topology = model.from_table({"name": name} | rest, where)
    switches = [switch.name for switch in topology.switches]
    for switch in spec.program:
        if switch not in switches:
            raise InputError(
                f"{where}: 'program.{switch}': no switch has this name; {hint(switch, switches)}"
            )
    for switch in switches:
        if switch not in spec.program:
            raise InputError(f"{where}: switch {switch} has no program: add [program.{switch}]")
    if spec.agents is not None:
        check_external(spec.agents, topology, where)
    for switch, program in spec.program.items():
        if (far := topology.neighbours[switch].get(program.cpu_port or 0)) is not None:
            raise InputError(
                f"{where}: 'program.{switch}.cpu_port': port {program.cpu_port} has a link, to "
                f"{far[0].node}; choose another"
            )
    return topology, spec


def check_paths(spec: LabSpec, folder: Path, where: str) -> None:
    """Raises `InputError` for a path, relative to `folder`, that leads to no file or no folder;
    `where` names the file of the lab."""
    for switch, program in spec.program.items():
        files = ("p4", program.p4), ("json", program.json_file), ("p4info", program.p4info)
        for key, name in (*files, ("bf_rt_schema", program.bf_rt_schema)):
            if name is None or (path := folder / name).is_file():
                continue
            fault = "is no file"
            if not path.exists():
                near = named_alike(path)
                fault = "does not exist" + (f"; did you mean '{near.name}'?" if near else "")
            raise InputError(f"{where}: 'program.{switch}.{key}': {path} {fault}")
        for name in program.include:
            if not (folder / name).is_dir():
                raise InputError(
                    f"{where}: 'program.{switch}.include': {folder / name} is no folder"
                )
