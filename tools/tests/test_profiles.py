"""Profiles of Cargo.toml: our crates are tested with checks, dependencies compiled once."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILES = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]
CHECKS = ("debug-assertions", "overflow-checks")
DEPENDENCIES = "*"
"""Cargo's pattern for all packages but those of the workspace."""
DATA = {"ebb-bmv2-json", "ebb-p4-proto"}
"""Crates that only hold data. Tests share what was compiled of them for users."""


def test_our_crates_are_tested_with_checks() -> None:
    assert all(PROFILES["test"][check] for check in CHECKS)
    for profile in ("dev", "test"):
        for name, package in PROFILES[profile]["package"].items():
            assert name in {DEPENDENCIES, *DATA} or not {*CHECKS} & {*package}, name


def test_dependencies_are_the_same_for_users_and_for_tests() -> None:
    """Else each would be compiled twice. A profile of tests has all that it does not name from
    that of users."""
    assert not any(PROFILES["dev"][check] for check in CHECKS)
    assert PROFILES["test"]["package"][DEPENDENCIES] == dict.fromkeys(CHECKS, False)
