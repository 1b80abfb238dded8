"""Experiments under the wall clock: which, and how their results are shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from binaries import needs_root, needs_switches
from ebb_experiments.run.players import within
from ebb_experiments.study import cli, mininet
from ebb_experiments.study.report import beside
from ebb_experiments.study.store import Store
from ebb_experiments.study.trials import on_mininet, trials
from study_tables import experiment, table

HERE = Path(__file__).parent


def refusal(**scenario: Any) -> str | None:
    changed = experiment(scenario=table()["scenario"] | scenario)
    return mininet.unfit(on_mininet(changed, trials(changed, "x", "quick", HERE))[0])


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ({}, None),
        ({"single_rack": {"hosts": 30}}, "30 hosts; here are at most 20"),
        ({"single_rack": None, "fat_tree": {"k": 6}}, "54 hosts"),
        ({"mtu_bytes": 9_000}, "packets of 9000 bytes"),
        ({"event": [{"do": "link", "a": "s1", "b": "h1", "up": False, "at_ns": 1}]}, None),
        (
            {"forgery": [{"host": "h1", "targets": ["h2"], "rate_hz": 1, "stop_ns": 1}]},
            "made up in virtual time only",
        ),
        ({"limit_ns": 60_000_000_000}, "60 s, slowed by 100 100 minutes; at most 10"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(
    scenario: dict[str, Any], words: str | None
) -> None:
    said = refusal(**scenario)
    assert (said is None) if words is None else (said is not None and words in said)


def test_its_trials_are_others_in_a_folder_of_their_own(tmp_path: Path) -> None:
    slower = experiment(mininet={"dilation": 200})
    first, *_ = trials(slower, "x", "quick", HERE)
    here, there = on_mininet(experiment(), [first])[0], on_mininet(slower, [first])[0]
    assert there.loaded.dilation.factor == 200
    assert len({trial.id("") for trial in (first, here, there)}) == 3
    assert Store(tmp_path).path(there, "id") == tmp_path / "x" / "quick-mininet" / "id"


def test_objects_are_not_longer_than_what_a_link_carries_until_the_limit() -> None:
    sizes = [{"type": "fixed", "bytes": n} for n in (1_000, 1_000_000_000)]
    workload = {"link_rate_bps": 8_000_000, "traffic": [{"size": size} for size in sizes]}
    short, long = within(workload, limit_ns=1_000_000_000)["traffic"]
    assert short["size"]["bytes"] == 1_000
    assert long["size"]["bytes"] == 1_200_000


def test_numbers_are_beside_those_of_the_same_seeds_in_virtual_time() -> None:
    def row(seed: int, fct: float) -> dict[str, Any]:
        return {"scheme": "ndp", "seed": seed, "labels": {}, "fct": fct, "delay": None}

    head, line = beside(experiment(), [row(1, 4.0)], [row(1, 2.0), row(2, 100.0)])
    assert dict(zip(head, line, strict=True))["FCT, us"] == "4 (2)"
    _head, alone = beside(experiment(), [row(3, 4.0)], [row(1, 2.0)])
    assert alone[-2:] == ["4", ""]


def test_what_a_busy_machine_ran_is_run_again(tmp_path: Path) -> None:
    store, slow = Store(tmp_path), experiment(mininet={"dilation": 200})
    busy, fine = (
        (trial.id(""), trial) for trial in on_mininet(slow, trials(slow, "x", "quick", HERE))[:2]
    )
    for (trial_id, trial), needed in ((busy, 230), (fine, 150)):
        meta = {"wall_seconds": 1.0, "dilation": 200, "needed_dilation": needed}
        store.write(trial, trial_id, {"meta.json": json.dumps(meta).encode()})
    assert mininet.invalid([busy, fine], store) == [busy]


@needs_root
@needs_switches
def test_a_small_experiment_gives_the_same_under_both_clocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Within what `test_fidelity.py` allows."""
    claim = {"text": "NDP", "expression": 'fct("ndp")', "published": 400, "band": [200, 800]}
    keys = {"size": {"quick": {"seeds": 1, "schemes": ["ndp"]}}, "mininet": {"dilation": 500}}
    file = tmp_path / "small.toml"
    file.write_text(tomli_w.dumps(table(claim=[claim], **keys)))
    command = ["run", str(file), "--results", str(tmp_path / "res"), "--out", str(tmp_path / "rep")]
    assert cli.main(command) == 0
    assert cli.main([*command, "--fabric", "mininet"]) == 0
    if "this machine was too busy" in capsys.readouterr().out:
        pytest.skip("this machine was too busy: the numbers are not valid")
    markdown = (tmp_path / "rep" / "small" / "README.md").read_text()
    (claimed,) = (line.split("|") for line in markdown.splitlines() if "| published | 400" in line)
    virtual, wall = (float(claimed[n].split()[0].rstrip(",")) for n in (4, 5))
    assert wall == pytest.approx(virtual, rel=0.15)
    assert "The same with real switches and agents, slowed by 500" in markdown
