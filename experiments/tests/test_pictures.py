"""The figures of a simulated scenario."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ebb_experiments.results.arrow import Batches
from ebb_experiments.results.results import Results
from ebb_experiments.sim import pictures
from ebb_experiments.sim.pictures import MOST_POINTS, Pictures, thinned

QUIET: dict[str, str | int] = {"switch": "a", "port": 1, "peer": "ha"}
BUSY: dict[str, str | int] = {"switch": "b", "port": 1, "peer": "hb"}


def results(flows_ms: list[float | None], samples: list[dict[str, Any]]) -> Results:
    flows = [{"fct_ns": None if ms is None else ms * 1e6} for ms in flows_ms]
    return Results({"flows": Batches("flows", flows), "samples": Batches("samples", samples)})


def sample(port: dict[str, Any], queue: int, at_ns: float, size: int) -> dict[str, Any]:
    return {**port, "queue": queue, "at_ns": at_ns, "depth_bytes": size}


def test_the_port_that_held_most_is_drawn_all_its_queues_together() -> None:
    table = Batches(
        "samples",
        [
            *(sample(QUIET, 0, at, 9_000) for at in (0, 1e6)),
            *(
                sample(BUSY, queue, at, size)
                for queue in (0, 1)
                for at, size in ((1e6, 7_000), (0, 3_000))
            ),
        ],
    ).table()
    port = pictures.fullest(table)
    assert port == BUSY
    assert pictures.depths(table, port) == [(0, 6), (1, 14)]


def test_of_many_instants_the_fullest_are_kept() -> None:
    sizes = [size % 3 for size in range(3 * MOST_POINTS)]
    rows = [sample(BUSY, 0, at * 1e6, size * 1_000) for at, size in enumerate(sizes)]
    kept = pictures.depths(Batches("samples", rows).table(), BUSY)
    assert kept == [(3 * n + 2, 2) for n in range(MOST_POINTS)]


def test_many_completion_times_are_thinned_at_equal_shares() -> None:
    assert thinned([1.0, 2.0]) == [1.0, 2.0]
    times = [float(n) for n in range(1, 10 * MOST_POINTS + 1)]
    kept = thinned(times)
    assert (len(kept), kept[0], kept[-1]) == (MOST_POINTS, 10.0, times[-1])


def test_figures_are_of_every_scheme_and_without_samples_there_is_no_queue(tmp_path: Path) -> None:
    drawn = Pictures("test", tmp_path, {"ndp": "#123456"})
    drawn.add("ndp", results([1.0, None], []))
    drawn.add("dctcp", results([2.0], []))
    drawn.write()
    assert [path.name for path in tmp_path.iterdir()] == [pictures.COMPLETION]
    assert all(
        f">{name}<" in (tmp_path / pictures.COMPLETION).read_text() for name in ("ndp", "dctcp")
    )


def test_the_queue_of_one_port_is_drawn_for_all(tmp_path: Path) -> None:
    drawn = Pictures("test", tmp_path, {"ndp": "#123456"})
    drawn.add("ndp", results([1.0], [sample(BUSY, 0, at, 5_000) for at in (0, 1e6)]))
    drawn.add("dctcp", results([1.0], [sample(QUIET, 0, 0, 9_000), sample(BUSY, 0, 0, 1_000)]))
    drawn.write()
    text = (tmp_path / pictures.QUEUES).read_text()
    assert "Queue at port 1 of b (to hb), test" in text
    assert text.count("<polyline") == 2
