"""An installed wheel has every package, and the files that they read."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS = {name: ROOT / folder for name, folder in SETUPTOOLS["package-dir"].items()}


def test_every_folder_with_modules_is_a_package_of_the_wheel() -> None:
    found = {
        ".".join([name, *path.parent.relative_to(folder).parts])
        for name, folder in FOLDERS.items()
        for path in folder.rglob("__init__.py")
    }
    assert sorted(found) == sorted(SETUPTOOLS["packages"])


def test_files_that_are_no_modules_are_data_of_the_wheel() -> None:
    for package in SETUPTOOLS["packages"]:
        top, *rest = package.split(".")
        folder = FOLDERS[top].joinpath(*rest)
        patterns = SETUPTOOLS["package-data"].get(package, [])
        named = {path for pattern in patterns for path in folder.glob(pattern)}
        assert named == set(data(folder)), package


def data(folder: Path) -> Iterator[Path]:
    """Files of a package that are no modules, those in folders that are no packages too."""
    for path in folder.iterdir():
        if path.is_dir() and not (path / "__init__.py").exists():
            yield from data(path)
        elif path.is_file() and path.suffix not in (".py", ".pyi", ".pyc"):
            yield path
