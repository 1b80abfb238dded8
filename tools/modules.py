"""Which file of a Rust crate uses which: the modules of its source, and circles among them.

    python tools/modules.py CRATE

Prints the circles of a crate, and who is used by whom in them.

Reads `mod` and `use` declarations and paths that begin with `crate`, `self`, `super` or a module of
the file; what is compiled for tests only does not count. An item that a file only passes on
(`pub use`) is used from where it is defined. A path that reaches an item in another way (a macro, a
method of a trait) is not seen.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path

Name = tuple[str, ...]
"""A module: its path below the root of the crate."""

_COMMENT = re.compile(r"//[^\n]*")
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TESTS = re.compile(
    r"#\[cfg\((?:all\()?test\b[^\]]*\]\s*(?:#\[[^\]]*\]\s*)*"
    r"(?:pub(?:\([^)]*\))? )?mod (\w+)\s*(;|\{)"
)
_MOD = re.compile(r"^\s*(?:pub(?:\([^)]*\))? )?mod (\w+);", re.MULTILINE)
_PATH = re.compile(r'#\[path = "([^"]+)"\]\s*(?:pub(?:\([^)]*\))? )?mod (\w+);')
_USE = re.compile(r"^\s*(pub(?:\([^)]*\))? )?use ([^;]+);", re.MULTILINE)
_INLINE = re.compile(r"\b((?:crate|self|super|\w+)(?:::\w+)+)")


@dataclass
class Module:
    """One file."""

    name: Name
    code: str = ""
    """Without comments, texts, tests and `use` declarations."""
    children: frozenset[str] = frozenset()
    imports: dict[str, Name] = field(default_factory=dict)
    """Names that `use` brings in, with the absolute path of the item."""
    passed_on: set[str] = field(default_factory=set)
    """Those of them that others may take from here."""
    globs: list[Name] = field(default_factory=list)


@dataclass(frozen=True)
class Counts:
    """The measures of one crate that must not grow."""

    circles: int = 0
    """Sets of files that use each other, directly or through others; `upward` apart."""
    files: int = 0
    """Files in them."""
    upward: int = 0
    """Uses of a file by one of the modules below it."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def by_name(self) -> dict[str, int]:
        return asdict(self)


def counts(root: Path) -> Counts:
    """`root` is the file of the crate's root module."""
    used = uses(modules(root))
    rings = circles(used)
    upward = sum(_is_above(one, name) for name, of in used.items() for one in of)
    return Counts(len(rings), sum(map(len, rings)), upward)


def _is_above(one: Name, other: Name) -> bool:
    return other[: len(one)] == one


def modules(root: Path) -> dict[Name, Module]:
    found: dict[Name, Module] = {}

    def read(name: Name, file: Path, folder: Path) -> None:
        code, paths = _without_tests(file.read_text())
        children = set(_MOD.findall(code))
        module = found[name] = Module(name, _USE.sub("", code), frozenset(children))
        for is_public, tree in _USE.findall(code):
            for path, given in _leaves(re.sub(r"\s+", " ", tree).strip()):
                absolute = _absolute(path, module)
                if absolute is None:
                    continue
                if given == "*":
                    module.globs.append(absolute)
                else:
                    module.imports[given] = absolute
                    if is_public:
                        module.passed_on.add(given)
        for child in sorted(children):
            places = [folder / f"{child}.rs", folder / child / "mod.rs"]
            if child in paths:
                places = [file.parent / paths[child]]
            for place in filter(Path.is_file, places):
                read((*name, child), place, folder / child)

    read((), root, root.parent)
    return found


def uses(modules: Mapping[Name, Module]) -> dict[Name, set[Name]]:
    """The modules whose items each module uses, without itself."""
    return {name: set(_used(module, modules)) - {name} for name, module in modules.items()}


def circles(uses: Mapping[Name, set[Name]]) -> list[set[Name]]:
    """Sets of more than one module of which each reaches each, the largest first. Without the uses
    of a module by those below it, which are a measure of their own."""
    level = {name: {o for o in of if not _is_above(o, name)} for name, of in uses.items()}
    reached = {name: _reachable(level, name) for name in level}
    rings = {frozenset(o for o in reached[name] if name in reached[o]) for name in level}
    found = [set(ring) for ring in rings if len(ring) > 1]
    return sorted(found, key=lambda ring: (-len(ring), sorted(ring)))


