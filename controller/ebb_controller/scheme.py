"""A scheme: what hosts and switches do together, in nominal units; a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from ebb_topologies.files import InputError, load, validate
from pydantic import BaseModel, ConfigDict

from ebb_controller.parameters import FabricParameters

SCHEMES = Path(__file__).resolve().parents[2] / "experiments" / "schemes"

Transport = Literal["reno", "reno-ecn", "dctcp", "hull", "ndp", "scdp"]


class Scheme(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    transport: Transport
    """Transport of the hosts: `--scheme` of the host agent."""
    label: str
    """Name of the scheme in tables and figures."""
    agent: dict[str, dict[str, Any]] = {}
    """Parameters of the host agent that differ from its defaults, by section; `build/ebb-agent
    params` shows all."""
    fabric: FabricParameters = FabricParameters()
    """Parameters of the switches."""


def known_schemes() -> list[str]:
    return sorted(path.stem for path in SCHEMES.glob("*.toml"))


def load_scheme(name: str) -> Scheme:
    """A scheme by the name of its file in experiments/schemes, or a file of one's own."""
    path = Path(name)
    if path.suffix not in (".toml", ".json"):
        if name not in known_schemes():
            raise InputError(
                f"unknown scheme '{name}'; known: {', '.join(known_schemes())} "
                "(or a .toml or .json file)"
            )
        path = SCHEMES / f"{name}.toml"
    return validate(Scheme, load(path), str(path))
