"""Progress of trials while they run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from ebb_experiments.study.eta import Eta, duration, expected_end
from ebb_experiments.study.store import Store
from ebb_experiments.study.trials import Trial

LINE_SECONDS = 60
END_WIDTH = len("perhaps 89 min to go, until 23:59")
"""Characters of the longest text about the end, so that nothing moves when it changes."""


@contextmanager
def progress(
    console: Console, missing: Sequence[tuple[str, Trial]], store: Store, workers: int
) -> Iterator[Callable[[Trial, str], None]]:
    """Tells how far the trials are: on a terminal by a bar; elsewhere, as in a log, by a line every
    so often."""
    eta = Eta([trial for _id, trial in missing], workers)
    told = begun = time.monotonic()
    with Progress(
        TextColumn("{task.completed}/{task.total} trials", table_column=_fixed()),
        BarColumn(bar_width=12, table_column=_fixed()),
        TimeElapsedColumn(table_column=_fixed()),
        TextColumn("{task.fields[end]}", markup=False, table_column=_fixed(END_WIDTH)),
        TextColumn(
            "{task.fields[last]}",
            markup=False,
            table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"),
        ),
        console=console,
        expand=True,
        transient=True,
        disable=not console.is_terminal,
    ) as bar:
        task = bar.add_task("", total=len(missing), end=expected_end(None), last="")
        done = 0

        def advance(trial: Trial, trial_id: str) -> None:
            nonlocal done, told
            done += 1
            eta.ended(trial, store.seconds(trial, trial_id))
            end = expected_end(eta.left(), guessed=eta.guessed)
            last = f"last: {trial.experiment} {trial.name}"
            bar.update(task, advance=1, end=end, last=last)
            if not console.is_terminal and time.monotonic() - told > LINE_SECONDS:
                told = time.monotonic()
                begin = f"{done}/{len(missing)} trials, {duration(told - begun)}"
                console.print(f"{begin}, {end}; {last}", markup=False, soft_wrap=True)

        yield advance


def _fixed(width: int | None = None) -> Column:
    """A column that keeps its width on a narrow terminal, where what was last is cut instead."""
    return Column(no_wrap=True, min_width=width)
