"""The two figures of a simulated scenario, as `make run` draws them: a queue over time, and
completion times. They are of each scheme's first seed and first phase."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ebb_topologies.files import write

from ebb_experiments.results.results import Results
from ebb_experiments.tour import figures

if TYPE_CHECKING:  # imported while the simulator starts (`run.virtual`)
    import pyarrow as pa

QUEUES, COMPLETION = "queues.svg", "completion.svg"
MOST_POINTS = 1_520
"""Points of a curve: twice the width of a picture in pixels, so that nothing left out shows."""
PORT = ("switch", "port", "peer")


class Pictures:
    """Collects what is drawn of a run."""

    def __init__(self, scenario: str, folder: Path, colours: Mapping[str, str | None]) -> None:
        """`colours`: of the schemes, as far as their files name them."""
        self._scenario = scenario
        self._folder = folder
        self._colours = colours
        self._port: dict[str, str | int] | None = None
        self._depths: dict[str, list[tuple[float, float]]] = {}
        self._times_ms: dict[str, list[float]] = {}

    def add(self, scheme: str, results: Results) -> None:
        """Adds a scheme's results, of which only what is drawn is kept; the first one says which
        port that is."""
        from ebb_experiments.results.arrow import table

        ended = (ns for ns in results.tables["flows"].column("fct_ns") if ns is not None)
        self._times_ms[scheme] = thinned(sorted(ns / 1e6 for ns in ended))
        samples = table(results.tables["samples"])
        if len(samples):
            self._port = self._port or fullest(samples)
            self._depths[scheme] = depths(samples, self._port)

    def write(self) -> None:
        """Writes the figures; that of queues only if some were looked at."""
        title = f"Flow completion times, {self._scenario}"
        times = figures.completion(title, self._times_ms, self._colours)
        write(self._folder / COMPLETION, times)
        if self._port:
            title = "Queue at port {port} of {switch} (to {peer}), ".format(**self._port)
            drawn = figures.queues(title + self._scenario, self._depths, self._colours)
            write(self._folder / QUEUES, drawn)


def fullest(samples: pa.Table) -> dict[str, str | int]:
    """The port that held most on average over time, the first by name of several."""
    sums = samples.group_by(list(PORT)).aggregate([("depth_bytes", "sum")])
    order = [("depth_bytes_sum", "descending"), *((name, "ascending") for name in PORT)]
    row: dict[str, str | int] = sums.sort_by(order).select(PORT).slice(0, 1).to_pylist()[0]
    return row


def depths(samples: pa.Table, port: dict[str, str | int]) -> list[tuple[float, float]]:
    """KB in all queues of a port by ms; of many instants the fullest of each few."""
    # Its import takes a third of a second; the simulation's clock runs meanwhile (`get_ready`).
    import pyarrow.compute as pc

    here = pc.and_(*(pc.equal(samples[name], port[name]) for name in ("switch", "port")))
    sums = samples.filter(here).group_by("at_ns").aggregate([("depth_bytes", "sum")])
    rows = sums.sort_by("at_ns")
    points = list(zip(rows["at_ns"].to_pylist(), rows["depth_bytes_sum"].to_pylist(), strict=True))
    step = -(-len(points) // MOST_POINTS)
    kept = (
        max(points[at : at + step], key=lambda point: point[1])
        for at in range(0, len(points), max(step, 1))
    )
    return [(at_ns / 1e6, size / 1e3) for at_ns, size in kept]


def thinned(times: list[float]) -> list[float]:
    """As many of the sorted values as are drawn, at equal shares, the last one with them."""
    if len(times) <= MOST_POINTS:
        return times
    return [times[-(-len(times) * (n + 1) // MOST_POINTS) - 1] for n in range(MOST_POINTS)]
