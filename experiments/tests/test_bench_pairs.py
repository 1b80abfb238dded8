"""Ratios of two commits: the arithmetic, the order of runs, and what cannot be compared."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from ebb_experiments.bench import against, cli
from ebb_experiments.bench.paired import Comparison, Ratio, compare, figures
from ebb_topologies.files import InputError
from rich.console import Console


def section(*rows: tuple[Any, ...], columns: tuple[str, ...] = ("what", "us", "kept")) -> Any:
    return {"columns": columns, "rows": rows}


def test_ratios_are_of_pairs_and_not_of_medians() -> None:
    # The machine is ten times as slow in the second pair, and ours takes half as long in each.
    theirs, ours = (4.0, 40.0, 6.0), (2.0, 20.0, 3.3)
    pairs = [
        (section(("a", their, 7)), section(("a", our, 7)))
        for their, our in zip(theirs, ours, strict=True)
    ]
    (ratio,) = compare(pairs, 1).ratios
    assert ratio == Ratio(("a",), "us", 6.0, 3.3, (0.5, 0.5, pytest.approx(0.55)))  # type: ignore[arg-type]
    assert ratio.median == 0.5
    assert ratio.spread == (0.5, pytest.approx(0.55))


def test_counts_that_never_differ_are_left_out() -> None:
    found = compare([(section(("a", 1.0, 7)), section(("a", 2.0, 7)))], 1)
    assert [ratio.column for ratio in found.ratios] == ["us"]


def test_rows_of_one_commit_alone_are_named() -> None:
    base, here = section(("a", 1.0, 1), ("old", 1.0, 1)), section(("new", 1.0, 1), ("a", 3.0, 2))
    found = compare([(base, here)], 1)
    assert found.only_here == [("new",)]
    assert found.only_base == [("old",)]
    assert {ratio.row: ratio.median for ratio in found.ratios} == {("a",): 2.0}


def test_nothing_is_divided_by_zero() -> None:
    pairs = [
        (section(("a", base, 1)), section(("a", 1.0, 1)))
        for base in (2.0, 0.0)  # once
    ]
    found = compare(pairs, 1)
    assert found.ratios == []
    assert found.without_ratio == [(("a",), "us")]


def test_columns_are_found_by_name_and_rows_by_several_cells() -> None:
    base = {"columns": ("what", "k", "gone", "s"), "rows": [("x", 4, 9.0, 2.0), ("x", 8, 9.0, 4.0)]}
    here = {"columns": ("what", "k", "s", "new"), "rows": [("x", 8, 1.0, 5.0), ("x", 4, 1.0, 5.0)]}
    found = compare([(base, here)], 2)
    medians = {(ratio.row, ratio.column): ratio.median for ratio in found.ratios}
    assert medians == {(("x", "8"), "s"): 0.25, (("x", "4"), "s"): 0.5}


def test_rows_of_one_name_stay_apart() -> None:
    found = figures(section(("a", 1.0, 2), ("a", 3.0, None)), 1)
    assert found == {(("a",), "us"): 1.0, (("a",), "kept"): 2.0, (("a", "#2"), "us"): 3.0}


def test_text_and_truth_are_no_figures() -> None:
    assert figures(section(("a", "ab12", True)), 1) == {}


def test_runs_take_turns(tmp_path: Path) -> None:
    order: list[tuple[str, str]] = []

    def once(tree: Path, subject: str, results: Path) -> Mapping[str, Any]:
        order.append((tree.name, results.name))
        return section((subject, float(len(order)), 0))

    trees = (tmp_path / "base", tmp_path / "here")
    pairs = against.in_turn(once, trees, "codec", tmp_path, 2)
    assert [tree for tree, _results in order] == ["base", "here", "base", "here"]
    assert len({results for _tree, results in order}) == 4
    (ratio,) = compare(pairs, 1).ratios
    assert ratio.each == (2.0, 4 / 3)


def test_what_is_printed_has_the_ratio_and_its_spread(capsys: pytest.CaptureFixture[str]) -> None:
    ratio = Ratio(("a", "8"), "us", 2.0, 1.0, (0.5, 0.25, 0.75))
    found = Comparison([ratio], [("new",)], [("old",)], [(("a",), "lost")])
    against.show(Console(width=100), "codec", found, 3)
    printed = capsys.readouterr().out
    (line,) = (line for line in printed.splitlines() if "a, 8" in line)
    assert line.split() == ["a,", "8", "us", "2", "1", "0.500", "0.250", "0.750"]
    for told in ("only in this tree: new", "only in the other commit: old", "a, lost: 0"):
        assert told in printed


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, whose `make build` fails."""
    root = tmp_path / "root"
    root.mkdir()
    (root / "Makefile").write_text("build:\n\t@echo 'error: it is broken'; exit 1\n")
    git = ("git", "-c", "user.name=n", "-c", "user.email=e", "-C", str(root))
    for command in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run([*git, *command], check=True)
    return root


