"""Dependencies that are accepted, and messages about the rest."""

from __future__ import annotations

from email.message import Message
from typing import Any

import pytest
from dependencies import (
    ROOT,
    Policy,
    allowed,
    built,
    crate_sources,
    duplicates,
    pins,
    spdx,
)

LICENCES = frozenset({"MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception"})


@pytest.mark.parametrize(
    ("expression", "good"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("(MIT OR GPL-3.0-only) AND Apache-2.0", True),
        ("MIT AND (GPL-3.0-only OR Zlib)", False),
        ("MIT/Apache-2.0", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT WITH LLVM-exception", False),
        ("MIT OR", False),
        ("(MIT", False),
        ("MIT MIT", False),
    ],
)
def test_expressions(expression: str, good: bool) -> None:
    assert allowed(expression, LICENCES) is good


def test_a_licence_that_nobody_accepted_is_told() -> None:
    policy = Policy(LICENCES, {"tool": "only for tests"}, {}, {})
    assert list(policy.licence("good", "MIT")) == []
    assert list(policy.licence("tool", "GPL-3.0-only")) == []
    assert "bad: licence GPL-3.0-only is not" in "".join(policy.licence("bad", "GPL-3.0-only"))
    assert "mute: no licence" in "".join(policy.licence("mute", None))


def crate(name: str, **keys: Any) -> dict[str, Any]:
    known = {"source": "registry+index", "checksum": "0" * 64, "version": "1.0.0"}
    return {"name": name} | known | keys


def test_crates_come_from_one_registry_with_their_hashes() -> None:
    ours = {"name": "ebb-units", "version": "0.1.0"}
    assert list(crate_sources("lock", {"package": [ours, crate("a"), crate("b")]})) == []
    strange = crate("c", source="git+somewhere", checksum="")
    told = list(crate_sources("lock", {"package": [crate("a"), strange]}))
    assert told[0].startswith("lock: git+somewhere is no registry")
    assert told[1].startswith("lock: more than one source")
    assert told[2] == "lock: c 1.0.0 has no checksum"


def edge(to: str, *kinds: str | None) -> dict[str, Any]:
    return {"pkg": to, "dep_kinds": [{"kind": kind} for kind in kinds]}


def test_two_versions_of_what_is_built_are_told_unless_known() -> None:
    cargo = {
        "workspace_members": ["ours"],
        "resolve": {
            "nodes": [
                {"id": "ours", "deps": [edge("a1", None), edge("a2", "build"), edge("b1", "dev")]},
                {"id": "a1", "deps": [edge("b2", None)]},
                {"id": "a2", "deps": []},
                {"id": "b1", "deps": []},
                {"id": "b2", "deps": []},
            ]
        },
        "packages": [
            crate("ours", id="ours", source=None),
            *(crate(id[0], id=id, version=id[1]) for id in ("a1", "a2", "b1", "b2")),
        ],
    }
    packages = built(cargo)
    assert [package["id"] for package in packages] == ["a1", "a2", "b2"]
    assert "a: 1 and 2 are both built" in "".join(duplicates(packages, {}))
    assert list(duplicates(packages, {"a": "x"})) == []
    assert "b: [duplicates] names it" in "".join(duplicates(packages, {"a": "x", "b": "x"}))


def test_every_python_package_is_pinned_once() -> None:
    assert list(pins("lock", "a==1\nB.c==2.0rc1")) == [("a", "1"), ("B.c", "2.0rc1")]
    told = list(pins("lock", "a>=1\nb_c==1\nB-C==1\nd"))
    assert told == [
        "lock: `a>=1` does not pin one version, as in `name==1.2.3`",
        ("b_c", "1"),
        "lock: B-C is there twice",
        "lock: `d` does not pin one version, as in `name==1.2.3`",
    ]


def test_python_packages_say_their_licence_in_several_ways() -> None:
    said = Message()
    said["Classifier"] = "Programming Language :: Python"
    assert spdx(said) is None  # type: ignore[arg-type]
    said["Classifier"] = "License :: OSI Approved :: MIT License"
    said["Classifier"] = "License :: OSI Approved :: Apache Software License"
    assert spdx(said) == "MIT OR Apache-2.0"  # type: ignore[arg-type]
    said["License-Expression"] = "MIT"
    assert spdx(said) == "MIT"  # type: ignore[arg-type]


def test_every_exception_says_why() -> None:
    policy = Policy.read(ROOT / "tools" / "dependencies.toml")
    for reasons in (policy.exceptions, policy.duplicates, policy.python):
        assert all(reasons.values())
