"""Architecture of the switches' programs, and schemes that Tofino's programs cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from ebb_topologies.errors import InputError

if TYPE_CHECKING:
    from ebb_experiments.scenario.loaded import Loaded

Architecture = Literal["v1model", "tna"]
ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)
P4_HELP = "architecture of the switches' programs: v1model, or tna (docs/tofino-lab.md)"


def check_ported(loaded: Loaded) -> None:
    """Raises `InputError` if no program of p4src/tna has everything that a scheme needs, or counts
    in such slots."""
    from ebb_controller.tna import composition_of, slot_bits

    for name, scheme in loaded.schemes.items():
        try:
            composition_of(loaded.topology, scheme.fabric)
            if (volume := scheme.fabric.slowed(loaded.dilation).volume) is not None:
                slot_bits(volume.slot_ns)
        except InputError as error:
            raise InputError(f"P4=tna: scheme {name}: {error}") from error
