"""Circles and upward uses of made-up crates."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from arrows import grown, lower
from modules import Counts, circles, counts, modules, uses


def crate(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "lib.rs"


TWO = {"lib.rs": "mod a;\nmod b;\n", "a.rs": "use crate::b::B;\npub struct A(B);\n"}


def test_two_files_that_use_each_other_are_a_circle(tmp_path: Path) -> None:
    root = crate(tmp_path, {**TWO, "b.rs": "pub struct B;\nfn f(a: &super::a::A) {}\n"})
    assert circles(uses(modules(root))) == [{("a",), ("b",)}]
    assert counts(root) == Counts(circles=1, files=2, upward=0)


@pytest.mark.parametrize(
    "text",
    [
        "pub struct B;\n",
        "pub struct B; // crate::a::A\n",
        'const TEXT: &str = "crate::a::A";\npub struct B;\n',
        "pub struct B;\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n    fn f() { {} }\n}\n",
        "use std::fmt::a;\npub struct B;\n",
    ],
)
def test_comments_texts_and_tests_use_nothing(tmp_path: Path, text: str) -> None:
    assert counts(crate(tmp_path, {**TWO, "b.rs": text})) == Counts()


def test_an_item_is_used_from_where_it_is_defined(tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod a;\nmod b;\nmod c;\npub use c::C;\npub const MOST: usize = 1;\n",
        "a.rs": "use crate::{C, MOST};\nuse crate::b::{self, B};\n",
        "b.rs": "pub use crate::c::C as B;\n",
        "c.rs": "pub struct C;\n",
    }
    used = uses(modules(crate(tmp_path, files)))
    assert used[("a",)] == {(), ("b",), ("c",)}
    assert used[()] == set(), "a file that passes an item on does not use it"


def test_a_use_of_a_module_above_is_counted_by_itself(tmp_path: Path) -> None:
    files = {
        "lib.rs": "mod a;\n",
        "a/mod.rs": "mod b;\nuse b::B;\npub struct A(B);\n",
        "a/b.rs": "pub struct B;\nimpl super::A {}\n",
    }
    assert counts(crate(tmp_path, files)) == Counts(circles=0, files=0, upward=1)


def test_a_path_names_the_file_of_a_module(tmp_path: Path) -> None:
    files = {
        "lib.rs": '#[path = "other.rs"]\nmod a;\nmod b;\n',
        "other.rs": "use crate::b::B;\npub struct A;\n",
        "b.rs": "use crate::a::A;\npub struct B;\n",
    }
    assert counts(crate(tmp_path, files)).circles == 1


def test_more_is_refused_and_less_is_kept() -> None:
    most = {"x": Counts(2, 5, 7)}
    now = {"x": Counts(1, 6, 7), "y": Counts(0, 0, 1)}
    problems = list(grown(most, now))
    assert [problem.split(";")[0] for problem in problems] == [
        "x: 6 files, tools/circles.toml allows 5",
        "y: 1 upward, tools/circles.toml allows 0",
    ]
    assert "x = { circles = 1, files = 5, upward = 7 }" in lower(most, now)
