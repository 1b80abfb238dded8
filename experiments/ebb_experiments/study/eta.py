"""When the trials that are left will have been run."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Sequence

from ebb_experiments.study.trials import Trial

Kind = tuple[str, ...]


class Eta:
    """Trials differ by orders of magnitude between experiments, and by factors between points and
    schemes; they differ little between seeds. So what is left takes as long as its likes took:
    those of the same scheme and points, else of the same scheme, else of the experiment, else
    all."""

    def __init__(self, trials: Sequence[Trial], workers: int) -> None:
        self._left = Counter(_likeness(trial)[0] for trial in trials)
        self._classes = {_likeness(trial)[0]: _likeness(trial) for trial in trials}
        self._seconds: defaultdict[Kind, list[float]] = defaultdict(list)
        self._workers = workers

    def ended(self, trial: Trial, seconds: float | None) -> None:
        """Notes how long a trial took; none: it failed."""
        classes = _likeness(trial)
        self._left[classes[0]] -= 1
        if seconds is not None:
            for kind in classes:
                self._seconds[kind].append(seconds)

    @property
    def guessed(self) -> bool:
        """Whether some trials left are of experiments of which none has ended."""
        return not all(
            any(self._seconds[each] for each in self._classes[kind][:-1])
            for kind, count in self._left.items()
            if count
        )

    def left(self) -> float | None:
        """Seconds that the trials left will take; none as long as nothing is known."""
        total = 0.0
        for kind, count in self._left.items():
            if count == 0:
                continue
            known = next((self._seconds[k] for k in self._classes[kind] if self._seconds[k]), None)
            if known is None:
                return None
            total += count * sum(known) / len(known)
        return total / min(self._workers, max(1, self._left.total()))


def _likeness(trial: Trial) -> tuple[Kind, ...]:
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
