"""The commands of docs/quick-start-p4.md work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from free_ports import first_free_port

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


@contextmanager
def switch(folder: Path, *, p4info: bool = True) -> Iterator[str]:
    """The switch of the page, at an address of its own and without interfaces."""
    address = f"127.0.0.1:{first_free_port(1)}"
    command = [BUILD / "ebb-switch", "first.json", "--grpc-server-addr", address]
    command += ["--p4info", "first.p4info.txtpb"] if p4info else []
    running = subprocess.Popen(
        list(map(str, command)), cwd=folder, stderr=subprocess.PIPE, text=True
    )
    try:
        assert running.stderr is not None
        while "P4Runtime on" not in (line := running.stderr.readline()):
            assert line, "the switch has ended"
        yield address
    finally:
        running.kill()
        running.wait()


@pytest.mark.skipif(not (BUILD / "ebb-switch").exists(), reason="needs build/: run `make build`")
def test_its_table_is_filled_as_the_page_does(tmp_path: Path) -> None:
    (tmp_path / "first.p4").write_text(block("p4"))
    (line,) = re.findall(r"^ebb-p4c .*$", PAGE, re.MULTILINE)
    subprocess.run([BUILD / "ebb-p4c", *line.split()[1:]], cwd=tmp_path, check=True, timeout=60)
    with switch(tmp_path) as address:
        for told in block("console").split("$ ")[1:]:
            command, _, says = told.partition("\n")
            done = ctl(address, command)
            said = "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())
            assert (said, done.stderr) == (says, ""), command
    with switch(tmp_path, p4info=False) as address:
        refused = ctl(address, "ebb-ctl table dump").stderr
        assert "reports no P4Info: it has no program, or was started without one" in refused


def ctl(address: str, command: str) -> subprocess.CompletedProcess[str]:
    name, *words = command.split()
    assert name == "ebb-ctl"
    return subprocess.run(
        [sys.executable, "-m", "ebb_controller.ctl.cli", *words],
        env=os.environ | {"EBB_CTL_ADDR": address},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_the_crates_of_the_page_are_there() -> None:
    folders = re.findall(r"cargo install --locked --path (\S+)", PAGE)
    assert len(folders) == 3
    assert all((ROOT / folder / "Cargo.toml").exists() for folder in folders)
