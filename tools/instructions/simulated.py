"""Runs a scheme's simulation under Callgrind, which counts from the first event to the last one.

    python tools/instructions/simulated.py SCHEME K BYTES FOLDER ARCHITECTURE

A permutation on a fat-tree with that k, an object of so many bytes from each host. It leaves
FOLDER/profile and prints how many packet-hops there were. The simulator's set-up runs
uncounted and so in little time. Before the clock runs Callgrind is told to count, and then counts
only within the function that works off events.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import cast

from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.run.virtual import PausedSimulation, Virtual, Watch
from ebb_experiments.scenario.architecture import Architecture
from ebb_experiments.scenario.loaded import all_at_once, scenario

BUILD = Path(__file__).resolve().parents[2] / "build"
COUNTED = "*partition::Partition<H>::take_turn*"
"""The function of the simulation that works off events, as Callgrind calls it."""
WRAPPER = """#!/bin/sh
[ "$1" != --version ] || exec {simulator} --version
echo $$ > {folder}/pid
exec valgrind --quiet --tool=callgrind --instr-atstart=no --toggle-collect='{counted}' \\
  --callgrind-out-file={folder}/profile {simulator} "$@"
"""


def main(scheme: str, k: int, size_bytes: int, folder: Path, architecture: Architecture) -> None:
    watch = Watch(sample=lambda paused: begin(folder, paused), sample_every_ns=10**12)
    clock = Virtual(binaries(folder, architecture), threads=1, watch=watch)
    loaded = scenario(table(scheme, k, size_bytes), "instructions")
    results = Run(loaded, scheme, 1, clock, folder / "run").go()
    if results.unfinished:
        sys.exit(f"{results.unfinished} flows did not finish")
    print(results.run["packet_hops"])


def table(scheme: str, k: int, size_bytes: int) -> dict[str, object]:
    """The scenario, like that of `make bench BENCH=simulation`; a lossless fabric of faster links
    would need larger buffers than the scheme's."""
    rate_bps = 10_000_000_000 if scheme == "detail" else 100_000_000_000
    window = {"agent": {"ndp": {"initial_window_packets": 128}}} if scheme == "ndp" else {}
    return {
        "fat_tree": {"k": k, "rate_bps": rate_bps, "delay_ns": 1_000},
        "schemes": [scheme],
        "override": {scheme: window} if window else {},
        "workload": {"traffic": [all_at_once("permutation", {"type": "permutation"}, size_bytes)]},
        "dilation": 100,
        "mtu_bytes": 1500,
    }


def binaries(folder: Path, architecture: Architecture) -> Binaries:
    """Products of `make build`, with a simulator that runs under Callgrind."""
    for file in BUILD.iterdir():
        if file.name != "ebb-simulator":
            (folder / file.name).symlink_to(file)
    wrapper = folder / "ebb-simulator"
    simulator = shlex.quote(str(BUILD / "ebb-simulator"))
    place = shlex.quote(str(folder))
    wrapper.write_text(WRAPPER.format(simulator=simulator, folder=place, counted=COUNTED))
    wrapper.chmod(0o755)
    return Binaries(folder, architecture)


def begin(folder: Path, paused: PausedSimulation) -> None:
    """Has Callgrind count from now on."""
    if paused.at_ns == 0:
        pid = (folder / "pid").read_text().strip()
        told = subprocess.run(
            ["callgrind_control", "-i", "on", pid], capture_output=True, text=True, check=False
        )
        if told.returncode != 0 or "OK" not in told.stdout:
            sys.exit(f"callgrind_control: {(told.stderr or told.stdout).strip()}")


if __name__ == "__main__":
    scheme, k, size_bytes, folder, architecture = sys.argv[1:]
    main(scheme, int(k), int(size_bytes), Path(folder), cast("Architecture", architecture))
