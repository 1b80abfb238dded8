"""The picture in the README is the topology that `make run` brings up."""

from __future__ import annotations

from pathlib import Path

from ebb_topologies.draw import svg, tiers
from ebb_topologies.model import load_topology

ROOT = Path(__file__).resolve().parents[2]


def test_rows_of_a_fat_tree() -> None:
    rows = tiers(load_topology(ROOT / "topologies" / "fat-tree-k4.toml"))
    assert [len(row) for row in rows] == [16, 8, 8, 4]


def test_the_committed_picture_is_current() -> None:
    drawn = svg(load_topology(ROOT / "topologies" / "fat-tree-k4.toml"))
    committed = (ROOT / "docs" / "fat-tree-k4.svg").read_text()
    assert drawn == committed, (
        "run: python -m ebb_topologies.draw topologies/fat-tree-k4.toml > docs/fat-tree-k4.svg"
    )
