"""Trials under the wall clock, on Mininet: one after another, because they share this machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ebb_controller.errors import ControllerError
from ebb_topologies.files import InputError
from ebb_topologies.installation import programs
from ebb_topologies.processes import ProcessDied
from ebb_topologies.targets import target
from ebb_topologies.text import printable
from rich.console import Console

from ebb_experiments.results.load import enough
from ebb_experiments.run.agents import AgentError
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.scenario.loaded import Loaded
from ebb_experiments.study.progress import progress
from ebb_experiments.study.store import Store
from ebb_experiments.study.trial import files_of, one_line
from ebb_experiments.study.trials import Trial

MOST_HOSTS = 20
"""Most hosts of a trial, fat-tree(4) has 16: with more agents, few processors are too slow."""
MOST_SECONDS = 600.0
"""Longest time that a trial may take, in seconds."""
MTU_BYTES = 1500
"""MTU of the veths."""
EXPECTED = (InputError, ControllerError, AgentError, ProcessDied, OSError)


def unfit(trial: Trial) -> str | None:
    """Why the trial cannot be run on Mininet; none: it can."""
    if not isinstance(trial.loaded, Loaded):
        return "there are no packets at flow level"
    spec, topology = trial.loaded.spec, trial.loaded.topology
    if len(topology.hosts) > MOST_HOSTS:
        return f"{len(topology.hosts)} hosts; here are at most {MOST_HOSTS}, as in a fat-tree(4)"
    if spec.mtu_bytes > MTU_BYTES:
        return f"packets of {spec.mtu_bytes} bytes; the interfaces of the hosts take {MTU_BYTES}"
    if spec.skip:
        return "time is skipped in virtual time only"
    if spec.forgery:
        return "notifications are made up in virtual time only"
    seconds = trial.loaded.dilation.time(spec.limit_ns) / 1e9
    if seconds > MOST_SECONDS:
        return (
            f"a trial may take {spec.limit_ns / 1e9:g} s, slowed by "
            f"{trial.loaded.dilation.factor:g} {seconds / 60:.0f} minutes; at most "
            f"{MOST_SECONDS / 60:.0f}"
        )
    return None


def too_busy(meta: Mapping[str, Any]) -> str | None:
    """Why a trial is not valid, by its meta.json; none: it is. Old trials have no measurement."""
    needed, dilation = float(meta.get("needed_dilation", 0.0)), float(meta["dilation"])
    if needed <= dilation:
        return None
    return (
        "this machine was too busy: these rows are not valid. `[mininet] dilation` = "
        f"{enough(needed)} of the experiment's file would be enough, instead of {dilation:g}"
    )


def invalid(stored: Sequence[tuple[str, Trial]], store: Store) -> list[tuple[str, Trial]]:
    """The stored trials, with their ids, during which the machine was too busy."""
    return [
        (trial_id, trial)
        for trial_id, trial in stored
        if trial.fabric == "mininet" and too_busy(store.read(trial, trial_id).meta) is not None
    ]


def run(
    missing: Sequence[tuple[str, Trial]],
    store: Store,
    build: Path | None,
    of_inputs: str,
    console: Console,
) -> int:
    """Runs the trials that are not stored; returns how many failed. One that fails stops no
    other."""
    if os.geteuid() != 0:
        raise InputError("--fabric mininet makes network namespaces: run it as root")
    from ebb_experiments.run.wall import FabricSetup, Wall  # Mininet is there

    failed = 0
    with progress(console, missing, store, workers=1) as advance, LoopThread() as loop:
        for trial_id, trial in missing:
            begun = time.time()
            with tempfile.TemporaryDirectory(prefix="ebb-trial-") as directory:
                folder, binaries = Path(directory), Binaries(build or programs())
                program = binaries.program(
                    trial.scenario.topology, trial.scenario.schemes[trial.scheme].fabric
                )
                switches = target("ebb", binaries.directory, fused=True)
                setup = FabricSetup(switches, program, binaries, folder / "fabric")
                try:
                    with Wall(trial.scenario, setup, loop) as wall:
                        run = Run(trial.scenario, trial.scheme, trial.seed, wall, folder / "run")
                        results = run.go()
                    store.write(trial, trial_id, files_of(trial, results, of_inputs, begun))
                    if (why := too_busy(results.run)) is not None:
                        console.print(
                            f"{trial.experiment} {trial.name}: {why}",
                            style="bold yellow", markup=False, soft_wrap=True,
                        )  # fmt: skip
                except (*EXPECTED, subprocess.SubprocessError) as error:
                    failed += 1
                    console.print(
                        f"{trial.experiment} {trial.name}: {printable(one_line(error))}",
                        style="bold red", markup=False, soft_wrap=True,
                    )  # fmt: skip
            advance(trial, trial_id)
    return failed
