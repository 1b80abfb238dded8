"""A folder for each run."""

from __future__ import annotations

from pathlib import Path

import pytest
from ebb_experiments.results import folders
from ebb_topologies import installation


def test_two_runs_that_begin_in_the_same_second_have_two_folders(tmp_path: Path) -> None:
    assert len({folders.begin(tmp_path / "runs") for _ in range(3)}) == 3


def test_the_last_run_that_ended_is_named(tmp_path: Path) -> None:
    with folders.kept(tmp_path) as first:
        (first / "table").write_text("first")
    with pytest.raises(ValueError, match="a scheme"), folders.kept(tmp_path):
        raise ValueError("a scheme that is not there")
    assert (tmp_path / folders.LATEST).resolve() == first
    with pytest.raises(KeyboardInterrupt), folders.kept(tmp_path) as second:
        (second / "ndp").mkdir()
        (second / "dctcp").mkdir()
        (second / "dctcp" / "table").write_text("second")
        raise KeyboardInterrupt
    # A run with results stays, an empty one does not, and the last one that ended is the first.
    assert [path.name for path in second.iterdir()] == ["dctcp"]
    assert sorted(tmp_path.iterdir()) == sorted([first, second, tmp_path / folders.LATEST])
    assert (folders.run_in(tmp_path) / "table").read_text() == "first"
    assert folders.run_in(second) == second


def test_tests_write_none_of_the_results_of_the_work_tree() -> None:
    """Nor does what they start: conftest.py names another folder in the environment."""
    root = installation.work_tree()
    assert root is not None
    assert root not in installation.results().resolve().parents


def test_the_environment_names_the_folder_of_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(installation.RESULTS_VARIABLE, "elsewhere")
    assert installation.results() == Path("elsewhere")
    monkeypatch.delenv(installation.RESULTS_VARIABLE)
    root = installation.work_tree()
    assert root is not None
    assert installation.results() == root / "results"
