"""The files with which docs/simulation.md and docs/experiments.md begin run as the pages say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WHOLE = re.compile(
    r"`(\w+\.toml)`:\n\n```toml\n(.*?)```\n\n```\n\.venv/bin/(.*?)(?: +#.*)?\n", re.S
)


@pytest.mark.skipif(
    not (ROOT / "build" / "ebb-simulator").exists(), reason="needs build/: run `make build`"
)
@pytest.mark.parametrize(
    ("page", "said", "left"),
    [
        ("simulation", r"ndp, mean of 2 +16/16", "results/incast/latest/queues.svg"),
        ("experiments", r"window, quick +0 +0 +2 +0 +0 +0 +8/8", "report/report.html"),
    ],
)
def test_the_first_file_of_a_page_runs(page: str, said: str, left: str, tmp_path: Path) -> None:
    found = WHOLE.search((ROOT / "docs" / f"{page}.md").read_text())
    assert found, "the page begins with a file and a command that runs it"
    name, text, command = found.groups()
    (tmp_path / name).write_text(text)
    program, *arguments = shlex.split(command)
    done = subprocess.run(
        [Path(sys.executable).parent / program, *arguments],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(said, done.stdout)
    assert (tmp_path / left).exists()
