"""The wheel works where there is no work tree: everything that it reads is in it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).resolve().parents[2]
needs_build = pytest.mark.skipif(
    not (ROOT / "build" / "tna" / "fabric_marking.json").exists(),
    reason="needs build/ with the programs for Tofino: run `make wheels`",
)
LOADS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])  # before the work tree, which is installed as editable
from ebb_controller import tna
from ebb_controller.program import Program
from ebb_controller.scheme import known_schemes, load_scheme
from ebb_experiments.scenario.loaded import load_scenario
from ebb_experiments.study.spec import experiment_file, known_experiments, load_experiment
from ebb_topologies import installation

assert installation.__file__.startswith(sys.argv[1])
assert installation.work_tree() is None
program = installation.compiled()
Program(program / "fabric.p4info.txtpb", program / "fabric.json").check()
for of in tna.COMPOSITIONS:
    path = program / "tna" / of.name
    info, json = (path.with_name(path.name + end) for end in (".p4info.txtpb", ".json"))
    Program(info, json, of.chip).check()
scenarios = sorted((installation.data() / "experiments" / "scenarios").rglob("*.toml"))
loaded = [load_scenario(path) for path in scenarios if path.stem != "permutation-workload"]
assert load_scenario(installation.scenario(Path("sim/permutation"))).name == "permutation"
assert installation.scenario(Path("own.toml")) == Path("own.toml")
schemes = [load_scheme(name) for name in known_schemes()]
experiments = [load_experiment(experiment_file(name)) for name in known_experiments()]
print(len(loaded), len(schemes), len(experiments), installation.results())
"""


@needs_build
def test_everything_that_is_read_is_in_the_wheel(tmp_path: Path) -> None:
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(tmp_path)]
    subprocess.run([*command, str(ROOT)], check=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    unpacked = tmp_path / "unpacked"
    ZipFile(wheel).extractall(unpacked)
    environment = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-I", "-c", LOADS, str(unpacked)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *counts, results = done.stdout.split()
    of_tree = [
        len(list((ROOT / "experiments" / folder).rglob("*.toml"))) - others
        for folder, others in (("scenarios", 1), ("schemes", 0))
    ]
    papers = len(list((ROOT / "experiments" / "papers").glob("*.toml")))
    assert [*map(int, counts)] == [*of_tree, papers]
    assert results == "results"  # below the current folder


def test_a_command_says_which_package_it_needs() -> None:
    script = (
        "import sys\n"
        "sys.modules['mininet'] = None\n"  # as if it were not there
        "from ebb_experiments.commands import run\n"
        "sys.exit(run())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("ebb-run: Python package 'mininet' is missing: apt-get install")
