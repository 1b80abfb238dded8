"""What is told while trials run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ebb_experiments.study.eta import Eta, duration, expected_end
from ebb_experiments.study.store import Store
from ebb_experiments.study.trials import Trial

LINE_SECONDS = 60


@contextmanager
def progress(
    console: Console, missing: Sequence[tuple[str, Trial]], store: Store, workers: int
) -> Iterator[Callable[[Trial, str], None]]:
    """Tells how far the trials are: on a terminal by a bar; elsewhere, as in a log, by a line every
    so often."""
    eta = Eta([trial for _id, trial in missing], workers)
    told = begun = time.monotonic()
    with Progress(
        TextColumn("{task.completed}/{task.total} trials"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=len(missing), text="")
        done = 0

        def advance(trial: Trial, trial_id: str) -> None:
            nonlocal done, told
            done += 1
            eta.ended(trial, store.seconds(trial, trial_id))
            text = f"{expected_end(eta.left())}; last: {trial.experiment} {trial.name}"
            bar.update(task, advance=1, text=text)
            if not console.is_terminal and time.monotonic() - told > LINE_SECONDS:
                told = time.monotonic()
                begin = f"{done}/{len(missing)} trials, {duration(told - begun)}"
                console.print(f"{begin}, {text}", markup=False, soft_wrap=True)

        yield advance
