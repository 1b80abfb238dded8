"""Messages of make, and files that it leaves alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_help_has_a_line_for_each_target() -> None:
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    declared = re.search(r"^TARGETS := (.*)$", text, re.MULTILINE)
    assert declared is not None
    command = ["make", "-C", str(ROOT), "help"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    listed = dict(re.findall(r"^([a-z0-9-]+) {2,}(.+)$", said, re.MULTILINE))
    assert {*listed} == {*declared[1].split()}
    assert all(len(what) > 10 for what in listed.values())
    assert "make run [K=4]" in said  # the options


def make(*words: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_dry_run_removes_nothing_and_makes_what_is_missing(tmp_path: Path) -> None:
    """Programs without their P4Info, stamps without binaries."""
    files = [f"{name}.json" for name in ("fabric", "fabric_codel", "fabric_tenants", "fabric_full")]
    files += [".binaries", ".p4-binaries"]
    for name in files:
        (tmp_path / name).touch()
    for goal in ("help", "build", "install-p4"):
        done = make("-n", goal, f"BUILD={tmp_path}")
        assert done.returncode == 0, done.stderr
        assert sorted(each.name for each in tmp_path.iterdir()) == sorted(files)
    said = make("-n", "build", f"BUILD={tmp_path}").stdout
    assert "build --locked --workspace --exclude ebb-p4-generator --bins" in said
    assert f"-o {tmp_path}/fabric.json" in said
    assert f"-o {tmp_path}/tna/" not in said
    said = make("-n", "build", "P4=tna", f"BUILD={tmp_path}").stdout
    assert f"-o {tmp_path}/tna/fabric_marking.json" in said


def test_a_simulation_has_the_schemes_that_are_given() -> None:
    for given in ("SCHEMES=ndp,tcp", "SCHEME=ndp"):
        done = make("-n", "sim", given, "THREADS=1")
        assert f"--schemes '{given.partition('=')[2]}' --threads '1'" in done.stdout
    assert "--schemes" not in make("-n", "sim").stdout


def test_a_simulation_refuses_options_of_a_run() -> None:
    done = make("-n", "sim", "K=8", "DILATION=50")
    assert done.returncode != 0
    assert "make sim does not take DILATION K" in done.stderr.replace("K DILATION", "DILATION K")
