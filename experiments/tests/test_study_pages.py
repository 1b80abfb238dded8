"""Pages of experiments, and the index of all that a folder has."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from ebb_experiments.study import pages
from ebb_experiments.study.claims import check
from ebb_experiments.study.report import Chapter, Maker
from ebb_experiments.study.spec import known_experiments
from ebb_experiments.study.store import Store
from ebb_topologies.files import InputError
from study_tables import experiment

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "results"


def not_run(name: str, directory: Path) -> Chapter:
    claim = {"text": "", "expression": 'fct("ndp")', "published": 1, "band": [0, 2]}
    made = experiment(claim=[claim])
    return Maker(made, name, "quick", Store(directory), directory, ["png"]).chapter(6, [], [])


def as_if_run(folder: Path) -> str:
    """Makes a page one of an earlier run; returns its text."""
    summary = json.loads((folder / pages.SUMMARY).read_text())
    summary |= {"trials": 6, "commits": ["0123456789ab"]}
    summary["verdicts"] = {"yes": 1, "no": 0, "not run": 0}
    (folder / pages.SUMMARY).write_text(json.dumps(summary))
    (folder / pages.PAGE).write_text("an earlier run")
    return "an earlier run"


def test_a_page_stays_while_no_trial_is_at_hand(tmp_path: Path) -> None:
    chapters = [not_run(name, tmp_path) for name in ("one", "two")]
    pages.write(chapters, tmp_path, "command", html=False)
    index = (tmp_path / pages.PAGE).read_text()
    assert "**0 claims reproduced, 0 not, 2 not run.** Made by `command`" in index
    earlier = as_if_run(tmp_path / "two")
    assert [c.name for c in pages.kept(chapters, tmp_path)] == ["two"]
    pages.write(chapters, tmp_path, "command", html=False)
    assert (tmp_path / "two" / pages.PAGE).read_text() == earlier
    index = (tmp_path / pages.PAGE).read_text()
    assert "**1 claims reproduced, 0 not, 1 not run.**" in index
    assert "| 6 of 6 | 0 s | 0123456789ab |" in index


def test_the_index_has_pages_of_other_experiments(tmp_path: Path) -> None:
    pages.write([not_run("one", tmp_path)], tmp_path, "command", html=False)
    pages.write([not_run("two", tmp_path)], tmp_path, "command", html=False)
    index = (tmp_path / pages.PAGE).read_text()
    assert index.index("[one](one/README.md)") < index.index("[two](two/README.md)")


def test_a_report_has_the_title_of_what_is_in_it() -> None:
    papers = dict.fromkeys(known_experiments()[:2], "of a paper")
    assert pages.heading(papers) == "The papers' experiments, reproduced"
    assert pages.heading({"mine": "Marks at random"}) == "Marks at random"
    assert pages.heading({"mine": "Marks at random", **papers}) == "3 experiments"


def test_a_long_reason_of_several_claims_is_printed_once(tmp_path: Path) -> None:
    why = "because " * 20
    claim = {"text": "", "expression": 'fct("ndp")', "published": 1, "band": [0, 2]}
    claims = [claim | {"reason": reason} for reason in (why, "alone " * 20, why)]
    made = experiment(claim=claims)
    chapter = Maker(made, "one", "quick", Store(tmp_path), tmp_path, ["png"]).chapter(6, [], [])
    rows = [{"scheme": "ndp", "seed": 1, "labels": {}, "fct": 3.0}]
    chapter = replace(chapter, checked=check(made, rows, None))
    pages.write([chapter], tmp_path, "command")
    page = (tmp_path / "one" / pages.PAGE).read_text()
    assert page.count("because") == 20 and page.count("alone") == 20
    assert page.count("| R1 |") == 2 and "\nR1: because" in page
    html = (tmp_path / "report.html").read_text()
    assert html.count("because") == 20 and html.count(">R1") == 3


def test_a_summary_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / pages.SUMMARY).write_text('{"name": "one"}')
    with pytest.raises(InputError, match=r"one/summary\.json: .*'title' is missing"):
        pages.summaries(tmp_path)


def test_committed_pages_are_of_experiments_that_there_are() -> None:
    """And their summaries say what their verdict tables do."""
    found = pages.summaries(COMMITTED)
    assert {each.name for each in found} <= set(known_experiments())
    for each in found:
        page = (COMMITTED / each.name / pages.PAGE).read_text()
        for verdict, count in each.verdicts.items():
            assert page.count(f"| **{verdict}** |") == count, f"{each.name}: {verdict}"
