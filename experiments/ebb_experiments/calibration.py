"""How slow a run has to be for this machine: chosen before it, and judged after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ebb_topologies.dilation import Dilation

from ebb_experiments.fabric import Fabric
from ebb_experiments.load import Load, enough
from ebb_experiments.scenario import MAX_DILATION
from ebb_experiments.tour import SchemeResult, probe

USUAL_DILATION = 50
"""What two processors keep up with. Not less on faster ones, so that runs can be compared."""
CALM = 0.5
"""Share of the processors' time that an incast may take where switches do not tell how late they
are: the heaviest phase, storage, has up to twice its packets per second."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was measured, and what was chosen."""

    measured: Load
    at: float
    """Dilation at which it was measured."""
    dilation: float
    """Chosen; `at`: that is enough."""

    def __str__(self) -> str:
        chosen = "kept" if self.dilation == self.at else f"{self.dilation:g} times slower instead"
        return f"an incast {self.at:g} times slower: {self.measured}; {chosen}"


def calibrate(fabric: Fabric) -> Calibration:
    """Runs a short incast on a fabric that is up."""
    at, load = fabric.dilation.factor, probe(fabric)
    needed = load.needed(at, fabric.packet_ns, busiest=CALM)
    chosen = at if needed <= at else min(MAX_DILATION, enough(needed))
    return Calibration(load, at, chosen)


@dataclass(frozen=True, slots=True)
class TooBusy:
    """Schemes whose rows are not valid, with what was measured in their worst phases."""

    worst: Mapping[str, Load]
    dilation: int
    """That would have been enough."""
    allowed_ns: float

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self.worst)

    def __str__(self) -> str:
        guessed = any(load.saturated for load in self.worst.values())
        seen = "; ".join(f"{name}: {load}" for name, load in self.worst.items())
        remedy = f"DILATION={self.dilation}"
        return (
            "this machine was too busy: these rows are not valid: "
            f"{', '.join(self.worst)} ({seen}; "
            f"a full-size packet takes {self.allowed_ns / 1e6:.2g} ms here). "
            f"{f'Try {remedy}' if guessed else f'{remedy} would be enough'}"
        )


def too_busy(
    results: Mapping[str, SchemeResult], dilation: Dilation, packet_ns: float
) -> TooBusy | None:
    """None: the machine kept up, as far as it was measured."""
    worst: dict[str, tuple[float, Load]] = {}
    for name, result in results.items():
        needs = [(load.needed(dilation.factor, packet_ns), load) for load in result.loads]
        needed, load = max(needs, key=lambda each: each[0], default=(0.0, None))
        if load is not None and needed > dilation.factor:
            worst[name] = needed, load
    if not worst:
        return None
    most = max(needed for needed, _load in worst.values())
    loads = {name: load for name, (_needed, load) in worst.items()}
    return TooBusy(loads, enough(most), dilation.time(packet_ns))
