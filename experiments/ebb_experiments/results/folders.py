"""A folder for each run, named by the time at which it began: results of two runs never mix, and
none is replaced."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ebb_topologies.files import TIME_FORMAT, link_to
from ebb_topologies.own_folder import own_folder

LATEST = "latest"
"""A link to the folder of the last run beside it."""


def begin(runs: Path) -> Path:
    """Makes the folder of a run that begins."""
    own_folder(runs)
    name, number = time.strftime(TIME_FORMAT), 1
    path = runs / name
    while True:
        try:
            path.mkdir()
            return path
        except FileExistsError:
            number += 1
            path = runs / f"{name}-{number}"


def name_latest(folder: Path) -> None:
    """Has `LATEST` name the folder of a run."""
    link_to(folder.parent / LATEST, folder.name)


@contextmanager
def kept(runs: Path) -> Iterator[Path]:
    """The folder of a run, which `LATEST` names when the block ends well. Otherwise it keeps what
    is in it, or goes if nothing is."""
    path = begin(runs)
    try:
        yield path
    except BaseException:
        for folder in (*sorted(path.rglob("*"), reverse=True), path):
            with suppress(OSError):  # a file, or a folder that is not empty
                folder.rmdir()
        raise
    name_latest(path)


def run_in(folder: Path) -> Path:
    """The last run, of a folder that has several; else the folder itself."""
    latest = folder / LATEST
    return latest if latest.is_dir() else folder
