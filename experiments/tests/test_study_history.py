"""History in git: bands that changed, and trials that are old."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ebb_experiments.study import history, pages
from ebb_experiments.study.check import Check, RepeatedTrial
from ebb_experiments.study.history import Age, Git, age, changes, without_reason

FILE = """title = "t"
{about}
[scenario]
limit_ns = {limit}
[scheme.ndp]
[size.full]
seeds = 1
[[claim]]
text = "c"
band = {band}
"""


class Repository:
    def __init__(self, root: Path) -> None:
        self.root, self.git = root, Git(root)
        self.run("init", "-q", "-b", "main")

    def run(self, *command: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", "-C", str(self.root), *who, *command], check=True)

    def commit(self, message: str, **files: str) -> str:
        for name, text in files.items():
            path = self.root / name.replace("__", "/").replace("_toml", ".toml")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.run("add", ".")
        self.run("commit", "-qm", message, "--allow-empty")
        return self.git("rev-parse", "HEAD").strip()


def paper(band: str, limit: int = 1, about: str = "") -> dict[str, str]:
    text = FILE.format(band=band, limit=limit, about=about)
    return {"experiments__papers__x_toml": text}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository(tmp_path)
    monkeypatch.setattr(history, "git", lambda: made.git)
    history._since.cache_clear()
    return made


def test_bands_that_changed_are_told_with_the_reason(repository: Repository) -> None:
    repository.commit("New", **paper("[0, 2]"))
    repository.commit("Another limit", **paper("[0, 2]", limit=2))
    repository.commit("Narrower\n\nOne paragraph.\n\nThe band is a factor of 2.", **paper("[1, 2]"))
    repository.commit("Wider", **paper("[0, 9]"))
    first, second = changes(repository.git)
    assert (first.experiment, first.text, first.before, first.after) == ("x", "c", [0, 2], [1, 2])
    assert first.reason == "The band is a factor of 2."
    assert (second.subject, second.reason) == ("Wider", None)
    assert without_reason([first, second]) == [second]


def test_trials_are_stale_once_what_they_depend_on_has_changed(repository: Repository) -> None:
    begun = repository.commit("New", **paper("[0, 2]"), p4src__a="1")
    assert age([begun], "x", [1]) == Age(0, dirty=False)
    repository.commit("Page", docs__a="1")
    repository.commit("Test", common__a__tests__b="1")
    repository.commit("Text", **paper("[0, 3]", about='about = "what"'))
    history._since.cache_clear()
    now = age([begun], "x", [1])
    assert now is not None and not now.stale and now.text == ""
    repository.commit("P4", p4src__a="2")
    history._since.cache_clear()
    now = age([begun], "x", [1])
    assert now is not None and now.stale and now.text == "stale since 1 commit"


def test_trials_of_another_scenario_or_a_dirty_tree_are_stale(repository: Repository) -> None:
    begun = repository.commit("New", **paper("[0, 2]"))
    repository.commit("Another limit", **paper("[0, 2]", limit=2))
    now = age([begun], "x", [1])
    assert now is not None and now.text == "the file's scenario has changed since"
    dirty = age([begun + "+"], "x", [1])
    assert dirty is not None and dirty.stale
    assert dirty.text == "run in a tree that differed from its commit"
    unknown = age(["0123456789ab"], "x", [1])
    assert unknown is not None and unknown.stale
    assert unknown.text == "of a commit that is not in the history"


def test_more_seeds_leave_the_trials_that_were_run_as_they_are(repository: Repository) -> None:
    begun = repository.commit("New", **paper("[0, 2]"))
    more = paper("[0, 2]")
    repository.commit(
        "Seeds", **{name: t.replace("seeds = 1", "seeds = 3") for name, t in more.items()}
    )
    lacking, whole = age([begun], "x", [1]), age([begun], "x", [1, 2, 3])
    assert lacking is not None and lacking.text == "the file's scenario has changed since"
    assert whole is not None and not whole.stale


def test_trials_that_were_given_again_are_as_old_as_the_check(repository: Repository) -> None:
    begun = repository.commit("New", **paper("[0, 2]"), p4src__a="1")
    checked = repository.commit("Faster", p4src__a="2")
    same = Check(commit=checked, trials=[RepeatedTrial(trial="ndp seed=1")])
    for commits in ([begun], [begun + "+"], ["0123456789ab+"]):
        now = age(commits, "x", [1], same)
        assert now is not None and not now.stale and now.text == ""
    for other, told in (
        (
            RepeatedTrial(trial="ndp seed=1", differs=["fct 1, now 2"]),
            "a trial that was run again differs",
        ),
        (None, "stale since 1 commit"),
    ):
        check = Check(commit=checked, trials=[other] if other else [], left_out=["tcp"])
        now = age([begun], "x", [1], check)
        assert now is not None and now.stale and told in now.text
    repository.commit("Other", p4src__a="3")
    history._since.cache_clear()
    now = age([begun], "x", [1], same)
    assert now is not None and now.text == "stale since 1 commit"


def test_inputs_are_folders_of_this_repository() -> None:
    """One that is renamed would never make a trial stale."""
    root = Path(__file__).resolve().parents[2]
    assert [name for name in history.INPUTS if not (root / name).is_dir()] == []


def test_experiments_are_run_again_whose_committed_results_are_stale_or_missing(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = repository.commit("New", **paper("[0, 2]"), p4src__a="1")
    summary = pages.Summary(
        name="x", title="t", source="s", size="full", claims=[], trials=1, planned=1, on_mininet=0,
        seeds=[1], run_seconds=1, commits=[begun], evaluated_at=begun,
    )  # fmt: skip
    folder = repository.root / "docs" / "results" / "x"
    folder.mkdir(parents=True)
    (folder / pages.SUMMARY).write_text(summary.model_dump_json())
    monkeypatch.setattr(pages, "work_tree", lambda: repository.root)
    monkeypatch.setattr(pages, "known_experiments", lambda: ["x", "y"])
    assert pages.stale_experiments() == ["y"]
    repository.commit("P4", p4src__a="2")
    history._since.cache_clear()
    assert pages.stale_experiments() == ["x", "y"]
