"""Compares what is recorded in the JSON files of this folder with what comes out now.

A change that means to change nothing leaves all of it as it is: README.md.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import request_script
from agent_hosts import on_bridge, reason_to_skip
from recorded import BUILD, ROOT, SCENARIOS, Golden, program, simulated

HERE = Path(__file__).resolve().parent
MODE = os.environ.get("EBB_GOLDEN", "")
"""`all`: every scenario; `record`: all of them, and the files are written; else the quick ones."""
QUICK = ("incast", "link-failure", "storage", "switch-restart")
NAMES = sorted(p.stem for p in SCENARIOS.glob("*.toml") if not p.stem.endswith("-workload"))

SHOWN = {"incast": {"queues.svg": ROOT / "docs" / "incast-queues.svg"}}
"""Figures that pages show, by scenario and by the name that `ebb-sim` gives them."""

needs_build = pytest.mark.skipif(not BUILD.exists(), reason="needs build/: run `make build`")


def check(name: str, found: Golden) -> None:
    file = HERE / f"{name}.json"
    if MODE == "record":
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(found, indent=1) + "\n")
        pytest.skip("recorded")
    assert json.loads(json.dumps(found)) == json.loads(file.read_text())


@needs_build
@pytest.mark.parametrize("scenario", NAMES)
def test_a_simulated_scenario(scenario: str, tmp_path: Path) -> None:
    if not MODE and scenario not in QUICK:
        pytest.skip("EBB_GOLDEN=all runs every scenario")
    found = simulated(scenario, tmp_path)
    for name, page in SHOWN.get(scenario, {}).items():
        if MODE == "record":
            shutil.copyfile(tmp_path / name, page)
        assert (tmp_path / name).read_text() == page.read_text()
    check(f"simulated/{scenario}", found)


@needs_build
def test_the_program_and_its_p4info(tmp_path: Path) -> None:
    check("program", program(tmp_path))


def test_what_daemons_tell_of_a_script_of_requests(tmp_path: Path) -> None:
    if reason := reason_to_skip():
        pytest.skip(reason)
    with on_bridge(tmp_path) as hosts:
        check("requests", request_script.play(hosts, tmp_path))


def test_every_file_has_a_scenario() -> None:
    assert sorted(p.stem for p in (HERE / "simulated").glob("*.json")) == NAMES
