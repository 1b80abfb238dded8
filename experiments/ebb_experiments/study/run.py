"""Runs the trials that the store does not have, on a Dask cluster."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
from distributed import Client, LocalCluster, as_completed
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ebb_experiments.study.store import Store
from ebb_experiments.study.trial import run_trial
from ebb_experiments.study.trials import Trial


@dataclass(frozen=True)
class Plan:
    """Trials with their ids, and which of them are still to run."""

    trials: list[tuple[str, Trial]]
    missing: list[tuple[str, Trial]]


def plan(trials: Sequence[Trial], store: Store, inputs: str) -> Plan:
    named = [(trial.id(inputs), trial) for trial in trials]
    return Plan(named, [(i, trial) for i, trial in named if not store.has(trial, i)])


@contextmanager
def cluster(address: str | None, workers: int | None) -> Iterator[Client]:
    """The user's, or processes on this machine, one trial at a time in each."""
    if address is not None:
        with Client(address) as client:  # type: ignore[no-untyped-call]
            yield client
        return
    # A trial that fails is told by us, in a line; so is an interruption.
    quiet = {"logging": {"distributed": "critical", "distributed.nanny": "critical"}}
    with dask.config.set(quiet):
        # Ctrl-C is for this process, which then ends the workers: they inherit that they ignore it.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            local = LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=workers or os.cpu_count() or 1,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                memory_limit=0,
                silence_logs=50,
            )
        finally:
            signal.signal(signal.SIGINT, before)
    with local, Client(local) as client:  # type: ignore[no-untyped-call]
        yield client


def run(
    missing: Sequence[tuple[str, Trial]],
    store: Store,
    client: Client,
    build: Path,
    inputs: str,
    console: Console,
) -> int:
    """Every trial is stored as soon as it ends, so whatever interrupts this can be taken up again.
    Returns how many failed; the others go on."""
    failed = 0
    with _bar(console, len(missing)) as advance:
        futures: dict[Any, tuple[str, Trial]] = {
            client.submit(run_trial, trial, build, inputs, key=f"{trial_id}-{time.time_ns()}"): (
                trial_id,
                trial,
            )
            for trial_id, trial in missing
        }
        for future in as_completed(list(futures)):  # type: ignore[no-untyped-call]
            trial_id, trial = futures.pop(future)
            if future.status == "finished":
                store.write(trial, trial_id, future.result())
            else:
                failed += 1
                error = future.exception()
                console.print(
                    f"{trial.experiment} {trial.name}: {type(error).__name__}: {error}",
                    style="bold red",
                    markup=False,
                    soft_wrap=True,
                )
            advance(f"{trial.experiment} {trial.name}")
            future.release()
    return failed


@contextmanager
def _bar(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    begun = time.monotonic()
    with Progress(
        TextColumn("{task.completed}/{task.total} trials"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        console=console,
        transient=True,
    ) as bar:
        task = bar.add_task("", total=total, text="")
        done = 0

        def advance(name: str) -> None:
            nonlocal done
            done += 1
            left = (time.monotonic() - begun) / done * (total - done)
            bar.update(task, advance=1, text=f"about {_duration(left)} to go; last: {name}")

        yield advance


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
