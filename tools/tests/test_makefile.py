"""`make help` shows every target that is meant for people."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_help_has_a_line_for_each_target() -> None:
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    declared = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    assert declared is not None
    command = ["make", "-C", str(ROOT), "help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listed = dict(re.findall(r"^([a-z0-9-]+) {2,}(.+)$", said, re.MULTILINE))
    assert {*listed} == {*declared[1].split()}
    assert all(len(what) > 10 for what in listed.values())
    assert "make run [K=4]" in said  # the options
