"""Subjects of this tree and of another commit in turn, and what of both differs.

The other commit is checked out and built in a folder of its own, with its own programs, and runs
its own benchmarks; only Python's packages are those of this tree.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ebb_topologies.files import InputError, write
from ebb_topologies.installation import PROGRAMS_VARIABLE, commit
from ebb_topologies.own_folder import own_folder
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from ebb_experiments.bench.paired import Comparison, Row, compare
from ebb_experiments.results.numbers import three_digits
from ebb_experiments.results.terminal import print_whole

KEPT = Path("build", "bench")
"""Folder of other commits, which stay there built."""
PACKAGES = ("host-agent/python", "topologies", "controller", "experiments", "dashboard")
"""Folders of Python packages of a work tree."""
STAMPS = (".venv/.p4-installed", ".venv/.run-installed", ".venv/.study-installed")
"""Stamps of make for Python's packages: the other commit takes them from this tree."""

Run = Callable[[Path, str, Path], Mapping[str, Any]]
"""Runs a subject of a work tree with results below a folder; gives its section."""


def run(args: argparse.Namespace, root: Path) -> int:
    """Builds the other commit, runs the subjects, prints the ratios; returns the exit code."""
    console = Console(highlight=False)
    name = resolve(root, args.base)
    directory = args.results / time.strftime("bench-%Y%m%d-%H%M%S")
    own_folder(directory)
    tree = checkout(root, name)
    console.print(f"building {name[:12]} in {tree} (minutes the first time)")
    build(tree, Path(sys.executable), directory / "build.log")
    mine = [subject for subject in args.subjects if has(tree, subject)]
    for subject in args.subjects:
        if subject not in mine:
            console.print(f"{subject}: {name[:12]} does not have this subject")
    options = [f"--{flag}" for flag in ("quick", "realtime") if getattr(args, flag)]
    about: dict[str, Any] = {"base": name, "here": commit(), "pairs": args.pairs, "subjects": {}}

    def once(tree: Path, subject: str, results: Path) -> Mapping[str, Any]:
        return run_subject(tree, subject, results, options)

    try:
        for subject in mine:
            pairs = in_turn(once, (tree, root), subject, directory, args.pairs)
            found = compare(pairs, int(pairs[0][1].get("names", 1)))
            about["subjects"][subject] = asdict(found)
            show(console, subject, found, args.pairs)
    finally:
        write(directory / "pairs.json", json.dumps(about, indent=1) + "\n")
    console.print(f"all ratios: {directory / 'pairs.json'}", soft_wrap=True)
    return 0


def resolve(root: Path, name: str) -> str:
    """The commit of a name. Raises `InputError` if there is none."""
    command = ["git", "-C", str(root), "rev-parse", "--verify", "--quiet", "--end-of-options"]
    done = subprocess.run([*command, f"{name}^{{commit}}"], capture_output=True, text=True)
    if done.returncode != 0:
        raise InputError(f"BASE '{name}': this repository has no such commit (`git log --oneline`)")
    return done.stdout.strip()


def checkout(root: Path, name: str) -> Path:
    """A work tree of the commit: the one of an earlier time, or a new one."""
    tree = root / KEPT / name
    if not (tree / "Makefile").exists():
        own_folder(tree.parent)
        git = ["git", "-C", str(root), "worktree"]
        # git keeps the entry of a work tree whose folder was deleted, and would refuse to add it.
        subprocess.run([*git, "prune"], capture_output=True)
        add = [*git, "add", "--force", "--detach", str(tree), name]
        done = subprocess.run(add, capture_output=True, text=True)
        if done.returncode != 0:
            raise InputError(f"{name[:12]} cannot be checked out: {_last(done.stderr)}")
    return tree


def build(tree: Path, python: Path, log: Path) -> None:
    """Makes what `make build` makes there. Raises `InputError` with the end of what it said."""
    old = [word for stamp in STAMPS for word in ("-o", stamp)]
    command = ["make", "--no-print-directory", "-C", str(tree), "build", f"PYTHON={python}", *old]
    with log.open("w") as file:
        code, _out, _err = _run(command, _environment(), stdout=file, stderr=subprocess.STDOUT)
    if code != 0:
        text = log.read_text(errors="replace")
        errors = [line for line in text.splitlines() if line.startswith("error")]
        raise InputError(
            f"{tree.name[:12]} does not build: {errors[0] if errors else _last(text)} (all: {log})"
        )


def has(tree: Path, subject: str) -> bool:
    """Whether the commit of a work tree has a subject."""
    return (tree / "experiments" / "ebb_experiments" / "bench" / f"{subject}.py").exists()


def in_turn(
    once: Run, trees: tuple[Path, Path], subject: str, directory: Path, pairs: int
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Runs a subject of both trees in turn, this many times."""
    found = []
    for number in range(1, pairs + 1):
        base, here = (
            once(tree, subject, directory / f"{subject}-{number}-{which}")
            for tree, which in zip(trees, ("base", "here"), strict=True)
        )
        found.append((base, here))
    return found


def run_subject(tree: Path, subject: str, results: Path, options: Sequence[str]) -> dict[str, Any]:
    """Runs a subject by the benchmarks of a work tree. Raises `InputError` if it does not end
    well."""
    own_folder(results)
    command = [sys.executable, "-m", "ebb_experiments.bench", subject, *options]
    command += ["--results", str(results)]
    paths = os.pathsep.join(str(tree / package) for package in PACKAGES)
    environment = _environment() | {"PYTHONPATH": paths}
    pipe = subprocess.PIPE
    code, out, err = _run(command, environment, cwd=tree, stdout=pipe, stderr=pipe)
    written = sorted(results.glob("bench-*/bench.json"))
    if code != 0 or not written:
        raise InputError(f"{subject} of {tree}: {_last(err or out)}")
    section: dict[str, Any] = json.loads(written[-1].read_text())["sections"][subject]
    return section


def show(console: Console, subject: str, found: Comparison, pairs: int) -> None:
    """Prints the ratios of a subject."""
    title = f"{subject}: this tree over the other commit, median of {pairs} pairs"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    table.add_column("row")
    table.add_column("figure")
    for column in ("other", "this", "ratio", "lowest", "highest"):
        table.add_column(column, justify="right")
    for each in found.ratios:
        numbers = (each.base, each.here)
        ratios = (each.median, *each.spread)
        cells = (*map(three_digits, numbers), *(f"{ratio:.3f}" for ratio in ratios))
        table.add_row(_text(each.row), each.column, *cells)
    print_whole(console, table)
    for row in found.only_here:
        console.print(f"  only in this tree: {_text(row)}", markup=False)
    for row in found.only_base:
        console.print(f"  only in the other commit: {_text(row)}", markup=False)
    for row, column in found.without_ratio:
        console.print(f"  {_text(row)}, {column}: 0 at the other commit, no ratio", markup=False)


def _text(row: Row) -> str:
    return ", ".join(row)


def _run(
    command: Sequence[str], environment: Mapping[str, str], **options: Any
) -> tuple[int, str, str]:
    """Runs a command; if we are interrupted, all that it has started is, too."""
    process = subprocess.Popen(
        command, env=environment, text=True, start_new_session=True, **options
    )
    try:
        out, err = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
        raise
    return process.returncode, out or "", err or ""


def _environment() -> dict[str, str]:
    """Ours, without what would lead make, cargo or the benchmarks to this tree's programs."""
    ours = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "CARGO_TARGET_DIR", PROGRAMS_VARIABLE)
    return {name: value for name, value in os.environ.items() if name not in ours}


def _last(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
