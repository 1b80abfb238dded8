"""The commands that are installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ebb_topologies.interruption import interruptible


def controller() -> Any:
    """`ebb-controller`."""
    return _command("ebb-controller", "ebb_controller.cli")


def ctl() -> Any:
    """`ebb-ctl`."""
    return _command("ebb-ctl", "ebb_controller.ctl.cli")


def fabric() -> Any:
    """`ebb-fabric`."""
    return _command("ebb-fabric", "ebb_controller.fabric_cli")


def _command(name: str, module: str) -> Any:
    return interruptible(name, lambda: import_module(module).main())
