"""Which crate may use which: arrows.toml against what Cargo knows, and as a picture. In each crate:
circles of files, and uses of a file by the modules below it, no more than circles.toml allows.

    python tools/arrows.py [--write]

Prints what is wrong, a line each. With --write the picture in docs/architecture.md is made again,
and lower counts go into circles.toml; without it, a picture of other arrows is wrong too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import modules
from modules import Counts

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
CIRCLES = ROOT / "tools" / "circles.toml"
BEGIN, END = "<!-- arrows: made by tools/arrows.py --write -->\n", "<!-- /arrows -->\n"


@dataclass(frozen=True)
class Crate:
    """One of our crates, with the names of those of ours that it uses."""

    name: str
    folder: str
    """First part of the crate's path in the repository."""
    uses: frozenset[str]
    tests_use: frozenset[str]
    roots: tuple[Path, ...] = ()
    """Files of its root modules: of the library, of each program."""


@dataclass(frozen=True)
class Arrows:
    """Contents of arrows.toml."""

    folders: Mapping[str, Sequence[str]]
    crates: Mapping[str, Sequence[str]]
    tests: frozenset[str]

    @classmethod
    def read(cls, path: Path) -> Arrows:
        table = tomllib.loads(path.read_text())
        return cls(table["folders"], table["crates"], frozenset(table["tests"]["crates"]))

    def problems(self, crates: Sequence[Crate]) -> Iterator[str]:
        folder = {crate.name: crate.folder for crate in crates}
        for crate in crates:
            yield from self._folders(crate, folder)
            if crate.name not in self.tests:
                yield from self._uses(crate)
        for name in sorted({*self.crates, *self.tests} - {*folder}):
            yield f"{name}: arrows.toml names it, and there is no such crate"

    def _folders(self, crate: Crate, folder: Mapping[str, str]) -> Iterator[str]:
        if crate.folder not in self.folders:
            yield f"{crate.name}: folder {crate.folder} is not in [folders] of arrows.toml"
            return
        allowed = {crate.folder, *self.folders[crate.folder]}
        for used in sorted(crate.uses | crate.tests_use):
            if folder[used] not in allowed:
                may = ", ".join(sorted(allowed))
                place = f"{crate.folder}/ may use {may}, not {folder[used]}/"
                yield f"{crate.name} uses {used}: {place}"

    def _uses(self, crate: Crate) -> Iterator[str]:
        if crate.name not in self.crates:
            yield f"{crate.name}: it is not in [crates] of arrows.toml"
            return
        allowed = frozenset(self.crates[crate.name])
        for used in sorted(crate.uses - allowed):
            yield f"{crate.name} uses {used}: arrows.toml has no such arrow"
        for unused in sorted(allowed - crate.uses):
            yield f"{crate.name} does not use {unused}: take the arrow out of arrows.toml"


def crates() -> list[Crate]:
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--offline", "--no-deps"]
    text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    return of_metadata(json.loads(text))


def of_metadata(metadata: Mapping[str, Any]) -> list[Crate]:
    packages = metadata["packages"]
    ours = {package["name"] for package in packages}
    root = Path(metadata["workspace_root"])

    def uses(package: Mapping[str, Any], test: bool) -> frozenset[str]:
        names = {d["name"] for d in package["dependencies"] if (d["kind"] == "dev") == test}
        return frozenset(names & ours)

    def folder(package: Mapping[str, Any]) -> str:
        return Path(package["manifest_path"]).relative_to(root).parts[0]

    def roots(package: Mapping[str, Any]) -> tuple[Path, ...]:
        targets = [t for t in package.get("targets", ()) if {"lib", "bin"} & {*t["kind"]}]
        return tuple(Path(target["src_path"]) for target in targets)

    return [Crate(p["name"], folder(p), uses(p, False), uses(p, True), roots(p)) for p in packages]


def counts(crates: Sequence[Crate]) -> dict[str, Counts]:
    """By crate, of all its root modules together."""
    return {
        crate.name: sum((modules.counts(root) for root in crate.roots), Counts())
        for crate in sorted(crates, key=lambda crate: crate.name)
    }


def grown(most: Mapping[str, Counts], now: Mapping[str, Counts]) -> Iterator[str]:
    """Counts above the ones of circles.toml; a crate that is not there may have none."""
    for name, of in now.items():
        for what, count in of.by_name().items():
            limit = most.get(name, Counts()).by_name()[what]
            if count > limit:
                advice = f"python tools/modules.py {name} shows them"
                yield f"{name}: {count} {what}, tools/circles.toml allows {limit}; {advice}"


def lower(most: Mapping[str, Counts], now: Mapping[str, Counts]) -> str:
    """circles.toml with the lower of both counts."""
    lines = [HEAD]
    for name, of in now.items():
        before = most.get(name, Counts()).by_name()
        least = {what: min(count, before[what]) for what, count in of.by_name().items()}
        if any(least.values()):
            table = ", ".join(f"{what} = {count}" for what, count in least.items())
            lines.append(f"{name} = {{ {table} }}\n")
    return "".join(lines)


HEAD = """\
# The most circles of files, files in them, and upward uses (of a file by a module below it) that a
# crate may have: `make lint` (tools/arrows.py) refuses more. `python tools/arrows.py --write` makes
# them lower; a crate that is not here has none.

"""


def picture(arrows: Arrows, crates: Sequence[Crate]) -> str:
    """The picture as Mermaid text, without the arrows that follow from others."""
    lines = ["```mermaid", "flowchart TD"]
    for folder in arrows.folders:
        names = [crate.name for crate in crates if crate.folder == folder]
        lines.append(f'  subgraph in-{folder}["{folder}/"]')
        lines += [f"    {short(name)}" for name in sorted(names) if name in arrows.crates]
        lines.append("  end")
    for name, used in arrows.crates.items():
        beyond = {other for one in used for other in reachable(arrows.crates, one)}
        lines += [f"  {short(name)} --> {short(one)}" for one in used if one not in beyond]
    return "\n".join([*lines, "```", ""])


def short(name: str) -> str:
    return name.removeprefix("ebb-")


def reachable(arrows: Mapping[str, Sequence[str]], name: str) -> set[str]:
    """The crates that a crate uses, directly or through others, without itself."""
    found: set[str] = set()
    left = [*arrows.get(name, ())]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += arrows.get(one, ())
    return found


def main() -> int:
    arrows, ours = Arrows.read(ROOT / "tools" / "arrows.toml"), crates()
    problems = list(arrows.problems(ours))
    now = counts(ours)
    most = {name: Counts(**of) for name, of in tomllib.loads(CIRCLES.read_text()).items()}
    problems += grown(most, now)
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page = before + BEGIN + picture(arrows, ours) + END + after
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page)
        CIRCLES.write_text(lower(most, now))
    elif page != PAGE.read_text():
        problems.append("docs/architecture.md shows other arrows: python tools/arrows.py --write")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
