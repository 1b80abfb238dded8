"""An import against the layers of pyproject.toml is refused, wherever it is written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "ebb_agent": "host-agent/python",
    "ebb_topologies": "topologies",
    "ebb_controller": "controller",
    "ebb_volume": "volume",
    "ebb_experiments": "experiments",
    "ebb_dashboard": "dashboard",
}


def told(packages: Path) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).parent / "lint-imports"
    command = [str(tool), "--config", str(ROOT / "pyproject.toml"), "--no-cache", "--no-logo"]
    environment = os.environ | {"PYTHONPATH": str(packages)}
    return subprocess.run(
        command, cwd=packages, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    for name, folder in PACKAGES.items():
        shutil.copytree(ROOT / folder / name, tmp_path / name)
    return tmp_path


def test_what_is_here_is_allowed(packages: Path) -> None:
    done = told(packages)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("ebb_topologies/model.py", "ebb_controller.scheme"),
        ("ebb_controller/scheme.py", "ebb_experiments.scenario.faults"),
        ("ebb_controller/mechanisms/arp.py", "ebb_controller.reconcile"),
        ("ebb_experiments/scenario/faults.py", "ebb_experiments.run.wall"),
        ("ebb_experiments/study/plot_style.py", "ebb_experiments.study.figures"),
        ("ebb_experiments/results/load.py", "ebb_agent.record"),
    ],
)
def test_an_import_upwards_or_in_a_circle_is_refused(
    packages: Path, module: str, imported: str
) -> None:
    with (packages / module).open("a") as source:
        source.write(f"\nimport {imported}\n")
    done = told(packages)
    assert done.returncode == 1, done.stdout + done.stderr
    for name in (module.removesuffix(".py").replace("/", "."), imported):
        assert name.rpartition(".")[2] in done.stdout
