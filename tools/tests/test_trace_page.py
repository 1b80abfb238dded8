"""The example of docs/trace.md speaks of the program as it is: conditions, lines, names."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("EBB_BUILD", ROOT / "build")) / "fabric.json"
PAGE = (ROOT / "docs" / "trace.md").read_text()
EXAMPLE = [line.strip() for line in PAGE.partition("## Example")[2].splitlines()]
KINDS = {
    r"table ([\w.]+)": "tables",
    r"-> ([\w.]+)\(": "actions",
    r"do ([\w.]+) ": "actions",
    r"count ([\w.]+)\[": "counter_arrays",
}
"""How an event names an object, and where the program has those."""


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    if not PROGRAM.exists():
        pytest.skip(f"no {PROGRAM}: run `make build`")
    found: dict[str, Any] = json.loads(PROGRAM.read_text())
    for kind in ("tables", "conditionals"):
        found[kind] = [each for pipeline in found["pipelines"] for each in pipeline[kind]]
    return found


def places(found: Any) -> Iterator[tuple[str, str]]:
    """Every place of the source that the program knows, with the text that stands there."""
    if isinstance(found, dict):
        if info := found.get("source_info"):
            yield f"{info['filename']}:{info['line']}", info["source_fragment"]
        found = [*found.values()]
    if isinstance(found, list):
        for each in found:
            yield from places(each)


def test_places_are_those_of_the_source(program: dict[str, Any]) -> None:
    conditions, everything = {*places(program["conditionals"])}, {*places(program)}
    files = {place for place, _ in everything}
    events = [found for line in EXAMPLE if (found := re.fullmatch(r"(.+?)  \[(\S+:\d+)\]", line))]
    assert len(events) > 10
    for text, place in (event.groups() for event in events):
        assert place in files, f"{text}: nothing of the program stands at {place}"
        if condition := re.fullmatch(r"if (.+): (?:true|false)", text):
            assert (place, condition[1]) in conditions, f"{place} has no such condition: {text}"


@pytest.mark.parametrize("pattern", KINDS)
def test_names_are_those_of_the_program(pattern: str, program: dict[str, Any]) -> None:
    named = {found[1] for line in EXAMPLE if (found := re.search(pattern, line))}
    assert named
    assert named <= {each["name"] for each in program[KINDS[pattern]]}
