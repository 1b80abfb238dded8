"""Errors in an experiment, a scenario or a workload are reported before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomli_w
from binaries import needs_simulator
from ebb_experiments.run.checking import check_inputs
from ebb_experiments.scenario.loaded import Loaded, scenario
from ebb_experiments.sim import cli as sim
from ebb_experiments.study import cli, spec
from ebb_experiments.study.claims import check_expressions
from ebb_experiments.study.references import check_metrics
from ebb_experiments.study.trials import trials
from ebb_topologies.files import InputError
from ebb_topologies.installation import programs
from study_tables import experiment, table


@pytest.mark.parametrize("name", spec.known_experiments())
def test_all_claims_of_the_tree_are_about_what_their_experiments_have(name: str) -> None:
    path = spec.experiment_file(name)
    check_expressions(spec.load_experiment(path), str(path))


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("fc('ndp')", "`fc('ndp')` is not understood (did you mean 'fct'?)"),
        ("fct('npd')", "there is no scheme 'npd'; did you mean 'ndp'?"),
        ("fct('dctcp', treshold=6000)", "there is no axis 'treshold'; did you mean 'threshold'?"),
        ("fct('dctcp', threshold=7)", "axis threshold has no point 7; it has 30000, 6000"),
        ("1 / (fct('ndp') - fct('ndp')) + fc('ndp')", "`fc('ndp')` is not understood"),
        ("fct('ndp') +", "invalid syntax"),
    ],
)
def test_a_claim_is_checked_without_a_trial(expression: str, told: str) -> None:
    claim = {"text": "t", "expression": expression, "published": 1, "band": [0, 1]}
    with pytest.raises(InputError) as caught:
        check_expressions(experiment(claim=[claim]), "own.toml")
    assert str(caught.value).startswith("own.toml: ")
    assert told in str(caught.value)


def test_metrics_of_the_tree_name_what_their_scenarios_have() -> None:
    for name in spec.known_experiments():
        path = spec.experiment_file(name)
        made = spec.load_experiment(path)
        planned = [each.loaded for each in trials(made, name, "full", path.parent)]
        with_packets = [each for each in planned if isinstance(each, Loaded)]
        check_metrics(made.metric, with_packets, str(path))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"traffic": "incats"}, "no traffic is called 'incats'; did you mean 'incast'?"),
        ({"traffic": "b*"}, "no traffic is called 'b*'; known: incast"),
        ({"destination": "h9"}, "there is no node 'h9'; known: h1, h2, h3, h4, s1"),
    ],
)
def test_a_metric_of_what_no_scenario_has_is_refused(keys: dict[str, Any], told: str) -> None:
    fct = {"of": "fct", "stat": "mean", "label": "FCT", "unit": "us", **keys}
    made = experiment(metric=table()["metric"] | {"fct": fct})
    planned = [each.scenario for each in trials(made, "own", "quick", Path())]
    with pytest.raises(InputError) as caught:
        check_metrics(made.metric, planned, "own.toml")
    assert str(caught.value).startswith(f"own.toml: metric.fct.{next(iter(keys))}: ")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"x": None}, "a figure of kind line needs `x`, the name of an axis"),
        ({"kind": "cdf", "metric": "delay"}, "kind cdf draws one of flows or jobs, which "),
        ({"kind": "time"}, "kind time draws `samples` or `rates`, which `fct` is not"),
        ({"at": {"threshold": 7}}, "at.threshold: there is no '7'; known: 6000, 30000"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused(keys: dict[str, Any], told: str) -> None:
    figure = {"name": "f", "title": "F", "kind": "line", "metric": "fct", "x": "threshold"}
    with pytest.raises(InputError) as caught:
        experiment(figure=[figure | keys])
    assert told in str(caught.value)


def with_traffic(**changes: Any) -> dict[str, Any]:
    part = {
        "name": "incast",
        "pattern": {"type": "incast", "senders": 2},
        "arrivals": {"type": "once"},
        "size": {"type": "fixed", "bytes": 1000},
    }
    return {
        "single_rack": {"hosts": 3},
        "schemes": ["ndp"],
        "workload": {"traffic": [part | changes]},
    }


@needs_simulator
@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "scheme NDP: agent parameter ndp.rto_ns is 0; it must be above 0"),
        (-5, "scheme NDP: agent parameter ndp.rto_ns: invalid value: integer `-5`"),
    ],
)
def test_a_value_that_the_agent_refuses_is_known_before_anything_runs(
    value: int, told: str
) -> None:
    table = with_traffic() | {"override": {"ndp": {"agent": {"ndp": {"rto_ns": value}}}}}
    with pytest.raises(InputError) as caught:
        check_inputs(programs() / "ebb-agent", [scenario(table, "mine")])
    assert str(caught.value).startswith(told)


@needs_simulator
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"sized": 1}, "mine: workload: traffic[0].sized: unknown field `sized`, expected one of"),
        (
            {"pattern": {"type": "incast", "sendrs": 2}},
            "mine: workload: traffic[0].pattern",
        ),
        ({"pattern": {"type": "incats"}}, "traffic[0].pattern.type: unknown variant `incats`"),
        ({"priority": 9}, "mine: workload: traffic incast: priority is 9, expected 0 to 7"),
    ],
)
def test_a_workload_is_checked_with_the_key_of_the_users_file(
    changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(InputError) as caught:
        check_inputs(programs() / "ebb-agent", [scenario(with_traffic(**changes), "mine")])
    assert told in str(caught.value)
    assert "column" not in str(caught.value)


@needs_simulator
def test_vms_have_no_transport_that_sends_to_groups() -> None:
    messages = {
        "pattern": "all-to-one",
        "size": {"type": "fixed", "bytes": 1000},
        "arrivals": {"type": "once"},
    }
    table = {
        "single_rack": {"hosts": 3},
        "schemes": ["trevi"],
        "placement": {"queue_bytes": 62_500},
        "tenant": [{"name": "a", "vms": 2, "messages": [messages]}],
    }
    with pytest.raises(InputError, match="scheme Trevi: trevi sends to groups, in which the VMs"):
        check_inputs(programs() / "ebb-agent", [scenario(table, "mine")])


@needs_simulator
def test_a_simulation_says_it_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(tomli_w.dumps(with_traffic(sized=1)))
    assert sim.main([str(file), "--out", str(tmp_path / "out")]) == 1
    streams = capsys.readouterr()
    said = streams.err.strip()
    assert not streams.out
    assert said.startswith(f"ebb-sim: {file}: workload: traffic[0].sized: unknown field `sized`")
    assert not (tmp_path / "out").exists()


@needs_simulator
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"set": "workload.traffic.incast.arivals"}, "workload: traffic[0].arivals: unknown field"),
        ({"set": "agent.nic.pfc"}, "agent parameter nic.pfc must be true or false, not "),
        ({"set": "agent.tcp.min_rot_ns"}, "unknown agent parameter tcp.min_rot_ns; did you mean"),
    ],
)
def test_a_wrong_path_of_an_axis_is_one_line_before_any_trial(
    change: dict[str, Any], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = table()
    changed["axis"][0] |= change
    changed["claim"] = []
    file = tmp_path / "own.toml"
    file.write_text(tomli_w.dumps(changed))
    places = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "report")]
    assert cli.main(["run", str(file), *places]) == 1
    said = capsys.readouterr().err
    assert said.count(told) == 1, said
    assert not (tmp_path / "report").exists()


def test_a_folder_without_programs_is_told_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["sim/incast", "--build", str(tmp_path), "--out", str(tmp_path / "out")]
    assert sim.main(words) == 1
    told = f"ebb-sim: {tmp_path / 'ebb-agent'} is missing: run `make build`"
    assert capsys.readouterr().err.replace("\n", "").startswith(told)
    assert not (tmp_path / "out").exists()
