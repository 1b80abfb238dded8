"""The commands that are installed: each says in a line which package is missing, if one is.

What a command needs depends on what it does: Mininet comes with the distribution and not with pip,
and the scientific packages are wanted only for simulations and experiments.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from ebb_topologies.interruption import interruptible

MININET = "apt-get install mininet, and let Python see the distribution's packages"
STUDY = "install Ebb with its extra, as `pip install 'dist/ebb-VERSION-py3-none-any.whl[study]'`"
WEB = "pip install tornado, or Ebb with its extra `web`"
REMEDIES = {"mininet": MININET, "tornado": WEB} | dict.fromkeys(
    ("cryptography", "distributed", "jinja2", "matplotlib", "numpy", "polars", "pyarrow", "scipy"),
    STUDY,
)
"""How a package is installed, by its name."""


def run() -> Any:
    """`ebb-run`."""
    return command("ebb-run", "ebb_experiments.cli")


def sim() -> Any:
    """`ebb-sim`."""
    return command("ebb-sim", "ebb_experiments.sim.cli", "command")


def lab() -> Any:
    """`ebb-lab`."""
    return command("ebb-lab", "ebb_experiments.lab.cli")


def experiment() -> Any:
    """`ebb-experiment`."""
    return command("ebb-experiment", "ebb_experiments.study.cli")


def command(name: str, module: str, function: str = "main") -> Any:
    """Runs a function of a module; 1 if it cannot be imported for want of a package."""
    return interruptible(name, lambda: _imported(name, module, function))


def _imported(name: str, module: str, function: str) -> Any:
    try:
        main = getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in REMEDIES:
            raise
        text = f"{name}: Python package '{package}' is missing: {REMEDIES[package]}"
        print(text, file=sys.stderr)
        return 1
    return main()
