"""A work tree that was copied runs its own Python code."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import moved
import pytest

ROOT = Path(__file__).resolve().parents[2]
FINDER = """\
import importlib.util, sys
MAPPING = {{'ebb_example': '{root}/topologies/ebb_example', 'other': '{root}-other/x'}}
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        place = MAPPING.get(name)
        return place and importlib.util.spec_from_file_location(name, place + '/__init__.py')
sys.meta_path.append(Finder)
"""


def tree(root: Path) -> Path:
    """A work tree with a package, its environment and a script of it, as pip makes them."""
    package = root / "topologies" / "ebb_example"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def main():\n    print(__file__)\n")
    venv = root / ".venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", str(venv)], check=True)
    (site,) = venv.glob("lib/python3*/site-packages")
    (site / "__editable___ebb_finder.py").write_text(FINDER.format(root=root))
    (site / "ebb.pth").write_text("import __editable___ebb_finder\n")
    script = venv / "bin" / "ebb-example"
    script.write_text(f"#!{venv}/bin/python\nfrom ebb_example import main\nmain()\n")
    script.chmod(0o755)
    folders = ("tools", "topologies/ebb_topologies", "common", "host-agent", "simulator", "switch")
    for folder in folders:  # what make looks into
        (root / folder).mkdir(parents=True)
    for name in ("Makefile", "tools/moved.py", "topologies/ebb_topologies/nearest.py"):
        shutil.copy(ROOT / name, root / name)
    return root


def said(*command: str | Path) -> str:
    return subprocess.run(
        [*map(str, command)], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


@pytest.mark.parametrize("name", ["copy", "old2", "in/old"])
def test_make_has_a_copy_run_its_own_code(tmp_path: Path, name: str) -> None:
    old = tree(tmp_path / "old")
    copy = tmp_path / name
    shutil.copytree(old, copy, symlinks=True)  # `in/old` ends as the old one does
    told = subprocess.run(
        ["make", "-C", str(copy), "help"], capture_output=True, text=True, check=True, timeout=60
    )
    assert told.stderr == f"== .venv was that of {old}: it is that of this folder now\n"
    asked = (copy / ".venv/bin/python", "-c", "import ebb_example; ebb_example.main()")
    assert said(*asked) == f"{copy}/topologies/ebb_example/__init__.py"
    assert said(copy / ".venv/bin/ebb-example") == f"{copy}/topologies/ebb_example/__init__.py"
    # The tree that was copied, and what else begins with its name, is as it was.
    assert said(old / ".venv/bin/ebb-example") == f"{old}/topologies/ebb_example/__init__.py"
    (finder,) = copy.glob(".venv/lib/python3*/site-packages/__editable__*")
    assert f"'{old}-other/x'" in finder.read_text()
    again = subprocess.run(
        ["make", "-C", str(copy), "help"], capture_output=True, text=True, check=True, timeout=60
    )
    assert again.stderr == ""


def test_an_environment_of_its_own_folder_is_left_alone(tmp_path: Path) -> None:
    venv = tree(tmp_path / "old") / ".venv"
    before = {path: path.lstat().st_mtime_ns for path in venv.rglob("*")}
    assert moved.repair(venv) is None
    assert {path: path.lstat().st_mtime_ns for path in venv.rglob("*")} == before
    assert moved.repair(tmp_path / "none") is None


def test_the_environment_of_this_tree_names_this_tree() -> None:
    """Or these tests would be about other code."""
    place = said(sys.executable, "-c", "import ebb_topologies; print(ebb_topologies.__file__)")
    assert Path(place) == ROOT / "topologies" / "ebb_topologies" / "__init__.py"
