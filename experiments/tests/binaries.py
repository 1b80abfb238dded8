"""Binaries of `make build`, and marks for the tests that need some of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ebb_experiments.run.run import Binaries

ROOT = Path(__file__).resolve().parents[2]
BINARIES = Binaries(ROOT / "build")


def needs(*names: str) -> pytest.MarkDecorator:
    """Skips a test without these programs."""
    missing = [name for name in names if not (BINARIES.directory / name).exists()]
    return pytest.mark.skipif(
        bool(missing), reason=f"needs build/{', '.join(missing)}: run `make build`"
    )


needs_agent = needs("ebb-agent")
needs_simulator = needs("ebb-simulator", "ebb-agent")
needs_switches = needs("ebb-simulator", "ebb-switch", "ebb-agent")
needs_tna = needs("tna/fabric_tenants.json")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
