"""What docs/quick-start-p4.md tells one to do works."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
PAGE = (ROOT / "docs" / "quick-start-p4.md").read_text()


def block(kind: str) -> str:
    """The only block of a kind."""
    (found,) = re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.mark.skipif(not (BUILD / "ebb-stf").exists(), reason="needs build/: run `make build`")
def test_the_program_of_the_page_compiles_and_passes_its_test(tmp_path: Path) -> None:
    for kind in ("p4", "stf"):
        (tmp_path / f"first.{kind}").write_text(block(kind))
    said = []
    for program in ("ebb-p4c", "ebb-stf"):
        (line,) = re.findall(rf"^{program} .*$", PAGE, re.MULTILINE)
        command = [str(BUILD / program), *line.split()[1:]]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        said.append(done.stdout.strip())
    assert said == ["", "1 tests: 1 passed"]
    assert "It says `1 tests: 1 passed`." in PAGE


def test_the_crates_of_the_page_are_there() -> None:
    folders = re.findall(r"cargo install --locked --path (\S+)", PAGE)
    assert len(folders) == 3
    assert all((ROOT / folder / "Cargo.toml").exists() for folder in folders)
