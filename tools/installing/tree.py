"""Files below a prefix, and the list by which they are taken away again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

OWN = Path("lib/ebb")
"""Folder of the prefix that is Ebb's alone; it goes as a whole, with what Python leaves there."""
LIST = OWN / "installed"
"""Every installed file outside of `OWN`, a line each, and every folder that was made for one, with
a slash at its end. Relative to the prefix."""


def unfinished(path: Path) -> Path:
    """Where a file is written before it takes its name."""
    return path.with_name(f".{path.name}.part")


def for_all_to_read() -> None:
    """Files that this process and those that it starts make from here on are writable by its owner
    alone and readable by everybody, whatever the umask: files 0644, programs and folders 0755."""
    os.umask(0o022)


class InstallError(Exception):
    """It cannot be installed; the message says why and what to do."""


class Tree:
    """An installation, whole or in the making."""

    def __init__(self, prefix: Path, destination: Path | None = None) -> None:
        """`prefix`: where the files will be found. `destination`: a folder in front of it, for
        packages; none: they are put where they will be found."""
        if not prefix.is_absolute():
            raise InstallError(f"PREFIX={prefix}: it must be absolute, as /usr/local")
        self.prefix = prefix
        self.root = prefix if destination is None else destination / prefix.relative_to("/")
        self._before = self._listed()
        self._names = set(self._before)

    def _listed(self) -> set[str]:
        try:
            return set((self.root / LIST).read_text().split("\n")) - {""}
        except FileNotFoundError:
            return set()

    def refuse(self, names: Iterable[str | Path]) -> None:
        """Raises `InstallError` for a file that is there and that somebody else has put there."""
        for name in names:
            path, known = self.root / name, self._own(name) or str(name) in self._names
            if os.path.lexists(path) and not known:
                raise InstallError(
                    f"{path} is there, and Ebb has not installed it: remove it, or take another "
                    "PREFIX"
                )

    def place(self, name: str | Path) -> Path:
        """Where a file is put, which the list names from now on. Refuses one that somebody else has
        put there."""
        self.refuse([name])
        path = self.root / name
        above = {each for each in (*Path(name).parents, *LIST.parents) if not self._own(each)}
        new = {f"{each}/" for each in above - {Path()} if not (self.root / each).exists()}
        if not self._own(name):
            new.add(str(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        if not new <= self._names:
            self._names |= new
            self._write_list()
        return path

    def _write_list(self) -> None:
        path = self.root / LIST
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished(path).write_text("".join(f"{name}\n" for name in sorted(self._names)))
        unfinished(path).replace(path)

    @staticmethod
    def _own(name: str | Path) -> bool:
        """Whether it is, or is in, the folder that goes as a whole."""
        return Path(name).is_relative_to(OWN)

    def write(self, name: str | Path, content: str | bytes, mode: int = 0o644) -> None:
        """A file of this content, whole or not at all."""
        path = self.place(name)
        part = unfinished(path)
        part.write_bytes(content.encode() if isinstance(content, str) else content)
        part.chmod(mode)
        part.replace(path)

    def link(self, name: str, target: str) -> None:
        """A symbolic link beside its target."""
        path = self.place(name)
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    def remove(self) -> list[str]:
        """Takes away what was installed, and folders that were made for it and are empty; returns
        the files."""
        files = sorted(name for name in self._before if not name.endswith("/"))
        for name in files:
            for path in (self.root / name, unfinished(self.root / name)):
                path.unlink(missing_ok=True)
        shutil.rmtree(self.root / OWN, ignore_errors=True)
        folders = (name for name in self._before if name.endswith("/"))
        for name in sorted(folders, key=len, reverse=True):
            folder = self.root / name
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        self._before, self._names = set(), set()
        return files