def _reachable(uses: Mapping[Name, set[Name]], name: Name) -> set[Name]:
    found: set[Name] = set()
    left = [name]
    while left:
        for one in uses[left.pop()] - found:
            found.add(one)
            left.append(one)
    return found


def _without_tests(text: str) -> tuple[str, dict[str, str]]:
    """Code, and the files that modules name by `#[path]`."""
    text = _COMMENT.sub("", text)
    paths = {name: file for file, name in _PATH.findall(text)}
    text = _TEXT.sub('""', text)
    while match := _TESTS.search(text):
        end = match.end()
        if match[2] == "{":
            depth = 1
            while depth and end < len(text):
                depth += {"{": 1, "}": -1}.get(text[end], 0)
                end += 1
        text = text[: match.start()] + text[end:]
    return text, paths


def _leaves(tree: str, before: str = "") -> Iterator[tuple[list[str], str]]:
    """Path and name of each item of a `use` tree."""
    head, brace, rest = tree.partition("{")
    if brace:
        for part in _split(rest.rpartition("}")[0]):
            yield from _leaves(part, before + head.strip())
        return
    path, _, given = (before + tree).partition(" as ")
    parts = [part.strip() for part in path.split("::") if part.strip()]
    if parts and parts[-1] == "self":
        parts.pop()
    if parts:
        yield parts, given.strip() or parts[-1]


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for at, letter in enumerate(text):
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if letter == "," and not depth:
            yield text[start:at].strip()
            start = at + 1
    if text[start:].strip():
        yield text[start:].strip()


def _absolute(path: list[str], module: Module) -> Name | None:
    """The path below the root of the crate. None: it is of another crate."""
    at, rest = module.name, list(path)
    if rest[0] == "crate":
        at, rest = (), rest[1:]
    elif rest[0] in ("self", "super"):
        while rest and rest[0] in ("self", "super"):
            at, rest = (at[:-1] if rest[0] == "super" else at), rest[1:]
    elif rest[0] not in module.children:
        return None
    return (*at, *rest)


def _used(module: Module, modules: Mapping[Name, Module]) -> Iterator[Name]:
    names = set(re.findall(r"\w+", module.code))
    for given, path in module.imports.items():
        if given in names or given not in module.passed_on:
            yield _home(path, modules)
    for glob in module.globs:
        if _home(glob, modules) == glob and glob[:-1] != module.name:
            yield glob
    for text in set(_INLINE.findall(module.code)):
        path = text.split("::")
        absolute = _absolute(path, module)
        if absolute is not None:
            yield _home(absolute, modules)


def _home(path: Name, modules: Mapping[Name, Module], depth: int = 0) -> Name:
    """The module that defines the item at a path, through files that pass it on."""
    at = path
    while at not in modules:
        at = at[:-1]
    rest = path[len(at) :]
    if rest and depth < 8:
        module = modules[at]
        if rest[0] in module.imports:
            return _home((*module.imports[rest[0]], *rest[1:]), modules, depth + 1)
        for glob in module.globs:
            defines = rf"\b(?:fn|struct|enum|trait|type|const|static) {rest[0]}\b"
            if glob in modules and re.search(defines, modules[glob].code):
                return glob
    return at


def main() -> int:
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--offline", "--no-deps"]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    packages = [one for one in metadata["packages"] if sys.argv[1:] == [one["name"]]]
    if not packages:
        names = ", ".join(sorted(one["name"] for one in metadata["packages"]))
        print(f"expected the name of one crate: {names}", file=sys.stderr)
        return 2
    for target in packages[0]["targets"]:
        if {"lib", "bin"} & {*target["kind"]}:
            used = uses(modules(Path(target["src_path"])))
            for ring in circles(used):
                print(f"circle of {len(ring)} files")
                for name in sorted(ring):
                    others = ", ".join(_text(other) for other in sorted(used[name] & ring))
                    print(f"  {_text(name)} uses {others}")
            for name in sorted(used):
                for other in sorted(used[name]):
                    if _is_above(other, name):
                        print(f"upward: {_text(name)} uses {_text(other)}")
    return 0


def _text(name: Name) -> str:
    return "::".join(("crate", *name))


if __name__ == "__main__":
    sys.exit(main())
