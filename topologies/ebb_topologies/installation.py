"""Where programs, data and results lie: in a work tree of the repository, or in an installation.

In a work tree they lie in the folders of the repository. An installed package brings the data along
in a folder of the same layout, finds the programs on PATH, and writes below the current folder.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

from ebb_topologies.errors import InputError
from ebb_topologies.nearest import hint

PROGRAMS_VARIABLE = "EBB_BUILD"
"""Environment variable that names the folder of the programs."""
RESULTS_VARIABLE = "EBB_RESULTS"
"""Environment variable that names the folder of the results."""
DATA_FOLDER = "data"
"""Folder of the installed package with what setup.py copies there."""
TOFINO = "tna"
"""Folder of the programs for Tofino, beside the others."""
COMMIT_FILE = "COMMIT"
"""The commit of an installed package, in its data."""
DIFFERING = ("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs/results")
"""Has git list the files that differ from the commit, those of docs/results apart, which are made
by what the others say."""
DISTRIBUTION = "ebb"


@cache
def work_tree() -> Path | None:
    """The repository that this package is run from; none: it is installed."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "p4src" / "fabric.p4").exists() else None


def data() -> Path:
    """Folder with `experiments/scenarios`, `experiments/papers`, `topologies` and `build/fabric.*`,
    laid out as the repository is."""
    return work_tree() or Path(str(files(__package__) / DATA_FOLDER))


def scenario(path: Path) -> Path:
    """A file, which has a suffix, or by its name one of `experiments/scenarios`: `smoke`,
    `sim/permutation`, whatever else has that name. Raises `InputError` for a name that none has."""
    folder = data() / "experiments" / "scenarios"
    if path.suffix:
        return path
    names = sorted(str(each.relative_to(folder).with_suffix("")) for each in folder.rglob("*.toml"))
    if str(path) not in names:
        raise InputError(
            f"there is no scenario '{path}'; {hint(str(path), names)} (or a file: NAME.toml)"
        )
    return folder / f"{path}.toml"


def programs() -> Path:
    """Folder of ebb-switch, ebb-agent and ebb-simulator; they may be missing there."""
    if given := os.environ.get(PROGRAMS_VARIABLE):
        return Path(given)
    if (root := work_tree()) is not None:
        return root / "build"
    found = shutil.which("ebb-switch")
    return Path(found).parent if found else Path(sys.prefix) / "bin"


def compiled(beside: Path | None = None) -> Path:
    """Folder of the compiled programs of p4src: that of the binaries, or in an installation that
    has none there, the data. `beside`: none is `programs()`."""
    folder = beside or programs()
    return folder if work_tree() or (folder / "fabric.json").exists() else data() / "build"


def results() -> Path:
    """Folder below which results are written unless one is named."""
    if given := os.environ.get(RESULTS_VARIABLE):
        return Path(given)
    root = work_tree()
    return Path("results") if root is None else root / "results"


def remedy(missing: Path) -> str:
    """Advice about a program that is missing; those for Tofino are in a folder of their own."""
    if work_tree() is not None:
        return "run `make build P4=tna`" if missing.parent.name == TOFINO else "run `make build`"
    return (
        f"put Ebb's programs on PATH (`make install` does), or name their folder: "
        f"{PROGRAMS_VARIABLE}=DIR"
    )


def commit() -> str | None:
    """The commit of this package, with + if files differ from it; none: it was not recorded."""
    root = work_tree()
    if root is None:
        recorded = data() / COMMIT_FILE
        return recorded.read_text().strip() if recorded.exists() else None
    head = _git(root, "rev-parse", "HEAD")
    return head and head + ("+" if _git(root, *DIFFERING) else "")


def _git(root: Path, *command: str) -> str | None:
    """Output of a command of git in the repository; none: it failed, or there is no git."""
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *command], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _short(commit: str | None) -> str:
    """Twelve digits, and whether files differ from it."""
    if not commit:
        return "not recorded"
    return commit[:12] + ("+" if commit.endswith("+") else "")


class Version(argparse.Action):
    """`--version`, which asks for the commit only when it is wanted."""

    def __init__(self, option_strings: list[str], dest: str, **_: object) -> None:
        super().__init__(
            option_strings, argparse.SUPPRESS, nargs=0, help="print version and commit"
        )

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Prints one line, as the programs in Rust do, and ends."""
        from importlib.metadata import version

        print(f"{parser.prog} {version(DISTRIBUTION)} (commit {_short(commit())})")
        parser.exit()
