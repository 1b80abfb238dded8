"""Experiments of the papers: what a file becomes, and one from end to end."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from binaries import needs_simulator
from ebb_experiments.study import cli
from ebb_experiments.study.claims import check
from ebb_experiments.study.eta import Eta, expected_end
from ebb_experiments.study.run import plan
from ebb_experiments.study.spec import experiment_file, known_experiments, load_experiment
from ebb_experiments.study.store import Store
from ebb_experiments.study.trials import put, trials
from ebb_topologies.files import InputError
from study_tables import experiment, table

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", known_experiments())
def test_every_experiment_of_the_tree_expands_at_every_size(name: str) -> None:
    path = experiment_file(name)
    loaded = load_experiment(path)
    planned = {size: trials(loaded, name, size, path.parent) for size in loaded.size}
    for of_size in planned.values():
        assert of_size
        assert len({trial.id("") for trial in of_size}) == len(of_size)
    assert loaded.claim and loaded.figure
    rows = [
        {"scheme": each.scheme, "seed": each.seed, "labels": each.labels}
        | {metric: 1.0 + number for number, metric in enumerate(loaded.metric)}
        for each in planned["full"]
    ]
    never = [each.notes for each in check(loaded, rows, rows, None) if each.grade == "not run"]
    assert not never, "claims about what the full size does not measure"


@pytest.mark.parametrize("name", known_experiments())
def test_what_a_size_says_of_its_trials_is_how_many_there_are(name: str) -> None:
    for size in load_experiment(experiment_file(name)).size.values():
        trials = re.search(r"\b(\d+) trials?\b", size.reduced or "")
        seeds = size.seeds if isinstance(size.seeds, int) else len(size.seeds)
        assert trials is None or int(trials[1]) == seeds, size.reduced


def test_axes_multiply_for_the_schemes_that_vary_along_them_and_seeds_come_outermost() -> None:
    found = [trial.name for trial in trials(experiment(), "x", "quick", HERE)]
    of_one_seed = ["dctcp threshold=6000", "dctcp threshold=30000", "ndp"]
    assert found == [f"{name} seed={seed}" for seed in (1, 2) for name in of_one_seed]
    assert [t.seed for t in trials(experiment(), "x", "full", HERE)] == [7] * 3


def test_an_axis_sets_its_paths_in_workload_and_scheme() -> None:
    cases = {"two": {"workload.traffic.incast.pattern.senders": 2, "limit_ns": 5_000}}
    axis = {"name": "senders", "label": "senders", "cases": cases}
    both = experiment(axis=[*table()["axis"], axis])
    first, *_ = trials(both, "x", "quick", HERE)
    assert first.labels == {"threshold": 6_000, "senders": "two"}
    marking = first.loaded.schemes["dctcp"].fabric.step_marking
    assert marking is not None and marking.threshold_bytes == 6_000
    assert first.loaded.phases[0].workload["traffic"][0]["pattern"]["senders"] == 2
    assert first.loaded.spec.limit_ns == 5_000


def test_an_axis_of_a_file_may_have_the_name_of_its_path() -> None:
    axis = {"name": "limit_ns", "label": "limit", "set": "limit_ns", "values": [5_000, 6_000]}
    assert experiment(axis=[*table()["axis"], axis]).by_hand == []


def test_trials_share_topology_and_placement_where_they_differ_in_something_else() -> None:
    path = experiment_file("silo-tenants")
    found = [each.scenario for each in trials(load_experiment(path), "x", "quick", path.parent)]
    networks = {repr((each.spec.placement, each.spec.tenant)) for each in found}
    assert len({id(each.tenancy) for each in found}) == len(networks) < len(found)
    generated = [each.scenario for each in trials(experiment(), "x", "quick", HERE)]
    assert len({id(each.topology) for each in generated}) == 1


def test_sizes_replace_points_and_set_paths() -> None:
    size = {"quick": {"seeds": 1, "axes": {"threshold": [9_000]}, "set": {"mtu_bytes": 9_000}}}
    small = experiment(size=size)
    one, two = trials(small, "x", "quick", HERE)
    assert (one.labels, two.labels) == ({"threshold": 9_000}, {})
    assert one.loaded.spec.mtu_bytes == two.loaded.spec.mtu_bytes == 9_000


def test_ids_follow_from_content_and_inputs() -> None:
    again = [[t.id("p4") for t in trials(experiment(), "x", "quick", HERE)] for _ in range(2)]
    assert again[0] == again[1]
    assert len(set(again[0])) == 6
    changed = experiment(scenario=table()["scenario"] | {"mtu_bytes": 9_000})
    assert not set(again[0]) & {t.id("p4") for t in trials(changed, "x", "quick", HERE)}
    assert not set(again[0]) & {t.id("p4 new") for t in trials(experiment(), "x", "quick", HERE)}


def test_what_is_complete_is_not_run_again(tmp_path: Path) -> None:
    store, planned = Store(tmp_path), trials(experiment(), "x", "quick", HERE)
    store.write(planned[0], planned[0].id(""), {"meta.json": b'{"wall_seconds": 1}'})
    half = store.path(planned[1], planned[1].id(""))
    half.mkdir(parents=True)
    (half / "flows.parquet").write_bytes(b"")
    missing = [trial.name for _id, trial in plan(planned, store, "").missing]
    assert missing == [trial.name for trial in planned[1:]]


def test_the_first_seed_of_every_experiment_is_run_before_the_second_of_any(
    tmp_path: Path,
) -> None:
    both = [t for name in ("x", "y") for t in trials(experiment(), name, "quick", HERE)]
    order = [(t.seed, t.experiment) for _id, t in plan(both, Store(tmp_path), "").missing]
    assert order == sorted(order)
    assert [name for name, _seed in order].count(1) == 6


def test_what_is_left_takes_as_long_as_its_likes_took() -> None:
    planned = trials(experiment(), "x", "quick", HERE)
    eta = Eta(planned, workers=2)
    assert eta.left() is None
    dctcp_6k, dctcp_30k, ndp, *second_seed = planned
    eta.ended(dctcp_6k, 10)
    assert eta.left() == (10 + 10 + 3 * 10) / 2  # all like the only one that is known
    assert not eta.guessed  # which is of the same experiment
    eta.ended(dctcp_30k, 20)
    eta.ended(ndp, 40)
    assert eta.left() == (10 + 20 + 40) / 2
    for trial in second_seed[:2]:
        eta.ended(trial, None)
    assert eta.left() == 40  # a single one is not shared by two workers
    assert expected_end(None) == "end not known yet"
    assert expected_end(60).startswith("about 60 s to go, until ")
    assert expected_end(60, guessed=True).startswith("perhaps 60 s to go, until ")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("workload.traffic.other.size", "no entry 'other'; known: incast"),
        ("workload.traffic.9", "no entry '9'"),
        ("limit_ns.x", "nothing to set below 'limit_ns'"),
    ],
)
def test_paths_that_lead_nowhere_are_told(path: str, words: str) -> None:
    scenario: dict[str, Any] = {"workload": {"traffic": [{"name": "incast"}]}, "limit_ns": 1}
    with pytest.raises(InputError, match=words):
        put(scenario, path.split("."), 1, path)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"claim": [{"text": "", "expression": "fct('ndp')", "published": [1, 2],
                     "band": [0, 1]}]}, "published has 2 entries for 1 rows"),
        ({"claim": [{"text": "", "expression": "fct('ndp')", "published": 1, "band": [1, 0]}]},
         r"'claim\.0': a band goes from the lesser number, not from 1\.0 to 0\.0"),
        ({"size": {"quick": {"seeds": [3, 1, 3]}}}, "seed 3 is in `seeds` more than once"),
        ({"metric": {"fct": {"of": "fct", "stat": "99", "label": "", "unit": ""}}},
         r"'metric\.fct\.stat': must be 'mean', .*, not '99'"),
        ({"figure": [{"name": "f", "title": "", "kind": "bars", "metric": "no"}]},
         "there is no 'no'; known: fct, delay"),
        ({"size": {"small": {"seeds": 1}}}, r"'size\.small': must be 'quick' or 'full'"),
        ({"figure": [{"name": "f", "title": "", "kind": "cdf", "metric": "fct",
                      "published": [{"scheme": "ndp", "value": 1}]}]}, "`share` is needed"),
        ({"figure": [{"name": "f", "title": "", "kind": "bars", "metric": "fct",
                      "published": [{"scheme": "ndp", "value": 1, "x": 2}]}]}, "`x` is needed"),
        ({"figure": [{"name": "f", "title": "", "kind": "bars", "metric": "fct",
                      "published": [{"scheme": "no", "value": 1}]}]}, "there is no 'no'"),
        ({"figure": [{"name": "f", "title": "", "kind": "box", "metric": "fct",
                      "published": [{"scheme": "ndp", "value": 1}]}]}, "kind box has no place"),
        ({"scheme": {"mine": {"scheme": "ndp", "look": "npd"}}, "axis": []}, "there is no 'npd'"),
    ],
)  # fmt: skip
def test_names_in_a_file_must_exist(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        experiment(**keys)


def test_an_unknown_experiment_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", "nothing"]) == 1
    assert "unknown experiment 'nothing'; known: " in capsys.readouterr().err


def test_a_report_on_a_file_is_refused_before_it_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "file").touch()
    assert cli.main(["report", "--results", str(file), "--out", str(tmp_path / "out")]) == 1
    told = f"ebb-experiment: {file}: expected the folder of the results of `run`"
    assert told in capsys.readouterr().err.replace("\n", "")
    assert not (tmp_path / "out").exists()


@needs_simulator
def test_from_a_file_to_the_report_and_again_from_the_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two schemes on two workers at the same time."""
    figures: list[dict[str, Any]] = [
        {"name": "bars", "title": "Bars", "kind": "bars", "metric": "fct",
         "published": [{"scheme": "ndp", "value": 400}]},
        {"name": "cdf", "title": "CDF", "kind": "cdf", "metric": "fct",
         "published": [{"scheme": "dctcp", "value": 500, "share": 0.5}]},
    ]  # fmt: skip
    claims = [
        {"text": "yes", "expression": 'fct("ndp")', "published": 400, "band": [300, 500]},
        {"text": "no", "expression": 'fct("ndp")', "published": 1, "band": [0, 1]},
        {"text": "absent", "expression": 'fct("ndp") / fct("dctcp", threshold=6_000)',
         "published": 1, "band": [0, 1]},
    ]  # fmt: skip
    size = {"quick": {"seeds": 1, "axes": {"threshold": [30_000]}, "reduced": "half"}}
    keys = {"figure": figures, "claim": claims, "size": size, "deviations": ["on paper only"]}
    file = tmp_path / "small.toml"
    file.write_text(tomli_w.dumps(table(**keys)))
    command = ["run", str(file), "--results", str(tmp_path / "res"), "--out", str(tmp_path / "rep")]
    assert cli.main([*command, "--workers", "2"]) == 0
    assert "2 trials, 0 of them have been run" in capsys.readouterr().out
    report = (tmp_path / "rep" / "report.html").read_text()
    assert report.count("data:image/svg+xml;base64,") == 1 + len(figures)
    markdown = (tmp_path / "rep" / "small" / "README.md").read_text()
    for figure in figures:
        assert f"({figure['name']}.png)" in markdown
        assert (tmp_path / "rep" / "small" / f"{figure['name']}.png").stat().st_size > 1_000
    claimed = [line.split("|") for line in markdown.splitlines() if "| **" in line]
    # One trial decides nothing.
    assert [cells[6].strip(" *") for cells in claimed] == ["undecided", "undecided", "not run"]
    assert [cells[8].strip() for cells in claimed] == ["2", "2", ""]
    assert "A trial has 2 flows; of those that metrics count all ended." in markdown
    # Deviations by their numbers in the list above.
    assert "1. on paper only\n2. half" in markdown
    assert [cells[10].strip() for cells in claimed] == ["1, 2"] * 3
    index = (tmp_path / "rep" / "README.md").read_text()
    assert "2 undecided, 1 not run.**" in markdown
    assert "| [small](small/README.md) |" in index
    assert cli.main([*command, "--markdown"]) == 0
    said = capsys.readouterr().out
    assert "2 trials, 2 of them have been run" in said
    assert re.search(r"small, quick +0 +0 +0 +2 +0 +1 +2/2", said)
    # A run that something has cut short is named, not shown, and run again.
    shutil.copytree(tmp_path / "rep", tmp_path / "earlier")
    [flows] = (tmp_path / "res").rglob("ndp-*/flows.parquet")
    os.truncate(flows, flows.stat().st_size - 7)
    assert cli.main(["report", *command[1:], "--markdown"]) == 0
    said = capsys.readouterr().out
    assert f"damaged result, its trial counts as not run: {flows}: " in said
    assert re.search(r"small, quick +0 +0 +0 +0 +0 +3 +1/2", said)
    # Its numbers are those of the page before, if they are to stay.
    earlier = ["--out", str(tmp_path / "earlier"), "--markdown", "--keep"]
    assert cli.main(["report", *command[1:4], *earlier]) == 0
    assert re.search(r"small, quick +0 +0 +0 +2 +0 +1 +2/2", capsys.readouterr().out)
    assert cli.main([*command, "--markdown"]) == 0
    said = capsys.readouterr().out
    assert f"damaged result, its trial is run again: {flows}: " in said
    assert "2 trials, 1 of them have been run" in said
    assert re.search(r"small, quick +0 +0 +0 +2 +0 +1 +2/2", said)
    # Only what Markdown shows.
    left = {path.name for path in (tmp_path / "rep" / "small").iterdir()}
    made = {"README.md", "metrics.csv", "paper-and-ours.png", "summary.json", "trials.parquet"}
    assert left == {"bars.png", "cdf.png", *made}
    for page in (index, markdown):
        assert str(tmp_path) not in page
    # Without trials, for example on another machine, the page is made again from its archive.
    names = ("README.md", "cdf.png", "metrics.csv", "summary.json")
    before = {name: (tmp_path / "rep" / "small" / name).read_bytes() for name in names}
    elsewhere = [*command[1:3], str(tmp_path / "none"), *command[4:], "--markdown"]
    (tmp_path / "rep" / "small" / "cdf.png").unlink()
    assert cli.main(["report", *elsewhere]) == 0
    told = capsys.readouterr().out
    assert re.search(r"small, quick +0 +0 +0 +2 +0 +1 +2/2", told)
    assert f"{tmp_path / 'none'} does not exist: pages are made of the archives" in told
    after = {name: (tmp_path / "rep" / "small" / name).read_bytes() for name in names}
    assert after == before
    # Without that, too, it stays.
    (tmp_path / "rep" / "small" / "trials.parquet").unlink()
    assert cli.main(["report", *elsewhere]) == 0
    assert "small, quick: no trial is stored" in capsys.readouterr().out
    assert (tmp_path / "rep" / "small" / "README.md").read_bytes() == before["README.md"]


