"""Whose code we build on: licences, sources, pins and duplicates, without a network.

    python tools/dependencies.py

Reads Cargo's and pip's lock files and what is installed; `dependencies.toml` says what is accepted.
Known vulnerabilities are not looked up: their databases cannot be had offline, and a copy that
nobody brings up to date would tell that all is well.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CARGO_LOCKS = (
    "Cargo.lock",
    "switch/fuzz/Cargo.lock",
    "switch/p4-proto/generate/Cargo.lock",
    "host-agent/fuzz/Cargo.lock",
)
PIP_LOCK = "requirements.lock"
TARGET = "x86_64-unknown-linux-gnu"
SHORT_NAMES = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Python's classifiers in SPDX's words. BSD's do not tell which; three clauses are the most
that is asked for."""


@dataclass(frozen=True)
class Policy:
    """Contents of dependencies.toml."""

    licences: frozenset[str]
    exceptions: Mapping[str, str]
    python: Mapping[str, str]
    duplicates: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Policy:
        table = tomllib.loads(path.read_text())
        licences = frozenset(table["licences"])
        return cls(licences, table["exceptions"], table["python"], table["duplicates"])

    def licence(self, package: str, expression: str | None) -> Iterator[str]:
        """Complaint about the licence of a package."""
        if package in self.exceptions:
            return
        if not expression:
            yield f"{package}: no licence that a program can read; name it in [python]"
        elif not allowed(expression, self.licences):
            yield f"{package}: licence {expression} is not among those in dependencies.toml"


def allowed(expression: str, licences: frozenset[str]) -> bool:
    """Whether an SPDX expression (or `A/B`, as older crates write `A OR B`) can be met."""
    text = expression.replace("/", " OR ")
    words = re.findall(r"\(|\)|\bAND\b|\bOR\b|[^\s()]+(?: WITH [^\s()]+)?", text)
    value, rest = _either(words, licences)
    return value and not rest


def _either(words: list[str], licences: frozenset[str]) -> tuple[bool, list[str]]:
    value, words = _both(words, licences)
    while words[:1] == ["OR"]:
        other, words = _both(words[1:], licences)
        value |= other
    return value, words


def _both(words: list[str], licences: frozenset[str]) -> tuple[bool, list[str]]:
    value, words = _one(words, licences)
    while words[:1] == ["AND"]:
        other, words = _one(words[1:], licences)
        value &= other
    return value, words


def _one(words: list[str], licences: frozenset[str]) -> tuple[bool, list[str]]:
    if words[:1] == ["("]:
        value, words = _either(words[1:], licences)
        return value and words[:1] == [")"], words[1:]
    if not words:
        return False, ["something"]  # that is missing
    return words[0] in licences, words[1:]


# -- Rust -----------------------------------------------------------------------------------------


def crate_sources(lock: str, table: Mapping[str, Any]) -> Iterator[str]:
    """All crates of a lock file are ours, or of one registry and known by their hash."""
    packages = [package for package in table["package"] if "source" in package]
    registries = {package["source"] for package in packages}
    for source in sorted(registries):
        if not source.startswith("registry+"):
            yield f"{lock}: {source} is no registry: what it gives may change or go away"
    if len(registries) > 1:
        yield f"{lock}: more than one source: {', '.join(sorted(registries))}"
    for package in packages:
        if not re.fullmatch(r"[0-9a-f]{64}", package.get("checksum", "")):
            yield f"{lock}: {package['name']} {package['version']} has no checksum"


def built(cargo: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Packages of others that what we install is built with; not those of tests only."""
    nodes = {node["id"]: node for node in cargo["resolve"]["nodes"]}
    waiting, seen = list(cargo["workspace_members"]), set(cargo["workspace_members"])
    while waiting:
        for edge in nodes[waiting.pop()]["deps"]:
            if edge["pkg"] not in seen and any(kind["kind"] != "dev" for kind in edge["dep_kinds"]):
                seen.add(edge["pkg"])
                waiting.append(edge["pkg"])
    return [p for p in cargo["packages"] if p["id"] in seen and p["source"] is not None]


def duplicates(packages: Sequence[Mapping[str, Any]], known: Mapping[str, str]) -> Iterator[str]:
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for package in packages:
        versions[package["name"]].add(package["version"])
    for name, found in sorted(versions.items()):
        if len(found) > 1 and name not in known:
            yield (
                f"{name}: {' and '.join(sorted(found))} are both built (`cargo tree -i {name}`); "
                "if that cannot be helped, name it with the reason in [duplicates]"
            )
    for name in known:
        if len(versions[name]) < 2:
            yield f"{name}: [duplicates] names it, but there is one version only: take it out"


def rust(policy: Policy) -> Iterator[str]:
    for lock in CARGO_LOCKS:
        yield from crate_sources(lock, tomllib.loads((ROOT / lock).read_text()))
    command = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={TARGET}"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if said.returncode:
        yield f"cargo metadata: {said.stderr.strip()}"
        return
    cargo = json.loads(said.stdout)
    for package in cargo["packages"]:
        yield from policy.licence(package["name"], package["license"])
    yield from duplicates(built(cargo), policy.duplicates)


# -- Python ---------------------------------------------------------------------------------------


def pins(lock: str, text: str) -> Iterator[tuple[str, str] | str]:
    """(name, version) of each line, or what is wrong with it."""
    seen: set[str] = set()
    for line in text.splitlines():
        found = re.fullmatch(r"([A-Za-z0-9._-]+)==([^\s;]+)", line)
        if found is None:
            yield f"{lock}: `{line}` does not pin one version, as in `name==1.2.3`"
        elif (name := re.sub(r"[-_.]+", "-", found[1]).lower()) in seen:
            yield f"{lock}: {found[1]} is there twice"
        else:
            seen.add(name)
            yield found[1], found[2]


def python(policy: Policy) -> Iterator[str]:
    for pin in pins(PIP_LOCK, (ROOT / PIP_LOCK).read_text()):
        if isinstance(pin, str):
            yield pin
            continue
        name, version = pin
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            yield f"{PIP_LOCK}: {name} is not installed: run tools/setup"
            continue
        if package.version != version:
            yield f"{PIP_LOCK}: {name} {version}, but {package.version} is installed"
        expression = policy.python.get(name) or spdx(package.metadata)
        yield from policy.licence(name, expression)


def spdx(about: metadata.PackageMetadata) -> str | None:
    """The licence of a Python package, as it says itself."""
    if "License-Expression" in about:
        return about["License-Expression"]
    classifiers = [c.rpartition(" :: ")[2] for c in about.get_all("Classifier") or ()
                   if c.startswith("License :: OSI Approved :: ")]  # fmt: skip
    return (
        " OR ".join(SHORT_NAMES.get(name, name.replace(" ", "-")) for name in classifiers) or None
    )


def main() -> int:
    policy = Policy.read(ROOT / "tools" / "dependencies.toml")
    wrong = [*rust(policy), *python(policy)]
    for finding in wrong:
        print(f"dependencies: {finding}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
