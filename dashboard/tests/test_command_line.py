"""The command line of `ebb-dashboard`."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--port", "8850"], "WHAT: there is no '8850'; known: fabric, sim, results, run"),
        (
            ["results", "--port", "99999"],
            "argument --port: expected a TCP port, not '99999' (see --help)",
        ),
        ([], "the following arguments are required: WHAT (see --help)"),
    ],
)
def test_wrong_arguments_are_told_in_a_line(words: list[str], error: str) -> None:
    line = [sys.executable, "-m", "ebb_dashboard", *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"ebb-dashboard: {error}\n")