def test_a_commit_that_there_is_not(repository: Path) -> None:
    for name in ("nothing", "--all", "", "HEAD~1"):
        with pytest.raises(InputError, match="has no such commit"):
            against.resolve(repository, name)


def test_a_commit_is_checked_out_once_though_files_differ_from_ours(repository: Path) -> None:
    (repository / "Makefile").write_text("build:\n")  # a dirty tree
    name = against.resolve(repository, "HEAD")
    tree = against.checkout(repository, name)
    assert "broken" in (tree / "Makefile").read_text()
    (tree / "built").touch()
    assert against.checkout(repository, name) == tree
    assert (tree / "built").exists()


def test_a_deleted_checkout_is_made_again(repository: Path) -> None:
    name = against.resolve(repository, "HEAD")
    tree = against.checkout(repository, name)
    subprocess.run(["rm", "-rf", str(repository / "build")], check=True)  # make clean
    assert (against.checkout(repository, name) / "Makefile").exists()
    assert tree.exists()


def test_a_build_that_fails_says_why_in_a_line(repository: Path, tmp_path: Path) -> None:
    tree = against.checkout(repository, against.resolve(repository, "HEAD"))
    log = tmp_path / "build.log"
    with pytest.raises(InputError) as refused:
        against.build(tree, Path(sys.executable), log)
    text = str(refused.value)
    assert "does not build: error: it is broken" in text
    assert str(log) in text
    assert "\n" not in text


def test_an_interrupted_build_leaves_nothing_running(tmp_path: Path) -> None:
    started = tmp_path / "started"
    # A shell of its own below make, as cargo has compilers.
    shell = f"echo $$$$ > {started}.part; mv {started}.part {started}; sleep 60"
    (tmp_path / "Makefile").write_text(f"build:\n\t@sh -c '{shell}'; true\n")
    code = "import sys; from pathlib import Path; from ebb_experiments.bench import against\n"
    code += f"against.build(Path('{tmp_path}'), Path(sys.executable), Path('{tmp_path}/log'))"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    try:
        wait_until(started.exists)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) != 0
    finally:
        process.kill()
    wait_until(lambda: not Path("/proc", started.read_text().strip()).exists())


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.01)


def test_a_subject_that_the_other_commit_lacks(repository: Path) -> None:
    assert not against.has(repository, "codec")


def test_options_that_mean_nothing_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, why in (
        (["codec", "--pairs", "2"], "--pairs needs --base"),
        (["codec", "--base", "HEAD", "--pairs", "0"], "at least 1"),
        (["codec", "--base", "HEAD", "--agent", "x"], "not with --base"),
    ):
        with pytest.raises(SystemExit):
            cli.main(words)
        assert why in capsys.readouterr().err


def test_every_subject_is_a_module_that_runs() -> None:
    folder = Path(cli.__file__).parent
    for name in cli.SUBJECTS:
        assert "def run(context: Context)" in (folder / f"{name}.py").read_text()
