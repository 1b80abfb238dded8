"""Comments that begin with a clause are found, and a folder may not have more of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import comments
import pytest
from comments import clauses


def test_a_clause_in_place_of_a_noun_is_found() -> None:
    assert clauses("/// What it sends.\nfn f() {}\n    # Of the sender.\n") == [1, 3]
    assert clauses('def f():\n    """What it sends."""\n//! Of the sender.\n') == [2, 3]


def test_a_line_that_goes_on_with_such_a_word_is_none() -> None:
    assert not clauses("/// Packets of the sender and\n/// What others send.\nx = 'What '\n")


@pytest.mark.parametrize(("allowed", "code"), [("", 1), ("tools = 1\n", 1), ("tools = 2\n", 0)])
def test_a_folder_may_have_no_more_than_is_written(
    allowed: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comments, "FILE", tmp_path / "comments.toml")
    comments.FILE.write_text(allowed)
    monkeypatch.setattr(comments, "found", lambda: Counter(tools=2))
    assert comments.main(["--write"]) == code
    assert ("tools" in comments.FILE.read_text()) == (allowed != "")


def test_this_repository_keeps_to_its_numbers() -> None:
    assert comments.main([]) == 0
