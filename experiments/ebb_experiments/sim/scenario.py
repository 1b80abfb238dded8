"""What `ebb-sim` runs: a topology, schemes, and a workload or a permutation, in nominal units."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ebb_topologies.files import load, validate
from pydantic import BaseModel, ConfigDict, Field


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class SimScenario(Spec):
    topology: str
    """Topology file, relative to the scenario file (docs/topologies.md)."""
    schemes: list[str]
    """Names of files in experiments/schemes, or files of your own."""
    workload: str
    """Workload file, relative to the scenario file (docs/workloads.md); one-to-one sends."""
    dilation: Annotated[float, Field(ge=1, le=10_000)] = 10
    """How many times slower than nominal everything runs. It costs nothing in virtual time, and
    keeps the microseconds of v1model's timestamps fine enough: 10 for 1 Gbit/s."""
    seed: Annotated[int, Field(ge=0, le=2**32)] = 1
    """Of the transports: session ids and path entropy."""
    mtu_bytes: Annotated[int, Field(ge=576, le=9000)] = 1500
    """IP packets of the hosts are not longer."""
    limit_ns: Annotated[int, Field(gt=0)] = 1_000_000_000
    """Nominal time after which a run is given up, flows open or not."""


def load_sim_scenario(path: Path) -> SimScenario:
    return validate(SimScenario, load(path), str(path))
