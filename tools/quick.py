"""Tests of what has changed, in about a minute: what `make test-quick` runs.

    python tools/quick.py [BASE]        # a commit; none: where this branch left main

Formatting and lints of the changed files; of Rust the unit tests of the crates with changed files,
and their integration tests where these have changed; of Python the tests that import a changed
module, and those that have changed; of P4 the packet tests of a changed mechanism. Programs are
built only if these two want them. What is not run is said: everything is `make test`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
RUST_SUFFIXES = (".rs", ".toml", ".p4", ".txt", ".json", ".stf")
"""Suffixes of files in a crate that its tests may read."""
MOST_TESTS = 8
"""Most test files that are run because they import a changed module; where more do, only the one
with the name of the module is run."""
NOT_RUN = "not run: other crates, golden data, whole fabrics; `make test` runs everything"


@dataclass
class Parts:
    """Parts that the changed files belong to."""

    units: set[str] = field(default_factory=set)
    """Crates whose unit tests are run."""
    integrations: set[str] = field(default_factory=set)
    """Crates whose integration tests are run too."""
    tests: set[str] = field(default_factory=set)
    """Files of tests in Python."""
    left_out: set[str] = field(default_factory=set)
    """Files of tests in Python that are left out by `MOST_TESTS`."""
    folders: dict[str, Path] = field(default_factory=dict)
    """Folders of the crates, by name."""
    mechanisms: set[str] = field(default_factory=set)
    """Packet tests, by the names of their files."""


def git(*arguments: str) -> list[str]:
    """The lines that git prints."""
    command = ["git", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def changed(base: str | None) -> list[str]:
    """Files that differ from a commit, untracked ones included, deleted ones not."""
    since = base or git("merge-base", "HEAD", "main")[0]
    found = git("diff", "--name-only", "--diff-filter=d", since)
    return sorted({*found, *git("ls-files", "--others", "--exclude-standard")})


def parts(files: Sequence[str], root: Path = ROOT) -> Parts:
    """Tests to run for these files."""
    found = Parts()
    modules = set()
    for name in files:
        path = Path(name)
        if (place := _crate(path, root)) is not None and path.suffix in RUST_SUFFIXES:
            crate, folder = place
            found.units.add(crate)
            found.folders[crate] = folder
            if "tests" in path.parts:
                found.integrations.add(crate)
        elif path.suffix == ".py":
            modules.add(_module(path))
            if path.name.startswith("test_"):
                found.tests.add(name)
        mechanism = root / "ptf-tests" / "tests" / f"{path.stem}.py"
        if path.suffix == ".p4" and path.parts[0] == "p4src" and mechanism.exists():
            found.mechanisms.add(path.stem)
        if path.is_relative_to("ptf-tests/tests"):
            found.mechanisms.add(path.stem)
    for module, tests in _importing(modules, root).items():
        named = {name for name in tests if Path(name).stem == f"test_{module.rpartition('.')[2]}"}
        chosen = tests if len(tests) <= MOST_TESTS else named
        found.tests |= chosen
        found.left_out |= tests - chosen
    found.left_out -= found.tests
    return found


def _crate(path: Path, root: Path) -> tuple[str, Path] | None:
    """The crate of the workspace that a file is in, and its folder; none: it is in none."""
    for folder in path.parents:
        manifest = root / folder / "Cargo.toml"
        if folder != Path() and manifest.exists():
            table = tomllib.loads(manifest.read_text())
            inherits = table.get("package", {}).get("license") == {"workspace": True}
            return (str(table["package"]["name"]), root / folder) if inherits else None
    return None


def _module(path: Path) -> str:
    """Name by which tests import a file: `ebb_controller.plan` of a package, `widths` of tools."""
    parts = path.with_suffix("").parts
    start = next((number for number, part in enumerate(parts) if part.startswith("ebb_")), -1)
    if start < 0 and parts[0] == "tools" and "tests" not in parts:
        start = 1
    return ".".join(parts[start:]).removesuffix(".__init__")


def _importing(modules: set[str], root: Path) -> dict[str, set[str]]:
    """Tests that import a module directly, by its name."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    found: dict[str, set[str]] = {module: set() for module in modules}
    if not modules:
        return found
    for folder in settings["testpaths"]:
        for path in sorted((root / folder).glob("**/test_*.py")):
            for module in _imported_by(path) & modules:
                found[module].add(str(path.relative_to(root)))
    return found


@cache
def _imported_by(path: Path) -> set[str]:
    return imported(path.read_text())


def imported(source: str) -> set[str]:
    """Names of modules that a source imports; a name imported from a module may be a submodule, so
    both are there."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def commands(found: Parts, files: Sequence[str]) -> Iterator[list[str]]:
    """Commands to run, the quickest first."""
    python = [name for name in files if name.endswith(".py")]
    if python:
        yield [PYTHON, "-m", "ruff", "check", "--quiet", "--force-exclude", *python]
        yield [PYTHON, "-m", "ruff", "format", "--quiet", "--check", "--force-exclude", *python]
    yield [PYTHON, "tools/widths.py"]
    yield [PYTHON, "tools/links.py"]
    if rust := [name for name in files if name.endswith(".rs")]:
        yield ["rustfmt", "--edition", "2024", "--check", "--config", "skip_children=true", *rust]
    cargo = ["cargo", "test", "--locked", "--quiet"]
    units = found.units - found.integrations
    for kind, source in (("--lib", "lib.rs"), ("--bins", "main.rs")):
        if crates := {crate for crate in units if (found.folders[crate] / "src" / source).exists()}:
            yield [*cargo, kind, *_packages(crates)]
    if found.tests or found.mechanisms:
        yield ["make", "build"]
    if found.tests:
        yield [PYTHON, "-m", "pytest", *sorted(found.tests)]
    if found.integrations:
        yield [*cargo, *_packages(found.integrations)]
    if found.mechanisms:
        yield [PYTHON, "ptf-tests/run.py", *sorted(found.mechanisms)]


def _packages(crates: set[str]) -> list[str]:
    return [word for crate in sorted(crates) for word in ("-p", crate)]


def main() -> int:
    files = changed(sys.argv[1] if len(sys.argv) > 1 else None)
    if not files:
        print("nothing differs from main: `make test` runs everything")
        return 0
    began, failed = time.monotonic(), []
    found = parts(files)
    for command in commands(found, files):
        shown = " ".join(command[2:] if command[:2] == [PYTHON, "-m"] else command)
        shown = shown.replace(f"{PYTHON} ", "")
        print(f"== {shown if len(shown) < 200 else shown[:197] + '...'}", flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            failed.append(shown)
    print(f"\n{time.monotonic() - began:.0f} s; {NOT_RUN}")
    if found.left_out:
        print(f"nor {len(found.left_out)} files of tests that only use what has changed")
    for shown in failed:
        print(f"FAIL {shown[:200]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