@needs_simulator
def test_settings_of_the_command_win_over_the_file_and_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A claim of the file holds for its trials as they are now; the store keeps both."""
    claim = {"text": "a", "expression": 'fct("ndp")', "published": 400, "band": [300, 500]}
    file = tmp_path / "small.toml"
    keys = {"claim": [claim], "size": {"quick": {"seeds": 1, "schemes": ["ndp"]}}}
    file.write_text(tomli_w.dumps(table(**keys)))
    where = ["--results", str(tmp_path / "res"), "--out", str(tmp_path / "rep"), "--markdown"]
    command = ["run", str(file), *where, "--workers", "1"]
    assert cli.main(command) == 0
    delay = "single_rack.delay_ns=60000"
    also = [*command, "--set", delay, "--set", "agent.ndp.rto_ns=7000000"]
    assert cli.main(also) == 0
    said = capsys.readouterr().out
    assert said.count("1 trials, 0 of them have been run") == 2
    page = (tmp_path / "rep" / "small" / "README.md").read_text()
    more = f"--set {delay} --set agent.ndp.rto_ns=7000000"
    assert f"`ebb-experiment run small.toml --size quick {more}`" in page
    assert "| single_rack.delay_ns | agent.ndp.rto_ns | trials |" in page
    assert len(list((tmp_path / "res").rglob("ndp-*/meta.json"))) == 2
    assert cli.main([*command, "--set", "agent.ndp.nothing=1"]) == 1
    assert "nothing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "value"),
    [("a=1", 1), ("a=0.5", 0.5), ("a=false", False), ("a=fifo", "fifo"), ('a="1"', "1")],
)
def test_values_of_settings_are_those_of_toml(text: str, value: object) -> None:
    options = cli.arguments(["run", "--set", text])
    assert options.set == [("a", value)] and type(options.set[0][1]) is type(value)


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(InputError, match=r"'agent\.nic\.queue' is not PATH=VALUE"):
        cli.arguments(["run", "--set", "agent.nic.queue"])


def test_toml_of_the_tests_is_what_a_file_says() -> None:
    """Otherwise the test above would be of something else."""
    assert tomllib.loads(tomli_w.dumps(table())) == table()
