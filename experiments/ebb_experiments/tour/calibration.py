"""How slow a run has to be for this machine: chosen before it, and judged after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ebb_topologies.dilation import Dilation

from ebb_experiments.results.load import Load, Processors, enough
from ebb_experiments.results.results import Results
from ebb_experiments.run.run import Task
from ebb_experiments.run.wall import Wall
from ebb_experiments.scenario.loaded import Loaded, PhaseRound
from ebb_experiments.scenario.spec import MAX_DILATION
from ebb_experiments.tour.summary import SchemeResult

USUAL_DILATION = 50
"""Dilation that two processors keep up with. It is not less on faster ones, so that runs can be
compared."""
PHASE = "incast"
CALM = 0.4
"""Share of the processors' time that an incast may take where switches do not tell how late they
are: the heaviest phase, storage, takes up to twice as much of it, with SCDP's coding (measured:
0.49 and 0.9 with BMv2 on two cores, where agents were late)."""


REPEATS = 2
"""How often a phase is measured again while the machine does not keep up with it."""
IDLE_SECONDS = 0.5
OTHERS = 0.2
"""Busy share of the processors while the fabric is idle from which on other work is named."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A phase that was measured once or several times."""

    results: Results
    """Results of the measurement that the machine disturbed least."""
    loads: list[Load]
    """How busy the machine was, in every measurement."""
    taken: Load
    """The one of `results`."""

    def __str__(self) -> str:
        first = self.loads[0]
        return f"measured {len(self.loads)} times, as at first: {first}; taken: {self.taken}"


def measure(
    run: Callable[[], Results], needed: Callable[[Load], float], factor: float, repeats: int
) -> Measured:
    """Runs a phase, and again while more dilation is `needed` than `factor`. Not where processors
    that were busy all the time are the only sign: they would be so again."""
    tried: list[tuple[float, Load, Results]] = []
    for _ in range(1 + repeats):
        results = run()
        load = Load.of(results.run["load"])
        tried.append((needed(load), load, results))
        if tried[-1][0] <= factor or load.saturated:
            break
    _needed, taken, results = min(tried, key=lambda each: each[0])
    return Measured(results, [load for _needed, load, _results in tried], taken)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The measurement, and the choice."""

    measured: Load
    """The measurement that the machine disturbed least."""
    times: int
    """How often it was measured."""
    at: float
    """Dilation at which it was measured."""
    dilation: float
    """Dilation that was chosen; the same as `at` if that is enough."""
    others: float
    """Busy share of the processors while the fabric was idle."""

    def __str__(self) -> str:
        best = f" (the best of {self.times})" if self.times > 1 else ""
        chosen = "kept" if self.dilation == self.at else f"{self.dilation:g} times slower instead"
        text = f"an incast {self.at:g} times slower: {self.measured}{best}; {chosen}"
        if self.others < OTHERS:
            return text
        return f"{text}; other work takes {self.others:.0%} of this machine's processors"


def calibrate(wall: Wall, directory: Path) -> Calibration:
    """Runs a phase on a fabric that is up, with the scheme that has most packets."""
    processors = Processors()
    processors.begin()
    time.sleep(IDLE_SECONDS)
    others = processors.share()
    loaded = wall.loaded
    name, phase_round = probe(loaded)
    phase_round = replace(phase_round, traffic=replace(phase_round.traffic, steps=()))
    task = Task(loaded, name, loaded.spec.seeds[0], phase_round, directory)
    at = loaded.dilation.factor

    def needed(load: Load) -> float:
        return load.needed(at, loaded.packet_ns, busiest=CALM)

    best = measure(lambda: wall.carry_out(task), needed, at, REPEATS)
    most = needed(best.taken)
    chosen = at if most <= at else min(MAX_DILATION, enough(most))
    return Calibration(best.taken, len(best.loads), at, chosen, others)


def probe(loaded: Loaded) -> tuple[str, PhaseRound]:
    """A scheme that trims, whose receivers pull, if there is one, and the incast if it runs one:
    many packets in a short time."""
    pulling = [name for name, scheme in loaded.schemes.items() if scheme.fabric.trimming]
    name = [*pulling, *loaded.schemes][0]
    rounds = list(loaded.rounds(name))
    return name, next((one for one in rounds if one.traffic.name == PHASE), rounds[0])


@dataclass(frozen=True, slots=True)
class OverloadedSchemes:
    """Schemes whose rows are not valid, with what was measured in their worst phases."""

    worst: Mapping[str, Load]
    dilation: int
    """Dilation that would have been enough."""
    allowed_ns: float

    @property
    def names(self) -> frozenset[str]:
        """Schemes that the machine did not keep up with."""
        return frozenset(self.worst)

    def __str__(self) -> str:
        guessed = any(load.saturated for load in self.worst.values())
        seen = "; ".join(f"{name}: {load}" for name, load in self.worst.items())
        return (
            "this machine was too busy: these rows are not valid: "
            f"{', '.join(self.worst)} ({seen}; "
            f"a full-size packet takes {self.allowed_ns / 1e6:.2g} ms here). "
            f"Try again when nothing else runs here, or with DILATION={self.dilation}"
            f"{' or more' if guessed else ''}"
        )


def too_busy(
    results: Mapping[str, SchemeResult], dilation: Dilation, packet_ns: float
) -> OverloadedSchemes | None:
    """Judges a run; none: the machine kept up, as far as it was measured."""
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
    return OverloadedSchemes(loads, enough(most), dilation.time(packet_ns))
