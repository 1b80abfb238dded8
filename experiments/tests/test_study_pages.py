"""Pages of experiments, and the index of all that a folder has."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from ebb_experiments.study import commands, history, pages
from ebb_experiments.study.archive import Archive
from ebb_experiments.study.grades import GRADES
from ebb_experiments.study.metrics import NOTHING
from ebb_experiments.study.overview import places
from ebb_experiments.study.papers import ClaimRow, Paper, Record
from ebb_experiments.study.plot_style import PLOT_STYLES
from ebb_experiments.study.report import Chapter, Maker, table
from ebb_experiments.study.spec import known_experiments, load_experiment
from ebb_experiments.study.store import Store
from ebb_topologies.files import InputError
from study_tables import experiment
from study_tables import table as study_table

COMMITTED = Path(__file__).resolve().parents[2] / "docs" / "results"


def not_run(name: str, directory: Path) -> Chapter:
    claim = {"text": "", "expression": 'fct("ndp")', "published": 1, "band": [0, 2]}
    made = experiment(claim=[claim])
    return Maker(made, name, "quick", Store(directory), directory, ["png"]).of_archive(
        6, Archive("quick", [])
    )


def as_if_run(folder: Path) -> str:
    """Makes a page one of an earlier run; returns its text."""
    summary = json.loads((folder / pages.SUMMARY).read_text())
    summary |= {"trials": 6, "commits": ["0123456789ab"]}
    summary["claims"][0] |= {"grade": "direction"}
    (folder / pages.SUMMARY).write_text(json.dumps(summary))
    (folder / pages.PAGE).write_text("an earlier run")
    return "an earlier run"


def test_a_page_stays_while_no_trial_is_at_hand(tmp_path: Path) -> None:
    chapters = [not_run(name, tmp_path) for name in ("one", "two")]
    pages.write(chapters, tmp_path, "command", html=False)
    index = (tmp_path / pages.PAGE).read_text()
    assert "Made by `command`" in index
    assert "| **all** | **2** | **0** | **0** | **0** | **0** | **0** | **2** |" in index
    earlier = as_if_run(tmp_path / "two")
    assert [c.name for c in pages.kept(chapters, tmp_path)] == ["two"]
    pages.write(chapters, tmp_path, "command", html=False)
    assert (tmp_path / "two" / pages.PAGE).read_text() == earlier
    index = (tmp_path / pages.PAGE).read_text()
    assert "| **all** | **2** | **0** | **0** | **1** | **0** | **0** | **1** |" in index
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


def checked(directory: Path, rows: list[dict[str, Any]], *claims: dict[str, Any]) -> Chapter:
    one = {"text": "c", "expression": 'fct("ndp")', "published": 1, "band": [0, 2]}
    made = experiment(claim=[one | claim for claim in claims])
    maker = Maker(made, "one", "quick", Store(directory), directory, ["png", "svg"])
    about = {**NOTHING, "commit": "0123456789ab", "seconds": 1.0, "late_ns": None, "delay": None}
    archive = Archive("quick", [about | row for row in rows])
    return maker.of_archive(6, archive)


def seeds(*values: float) -> list[dict[str, Any]]:
    return [
        {"scheme": "ndp", "seed": seed, "labels": {}, "fct": value}
        for seed, value in enumerate(values, 1)
    ]


def test_causes_have_numbers_and_are_printed_once(tmp_path: Path) -> None:
    claims = [{"reason": reason} for reason in ("because", "alone", "because")]
    chapter = checked(tmp_path, seeds(3.0, 3.01, 3.0), *claims)
    pages.write([chapter], tmp_path, "command")
    page = (tmp_path / "one" / pages.PAGE).read_text()
    assert page.count("because") == 1 and page.count("alone") == 1
    assert page.count("| R1 |") == 4 and "\nR1 (seen): because" in page
    html = (tmp_path / "report.html").read_text()
    assert html.count("because") == 1 and html.count(">R1") == 3
    causes = (tmp_path / "causes.md").read_text()
    assert "## 1. seen: 2 rows\n\nbecause" in causes and causes.count("because") == 1


def test_the_first_table_has_a_dozen_claims_and_the_second_all(tmp_path: Path) -> None:
    claims = [
        {"text": f"claim {n}", "kind": "variant" if n < 3 else "published"} for n in range(15)
    ]
    chapter = checked(tmp_path, seeds(1.0, 1.0), *claims)
    assert [line.text for line in chapter.lines] == [f"claim {n}" for n in range(3, 15)]
    pages.write([chapter], tmp_path, "command", html=False)
    page = (tmp_path / "one" / pages.PAGE).read_text()
    assert page.count("| **within 25 %** |") == 15 and "3 more claims" in page


def test_variants_and_our_own_claims_are_counted_apart(tmp_path: Path) -> None:
    kinds = ("published", "variant", "variant", "ours")
    chapter = checked(tmp_path, seeds(1.0, 1.0), *({"kind": kind} for kind in kinds))
    pages.write([chapter], tmp_path, "command", html=False)
    index = (tmp_path / pages.PAGE).read_text()
    counts = (1, 1, 0, 0, 0, 0, 0, 0, 2, 1)
    assert "| **all** | " + " | ".join(f"**{count}**" for count in counts) + " |" in index
    summary = json.loads((tmp_path / "one" / pages.SUMMARY).read_text())
    assert [row["kind"] for row in summary["claims"]] == list(kinds)
    assert {row["grade"] for row in summary["claims"]} == {"within 25 %"}


def test_a_paper_s_headlines_are_in_words_and_its_table_has_their_numbers(tmp_path: Path) -> None:
    claims: list[dict[str, Any]] = [
        {"text": "at 1", "headline": "speed"}, {"text": "at 2", "headline": "speed"},
        {"text": "at 3", "headline": "speed", "published": 9, "band": [8, 10]},
        {"text": "loss", "headline": "loss"}, {"text": "no headline"},
    ]  # fmt: skip
    rows = [ClaimRow.of(row) for row, _ in checked(tmp_path, seeds(1.0, 1.0), *claims).claims]
    record = Record(Paper(title="Paper", claims="All.", experiments=["one"]), {"one": rows})
    assert record.headlines_that("holds") == ["speed (at 2 of 3 points)", "loss"]
    assert record.headlines_that("differs") == ["speed (at 1 of 3 points)"]
    assert record.headlines_that("open") == []
    assert record.grades == "5 published rows: 4 within 25 %, 1 not reproduced"


def test_rows_with_a_number_of_the_paper_are_counted_apart_from_those_in_words(
    tmp_path: Path,
) -> None:
    claims: list[dict[str, Any]] = [
        {}, {"published": 3, "band": [1, 9]}, {"kind": "ours"}, {"published": "less"},
        {"published": "above 1", "numbers": [1, float("inf")]},
    ]  # fmt: skip
    pages.write([checked(tmp_path, seeds(1.0, 1.0), *claims)], tmp_path, "command", html=False)
    index = (tmp_path / pages.PAGE).read_text()
    told = "For 3 published rows the paper has a number: 2 of them (67 %) are within a factor of 2"
    assert told in index
    summary = json.loads((tmp_path / "one" / pages.SUMMARY).read_text())
    numbers = [row["numbers"] for row in summary["claims"]]
    assert numbers == [[1, 1], [3, 3], [1, 1], None, [1, None]]


def test_a_page_has_its_claims_beside_the_paper_s_numbers(tmp_path: Path) -> None:
    chapter = checked(tmp_path, seeds(3.0, 3.1), {}, {"published": "in words"})
    assert chapter.overview is not None
    assert [path.name for path in chapter.overview.files] == [
        "paper-and-ours.png", "paper-and-ours.svg",
    ]  # fmt: skip
    assert [place.ours for place in places(chapter.checked)] == [pytest.approx(3.05)]
    words = checked(tmp_path, seeds(3.0, 3.1), {"published": "in words"})
    assert words.overview is None


def test_n_and_the_share_that_ended_stand_under_the_tables(tmp_path: Path) -> None:
    rows = [row | {"flows": 200, "ended": {"fct": 1 - 0.015 * row["seed"]}} for row in seeds(1, 1)]
    told = "A trial has 200 flows; of those that metrics count at least 97 % ended (NDP, seed 2)."
    pages.write([checked(tmp_path, rows, {})], tmp_path, "command", html=False)
    assert (tmp_path / "one" / pages.PAGE).read_text().count(told) == 3


def test_a_name_that_the_file_gives_a_scheme_stands_in_tables_and_legends() -> None:
    eager = {"scheme": "ndp", "look": "ndp-16", "label": "NDP, eager"}
    made = experiment(scheme={"ndp": {}, "eager": eager}, axis=[])
    assert [made.style(scheme).label for scheme in made.scheme] == ["NDP", "NDP, eager"]
    assert made.style("eager").colour == PLOT_STYLES["ndp-16"].colour
    row = {**NOTHING, "fct": 1.0, "delay": 1.0, "seed": 1, "labels": {}}
    lines = table(made, [row | {"scheme": scheme} for scheme in made.scheme])
    assert [line[0] for line in lines] == ["scheme", "NDP", "NDP, eager"]


def test_a_scheme_of_ones_own_has_the_label_and_the_colour_of_its_file(tmp_path: Path) -> None:
    for name, colour in (("mine", '\ncolour = "#123456"'), ("other", "")):
        text = f'transport = "ndp"\nlabel = "Scheme {name}"{colour}\n'
        (tmp_path / f"{name}.toml").write_text(text)
    schemes = {"ndp": {}, "own": {"scheme": "mine.toml"}, "other": {"scheme": "other.toml"}}
    schemes["variant"] = {"scheme": "ndp"}
    path = tmp_path / "x.toml"
    path.write_text(tomli_w.dumps(study_table(scheme=schemes, axis=[])))
    made = load_experiment(path)
    ndp, own, other, variant = (made.style(scheme) for scheme in made.scheme)
    assert (own.label, own.colour) == ("Scheme mine", "#123456")
    assert other.label == "Scheme other"
    assert variant.label == "variant"
    for key in ("colour", "marker"):
        assert len({getattr(each, key) for each in (ndp, own, other, variant)}) == 4


def test_a_summary_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / pages.SUMMARY).write_text('{"name": "one"}')
    with pytest.raises(InputError, match=r"one/summary\.json: .*'title' is missing"):
        pages.summaries(tmp_path)


def test_committed_pages_are_of_experiments_that_there_are() -> None:
    """And their summaries say what their tables do."""
    found = pages.summaries(COMMITTED)
    assert {each.name for each in found} <= set(known_experiments())
    for each in found:
        page = (COMMITTED / each.name / pages.PAGE).read_text()
        counts = Counter(row.grade for row in each.claims)
        for grade in GRADES:
            assert page.count(f"| **{grade}** |") == counts[grade], f"{each.name}: {grade}"


def test_committed_pages_were_made_of_a_commit() -> None:
    dirty = [each.name for each in pages.summaries(COMMITTED) if each.evaluated_at.endswith("+")]
    assert dirty == []


def test_archives_of_committed_pages_are_small() -> None:
    size = sum(path.stat().st_size for path in COMMITTED.glob("*/trials.parquet"))
    assert 0 < size < 30_000_000


def test_a_page_that_git_keeps_is_not_made_of_files_that_it_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chapter = checked(tmp_path, seeds(1.0, 1.0), {})
    (tmp_path / "file").write_text("a")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b",
                                                  "commit", "-qm", "a"]):  # fmt: skip
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    repository = history.Git(tmp_path)
    monkeypatch.setattr(history, "git", lambda: repository)
    commands.check_clean(chapter, tmp_path / "docs")
    (tmp_path / "file").write_text("b")
    with pytest.raises(InputError, match=r"one is not written to .*: file differs from the commit"):
        commands.check_clean(chapter, tmp_path / "docs")
    commands.check_clean(chapter, tmp_path.parent / "elsewhere")
    (tmp_path / "file").write_text("a")
    dirty = replace(chapter, rows=[row | {"commit": "0123+"} for row in chapter.rows])
    with pytest.raises(InputError, match=r"trials ran in a tree that differed from 0123; commit"):
        commands.check_clean(dirty, tmp_path / "docs")
