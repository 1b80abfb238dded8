"""An arrow that is not allowed is told, whoever draws it."""

from __future__ import annotations

from typing import Any

import arrows
from arrows import Arrows, of_metadata

ALLOWED = Arrows(
    folders={"common": [], "switch": ["common"], "host": ["common"]},
    crates={"units": [], "engine": ["units"], "transport": ["units"]},
    tests=frozenset({"needs"}),
)
RIGHT = {"units": {}, "engine": {"units": None}, "transport": {"units": None}, "needs": {}}
FOLDERS = {"units": "common", "needs": "common", "engine": "switch", "transport": "host"}


def problems(uses: dict[str, dict[str, str | None]]) -> list[str]:
    packages: list[dict[str, Any]] = [
        {
            "name": name,
            "manifest_path": f"/tree/{FOLDERS.get(name, 'elsewhere')}/{name}/Cargo.toml",
            "dependencies": [
                {"name": n, "kind": kind} for n, kind in {**used, "serde": None}.items()
            ],
        }
        for name, used in uses.items()
    ]
    crates = of_metadata({"workspace_root": "/tree", "packages": packages})
    return list(ALLOWED.problems(crates))


def test_allowed_arrows_are_no_problem() -> None:
    assert problems(RIGHT) == []
    # Tests may use more than the crate, of the same folder and of those that it may use.
    assert problems({**RIGHT, "engine": {"units": None, "needs": "dev"}}) == []


def test_other_arrows_are_told() -> None:
    crossing = {**RIGHT, "engine": {"units": None, "transport": None}}
    assert problems(crossing) == [
        "engine uses transport: switch/ may use common, switch, not host/",
        "engine uses transport: arrows.toml has no such arrow",
    ]
    in_tests = {**RIGHT, "engine": {"units": None, "transport": "dev"}}
    assert problems(in_tests) == [
        "engine uses transport: switch/ may use common, switch, not host/"
    ]
    upwards = {**RIGHT, "units": {"needs": None}}
    assert problems(upwards) == ["units uses needs: arrows.toml has no such arrow"]


def test_what_the_file_does_not_know_or_knows_too_much_of_is_told() -> None:
    assert problems({**RIGHT, "new": {}}) == [
        "new: folder elsewhere is not in [folders] of arrows.toml",
        "new: it is not in [crates] of arrows.toml",
    ]
    assert problems({**RIGHT, "engine": {}}) == [
        "engine does not use units: take the arrow out of arrows.toml"
    ]
    without = {name: used for name, used in RIGHT.items() if name != "needs"}
    assert problems(without) == ["needs: arrows.toml names it, and there is no such crate"]


def test_the_picture_leaves_out_what_follows() -> None:
    chain = Arrows({"all": []}, {"a": ["b", "c"], "b": ["c"], "c": []}, frozenset())
    crates = [arrows.Crate(name, "all", frozenset(), frozenset()) for name in "abc"]
    shown = [line.strip() for line in arrows.picture(chain, crates).splitlines() if "-->" in line]
    assert shown == ["a --> b", "b --> c"]
