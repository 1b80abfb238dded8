"""Imports of commands: nothing of weight before their arguments are understood, nothing unused."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = {"distributed", "finsy", "grpc", "matplotlib", "numpy", "polars", "pyarrow", "pydantic"}
HEAVY |= {"rich", "scipy"}
"""Packages that take tens of milliseconds or more to load."""


def loaded(code: str) -> set[str]:
    """The packages that a process has loaded after some code."""
    tell = "import sys, atexit; atexit.register(lambda: print('loaded', *sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", f"{tell}\n{code}"], capture_output=True, text=True, check=False
    )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("loaded "))
    return {module.partition(".")[0] for module in line.split()[1:]}


@pytest.mark.parametrize(
    ("command", "argument"),
    [
        ("sim", "--help"),
        ("sim", "--version"),
        ("study", "--help"),
        ("study", "--version"),
        ("bench", "--help"),
    ],
)
def test_help_and_version_load_little(command: str, argument: str) -> None:
    code = f"from ebb_experiments.{command}.cli import main; main(['{argument}'])"
    assert loaded(code) & HEAVY == set()


def test_a_simulation_does_without_mininet_and_what_draws_reports() -> None:
    unused = {"mininet", "matplotlib", "scipy", "polars", "distributed", "setuptools"}
    unused |= {"finsy", "grpc", "google", "asyncio"}  # imported while the simulator starts
    unused |= {"numpy", "pyarrow"}  # imported while the clock runs
    assert loaded("import ebb_experiments.sim.running") & unused == set()


def test_tables_of_a_simulation_need_arrow_with_their_first_row() -> None:
    code = (
        "from ebb_experiments.results.series import ArrivalTable\n"
        "from ebb_experiments.run.virtual import _batches\n"
        "from ebb_topologies.dilation import Dilation\n"
        "arrivals = ArrivalTable(Dilation(1), {}, _batches)\n"
    )
    assert "pyarrow" not in loaded(code)
    assert "pyarrow" in loaded(f"{code}arrivals.table()")


def test_no_model_of_a_simulation_parses_its_own_source() -> None:
    code = (
        "import ebb_experiments.sim.running; from pydantic import BaseModel\n"
        "def below(cls): return {cls}.union(*map(below, cls.__subclasses__()))\n"
        "ours = [cls for cls in below(BaseModel) if cls.__module__.startswith('ebb_')]\n"
        "assert len(ours) > 20, ours\n"
        "assert not any(cls.model_config.get('use_attribute_docstrings') for cls in ours)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tables_do_without_pandas() -> None:
    code = "from ebb_experiments.results.arrow import Batches; Batches('flows').append({'seed': 1})"
    assert "pyarrow" in loaded(code)
    assert "pandas" not in loaded(f"{code}; Batches('flows', [{{'seed': 1}}]).table()")


@pytest.mark.parametrize(
    ("command", "where", "late", "words"),
    [
        ("ebb-sim", "ebb_experiments.commands:sim", "ebb_experiments.sim.running", ["smoke"]),
        ("ebb-experiment", "ebb_experiments.commands:experiment", "rich", ["list"]),
        ("ebb-run", "ebb_experiments.commands:run", "ebb_experiments.cli", []),
        ("ebb-volume", "ebb_volume.commands:main", "ebb_volume.cli", []),
        ("ebb-dashboard", "ebb_dashboard.commands:main", "ebb_dashboard.cli", []),
        ("ebb-ctl", "ebb_controller.commands:ctl", "grpc", []),
        ("ebb-fabric", "ebb_controller.commands:fabric", "grpc", []),
        ("ebb-controller", "ebb_controller.commands:controller", "finsy", []),
    ],
)
def test_an_interrupt_while_modules_are_imported_is_a_line(
    command: str, where: str, late: str, words: list[str]
) -> None:
    module, _, function = where.partition(":")
    code = f"""
import sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {late!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
from {module} import {function}
sys.exit({function}())
"""
    line = [sys.executable, "-c", code, *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, f"{command}: interrupted\n")
