"""Cargo.toml names each of our crates for the profile of tests: no pattern means just them."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_of_our_crates_is_tested_with_checks() -> None:
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())
    excluded = workspace["workspace"]["exclude"]
    manifests = [
        path
        for member in workspace["workspace"]["members"]
        for path in ROOT.glob(f"{member}/Cargo.toml")
        if str(path.parent.relative_to(ROOT)) not in excluded
    ]
    ours = {tomllib.loads(path.read_text())["package"]["name"] for path in manifests}
    profiles = workspace["profile"]["test"]["package"]
    assert ours == {*profiles}
    for name, profile in profiles.items():
        assert profile["debug-assertions"] and profile["overflow-checks"], name
