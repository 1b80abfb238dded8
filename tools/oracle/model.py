"""A program as in BMv2 JSON, as far as commands and packets need it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Field = tuple[str, str]
"""A field, as names of header (or metadata) and field."""


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: str
    """BMv2's kind of match: exact, lpm, ternary (`optional` too), range or valid."""
    target: Field
    bits: int


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    keys: list[Key]
    kind: str
    """Kind of the whole table: exact, lpm, ternary or range. The last two have priorities."""
    profile: str | None
    has_entries: bool
    """Whether the program has entries for it."""

    @property
    def has_priorities(self) -> bool:
        return self.kind in ("ternary", "range")


class Program:
    """A BMv2 JSON file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.json: dict[str, Any] = json.loads(path.read_text())
        self.header_types = {t["name"]: t for t in self.json["header_types"]}
        """Header types by name; their `fields` are name, bits (or `*` for a varbit) and so on."""
        # p4c takes some unions for headers, of a type that it does not write.
        self.headers = {
            h["name"]: self.header_types.get(h["header_type"], {"fields": []})
            for h in self.json["headers"]
        }
        """Type of each header by the name of the instance, those in stacks too."""
        ids = {h["id"]: h["name"] for h in self.json["headers"]}
        self._metadata = {h["name"] for h in self.json["headers"] if h.get("metadata")}
        self.stacks = {
            s["name"]: [ids[i] for i in s["header_ids"]] for s in self.json.get("header_stacks", [])
        }
        self.tables = {t.name: t for t in self._tables()}
        # Copies that the program calls itself have constants instead of parameters.
        by_parameters = sorted(self.json["actions"], key=lambda a: len(a["runtime_data"]))
        self.actions: dict[str, dict[str, int]] = {
            a["name"]: {p["name"]: p["bitwidth"] for p in a["runtime_data"]} for a in by_parameters
        }
        """Widths of parameters by name, for each action by name; of an action's copies that of
        tables."""
        self.registers: dict[str, tuple[int, int]] = {
            r["name"]: (r["size"], r["bitwidth"]) for r in self.json.get("register_arrays", [])
        }
        """Size and width in bits of each register array, by name."""

    def _tables(self) -> Iterator[Table]:
        for pipeline in self.json["pipelines"]:
            for table in pipeline["tables"]:
                keys = [self._key(key) for key in table["key"]]
                profile, entries = table.get("action_profile"), bool(table.get("entries"))
                yield Table(table["name"], keys, table["match_type"], profile, entries)

    def _key(self, key: dict[str, Any]) -> Key:
        target = key["target"]
        # A key of match type `valid` names the header alone.
        header, name = target if isinstance(target, list) else (target, "$valid$")
        bits = self.field_bits((header, name))
        return Key(
            key.get("name") or f"{header}.{name}",
            key["match_type"],
            (header, name),
            1 if bits is None else bits,
        )

    def is_metadata(self, header: str) -> bool:
        return header in self._metadata

    def fields(self, header: str) -> list[tuple[str, int | None]]:
        """Names and widths of a header's fields in bits; the width of a varbit is none."""
        kinds = self.headers[header]["fields"]
        return [(f[0], None if f[1] == "*" else f[1]) for f in kinds]

    def field_bits(self, field: Field) -> int | None:
        header, name = field
        if name == "$valid$":
            return 1
        if header not in self.headers:
            return None
        return dict(self.fields(header)).get(name)

    def says(self, *words: str) -> bool:
        """Whether one of these strings is anywhere in the program's parsers, controls and so on."""
        return any(node in words for node in self.strings())

    def strings(self) -> Iterator[str]:
        """All strings of the program but names of types and instances."""
        parts = ("parsers", "deparsers", "actions", "pipelines", "checksums", "calculations")
        for part in (*parts, "field_lists", "learn_lists"):
            yield from strings(self.json.get(part, []))

    def with_zeros(self, path: Path) -> Program:
        """The program with a parser that first sets all fields of headers to 0.

        What BMv2 reads from a header that is not there is what an earlier packet had in it.
        """
        copy = json.loads(self.path.read_text())
        for parser in copy["parsers"]:
            fields = [
                [header, name]
                for header, kind in self.headers.items()
                if not self.is_metadata(header)
                for name, bits, *_ in kind["fields"]
                if bits != "*" and name != "$valid$"
            ]
            zero = {"type": "hexstr", "value": "0x00"}
            operations = [
                {"op": "set", "parameters": [{"type": "field", "value": field}, zero]}
                for field in fields
            ]
            first = {"type": "default", "value": None, "mask": None}
            state = {
                "name": "$zeros",
                "id": 1 + max(state["id"] for state in parser["parse_states"]),
                "parser_ops": operations,
                "transitions": [{**first, "next_state": parser["init_state"]}],
                "transition_key": [],
            }
            parser["parse_states"].append(state)
            parser["init_state"] = "$zeros"
        path.write_text(json.dumps(copy))
        return Program(path)

    def nodes(self) -> Iterator[dict[str, Any]]:
        """All JSON objects of the program."""
        yield from objects(self.json)


def strings(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for element in node:
            yield from strings(element)
    elif isinstance(node, dict):
        for key, element in node.items():
            if key != "source_info":
                yield from strings(element)


def objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for key, element in node.items():
            if key != "source_info":
                yield from objects(element)
    elif isinstance(node, list):
        for element in node:
            yield from objects(element)
