"""Runs are kept by time, drawn and compared."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.scheme import known_schemes, load_scheme
from ebb_experiments.results.folders import LATEST
from ebb_experiments.run.watch import QueueWatch
from ebb_experiments.tour import compare, figures, runs
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError, link_to
from ebb_topologies.model import from_table

TOPOLOGY = from_table({"fat_tree": {"k": 4}}, "test")
SUMMARY = runs.Summary(
    scenario="tour",
    topology="fat-tree-k4",
    dilation=50,
    switch="ebb-switch",
    commit="0123",
    busy=[],
    columns=["file goodput %", "queue max KB", "drops"],
    rows={"dctcp": ["95.5", "100.0", "0"], "ndp": ["93.0", "-", "0"]},
)


def ended(folder: Path, name: str, summary: runs.Summary = SUMMARY) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    (path / runs.SUMMARY).write_text(summary.model_dump_json())
    return path


def test_a_run_has_a_folder_of_its_own_and_the_link_names_the_last(tmp_path: Path) -> None:
    first, second = runs.RunFolder.begin(tmp_path), runs.RunFolder.begin(tmp_path)
    assert first.path != second.path
    assert (tmp_path / LATEST).resolve() == second.path
    assert runs.finished(tmp_path) == []  # neither has ended


def test_a_link_takes_the_place_of_what_an_older_ebb_has_written(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "flows.csv").write_text("kept")
    link_to(tmp_path / "results", "elsewhere")
    link_to(tmp_path / "results", "there")
    assert (tmp_path / "results").readlink() == Path("there")
    (moved,) = tmp_path.glob("results-*")
    assert (moved / "flows.csv").read_text() == "kept"


def test_the_last_two_runs_that_ended_are_compared_unless_others_are_named(tmp_path: Path) -> None:
    a, b, c = (ended(tmp_path, name) for name in ("2026-01", "2026-02", "2026-03"))
    (tmp_path / "2026-04").mkdir()
    link_to(tmp_path / LATEST, "2026-03")
    assert runs.chosen(tmp_path, (None, None)) == [b, c]
    assert runs.chosen(tmp_path, ("2026-01", None)) == [a, c]
    assert runs.chosen(tmp_path, (None, "2026-02")) == [c, b]
    assert runs.chosen(tmp_path, (str(a), "latest")) == [a, c]
    with pytest.raises(InputError, match="no run '2026-04' that has ended; the last ones: 2026-01"):
        runs.chosen(tmp_path, ("2026-04", None))
    with pytest.raises(InputError, match="two runs that have ended are needed, there are 0"):
        runs.chosen(tmp_path / "none", (None, None))


def test_a_comparison_tells_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = {"dilation": 100.0, "busy": ["ndp"]}
    rows = {"dctcp": ["95.5", "80.0", "7"], "ndp": ["93.0", "12.0", "0"], "scdp": ["1", "2", "3"]}
    ended(tmp_path, "a")
    ended(tmp_path, "b", SUMMARY.model_copy(update={**changed, "rows": rows}))
    assert compare.main(["--runs", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "dilation: 50.0, then 100.0\n" in said
    assert "B: the machine was too busy for ndp\n" in said
    assert "-20%" in said and "new" in said and "scdp" not in said
    assert compare.main(["--runs", str(tmp_path), "--a", "c"]) == 1
    streams = capsys.readouterr()
    assert streams.err.startswith("ebb: ") and not streams.out


def test_a_comparison_of_runs_of_others_is_text_or_an_error_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended(tmp_path, "a")
    written = (ended(tmp_path, "b") / runs.SUMMARY).read_text()
    for cell, shown in (("[/x]", "[/x]"), ("\\u001b]0;x\\u0007", "\\x1b]0;x\\x07")):
        (tmp_path / "b" / runs.SUMMARY).write_text(written.replace("95.5", cell))
        assert compare.main(["--runs", str(tmp_path)]) == 0
        assert shown in capsys.readouterr().out
    (tmp_path / "b" / runs.SUMMARY).write_text(written.replace('"95.5",', ""))
    assert compare.main(["--runs", str(tmp_path)]) == 1
    assert "the row of 'dctcp' has 2 cells for 3 columns" in capsys.readouterr().err


def test_changes_are_in_percent_where_there_are_any() -> None:
    pairs = [("100.0", "80.0"), ("5", "5"), ("0", "3"), ("-", "3"), ("nan", "nan")]
    assert [compare.change(*pair) for pair in pairs] == ["-20%", "", "new", "", ""]


def test_ticks_are_round_and_reach_the_last_value() -> None:
    assert figures.ticks(23.4, 6) == [0, 5, 10, 15, 20, 25]
    assert figures.ticks(376.4, 2) == [0, 200, 400]
    assert figures.ticks(0.7, 2) == [0, 0.5, 1.0]
    assert figures.ticks(1, 2) == [0, 0.5, 1.0]


def lines(svg: str) -> list[list[tuple[float, float]]]:
    """The curves of a picture, in pixels."""
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}polyline")
    return [
        [
            (float(x), float(y))
            for x, y in (point.split(",") for point in each.attrib["points"].split())
        ]
        for each in found
    ]


def test_ticks_of_decades_surround_what_they_are_for() -> None:
    assert figures.ticks_of_decades(0.3, 12) == [0.2, 0.5, 1, 2, 5, 10, 20]
    assert figures.ticks_of_decades(1, 10) == [1, 2, 5, 10]
    assert figures.ticks_of_decades(0.04, 3000) == [0.01, 0.1, 1, 10, 100, 1000, 10_000]


def test_a_scheme_has_its_colour_wherever_it_stands() -> None:
    """And others one that nobody has; of two that want the same the first has it."""
    known = {name: load_scheme(name).colour for name in ("dctcp", "hull", "ndp")}
    assert None not in known.values()
    both = figures.colours({"ndp": known["ndp"], "mine": None, "dctcp": known["dctcp"]})
    assert (both["ndp"], both["dctcp"]) == (known["ndp"], known["dctcp"])
    assert both["mine"] not in known.values() or both["mine"] == known["hull"]
    again = figures.colours({"dctcp": known["dctcp"], "copy": known["dctcp"]})
    assert again["dctcp"] == known["dctcp"] != again["copy"]
    many = figures.colours(dict.fromkeys(map(str, range(20))))
    assert len(set(many.values())) == len(figures.FREE_COLOURS)


def test_schemes_that_have_names_have_colours_of_their_own() -> None:
    every = [load_scheme(name).colour for name in known_schemes()]
    assert None not in every
    assert len(set(every)) == len(every)


def test_times_over_more_than_a_decade_have_a_logarithmic_axis() -> None:
    """A flow of 1 ms is in the middle between 0.1 and 10."""
    (curve,) = lines(figures.completion("FCT", {"ndp": [0.1, 1.0, 10.0]}, {"ndp": "#123456"}))
    across = [x for x, _ in curve]
    assert across[0] == across[1] == figures.LEFT
    assert across[3] == pytest.approx((figures.LEFT + figures.WIDTH - figures.RIGHT) / 2, abs=0.1)
    assert across[-1] == figures.WIDTH - figures.RIGHT
    assert "#123456" in figures.completion("FCT", {"ndp": [0.1, 10.0]}, {"ndp": "#123456"})


def test_queues_are_drawn_in_a_panel_for_each_scheme() -> None:
    series = {"tcp": [(0.0, 0.0), (10.0, 376.0)], "a<b": [(0.0, 1.0), (20.0, 2.0)], "silent": []}
    drawn = figures.queues("Queue", series)
    assert "a&lt;b, KB" in drawn and "silent" not in drawn
    tcp, other = lines(drawn)
    assert tcp[1][0] - tcp[0][0] == pytest.approx((other[1][0] - other[0][0]) / 2, abs=0.2)
    assert tcp[1][1] < tcp[0][1] < other[1][1]  # upwards, and one panel above the other


def test_a_curve_of_completion_times_rises_to_one() -> None:
    (curve,) = lines(figures.completion("FCT", {"ndp": [3.0, 1.0, 2.0], "dead": []}))
    top = figures.TOP
    assert curve[-1][1] == pytest.approx(top)
    assert curve[0][1] == pytest.approx(top + figures.CURVE_HEIGHT)
    assert [x for x, _ in curve] == sorted(x for x, _ in curve)


def test_a_run_without_anything_to_draw_has_an_empty_picture() -> None:
    assert lines(figures.completion("FCT", {})) == []
    assert lines(figures.queues("Queue", {})) == []


def test_what_was_seen_of_queues_is_nominal_and_begins_with_the_traffic() -> None:
    watch = QueueWatch(None, TOPOLOGY, "h1")  # type: ignore[arg-type]
    end = TOPOLOGY.attachment(TOPOLOGY.host("h1"))
    for at, depth in ((1_000, 10), (2_000, 20), (3_000, 30)):
        used = tm.QueueStats(queue=5, depth_packets=1, depth_bytes=depth)
        port = tm.PortStats(port=end.port, queues=[used, tm.QueueStats(queue=7)])
        other = tm.PortStats(port=end.port + 1, queues=[used])
        # Its clock is 500 ns behind ours; the second look arrives late.
        late = 100 if at == 2_000 else 0
        watch.take(tm.Stats(time_ns=at, ports=[port, other]), end.port, at + 500 + late)
    rows = list(watch.rows(2_000, Dilation(50), {"scheme": "ndp"}))
    assert [(row["at_ns"], row["depth_bytes"]) for row in rows] == [(10.0, 20), (30.0, 30)]
    about = {"scheme": "ndp", "switch": end.node, "port": end.port, "peer": "h1", "queue": 5}
    assert about.items() <= rows[0].items()
