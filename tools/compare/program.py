"""A BMv2 JSON file, with the names that both compilers give.

Names of locals are each compiler's own, and so are those of nested structs' fields: `a.b` is here
`a_b`, as is p4c's `_a_b7`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

METADATA = "userMetadata."
_FLATTENED = re.compile(r"_(.*[^0-9])\d+$")


class Unusable(Exception):
    """The file cannot be read as BMv2 JSON."""


def plain(name: str) -> str:
    """A name without what tells nested structs of the two compilers apart."""
    found = _FLATTENED.match(name)
    return (found.group(1) if found else name).replace(".", "_")


@dataclass(frozen=True)
class FieldType:
    name: str
    width: int | None
    """In bits; `None` for a `varbit`."""
    signed: bool


class Program:
    def __init__(self, json: Json) -> None:
        self.json = json
        self.types = {t["name"]: t for t in json["header_types"]}
        self.headers: Json = {h["name"]: h for h in json["headers"]}
        self.stacks: Json = {s["name"]: s for s in json.get("header_stacks", [])}
        self.unions: Json = {u["name"]: u for u in json.get("header_unions", [])}
        self.actions: dict[int, Json] = {a["id"]: a for a in json["actions"]}
        self.calculations: Json = {c["name"]: c for c in json.get("calculations", [])}
        self.learn_lists: dict[int, Json] = {
            learned["id"]: learned for learned in json.get("learn_lists", [])
        }
        self._by_id = {h["id"]: h["name"] for h in json["headers"]}
        self._fields: dict[str, list[FieldType]] = {}

    def fields(self, header: str) -> list[FieldType]:
        """The fields of an instance, in order."""
        found = self._fields.get(header)
        if found is None:
            declared = self.types[self.headers[header]["header_type"]]["fields"]
            found = [
                FieldType(f[0], None if f[1] == "*" else f[1], len(f) > 2 and bool(f[2]))
                for f in declared
            ]
            self._fields[header] = found
        return found

    def field(self, header: str, name: str) -> FieldType:
        if name == "$valid$":
            return FieldType(name, 1, False)
        return next(f for f in self.fields(header) if f.name == name)

    def elements(self, stack: str) -> list[str]:
        """The headers of a stack, of headers of a union."""
        return [self._by_id[i] for i in self.stacks[stack]["header_ids"]]

    def members(self, union: str) -> list[str]:
        return [self._by_id[i] for i in self.unions[union]["header_ids"]]

    def is_local(self, header: str, name: str) -> bool:
        """Whether a field is a variable of the program text, or of the compiler."""
        return header == "scalars" and not name.startswith(METADATA)

    def variable(self, header: str, name: str) -> str:
        """The name of a field in comparisons."""
        if header == "scalars":
            if name.startswith(METADATA):
                return "meta." + plain(name.removeprefix(METADATA))
            return "local." + name
        return f"{self.header(header)}.{name}"

    def header(self, name: str) -> str:
        """The name of a header instance in comparisons."""
        if name.startswith(METADATA):
            return "meta." + plain(name.removeprefix(METADATA))
        if "[" in name:
            stack, _, rest = name.partition("[")
            return f"{plain(stack)}[{rest}"
        return plain(name) if name != "standard_metadata" else name


def read(path: Path) -> Program:
    try:
        content = json.loads(path.read_text())
        return Program(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise Unusable(
            f"{path}: {type(problem).__name__}: {problem}; expected a compiler's JSON for BMv2"
        ) from problem
