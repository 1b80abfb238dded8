"""Links that lead to nothing are told."""

from __future__ import annotations

from pathlib import Path

import pytest
from links import anchors, broken, links, unlisted

PAGE = """# First page

See [second](second.md#what-ebb-switch-does-3-ways), [above](#first-page), [folder](sub) and
[others](https://example.org/x#y). ![picture](picture.svg)
In code nothing is a link: `[x](missing.md)`.
```
[x](missing.md)
```
"""
SECOND = "# Second\n\n## What `ebb-switch` does: (3 ways)\n\n## Same\n\n## Same\n"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "picture.svg").touch()
    (docs / "second.md").write_text(SECOND)
    (docs / "README.md").write_text(PAGE)
    return docs


def test_right_links_are_right(tree: Path) -> None:
    assert not [*broken(tree / "README.md", tree.parent)]
    assert not [*unlisted(tree.parent)]


@pytest.mark.parametrize(
    ("link", "finding"),
    [
        ("third.md", "third.md leads to nothing"),
        ("second.md#other", "second.md#other leads to no heading of second.md"),
        ("#second", "#second leads to no heading of README.md"),
        ("picture.svg#part", "picture.svg#part leads to no heading of picture.svg"),
    ],
)
def test_wrong_links_are_told(tree: Path, link: str, finding: str) -> None:
    page = tree / "README.md"
    page.write_text(PAGE.replace("sub", link))
    assert [*broken(page, tree.parent)] == [f"docs/README.md: {finding}"]


def test_a_page_that_the_start_page_lacks_is_told(tree: Path) -> None:
    (tree / "third.md").touch()
    assert [*unlisted(tree.parent)] == ["docs/README.md does not name third.md"]


def test_headings_are_spelled_as_github_does() -> None:
    assert anchors(SECOND) == {"second", "what-ebb-switch-does-3-ways", "same", "same-1"}
    assert anchors("## A [link](x.md) in `--tm FILE`, too") == {"a-link-in---tm-file-too"}


def test_a_link_may_go_over_two_lines() -> None:
    assert [*links('[two\nlines](x.md) and [title](y.md "why")')] == ["x.md", "y.md"]
