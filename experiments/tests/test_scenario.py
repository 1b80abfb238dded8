"""Schemes, and the options of `make run`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ebb_controller.scheme import known_schemes, load_scheme
from ebb_experiments.cli import DEFAULT_SCENARIO, main, possible
from ebb_experiments.scenario.loaded import load_scenario
from ebb_experiments.scenario.spec import Phase
from ebb_topologies.files import InputError
from ebb_topologies.model import from_table
from ebb_topologies.traffic_manager import traffic_manager_config
from rich.console import Console


@pytest.mark.parametrize("name", known_schemes())
def test_every_queue_that_a_scheme_names_exists(name: str) -> None:
    fabric = load_scheme(name).fabric
    queues = {queue.id for queue in fabric.ports.queue}
    named = {c.queue for c in fabric.classes}
    if any(c.mlfq != "off" for c in fabric.classes):
        named |= set(fabric.mlfq_queues)
    if fabric.trimming:
        named.add(fabric.trimming.queue_index)
    assert named <= queues
    topology = from_table({"single_rack": {"hosts": 2}}, "test")
    config = traffic_manager_config(topology, topology.switches[0], fabric.ports)
    assert {q["id"] for q in config["profile"][0]["queue"]} == queues


def test_only_trimmable_queues_deflect() -> None:
    """A deflected packet of a class that may not be trimmed would be lost silently, unless its
    sender is told. The queue of headers deflects where they are returned."""
    for name in known_schemes():
        fabric = load_scheme(name).fabric
        deflecting = {q.id for q in fabric.ports.queue if q.on_full.endswith("deflect")}
        if fabric.trimming and fabric.trimming.return_to_sender:
            deflecting.remove(fabric.trimming.queue_index)
        if fabric.drop_notification:
            told = {
                c.queue for c in fabric.classes if c.dscp != fabric.drop_notification.dscp_value
            }
            assert deflecting == told, name
            continue
        plain = {c.queue for c in fabric.classes if not c.trimmable}
        assert not deflecting & plain, name
        assert bool(deflecting) == bool(fabric.trimming), name


@pytest.mark.parametrize("name", [n for n in known_schemes() if n != "ndp-return"])
def test_tcp_of_priority_is_served_before_best_effort(name: str) -> None:
    """DSCP 34 (docs/wire-format.md, "Classes"): strictly, and not by weight."""
    fabric = load_scheme(name).fabric
    queues = {c.dscp: c.queue for c in fabric.classes}
    assert queues[34] > queues[0]
    for group in fabric.ports.group:
        assert (queues[34] in group.queues) == (queues[0] in group.queues)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--k", "5"], "k must be even, not 5"),
        (["--k", "four"], "K must be a number, not 'four'"),
        (["--schemes", "dctpc"], "unknown scheme 'dctpc'; did you mean 'dctcp'?"),
        (["--dilation", "-1"], "DILATION must be a number from 0.01 to 100000, not -1"),
        (["--switch", "tofino"], "SWITCH must be 'ebb' or 'bmv2', not 'tofino'"),
        (["--threads", "two"], "THREADS must be a whole number from 0, not 'two'"),
        (["--dilation", "inf"], "DILATION must be a number from 0.01 to 100000, not inf"),
        (["--scenario", "nowhere.toml"], "nowhere.toml: cannot be read"),
        (["--k", "2"], "has no host 'h16'"),
    ],
)
def test_wrong_options_get_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1
    printed = capsys.readouterr().err
    assert message in printed
    assert len(printed.splitlines()) == 1


def test_phases_that_switches_cannot_do_are_left_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A slowed link needs all switches in one process; the other phases are run."""
    tour = load_scenario(DEFAULT_SCENARIO, schemes=["detail"])
    assert [phase.name for phase in tour.phases if phase.steps] == ["degraded"]
    left = possible(tour, True, Console(width=200))
    assert [phase.name for phase in left.phases if phase.steps] == []
    assert len(left.phases) == len(tour.phases) - 1
    assert "phase degraded is left out: event at 0 ns" in capsys.readouterr().out
    # Where the event is one of the whole scenario, nothing can be left out.
    plain = [Phase(name=phase.name, workload={}) for phase in tour.spec.phase]
    whole = replace(tour, spec=tour.spec.model_copy(update={"phase": plain}))
    with pytest.raises(InputError, match="rate_bps needs the fabric in one process"):
        possible(whole, True, Console())
