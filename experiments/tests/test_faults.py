"""Events of a scenario become steps by time, and steps become calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ebb_controller.reconcile import Change
from ebb_experiments.scenario.faults import (
    FaultKeys,
    Reinstall,
    Reroute,
    RestartSwitch,
    SetLink,
    StartCapture,
    Step,
    StopCapture,
    carry_out,
    steps,
)
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError, validate
from ebb_topologies.model import LinkEnds, from_table

TOPOLOGY = from_table({"fat_tree": {"k": 4}}, "test")
PARALLEL = from_table(
    {
        "switch": [{"name": "s1"}, {"name": "s2"}],
        "host": [{"name": "h1"}, {"name": "h2"}],
        "link": [{"ends": e} for e in (["h1", "s1"], ["h2", "s2"], ["s1", "s2"], ["s1", "s2"])],
    },
    "test",
)


def faults(*events: dict[str, Any], **keys: Any) -> FaultKeys:
    return validate(FaultKeys, {"event": list(events), **keys}, "test")


def link(at_ns: int, a: str, b: str, **state: Any) -> dict[str, Any]:
    return {"at_ns": at_ns, "do": "link", "a": a, "b": b, **state}


def ends(a: str, b: str) -> LinkEnds:
    (found,) = (x.ends for x in TOPOLOGY.links if {e.node for e in x.ends} == {a, b})
    return found


def test_the_controller_reacts_after_its_delay_to_what_it_could_know_then() -> None:
    first, second = ends("p0e0", "p0a0"), ends("p0a0", "c0")
    done = steps(
        faults(
            link(5, "c0", "p0a0", up=False),
            link(1, "p0e0", "p0a0", up=False),
            link(9, "p0e0:3", "p0a0:1", up=True),
            controller_delay_ns=3,
        ),
        TOPOLOGY,
    )
    assert done == [
        SetLink(1, "p0e0:3", "p0a0:1", up=False),
        Reroute(4, frozenset([first])),
        SetLink(5, "c0:1", "p0a0:3", up=False),
        Reroute(8, frozenset([first, second])),
        SetLink(9, "p0e0:3", "p0a0:1", up=True),
        Reroute(12, frozenset([second])),
    ]


def test_what_breaks_at_one_instant_is_routed_around_once() -> None:
    both = frozenset([ends("p0e0", "p0a0"), ends("p0e0", "p0a1")])
    events = [link(1, "p0e0", "p0a0", up=False), link(1, "p0e0", "p0a1", up=False)]
    done = steps(faults(*events, controller_delay_ns=0), TOPOLOGY)
    assert done[2:] == [Reroute(1, both)]
    assert all(isinstance(step, SetLink) for step in done[:2])


def test_a_controller_that_never_reacts_can_be_told_to() -> None:
    events = [
        link(1, "p0e0", "p0a0", up=False),
        {"at_ns": 2, "do": "restart-switch", "switch": "c0"},
        {"at_ns": 7, "do": "reroute", "avoid": [["c1", "p3a0"]]},
    ]
    done = steps(faults(*events, controller_delay_ns="never"), TOPOLOGY)
    avoided = frozenset([ends("p0e0", "p0a0"), ends("c1", "p3a0")])
    assert done[1:] == [RestartSwitch(2, "c0"), Reroute(7, avoided)]


def test_only_up_and_down_are_news_to_the_controller() -> None:
    events = [
        link(1, "h1", "p0e0", loss=0.5),
        link(2, "h1", "p0e0", up=True),
        {"at_ns": 3, "do": "restart-switch", "switch": "p0e0"},
        {"at_ns": 4, "do": "capture", "port": "p0e0:1", "until_ns": 6},
    ]
    assert steps(faults(*events, controller_delay_ns=2), TOPOLOGY) == [
        SetLink(1, "h1", "p0e0:1", loss=0.5),
        SetLink(2, "h1", "p0e0:1", up=True),
        RestartSwitch(3, "p0e0"),
        StartCapture(4, "p0e0:1"),
        Reinstall(5, "p0e0"),
        StopCapture(6, "p0e0:1"),
    ]


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        (link(1, "p0e0", "p0a9", up=False), "no node 'p0a9'; did you mean 'p0a"),
        (link(1, "p0e0", "c0", up=False), "no link p0e0 - c0; p0e0 has links to h1, h2, p0a0"),
        (link(1, "p0e0:9", "p0a0", up=False), "'p0e0' has no port '9'; it has 1, 2, 3, 4"),
        ({"at_ns": 1, "do": "restart-switch", "switch": "h1"}, "'h1' is not the name of a switch"),
        ({"at_ns": 1, "do": "capture", "port": "p0e0"}, "'p0e0' is not a port of a switch"),
    ],
)
def test_what_the_topology_does_not_have_is_named(event: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        steps(faults(event), TOPOLOGY)
    assert str(caught.value).startswith("event 1 (at_ns = 1): ")


@pytest.mark.parametrize(
    ("event", "complaint"),
    [
        (link(1, "a", "b"), "needs one of up, rate_bps, loss, corrupt"),
        (link(1, "a", "b", loss=1.5), "loss"),
        (link(1, "a", "b", lossy=1), "valid keys: a, at_ns, b, corrupt, do, loss, one_way"),
        ({"at_ns": 1, "do": "explode"}, "explode"),
        ({"at_ns": 5, "do": "capture", "port": "a:1", "until_ns": 5}, "not after at_ns 5"),
    ],
)
def test_what_no_event_can_say_is_refused(event: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        faults(event)


def test_of_parallel_links_the_port_says_which() -> None:
    with pytest.raises(InputError, match="one of 2 links; say which: s1:2, s1:3"):
        steps(faults(link(1, "s1", "s2", up=False)), PARALLEL)
    (step,) = steps(faults(link(1, "s1:3", "s2", loss=1)), PARALLEL)
    assert step == SetLink(1, "s1:3", "s2:3", loss=1)


class Recorder:
    """A fabric and a controller that only write down what they are asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any, **options: Any) -> Any:
            given = {key: value for key, value in options.items() if value is not None}
            self.calls.append((name, *arguments, given))
            return {"s1": Change(1, 2, 3), "s2": Change()}

        return call


def test_steps_are_done_in_the_units_of_the_slowed_fabric() -> None:
    recorder = Recorder()

    def do(step: Step) -> str:
        return asyncio.run(carry_out(step, recorder, recorder, Dilation(50), "a b-"))

    assert do(SetLink(1, "s1:1", "h1", rate_bps=10**9)) == "link s1:1 - h1 at 1 Gbit/s"
    do(SetLink(1, "s1:1", "h1", rate_bps=0))
    do(RestartSwitch(2, "s1"))
    do(Reinstall(3, "s1"))
    told = do(Reroute(4, frozenset([ends("p0e0", "p0a0")])))
    assert told == "the controller routes around p0e0 - p0a0: 6 changes on 1 switches"
    do(StartCapture(5, "s1:1"))
    assert recorder.calls == [
        ("set_link", "s1:1", "h1", {"rate_bps": 20_000_000, "one_way": False}),
        ("set_link", "s1:1", "h1", {"rate_bps": 0, "one_way": False}),
        ("leave", "s1", {}),
        ("restart_switch", "s1", {}),
        ("come_back", "s1", {}),
        ("reroute", frozenset([ends("p0e0", "p0a0")]), {}),
        ("start_capture", "s1:1", "a-b-s1-1", {}),
    ]
