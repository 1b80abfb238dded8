"""Whether the machine kept up: what is measured, what it would have needed, what is told."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import cast

import pytest
from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.multicast import MulticastGroup, tree_ports
from ebb_controller.traffic_manager import lateness
from ebb_experiments.results.load import (
    BUSIEST,
    Late,
    Load,
    OtherProcesses,
    Processors,
    enough,
    read_stat,
)
from ebb_experiments.results.results import Results
from ebb_experiments.run.agents import Agent
from ebb_experiments.study.mininet import too_busy as too_busy_trial
from ebb_experiments.tour.calibration import Calibration, measure, too_busy
from ebb_experiments.tour.checks import checks
from ebb_experiments.tour.summary import FabricCounts, Round, SchemeResult
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import from_table
from ebb_topologies.processes import Process

PACKET_NS = 12_000
"""1500 bytes at 1 Gbit/s."""
ON_TIME = Late(1000, 100_000.0, 900_000.0)
CALM = Load(ON_TIME, ON_TIME, 0.3)
FLOW = {
    "traffic": "incast",
    "source": "h1",
    "destination": "h2",
    "status": "finished",
    "timeouts": 0,
    "payload_bytes_sent": 1,
}


def test_the_percentile_of_several_is_their_mean_by_the_number_of_events() -> None:
    one = {"wakeups": {"count": 900, "p99_ns": 100_000, "p999_ns": 0, "max_ns": 200_000}}
    other = {"departures": {"count": 100, "p99_ns": 1_100_000, "p999_ns": 0, "max_ns": 7_000_000}}
    late = Late.together([Late.from_report(one), Late.from_report(other)])
    assert (late.count, late.p99_ns, late.max_ns) == (1000, 200_000, 7_000_000)
    assert Late.from_report({}) == Late.together([]) == Late()


def test_lateness_needs_a_dilation_at_which_a_packet_takes_longer() -> None:
    """At 50 a packet takes 0.6 ms; 1.2 ms late needs 100, whatever the processors do."""
    late = Late(1000, 1_200_000.0)
    assert Load(late, ON_TIME, 1.0).needed(50, PACKET_NS) == pytest.approx(100)
    assert Load(ON_TIME, late, 0.1).needed(50, PACKET_NS) == pytest.approx(100)
    assert CALM.needed(50, PACKET_NS) < 50


def test_switches_that_do_not_tell_are_judged_by_the_processors() -> None:
    at = [Load(ON_TIME, None, share).needed(50, PACKET_NS) for share in (0.4, BUSIEST, 0.9)]
    assert at == pytest.approx([25, 50, 50 * 0.9 / BUSIEST])
    # How much more there was to do is not known.
    assert Load(ON_TIME, None, 0.99).needed(50, PACKET_NS) == 100
    assert Load(ON_TIME, Late(), 0.99).needed(50, PACKET_NS) == 100


def test_dilations_are_rounded_up() -> None:
    assert [enough(needed) for needed in (50.0, 50.1, 97, 100.1, 137.2)] == [50, 55, 100, 110, 140]


def test_processors_are_read_as_proc_has_them(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text("cpu  10 20 30 400 50 6 7 8 9 1\ncpu0 1 2 3 4 5 6 7 8 9 0\n")
    assert read_stat(stat) == (81, 531)
    busy, total = read_stat()
    assert 0 < busy <= total


def test_the_last_line_of_an_agent_says_how_late_it_was(tmp_path: Path) -> None:
    output = tmp_path / "lines"
    told = {"wakeups": {"count": 7, "p99_ns": 5, "p999_ns": 6, "max_ns": 6}}
    lines = [{"event": "ready"}, {"event": "flow"}, {"event": "end", "lateness": told}]
    output.write_text("".join(json.dumps(line) + "\n" for line in lines))
    agent = Agent(cast(Process, None), output, lambda: None)
    assert agent.late() == Late(7, 5, 6)


def test_lines_of_an_agent_are_read_as_they_come(tmp_path: Path) -> None:
    output = tmp_path / "lines"
    output.write_text("")
    agent = Agent(cast(Process, None), output, lambda: None)
    texts = ('{"event": "ready"}\n{"ev', 'ent": "flow"}', "\n\n", '{"event": "end"}\n')
    seen = []
    for text in texts:
        with output.open("a") as file:
            file.write(text)
        seen.append([line["event"] for line in agent.lines()])
    assert seen == [["ready"], ["ready"], ["ready", "flow"], ["ready", "flow", "end"]]


def test_a_switch_tells_by_kind_what_it_has_samples_of() -> None:
    late = tm.Lateness(departures=tm.DelaySummary(count=3, p99_ns=2, p999_ns=4, max_ns=5))
    told = lateness(tm.Stats(lateness=late))
    assert told == {"departures": {"count": 3, "p99_ns": 2, "max_ns": 5}}
    assert lateness(tm.Stats()) == {}


def test_own_work_is_not_that_of_others() -> None:
    """A busy loop of a child, which has been waited for: the same as in a benchmark."""
    meanwhile, everything = OtherProcesses(), Processors()
    command = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.5: pass"]
    subprocess.run(command, check=True)
    assert meanwhile.share() <= everything.share() - 0.01


def test_a_trial_of_a_busy_machine_is_not_valid() -> None:
    assert too_busy_trial({"dilation": 100, "needed_dilation": 60.0}) is None
    assert too_busy_trial({"dilation": 100}) is None
    told = too_busy_trial({"dilation": 100, "needed_dilation": 151.0})
    assert told is not None
    assert told.startswith("this machine was too busy: these rows are not valid")
    assert "= 160 of the experiment's file" in told


def result(load: Load | None) -> SchemeResult:
    counts = FabricCounts(1000, 100.0, 0, 0, 0, 0, 0)
    return SchemeResult(
        [Round("file", [FLOW], counts, CALM), Round("incast", [FLOW], counts, load)]
    )


def test_a_load_outlives_a_file() -> None:
    for load in (CALM, Load(ON_TIME, None, 1.0)):
        assert Load.of(json.loads(json.dumps(asdict(load)))) == load


def test_rows_of_a_busy_machine_are_named_with_the_dilation_that_would_do() -> None:
    late = Load(Late(500, 1_500_000.0, 4e6), ON_TIME, 0.97)
    results = {"dctcp": result(CALM), "ndp": result(late), "scdp": result(None)}
    busy = too_busy(results, Dilation(50), PACKET_NS)
    assert busy is not None
    assert busy.names == {"ndp"}
    text = str(busy)
    assert text.startswith("this machine was too busy: these rows are not valid: ndp (ndp: agents ")
    assert "1.5 ms late" in text
    assert "a full-size packet takes 0.6 ms here" in text
    assert text.endswith("or with DILATION=130")  # 1.5 ms are 125 times 12 us
    assert too_busy({"dctcp": result(CALM)}, Dilation(50), PACKET_NS) is None
    full = too_busy({"ndp": result(Load(ON_TIME, None, 1.0))}, Dilation(50), PACKET_NS)
    assert str(full).endswith("or with DILATION=100 or more")


def runs_with(*loads: Load) -> Callable[[], Results]:
    """A phase that finds the machine in these states, one after the other."""
    each = iter(loads)
    return lambda: Results({}, {"load": asdict(next(each))})


def test_a_phase_that_was_disturbed_is_measured_again_and_the_best_is_taken() -> None:
    late, later = (Load(Late(500, ns, 4e6), ON_TIME, 0.9) for ns in (1.5e6, 2.5e6))

    def needed(load: Load) -> float:
        return load.needed(50, PACKET_NS)

    once = measure(runs_with(CALM), needed, 50, 2)
    assert once.loads == [CALM]
    twice = measure(runs_with(late, CALM), needed, 50, 2)
    assert (twice.loads, twice.taken) == ([late, CALM], CALM)
    assert str(twice).startswith("measured 2 times, as at first: agents 1.5 ms late")
    never = measure(runs_with(later, late, later), needed, 50, 2)
    assert (len(never.loads), never.taken) == (3, late)
    assert Load.of(never.results.run["load"]) == late
    assert measure(runs_with(late, CALM), needed, 50, 0).taken == late
    full = Load(ON_TIME, None, 1.0)
    assert measure(runs_with(full), needed, 50, 2).loads == [full]


def test_a_calibration_names_other_work() -> None:
    alone = Calibration(CALM, 1, 50, 50, 0.05)
    assert str(alone).endswith("30% busy; kept")
    beside = Calibration(CALM, 3, 50, 230, 0.6)
    assert "(the best of 3); 230 times slower instead; other work takes 60% of" in str(beside)


def test_checks_say_whose_numbers_they_compare() -> None:
    """Arrivals are right or wrong on any machine."""
    found = {check.claim: check.measured for check in checks({"ndp": result(CALM)})}
    assert found["ndp: every object arrived with the right SHA-256"] == frozenset()
    assert found["ndp: no timeout in the incast"] == {"ndp"}
    assert found["ndp: no packet lost without its header delivered"] == {"ndp"}


def test_a_packet_to_a_group_is_copied_to_every_port_of_the_tree() -> None:
    """The counter of BMv2's losses: each replica is a frame that is to leave or to be dropped."""
    topology = from_table({"leaf_spine": {"leaves": 2, "spines": 1, "hosts_per_leaf": 2}}, "test")
    group = MulticastGroup.of(topology, 1, ["h1", "h2", "h4"])
    ports = {switch.name: tree_ports(topology, group, switch.name) for switch in topology.switches}
    assert {name: len(each) for name, each in ports.items()} == {"l0": 3, "l1": 2, "s0": 2}
