"""Every mutant can be made: the text that it replaces stands once in its file."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_text_of_every_mutant_stands_once_in_its_file() -> None:
    mutants = tomllib.loads((ROOT / "tests/golden/mutants.toml").read_text())["mutant"]
    times = {m["name"]: (ROOT / m["file"]).read_text().count(m["text"]) for m in mutants}
    assert {name: count for name, count in times.items() if count != 1} == {}
