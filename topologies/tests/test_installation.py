"""The commit that results name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ebb_topologies import installation


@pytest.fixture(name="tree")
def _tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a program and a page of results."""
    for name in ("p4src/fabric.p4", "docs/results/README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("as committed\n")
    as_somebody = ("-c", "user.name=n", "-c", "user.email=n@example.com", "-c", "core.hooksPath=")
    for command in (("init", "-q"), ("add", "."), (*as_somebody, "commit", "-qm", "all")):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    monkeypatch.setattr(installation, "work_tree", lambda: tmp_path)
    return tmp_path


def head(tree: Path) -> str:
    """The commit as git has it."""
    command = ["git", "-C", str(tree), "rev-parse", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_tree_as_committed(tree: Path) -> None:
    assert installation.commit() == head(tree)


def test_a_file_that_differs_is_told(tree: Path) -> None:
    (tree / "p4src/fabric.p4").write_text("otherwise\n")
    assert installation.commit() == head(tree) + "+"


def test_pages_of_results_make_no_difference(tree: Path) -> None:
    (tree / "docs/results/README.md").write_text("with the results of the run before\n")
    assert installation.commit() == head(tree)


def test_no_commit_where_there_is_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "work_tree", lambda: tmp_path / "nowhere")
    assert installation.commit() is None
