"""A scheme: what hosts and switches do together, in nominal units; a file of its own."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from ebb_topologies.files import InputError, load, validate
from ebb_topologies.nearest import hint
from pydantic import BaseModel, ConfigDict, Field

from ebb_controller.mechanisms import FabricParameters
from ebb_controller.parameters import Dscp

SCHEMES = Path(str(files(__package__) / "schemes"))
"""The folder of the schemes that have names: a link to experiments/schemes, in an installed package
a copy."""


class TenantHosts(BaseModel):
    """Guarantees of tenants that hosts keep (docs/silo.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pacing: Literal["guarantee", "rate", "none"] = "none"
    """Limit that a VM with a guarantee keeps to: `guarantee`, the rate, the burst and the peak
    (Silo); `rate`, the rate without a burst (Oktopus); `none`, nothing, and it has no class of
    its own."""
    dscp: Dscp = 34
    """Class of packets of guaranteed VMs that are paced."""


class Scheme(BaseModel):
    """A file of `SCHEMES`, or one of the same form."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    transport: str
    """Transport of the hosts: `--transport` of the agent; `ebb-agent transports` prints them."""
    transport_of: dict[str, str] = {}
    """Transports of parts of the workload that have another one, by the names of the parts."""
    label: str
    """Name of the scheme in tables and figures."""
    colour: Annotated[str, Field(pattern="^#[0-9A-Fa-f]{6}$")] | None = None
    """Its colour in every figure, as `"#0072B2"`; none: one that no other scheme of the figure
    has."""
    agent: dict[str, dict[str, Any]] = {}
    """Parameters of the host agent that differ from its defaults, by section; `build/ebb-agent
    params` shows all."""
    fabric: FabricParameters = FabricParameters()
    """Parameters of the switches."""
    tenants: TenantHosts | None = None
    """Guarantees of tenants that hosts keep; none: none."""


def known_schemes() -> list[str]:
    """Names of all schemes."""
    return sorted(path.stem for path in SCHEMES.glob("*.toml"))


def scheme_file(name: str, folder: Path | None = None) -> Path:
    """File of a scheme, by its name in experiments/schemes, or a file of one's own, relative to a
    folder; none: to the current one."""
    path = Path(name) if folder is None else folder / name
    if path.suffix in (".toml", ".json"):
        return path
    if name not in known_schemes():
        raise InputError(
            f"unknown scheme '{name}'; {hint(name, known_schemes())} (or a .toml or .json file)"
        )
    return SCHEMES / f"{name}.toml"


def known_colour(name: str) -> str | None:
    """The colour of a scheme that has a name; none: there is no such one, or it has none. For
    docs/notebook."""
    return load_scheme(name).colour if name in known_schemes() else None


def load_scheme(name: str) -> Scheme:
    """A scheme by its name or file. Raises `InputError` for what is wrong in it."""
    path = scheme_file(name)
    return validate(Scheme, load(path), str(path))
