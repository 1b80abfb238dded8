"""Names that the Makefile does not know are refused, with the one that may be meant."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from ebb_topologies.nearest import hint, nearest

ROOT = Path(__file__).resolve().parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()


def make(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "-C", str(ROOT), *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_the_name_that_may_be_meant_is_told() -> None:
    assert hint("SCHEMSE", ["SCHEMES", "SWITCH"]) == "did you mean 'SCHEMES'?"
    assert nearest("ndP", ["ndp", "scdp"]) == "ndp"
    assert hint("COLOUR", ["K", "CLI"]) == "known: K, CLI"


def test_make_refuses_a_variable_that_nothing_reads() -> None:
    done = make("help", "SHCEMES=ndp")
    assert done.returncode == 2
    assert "no variable of this Makefile 'SHCEMES'; did you mean 'SCHEMES'?" in done.stderr


@pytest.mark.parametrize(("given", "meant"), [("runn", "run"), ("test-pyhton", "test-python")])
def test_make_says_which_target_may_be_meant(given: str, meant: str) -> None:
    done = make(given)
    assert done.returncode == 2
    assert f"there is no target '{given}'; did you mean '{meant}'?" in done.stderr


@pytest.mark.parametrize(
    "word", ["BENCH=goodput codec_overlap --quick", "PREFIX=/a=b", "SCHEMES=ndp"]
)
def test_make_takes_its_own_with_any_value(word: str) -> None:
    done = make("help", word)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_option_of_the_help_is_one() -> None:
    (options,) = re.findall(r"^OPTIONS := ((?:.*\\\n)*.*)$", MAKEFILE, re.MULTILINE)
    known = set(options.replace("\\", " ").split())
    head = MAKEFILE.partition("\n\n")[0]
    assert set(re.findall(r"\[?([A-Z][A-Z0-9_]*)=", head)) <= known
