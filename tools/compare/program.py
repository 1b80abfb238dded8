"""A BMv2 JSON file, with the names that both compilers give.

Names of locals are each compiler's own, and so are those of nested structs' fields: `a.b` is here
`a_b`, as is p4c's `_a_b7`. Fields of the metadata have `userMetadata` before a dot, or, by p4c, the
name of their type.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

_METADATA = "userMetadata."
_FLATTENED = re.compile(r"_(.*?)(\d+)$")
_COPY = re.compile(r"(?!userMetadata\.)\w+_\d+\.|tmp(_\d+)?$")
_NUMBERED = re.compile(r"\w+_\d+$")


class Unusable(Exception):
    """The file cannot be read as BMv2 JSON."""


def plain_names(
    names: list[str], members: list[str] | None = None, taken: set[int] | None = None
) -> dict[str, str]:
    """Names without what tells nested structs of the two compilers apart.

    p4c renames all members of a struct or none, and numbers them in their order, so the least
    number that is larger than the one before is the one that it added. `members` are those of
    `names` that are known to be in one struct (by default all), `taken` the numbers that members
    of the same struct elsewhere have.
    """
    taken = set() if taken is None else taken
    result: dict[str, str] = {}
    last = -1
    renamed = all(_FLATTENED.match(name) for name in (names if members is None else members))
    for name in names:
        found = _FLATTENED.match(name) if renamed else None
        chosen = name.replace(".", "_")
        if found:
            digits = found.group(2)
            numbers = [digits[i:] for i in range(len(digits))]
            larger = [n for n in numbers if int(n) > last and str(int(n)) == n]
            larger = [n for n in larger if int(n) not in taken]
            if larger:
                number = min(larger, key=int)
                last = int(number)
                taken.add(last)
                chosen = name[1 : len(name) - len(number)]
        result[name] = chosen
    return result


@dataclass(frozen=True)
class FieldType:
    name: str
    width: int | None
    """Width in bits; `None` for a `varbit`."""
    signed: bool


def _without_defaults_of_profiles(json: Json) -> Json:
    """The program without what p4c-bm2-ss leaves out: default entries of tables with profiles."""

    def table(table: Json) -> Json:
        return {k: v for k, v in table.items() if k != "default_entry" or table["type"] == "simple"}

    def pipeline(pipeline: Json) -> Json:
        return {**pipeline, "tables": [table(t) for t in pipeline["tables"]]}

    return {**json, "pipelines": [pipeline(p) for p in json["pipelines"]]}


class Program:
    def __init__(self, json: Json) -> None:
        json = _without_defaults_of_profiles(json)
        self.json = json
        self.types = {t["name"]: t for t in json["header_types"]}
        self.headers: Json = {h["name"]: h for h in json["headers"]}
        for name, times in Counter(h["name"] for h in json["headers"]).items():
            if times > 1:
                raise Unusable(f"it declares the header {name} {times} times")
        self.stacks: Json = {s["name"]: s for s in json.get("header_stacks", [])}
        self.unions: Json = {u["name"]: u for u in json.get("header_unions", [])}
        self.actions: dict[int, Json] = {a["id"]: a for a in json["actions"]}
        self.calculations: Json = {c["name"]: c for c in json.get("calculations", [])}
        self.learn_lists: dict[int, Json] = {
            learned["id"]: learned for learned in json.get("learn_lists", [])
        }
        self._by_id = {h["id"]: h["name"] for h in json["headers"]}
        self._fields: dict[str, list[FieldType]] = {}
        self._field_names: dict[str, dict[str, str]] = {}
        self.local_headers: set[str] = set()
        """Names of instances that are variables, see `mark_local_headers`."""
        self.metadata = self._metadata_prefix()
        self._plain = self._plain_names()
        """How names of the user's metadata begin in `scalars`."""

    def _plain_names(self) -> dict[str, str]:
        of_user = [
            f.name.removeprefix(self.metadata)
            for f in self.fields("scalars")
            if f.name.startswith(self.metadata)
        ]
        instances = [h.partition("[")[0] for h in self.headers] + list(self.unions)
        headers = [h for h in dict.fromkeys(instances) if not h.startswith(_METADATA)]
        order = [n.partition("[")[0] for d in self.json["deparsers"] for n in d["order"]]
        own = [h.removeprefix(_METADATA) for h in dict.fromkeys(instances) if h not in headers]
        taken: set[int] = set()
        return {
            **plain_names([*headers, *self.stacks.keys() - set(headers)], order or headers),
            **{self.metadata + k: v for k, v in plain_names(of_user, None, taken).items()},
            **{_METADATA + k: v for k, v in plain_names(own, None, taken).items()},
        }

    def _metadata_prefix(self) -> str:
        dotted = [f.name for f in self.fields("scalars") if "." in f.name]
        compiler = self.json.get("__meta__", {}).get("compiler") or ""
        if not dotted or compiler.startswith("ebb-p4c"):
            return _METADATA
        return dotted[0].partition(".")[0] + "."

    def fields(self, header: str) -> list[FieldType]:
        """The fields of an instance, in order."""
        found = self._fields.get(header)
        if found is None:
            if header not in self.headers:
                raise Unusable(f"it uses the header {header}, which it does not declare")
            kind = self.headers[header]["header_type"]
            if kind not in self.types:
                raise Unusable(f"header {header} has type {kind}, which is not declared")
            declared = self.types[kind]["fields"]
            found = [
                FieldType(f[0], None if f[1] == "*" else f[1], len(f) > 2 and bool(f[2]))
                for f in declared
            ]
            self._fields[header] = found
        return found

    def field(self, header: str, name: str) -> FieldType:
        if name == "$valid$":
            return FieldType(name, 1, False)
        found = next((f for f in self.fields(header) if f.name == name), None)
        if found is None:
            raise Unusable(f"header {header} has no field {name}")
        return found

    def elements(self, stack: str) -> list[str]:
        """The headers of a stack, of headers of a union."""
        return [self._by_id[i] for i in self.stacks[stack]["header_ids"]]

    def next_in(self, target: Json) -> tuple[str, list[str]]:
        """The stack, of headers or unions, that is extracted to, and the headers that may be
        meant."""
        if target["type"] == "stack":
            return target["value"], self.elements(target["value"])
        stack, member = target["value"]
        (found,) = (s for s in self.json["header_union_stacks"] if s["name"] == stack)
        return stack, [f"{stack}[{i}].{member}" for i in range(len(found["header_union_ids"]))]

    def members(self, union: str) -> list[str]:
        if union not in self.unions:
            raise Unusable(f"it uses the header union {union}, which it does not declare")
        return [self._by_id[i] for i in self.unions[union]["header_ids"]]

    def is_local(self, header: str, name: str) -> bool:
        """Whether a field is a variable of the program text, or of the compiler."""
        if header in self.local_headers:
            return True
        return header == "scalars" and not name.startswith(self.metadata)

    def variable(self, header: str, name: str) -> str:
        """The name of a field in comparisons."""
        if header in self.local_headers:
            return f"local.{header}.{name}"
        if header == "scalars":
            if name.startswith(self.metadata):
                return "meta." + self._plain[name]
            return "local." + name
        return f"{self.header(header)}.{self.field_name(header, name)}"

    def field_name(self, header: str, name: str) -> str:
        """The name of a field of a header in comparisons."""
        shown = self._field_names.get(header)
        if shown is None:
            shown = self._field_names[header] = plain_names([f.name for f in self.fields(header)])
        return shown.get(name, name)

    def extracted(self) -> set[str]:
        """The headers and stacks that a parser extracts."""
        return {
            op["parameters"][0]["value"]
            for parser in self.json["parsers"]
            for state in parser["parse_states"]
            for op in state["parser_ops"]
            if op["op"].startswith("extract") and op["parameters"][0]["type"] == "regular"
        }

    def header(self, name: str) -> str:
        """The name of a header instance in comparisons."""
        instance, bracket, index = name.partition("[")
        known = self._plain.get(instance, instance) + bracket + index
        return "meta." + known if name.startswith(_METADATA) else known


def mark_local_headers(a: Program, b: Program) -> None:
    """Instances that no deparser emits are variables if only one program has them, if they are
    parts of a numbered copy of a struct (`hdr_1.x`) or called `tmp`, or if they have a number and
    no parser extracts them."""
    copies = {p.header(h) for p in (a, b) for h in p.headers if _COPY.match(h.partition("[")[0])}
    extracted = {p.header(h) for p in (a, b) for h in p.extracted()}
    numbered = {p.header(h) for p in (a, b) for h in p.headers if _NUMBERED.match(h)}
    copies |= numbered - extracted
    for program, other in ((a, b), (b, a)):
        known = {other.header(h) for h in other.headers} - copies
        emitted = {name for d in program.json["deparsers"] for name in d["order"]}
        program.local_headers = {
            h for h in program.headers if program.header(h) not in known and h not in emitted
        }


def read(path: Path) -> Program:
    try:
        content = json.loads(path.read_text())
        return Program(content)
    except Unusable as problem:
        raise Unusable(f"{path}: {problem}") from problem
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise Unusable(
            f"{path}: {type(problem).__name__}: {problem}; expected a compiler's JSON for BMv2"
        ) from problem
