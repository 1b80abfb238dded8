"""Estimate of the time until all trials have been run."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from ebb_experiments.study.trials import Trial

Kind = tuple[str, ...]


class Eta:
    """Durations of trials differ by orders of magnitude between experiments, by factors between
    points and schemes, and little between seeds. So a trial is expected to take the mean of those
    with the same scheme and points, or else of the same scheme, of the experiment, or of all."""

    def __init__(self, trials: Sequence[Trial], workers: int) -> None:
        self._left = Counter(_kinds(trial)[0] for trial in trials)
        self._kinds = {_kinds(trial)[0]: _kinds(trial) for trial in trials}
        self._seconds: defaultdict[Kind, list[float]] = defaultdict(list)
        self._workers = workers

    def ended(self, trial: Trial, seconds: float | None) -> None:
        """Records the duration of a trial; none: it failed."""
        kinds = _kinds(trial)
        self._left[kinds[0]] -= 1
        if seconds is not None:
            for kind in kinds:
                self._seconds[kind].append(seconds)

    @property
    def guessed(self) -> bool:
        """Whether some trials left are of experiments of which none has ended."""
        return not all(
            any(self._seconds[each] for each in self._kinds[kind][:-1])
            for kind, count in self._left.items()
            if count
        )

    def left(self) -> float | None:
        """Seconds that the trials left will take; none as long as nothing is known."""
        total = 0.0
        for kind, count in self._left.items():
            if count == 0:
                continue
            known = next((self._seconds[k] for k in self._kinds[kind] if self._seconds[k]), None)
            if known is None:
                return None
            total += count * sum(known) / len(known)
        return total / min(self._workers, max(1, self._left.total()))


def _kinds(trial: Trial) -> tuple[Kind, ...]:
    """Kinds that a trial belongs to, the narrowest first; the last is that of all trials."""
    points = tuple(f"{axis}={point}" for axis, point in sorted(trial.labels.items()))
    experiment = (trial.experiment, trial.size)
    return (*experiment, trial.scheme, *points), (*experiment, trial.scheme), experiment, ()


def expected_end(seconds: float | None, *, guessed: bool = False) -> str:
    """Remaining time and time of day of the end, for people."""
    if seconds is None:
        return "end not known yet"
    clock = time.strftime("%H:%M", time.localtime(time.time() + seconds))
    return f"{'perhaps' if guessed else 'about'} {duration(seconds)} to go, until {clock}"


def duration(seconds: float) -> str:
    """A duration in seconds, minutes or hours, for people."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
