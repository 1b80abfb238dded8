"""The numbers of Zats' chapter 4 beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ebb_experiments.workflow.model import (
    Distribution,
    exponential,
    measured,
    missed,
    normal,
    percentile,
    requests_in_time,
)


@dataclass(frozen=True, slots=True)
class Row:
    """A claim with what we found."""

    text: str
    published: str
    band: tuple[float, float]
    """Our number is in it, its ends included, if the claim holds."""
    ours: float

    @property
    def holds(self) -> bool:
        """Whether our number is inside the band."""
        return self.band[0] <= self.ours <= self.band[1]


def rows(seed: int) -> Iterator[Row]:
    """All claims about the model, with our numbers."""
    yield from _parallel(seed)
    yield from _sequential(seed)


def _parallel(seed: int) -> Iterator[Row]:
    late = {(d.name, n): missed(d, n, seed) for d in _tails() for n in (40, 400, 4000)}
    heavy, light, thin = (d.name for d in _tails())
    for workers, ours, exact in ((40, 4, 1), (400, 15, 3)):
        text = f"{workers} workers, 99.9th percentile of those that miss 10 ms"
        yield Row(
            f"{text}, measured",
            f"{ours}",
            (ours - 1, ours + 1),
            percentile(late[heavy, workers], 99.9),
        )
        yield Row(
            f"{text}, exponential, 3x",
            f"{exact}",
            (exact - 1, exact + 1),
            percentile(late[light, workers], 99.9),
        )
    yield Row("400 workers, median, measured", "6", (5, 7), percentile(late[heavy, 400], 50))
    yield Row("400 workers, median, exponential, 3x", "0", (0, 0), percentile(late[light, 400], 50))
    yield Row(
        "4000 workers, least of all runs, measured",
        "at least 34",
        (24, 44),
        float(late[heavy, 4000].min()),
    )
    yield Row(
        "4000 workers, median, measured", "60 (1.5 %)", (54, 66), percentile(late[heavy, 4000], 50)
    )
    yield Row(
        "4000 workers, median, exponential, 3x",
        "3 (0.075 %)",
        (2, 5),
        percentile(late[light, 4000], 50),
    )
    most = max(float(late[thin, workers].max()) for workers in (40, 400, 4000))
    yield Row("any number of workers, most of all runs, normal, 3x", "0", (0, 0), most)


def _tails() -> tuple[Distribution, Distribution, Distribution]:
    return measured(), exponential(3), normal(3)


def _sequential(seed: int) -> Iterator[Row]:
    text = "requests within 200 ms at the 99.9th percentile"
    yield Row(f"{text}, measured", "below 150", (75, 150), requests_in_time(measured(), seed))
    for distribution, published in (
        (exponential(1), 350),
        (exponential(3), 100),
        (normal(1), 500),
        (normal(3), 150),
    ):
        band = (published * 0.8, published * 1.2)
        ours = requests_in_time(distribution, seed)
        yield Row(f"{text}, {distribution.name}", f"{published}", band, ours)
