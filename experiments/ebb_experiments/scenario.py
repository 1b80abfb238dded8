"""Scenario and scheme files, in nominal units."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ebb_controller.scheme import Scheme, known_schemes, load_scheme
from ebb_topologies.files import InputError, load, validate
from ebb_topologies.model import Topology, load_topology
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Scenario", "ScenarioFile", "Scheme", "known_schemes", "load_scenario", "load_scheme"]


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileTransfer(Part):
    """One file between the first and the last host: across pods in a fat-tree."""

    bytes: Annotated[int, Field(gt=0)] = 4_000_000


class Incast(Part):
    """Synchronised senders to one receiver that a background flow already loads."""

    senders: Annotated[int, Field(gt=0)] = 8
    bytes: Annotated[int, Field(gt=0)] = 100_000
    rounds: Annotated[int, Field(gt=0)] = 3
    background_bytes: Annotated[int, Field(ge=0)] = 2_000_000
    background_lead_ns: Annotated[int, Field(ge=0)] = 8_000_000


class ScenarioFile(Part):
    topology: str
    schemes: list[str]
    dilation: Annotated[float, Field(gt=0)] = 50
    seed: int = 1
    mtu_bytes: Annotated[int, Field(ge=256, le=9000)] = 1500
    file: FileTransfer = FileTransfer()
    incast: Incast = Incast()


class Scenario(Part):
    """A scenario with everything it names loaded."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    spec: ScenarioFile
    topology: Topology
    schemes: dict[str, Scheme]


def load_scenario(
    path: Path,
    *,
    topology: Topology | None = None,
    schemes: list[str] | None = None,
    dilation: float | None = None,
) -> Scenario:
    """The scenario of a file, with what the command line overrides."""
    spec = validate(ScenarioFile, load(path), str(path))
    if dilation is not None:
        if not dilation > 0:
            raise InputError(f"DILATION must be a positive number, not {dilation:g}")
        spec = spec.model_copy(update={"dilation": dilation})
    if schemes is not None:
        spec = spec.model_copy(update={"schemes": schemes})
    if not spec.schemes:
        raise InputError(f"no scheme to run; known: {', '.join(known_schemes())}")
    chosen = topology or load_topology(path.parent / spec.topology)
    needed = spec.incast.senders + 2
    if len(chosen.hosts) < needed:
        raise InputError(
            f"topology {chosen.name} has {len(chosen.hosts)} hosts; an incast of "
            f"{spec.incast.senders} senders with a background flow needs {needed}"
        )
    loaded = {name: load_scheme(name) for name in spec.schemes}
    return Scenario(spec=spec, topology=chosen, schemes=loaded)
