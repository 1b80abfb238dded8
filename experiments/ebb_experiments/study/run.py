"""Runs the trials that the store does not have, on a Dask cluster."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client, LocalCluster, as_completed
from distributed.security import Security
from ebb_topologies.files import InputError
from ebb_topologies.text import printable
from rich.console import Console

from ebb_experiments.study.progress import progress
from ebb_experiments.study.store import Store
from ebb_experiments.study.trial import Failure, attempt, differing, one_line
from ebb_experiments.study.trials import Trial

CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Plan:
    """Trials with their ids, and which of them have been run and which have not."""

    trials: list[tuple[str, Trial]]
    stored: list[tuple[str, Trial]]
    missing: list[tuple[str, Trial]]
    damaged: list[str]
    """Stored results that count as missing, each with what is wrong with it."""

    @property
    def some(self) -> bool:
        """Whether any has been run."""
        return bool(self.stored)


def plan(trials: Sequence[Trial], store: Store, inputs: str) -> Plan:
    """The first seed of every experiment comes first, then the second of every one: whenever a run
    ends, all of them are there with some."""
    named = [(trial.id(inputs), trial) for trial in trials]
    seeds: dict[str, dict[int, int]] = {}
    for trial in trials:
        of_it = seeds.setdefault(trial.experiment, {})
        of_it.setdefault(trial.seed, len(of_it))
    damage = {i: why for i, trial in named if (why := store.damage(trial, i)) is not None}
    whole = {i for i, trial in named if i not in damage and store.has(trial, i)}
    stored = [each for each in named if each[0] in whole]
    missing = [each for each in named if each[0] not in whole]
    missing.sort(key=lambda each: seeds[each[1].experiment][each[1].seed])
    return Plan(named, stored, missing, list(damage.values()))


@contextmanager
def cluster(address: str | None, workers: int | None) -> Iterator[Client]:
    """The user's cluster, or processes on this machine, with one trial at a time in each."""
    if address is not None:
        try:
            client = Client(address, timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise InputError(f"no Dask scheduler at {address}: {one_line(error)}") from None
        with client:
            yield client
        return
    # We report a trial that fails in a line; an interruption too.
    logging.disable(logging.CRITICAL)
    try:
        with _processes(workers) as local, Client(local) as client:  # type: ignore[no-untyped-call]
            client.run(logging.disable)
            yield client
    finally:
        logging.disable(logging.NOTSET)


def _processes(workers: int | None) -> LocalCluster:
    # Ctrl-C is for this process, which then ends the workers: they inherit that they ignore it.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers or os.cpu_count() or 1,
            threads_per_worker=1,
            processes=True,
            # Whoever talks to a scheduler or worker runs code as its user. So only those that have
            # the certificate of this run do; its page is for this machine.
            security=Security.temporary(),  # type: ignore[no-untyped-call]
            dashboard_address="127.0.0.1:0",
            memory_limit=0,
            silence_logs=logging.CRITICAL,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def fit_workers(
    client: Client, build: Path | None, expected: dict[str, str], console: Console
) -> list[str]:
    """Addresses of the workers whose Ebb is the one that trials were planned with; a line about
    each other one."""
    told = client.run(differing, expected, build, on_error="return")
    for address, other in told.items():
        if other is not None:
            console.print(
                f"worker {address} is not used: {printable(_why(other))}",
                style="yellow", markup=False, soft_wrap=True,
            )  # fmt: skip
    fit = [address for address, other in told.items() if other is None]
    if not fit:
        raise InputError(
            "no worker of the cluster has this Ebb"
            if told
            else "the cluster has no workers: `dask worker ADDRESS --nthreads 1` starts one"
        )
    return fit


def run(
    missing: Sequence[tuple[str, Trial]],
    store: Store,
    client: Client,
    build: Path | None,
    expected: dict[str, str],
    console: Console,
) -> int:
    """Runs trials. Every one is stored as soon as it ends, so that an interrupted run can be taken
    up again. Returns how many failed; one that fails stops no other."""
    failed = 0
    fit = fit_workers(client, build, expected, console)

    order = {trial_id: -number for number, (trial_id, _trial) in enumerate(missing)}

    def submit(trial_id: str, trial: Trial, workers: list[str] | None) -> Any:
        key, first = f"{trial_id}-{time.time_ns()}", order[trial_id]
        return client.submit(
            attempt, trial, build, expected, key=key, workers=workers, priority=first
        )

    # Those that come later are welcome if all are alike so far.
    anywhere = len(fit) == len(client.scheduler_info(n_workers=-1)["workers"])
    futures = {submit(*each, None if anywhere else fit): each for each in missing}
    with _kept_if_interrupted(futures, store), progress(console, missing, store, len(fit)) as told:
        waiting = as_completed(list(futures))  # type: ignore[no-untyped-call]
        for future in waiting:
            trial_id, trial = futures[future]
            came = future.status == "finished"
            result = future.result() if came else Failure(one_line(future.exception()))
            if isinstance(result, Failure) and result.other_inputs:
                again = submit(trial_id, trial, fit)
                futures[again] = (trial_id, trial)
                waiting.add(again)  # type: ignore[no-untyped-call]
                del futures[future]
                continue
            if not isinstance(result, Failure):
                store.write(trial, trial_id, result)
            else:
                failed += 1
                console.print(
                    f"{trial.experiment} {trial.name}: {printable(result.why)}",
                    style="bold red", markup=False, soft_wrap=True,
                )  # fmt: skip
            told(trial, trial_id)
            del futures[future]
            future.release()
    return failed


@contextmanager
def _kept_if_interrupted(futures: dict[Any, tuple[str, Trial]], store: Store) -> Iterator[None]:
    """Stores, when interrupted, what has ended on the workers and is not here yet."""
    try:
        yield
    except KeyboardInterrupt:
        for future, (trial_id, trial) in futures.items():
            if future.status == "finished":
                result = future.result(timeout=CONNECT_SECONDS)
                if not isinstance(result, Failure):
                    store.write(trial, trial_id, result)
        raise


def _why(other: object) -> str:
    if isinstance(other, BaseException):
        return f"it does not know how to say which Ebb it has ({one_line(other)})"
    return str(other)
