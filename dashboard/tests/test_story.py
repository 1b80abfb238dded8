"""A page that is opened late knows what one knows that was there all the time; nothing grows."""

from __future__ import annotations

from typing import Any

from ebb_dashboard.story import CURVE_POINTS, MAX_PHASES, Curve, Story

HELLO = {"picture": {"ports": [["s1", 1, 0, 0]]}}


def sample(at_ns: float, queue: int) -> dict[str, Any]:
    return {"at_ns": at_ns, "utilisation": [0], "queue": [queue], "events": []}


def phase(name: str, running: bool = True) -> dict[str, Any]:
    return {"scheme": "ndp", "phase": name, "round": 0, "running": running}


def test_nothing_is_told_before_there_is_something_to_draw() -> None:
    assert list(Story().beginning()) == []


def test_the_beginning_of_a_late_page() -> None:
    story = Story()
    story.add("hello", HELLO)
    story.add("phase", phase("file"))
    story.add("sample", sample(0, 10))
    story.add("sample", sample(5, 30))
    story.add("phase", phase("file", running=False))
    story.add("sample", sample(7, 99))
    story.add("result", {"scheme": "ndp", "phase": "file", "flows": 1})
    story.add("links", {"states": ["up"]})
    story.add("links", {"states": ["down"]})
    story.add("line", {"text": "a link went down"})
    told = list(story.beginning())
    assert [event for event, _ in told] == [
        *("hello", "phase", "links", "curve", "result", "samples", "line"),
    ]
    of = dict(told)
    assert of["phase"] == phase("file", running=False)
    assert of["links"] == {"states": ["down"]}
    # Samples between two phases belong to none.
    assert of["curve"] == {"scheme": "ndp", "phase": "file", "t_ns": [0, 5], "bytes": [10, 30]}
    assert [each["at_ns"] for each in of["samples"]["samples"]] == [0, 5, 7]


def test_a_phase_that_runs_again_begins_anew() -> None:
    story = Story()
    story.add("hello", HELLO)
    story.add("phase", phase("file"))
    story.add("sample", sample(9, 10))
    story.add("phase", phase("file"))
    story.add("sample", sample(1, 20))
    of = dict(story.beginning())
    assert of["curve"]["t_ns"] == [1]
    assert of["samples"]["samples"] == [sample(1, 20)]


def test_another_fabric_forgets_the_looks_at_the_one_before() -> None:
    story = Story()
    story.add("hello", HELLO)
    story.add("sample", sample(1, 1))
    story.add("hello", {"picture": {"ports": []}})
    assert dict(story.beginning())["samples"] == {"samples": []}


def test_all_is_bounded() -> None:
    story = Story()
    story.add("hello", HELLO)
    for number in range(3 * MAX_PHASES):
        story.add("phase", phase(f"phase {number}"))
        for at in range(20):
            story.add("sample", sample(at, at))
        story.add("result", {"scheme": "ndp", "phase": f"phase {number}"})
        story.add("line", {"text": "x"})
    told = [event for event, _ in story.beginning()]
    assert told.count("curve") == told.count("result") == MAX_PHASES
    assert told.count("line") == MAX_PHASES


def test_a_long_curve_keeps_its_ends_and_its_shape() -> None:
    curve = Curve()
    for at in range(10 * CURVE_POINTS):
        curve.add(at, 2 * at)
    assert CURVE_POINTS / 2 <= len(curve.t_ns) <= CURVE_POINTS
    assert curve.bytes == [2 * at for at in curve.t_ns]
    assert curve.t_ns == sorted(curve.t_ns)
    assert curve.t_ns[-1] > 9.9 * CURVE_POINTS
