"""The command that is installed."""

from __future__ import annotations

from typing import Any

from ebb_experiments.commands import command


def main() -> Any:
    """`ebb-dashboard`; says in a line which package is missing, if one is."""
    return command("ebb-dashboard", "ebb_dashboard.cli")
