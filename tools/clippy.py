"""clippy over all crates, and no more public items without documentation (rustc's lint
`missing_docs`) in each than undocumented.toml allows.

    python tools/clippy.py [--write]

Every other warning is an error. With --write lower counts go into undocumented.toml. With
`WHILE_COMPILING` in its environment the warnings are those of the compilation of the tests, which
`make test` needs anyway.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from widths import GENERATED

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = ROOT / "tools" / "undocumented.toml"
LINTS = ("-W", "missing_docs")
"""Arguments of clippy beyond `[workspace.lints]`."""
WHAT = ("--quiet", "--locked", "--workspace", "--all-targets", "--message-format=json")
WHILE_COMPILING = {
    "RUSTC_WORKSPACE_WRAPPER": "clippy-driver",
    "CLIPPY_ARGS": "".join(f"{lint}__CLIPPY_HACKERY__" for lint in LINTS),
}
"""Environment in which cargo compiles with clippy's driver, which prints lints and makes code. The
word behind each argument is the one that `cargo clippy` itself puts there for the driver."""
HEAD = """\
# The most public items without documentation (rustc's `missing_docs`) that a crate may have:
# `make lint` (tools/clippy.py) refuses more. `python tools/clippy.py --write` makes them lower; a
# crate that is not here has none.

"""


class Item(NamedTuple):
    """A public item without documentation: where it is declared."""

    manifest: str
    """Path of its crate's `Cargo.toml`."""
    file: str
    line: int
    column: int


def undocumented(messages: Iterable[Mapping[str, Any]]) -> set[Item]:
    """The items that clippy names, each once, although it is in the library and in its tests."""
    return {
        Item(message["manifest_path"], span["file_name"], span["line_start"], span["column_start"])
        for message in messages
        if _code(message) == "missing_docs"
        for span in message["message"]["spans"]
        if span["is_primary"] and not span["file_name"].startswith(GENERATED)
    }


def others(messages: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Other warnings and errors as clippy prints them, without its sums."""
    for message in messages:
        if _code(message) not in (None, "missing_docs") or message["message"]["level"] == "error":
            yield message["message"]["rendered"]


def _code(message: Mapping[str, Any]) -> str | None:
    return (message["message"]["code"] or {}).get("code")


def grown(most: Mapping[str, int], items: Mapping[str, list[Item]]) -> Iterator[str]:
    """Crates with more than they may have, and their items."""
    for name, bare in sorted(items.items()):
        if len(bare) > most.get(name, 0):
            allowed = f"tools/undocumented.toml allows {most.get(name, 0)}"
            yield f"{name}: {len(bare)} public items without documentation, {allowed}:"
            yield from (f"  {item.file}:{item.line}" for item in sorted(bare))


def lower(most: Mapping[str, int], items: Mapping[str, list[Item]]) -> str:
    """undocumented.toml with the lower of both counts."""
    least = {name: min(most[name], len(items.get(name, []))) for name in sorted(most)}
    return HEAD + "".join(f"{name} = {count}\n" for name, count in least.items() if count)


def by_crate(items: Iterable[Item]) -> dict[str, list[Item]]:
    found: dict[str, list[Item]] = {}
    for item in items:
        name = tomllib.loads(Path(item.manifest).read_text())["package"]["name"]
        found.setdefault(name, []).append(item)
    return found


def command(environment: Mapping[str, str]) -> tuple[str, ...]:
    """The command of cargo that prints clippy's warnings."""
    if WHILE_COMPILING.items() <= environment.items():
        return ("cargo", "test", "--no-run", *WHAT)
    return ("cargo", "clippy", *WHAT, "--", *LINTS)


def main() -> int:
    run = subprocess.run(
        command(os.environ), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
    )
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    messages = [line for line in lines if line["reason"] == "compiler-message"]
    wrong = [
        *dict.fromkeys(others(messages))
    ]  # each once, although in the library and in its tests
    most = tomllib.loads(ALLOWED.read_text())
    items = by_crate(undocumented(messages))
    if "--write" in sys.argv[1:] and run.returncode == 0:
        ALLOWED.write_text(lower(most, items))
    else:
        wrong += grown(most, items)
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong or run.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
