"""`ebb-run` of an installation, by root, in a folder that somebody else has prepared."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "smoke.toml"
RUN = """
import sys
from pathlib import Path
from ebb_topologies import installation
installation.results = lambda: Path("results")  # as where nothing is a work tree
from ebb_experiments import cli
sys.exit(cli.main(sys.argv[1:]))
"""
NOBODY = 65534


def start_time(pid: int) -> str:
    """Field 22 of /proc/PID/stat."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


@pytest.mark.skipif(os.geteuid() != 0, reason="root is who is to be led astray")
def test_a_run_ends_before_it_touches_anything(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of root")
    folder = tmp_path / "theirs"
    run = folder / "results" / "run"
    run.mkdir(parents=True)
    os.chown(folder / "results", NOBODY, NOBODY)
    (run / "lock").symlink_to(secret)
    (run / "fabric.json").symlink_to(secret)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as victim:
        (run / "pids").write_text(f"{victim.pid} {start_time(victim.pid)} sshd\n")
        done = subprocess.run(
            [sys.executable, "-c", RUN, "--scenario", str(SCENARIO)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        lives = victim.poll() is None
        victim.kill()
    assert done.returncode == 1
    assert "root writes nothing into results/run" in done.stderr
    assert "results belongs to nobody" in done.stderr
    assert lives
    assert secret.read_text() == "of root"
    assert sorted(path.name for path in run.iterdir()) == ["fabric.json", "lock", "pids"]
