"""Counted subjects: simulations by `ebb-simulator`, and parts of it by examples of their crates."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ebb_experiments.scenario.architecture import Architecture

from instructions.counts import Count
from instructions.profile import functions

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"

CALLGRIND = ["valgrind", "--quiet", "--tool=callgrind", "--instr-atstart=no"]


class CountError(Exception):
    """Nothing could be counted; the message says why."""


@dataclass(frozen=True)
class Example:
    """A program that counts a part of itself (`ebb_testkit::counted`) and prints how many packets
    that are."""

    program: str
    arguments: tuple[str, ...] = ()

    def count(self) -> Count:
        with TemporaryDirectory(prefix="ebb-instructions-") as folder:
            profile = Path(folder) / "profile"
            program = [str(BUILD / "instructions" / self.program), *self.arguments]
            printed = _run(*CALLGRIND, f"--callgrind-out-file={profile}", *program)
            return _read("packet", int(printed), profile)


@dataclass(frozen=True)
class Simulation:
    """A permutation on a fat-tree, from the first event to the last one: without set-up and
    results."""

    scheme: str
    k: int = 4
    """Ports of a switch; there are k^3 / 4 hosts."""
    object_bytes: int = 200_000
    """Transfers of each host."""
    architecture: Architecture = "v1model"
    """Architecture of the switches' programs."""

    def count(self) -> Count:
        with TemporaryDirectory(prefix="ebb-instructions-") as folder:
            simulated = Path(__file__).parent / "simulated.py"
            network = (str(self.k), str(self.object_bytes))
            hops = _run(
                sys.executable, str(simulated), self.scheme, *network, folder, self.architecture
            )
            return _read("packet-hop", int(hops), Path(folder) / "profile")


SUBJECTS: dict[str, Example | Simulation] = {
    "simulation-ndp": Simulation("ndp"),
    "simulation-128-hosts": Simulation("ndp", k=8, object_bytes=50_000),
    "simulation-scdp": Simulation("scdp"),
    "simulation-dctcp": Simulation("dctcp"),
    "simulation-detail": Simulation("detail"),
    "simulation-ndp-tna": Simulation("ndp", architecture="tna"),
    "simulation-hull-tna": Simulation("hull", architecture="tna"),
    "pipeline-fabric": Example("pipeline_instructions", ("fabric",)),
    "pipeline-tofino": Example("pipeline_instructions", ("tofino",)),
    "pipeline-router": Example("pipeline_instructions", ("router",)),
    "traffic-manager": Example("traffic_manager_instructions"),
    "hosts-ndp": Example("transport_instructions", ("ndp",)),
    "hosts-scdp": Example("transport_instructions", ("scdp",)),
    "hosts-reno": Example("transport_instructions", ("reno",)),
    "hosts-dctcp": Example("transport_instructions", ("dctcp",)),
}


def _run(*command: str) -> str:
    # Tunables that the C library reads from the environment would change how it copies.
    environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
        raise CountError(f"{' '.join(command)} failed: {''.join(words)}")
    return done.stdout


def _read(per: str, packets: int, profile: Path) -> Count:
    with profile.open() as lines:
        counted = functions(lines)
    if not counted:
        raise CountError("Callgrind has counted nothing: the function that it waits for is gone")
    return Count.of(per, packets, counted)
