"""Public items without documentation are counted once each, and their number only falls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import clippy
from clippy import WHILE_COMPILING, Item, by_crate, command, grown, lower, others, undocumented

FIRST, SECOND = ("src/a.rs", 3), ("src/a.rs", 9)


def message(
    place: tuple[str, int], code: str | None = "missing_docs", level: str = "warning"
) -> dict[str, Any]:
    file, line = place
    span = {"file_name": file, "line_start": line, "column_start": 5, "is_primary": True}
    text = {"code": code and {"code": code}, "level": level, "spans": [span], "rendered": "shown"}
    return {"reason": "compiler-message", "manifest_path": "a/Cargo.toml", "message": text}


def test_an_item_counts_once_although_library_and_tests_have_it() -> None:
    found = undocumented([message(FIRST), message(FIRST), message(SECOND)])
    assert {(item.file, item.line) for item in found} == {FIRST, SECOND}


def test_generated_files_do_not_count() -> None:
    assert undocumented([message((f"{clippy.GENERATED[1]}p4.rs", 1))]) == set()


def test_other_warnings_are_errors_and_sums_are_not() -> None:
    assert list(others([message(FIRST, "clippy::needless_return")])) == ["shown"]
    assert list(others([message(FIRST, None, "error")])) == ["shown"]
    assert list(others([message(FIRST, None), message(FIRST)])) == []


def test_more_items_than_allowed_are_named() -> None:
    items = {"a": [Item("a/Cargo.toml", *SECOND, 5), Item("a/Cargo.toml", *FIRST, 5)]}
    assert list(grown({"a": 2}, items)) == []
    assert list(grown({"a": 1}, items)) == [
        "a: 2 public items without documentation, tools/undocumented.toml allows 1:",
        "  src/a.rs:3",
        "  src/a.rs:9",
    ]
    assert next(grown({}, items)).endswith("allows 0:")


def test_a_count_is_only_written_lower() -> None:
    items = {"a": [Item("a/Cargo.toml", *FIRST, 5)] * 3}
    assert lower({"a": 2, "b": 4}, items) == clippy.HEAD + "a = 2\n"
    assert lower({"a": 7}, items) == clippy.HEAD + "a = 3\n"


def test_a_crate_has_the_name_of_its_manifest(tmp_path: Path) -> None:
    manifest = tmp_path / "Cargo.toml"
    manifest.write_text('[package]\nname = "ebb-a"\n')
    assert list(by_crate([Item(str(manifest), *FIRST, 5)])) == ["ebb-a"]


def test_clippy_reads_the_compilation_of_the_tests_where_it_is_their_compiler() -> None:
    assert command({"PATH": "/bin"})[:2] == ("cargo", "clippy")
    assert command({"RUSTC_WORKSPACE_WRAPPER": "sccache"})[:2] == ("cargo", "clippy")
    assert command({"PATH": "/bin", **WHILE_COMPILING})[:3] == ("cargo", "test", "--no-run")
