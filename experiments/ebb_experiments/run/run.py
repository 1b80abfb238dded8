"""A run: one scheme of a scenario, phase after phase, under one clock or the other."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ebb_controller.mechanisms import FabricParameters
from ebb_controller.program import Program
from ebb_topologies.installation import commit, compiled
from ebb_topologies.model import Topology

from ebb_experiments.results.results import Results
from ebb_experiments.results.tables import Row
from ebb_experiments.scenario.architecture import Architecture
from ebb_experiments.scenario.loaded import Loaded, PhaseRound

if TYPE_CHECKING:
    from ebb_controller.controller import Controller, Counters

VERSIONED = ("finsy", "grpcio", "protobuf", "pyarrow", "pydantic")


@dataclass(frozen=True, slots=True)
class Binaries:
    """The programs that `make build` leaves."""

    directory: Path
    architecture: Architecture = "v1model"
    """Architecture of the switches' programs."""

    @property
    def simulator(self) -> Path:
        """Path of `ebb-simulator`."""
        return self.directory / "ebb-simulator"

    @property
    def agent(self) -> Path:
        """Path of `ebb-agent`."""
        return self.directory / "ebb-agent"

    def program(self, topology: Topology, *parameters: FabricParameters) -> Program:
        """The program that does what all these say on the switches of a topology, beside the
        binaries or as it came with the package. Raises `InputError` if there is none."""
        folder = compiled(self.directory)
        if self.architecture == "tna":
            return Program.of_tofino(folder, topology, *parameters)
        return Program.of(folder, *parameters)


@dataclass(frozen=True)
class Task:
    """One time that a phase is run, by one scheme with one seed."""

    loaded: Loaded
    scheme: str
    """Name of the scheme in the scenario."""
    seed: int
    phase_round: PhaseRound
    directory: Path
    """Folder for everything that it leaves but the tables, which `Results.write` writes."""

    @property
    def head(self) -> Row:
        """Columns that every row of its results has."""
        return {
            "scheme": self.scheme,
            "seed": self.seed,
            "phase": self.phase_round.traffic.name,
            "round": self.phase_round.round,
        }

    @property
    def transport_of(self) -> dict[str, str]:
        """Transports of parts of this phase's traffic that have another than the rest."""
        names = self.phase_round.traffic.names
        given = self.loaded.schemes[self.scheme].transport_of
        return {name: transport for name, transport in given.items() if name in names}

    @property
    def nic(self) -> dict[str, int]:
        """Parameters of the agents that the scenario says, nominal."""
        return {"rate_bps": self.loaded.host_bps, "mtu_bytes": self.loaded.spec.mtu_bytes}

    @property
    def about(self) -> dict[str, Any]:
        """Entries of the task in run.json."""
        spec = self.loaded.spec.model_dump(exclude_none=True, exclude={"workload", "phase"})
        scheme = self.loaded.schemes[self.scheme].model_dump()
        return {
            "scenario": self.loaded.name,
            **self.head,
            "dilation": self.loaded.dilation.factor,
            "parameters": {"scenario": spec, "scheme": scheme},
            **self._machines,
        }

    @property
    def _machines(self) -> dict[str, dict[str, str]]:
        """The hosts of virtual machines, by their names, as an entry of run.json; none: there are
        none."""
        machines = {vm.name: vm.machine for vm in self.loaded.topology.vms if vm.machine}
        return {"machines": machines} if machines else {}


class Clock(Protocol):
    """A clock under which tasks are run."""

    def carry_out(self, task: Task) -> Results:
        """Runs a task. Raises what the parts of the fabric raise, with the reason."""
        ...


@dataclass
class Run:
    """One scheme with one seed: all its phases, all their rounds."""

    loaded: Loaded
    name: str
    """Name of the scheme in the scenario."""
    seed: int
    clock: Clock
    directory: Path

    def rounds(self) -> Iterator[Results]:
        """Runs all rounds of all phases, one after another; gives the results of each."""
        return map(self.run_round, self.loaded.rounds(self.name))

    def run_round(self, phase_round: PhaseRound) -> Results:
        """Runs one round of a phase, perhaps not for the first time: its files are written anew."""
        alone = len(list(self.loaded.rounds(self.name))) == 1
        own = self.directory if alone else self.directory / phase_round.label
        own.mkdir(parents=True, exist_ok=True)
        return self.clock.carry_out(Task(self.loaded, self.name, self.seed, phase_round, own))

    def go(self) -> Results:
        """Runs everything and returns the results of all phases together."""
        return Results.together(list(self.rounds()))


def versions(binaries: Binaries) -> dict[str, str | None]:
    """Versions of what has taken part; `commit` ends in + if files differ from it."""
    return {
        "commit": commit(),
        "simulator": _said([str(binaries.simulator), "--version"]),
        "python": platform.python_version(),
        **{package: _version(package) for package in VERSIONED},
    }


def _version(package: str) -> str | None:
    """Version of a Python package; none: it is not there. A run under the wall clock needs only
    some."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _said(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


async def read_counters(
    controller: Controller, wanted: Callable[[str], bool] = lambda _name: True
) -> dict[str, Counters]:
    """Reads the wanted counters of the switches that the controller has; one may just have been
    restarted."""
    switches = [s.name for s in controller.topology.switches if not controller.has_left(s.name)]
    return await controller.counters_of(switches, *filter(wanted, controller.counter_names))
