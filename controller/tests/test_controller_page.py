"""The program in docs/controller.md works as it is written there."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from ast import literal_eval
from pathlib import Path

import pytest
from built import BUILD, NEEDS_PROGRAM
from ebb_topologies.dilation import Dilation
from ebb_topologies.fabric_file import fabric_file
from ebb_topologies.model import load_topology

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "controller.md").read_text()


@NEEDS_PROGRAM
@pytest.mark.skipif(not (BUILD / "ebb-switch").exists(), reason="needs build/: run `make build`")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a network namespace")
def test_the_program_of_the_page_configures_a_fabric(tmp_path: Path) -> None:
    """In a namespace of its own, since its switches have the ports that every fabric has; they need
    no hosts, so ports to hosts have no interfaces."""
    topology = Dilation(50).topology(load_topology(ROOT / "topologies" / "fat-tree-k4.toml"))
    fabric = fabric_file(topology)
    for switch in fabric["switch"]:
        switch["interfaces"] = {}
    del fabric["host"]
    (tmp_path / "fabric.json").write_text(json.dumps(fabric))
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "example.py").write_text(program)
    log, example, binary = (
        shlex.quote(str(path))
        for path in (tmp_path / "log", tmp_path / "example.py", BUILD / "ebb-switch")
    )
    script = [
        "ip link set lo up",
        f"{binary} --fabric {shlex.quote(str(tmp_path / 'fabric.json'))} 2> {log} &",
        "trap 'kill $!' EXIT",
        f"for try in $(seq 200); do grep -q 'P4Runtime on' {log} && break; sleep 0.05; done",
        f"{shlex.quote(sys.executable)} {example}",
    ]
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", "\n".join(script)],
        cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    changes, trimmed, depths = done.stdout.splitlines()
    assert f'print(changes["p0e0"])  # {changes}\n' in program
    assert trimmed == "(0, 0)"
    # Ports 3 and 4 lead to switches. Others are there if something was sent to them.
    assert {3, 4} <= literal_eval(depths).keys()
