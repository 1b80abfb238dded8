"""Scenario and scheme files, in nominal units."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ebb_controller.scheme import Scheme, known_schemes, load_scheme
from ebb_topologies.files import InputError, load, validate
from ebb_topologies.model import Topology, load_topology
from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Scenario", "ScenarioFile", "Scheme", "known_schemes", "load_scenario", "load_scheme"]


MIN_DILATION, MAX_DILATION = 0.01, 10_000.0
MAX_BYTES = 1_000_000_000


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class FileTransfer(Part):
    """One file between the first and the last host: across pods in a fat-tree."""

    bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] = 4_000_000
    """Size of the file."""


class Incast(Part):
    """Synchronised senders to one receiver that a background flow already loads."""

    senders: Annotated[int, Field(gt=0)] = 8
    """Hosts that start at the same instant."""
    bytes: Annotated[int, Field(gt=0)] = 100_000
    """Object of each sender."""
    rounds: Annotated[int, Field(gt=0)] = 3
    """How often it is repeated, with other seeds."""
    background_bytes: Annotated[int, Field(ge=0)] = 2_000_000
    """Object of the background flow; 0: none."""
    background_lead_ns: Annotated[int, Field(ge=0)] = 8_000_000
    """How long before the incast the background flow starts."""


class ScenarioFile(Part):
    topology: str
    """Topology file, relative to the scenario file (docs/topologies.md)."""
    schemes: list[str]
    """Names of files in experiments/schemes, or files of your own."""
    dilation: Annotated[float, Field(ge=MIN_DILATION, le=MAX_DILATION)] = 50
    """How many times slower than nominal everything runs; 50: 1 Gbit/s at 20 Mbit/s."""
    seed: Annotated[int, Field(ge=0, le=2**32)] = 1
    """Of file contents and generated objects."""
    mtu_bytes: Annotated[int, Field(ge=256, le=9000)] = 1500
    """IP packets of the agents are not longer."""
    file: FileTransfer = FileTransfer()
    """One file from the first to the last host."""
    incast: Incast = Incast()
    """Synchronised senders to one receiver."""


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
        if not MIN_DILATION <= dilation <= MAX_DILATION:
            raise InputError(
                f"DILATION must be a number from {MIN_DILATION:g} to {MAX_DILATION:g}, "
                f"not {dilation:g}"
            )
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
