"""Makes `.venv` that of the folder it lies in, after the work tree was copied or moved.

Scripts and the editable packages of an environment name its folder: in a copy they would run the
code of the tree that was copied. What names the old folder names this one, which is quick and needs
no network; the Python and the packages of the environment are the same ones.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = "pyvenv.cfg"
"""Names the folder for which the environment was made."""
SMALL = 1 << 20
"""Bytes; no script of an environment is larger."""


def made_for(environment: Path) -> Path | None:
    """The folder for which an environment was made; none: there is none, or it does not say."""
    try:
        text = (environment / CONFIG).read_text()
    except OSError:
        return None
    found = re.search(r"^command = \S+ -m venv (?:--\S+ )*(/.*)$", text, re.MULTILINE)
    return Path(found[1]) if found else None


def repair(environment: Path) -> Path | None:
    """Has an environment name the folder it is in; returns the one that it named, or none if that
    is the same."""
    old = made_for(environment)
    if old is None or old == environment:
        return None
    # The folder of the tree, too: the editable packages lie beside the environment.
    name = re.compile(re.escape(os.fsencode(old.parent)) + rb"(?![\w.-])")
    config = environment / CONFIG
    for file in (*_files(environment), config):  # last: until then it is not repaired
        before = file.read_bytes()
        after = name.sub(lambda _: os.fsencode(environment.parent), before)
        if after != before:
            part = file.with_name(f".{file.name}.part")
            part.write_bytes(after)
            part.chmod(file.stat().st_mode)
            part.replace(file)
    return old


def _files(environment: Path) -> Iterator[Path]:
    """Files of an environment that may name its folder: scripts, and how editable packages are
    found."""
    for folder in environment.glob("lib/python3*/site-packages"):
        yield from folder.glob("__editable__*")
        yield from folder.glob("*.dist-info/direct_url.json")
    for file in (environment / "bin").iterdir():
        if file.is_file() and not file.is_symlink() and file.stat().st_size < SMALL:
            yield file


def main() -> int:
    try:
        old = repair(ROOT / ".venv")
    except OSError as error:
        print(f"moved: {error}: remove .venv, make installs it again", file=sys.stderr)
        return 1
    if old is not None:
        print(f"== .venv was that of {old.parent}: it is that of this folder now")
    return 0


if __name__ == "__main__":
    sys.exit(main())
