"""P4Info in protobuf's text form."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

Message = dict[str, list[Any]]
"""A message: the values of each field, one unless it is repeated. Enums are words."""

TOKEN = re.compile(
    r"""\s+ | \#[^\n]*
    | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    | (?P<number>-?(?:0[xX][0-9a-fA-F]+|[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?)(?![\w.]))
    | (?P<word>-?[A-Za-z_][\w.]*)
    | (?P<mark>[][{}<>:;,/])""",
    re.VERBOSE,
)
ESCAPES = {"n": 10, "t": 9, "r": 13, "a": 7, "b": 8, "f": 12, "v": 11}


def parse(text: str) -> Message:
    """Parses a whole file. Strings are bytes."""
    return Parser(text).message("")


class Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            found = TOKEN.match(text, at)
            if not found:
                line = text.count("\n", 0, at) + 1
                raise ValueError(f"P4Info, line {line}: what is `{text[at : at + 10]}`?")
            if found.lastgroup:
                self.tokens.append((found.lastgroup, found.group()))
            at = found.end()
        self.at = 0

    def take(self) -> tuple[str, str]:
        if self.at == len(self.tokens):
            raise ValueError("the P4Info ends in the middle of a field")
        self.at += 1
        return self.tokens[self.at - 1]

    def eat(self, mark: str) -> bool:
        if self.tokens[self.at : self.at + 1] == [("mark", mark)]:
            self.at += 1
            return True
        return False

    def message(self, end: str) -> Message:
        fields: Message = {}
        while True:
            if self.at == len(self.tokens) and not end:
                return fields
            if end and self.eat(end):
                return fields
            name = self.name()
            values = fields.setdefault(name, [])
            self.eat(":")
            if self.eat("["):
                while not self.eat("]"):
                    values.append(self.value())
                    self.eat(",")
            else:
                values.append(self.value())
            if not self.eat(";"):
                self.eat(",")

    def name(self) -> str:
        """The name of a field; `[..]` is that of an extension or of the type of an Any."""
        if not self.eat("["):
            return self.take()[1]
        parts = []
        while not self.eat("]"):
            parts.append(self.take()[1])
        return "".join(parts)

    def value(self) -> Any:
        for begin, end in (("{", "}"), ("<", ">")):
            if self.eat(begin):
                return self.message(end)
        kind, text = self.take()
        if kind == "string":
            value = unescape(text)
            while self.tokens[self.at : self.at + 1] and self.tokens[self.at][0] == "string":
                value += unescape(self.take()[1])
            return value
        if kind == "number":
            return float(text) if re.search(r"[.eE]", text) and "x" not in text else int(text, 0)
        return text


def unescape(quoted: str) -> bytes:
    out = bytearray()
    text = quoted[1:-1]
    at = 0
    while at < len(text):
        if text[at] != "\\":
            out += text[at].encode()
            at += 1
        elif found := re.compile(r"\\([0-7]{1,3})").match(text, at):
            out.append(int(found.group(1), 8))
            at = found.end()
        elif found := re.compile(r"\\x([0-9a-fA-F]{1,2})").match(text, at):
            out.append(int(found.group(1), 16))
            at = found.end()
        else:
            out.append(ESCAPES.get(text[at + 1], ord(text[at + 1])))
            at += 2
    return bytes(out)


@dataclass(frozen=True, slots=True)
class Ref:
    """An action that a table may have."""

    action: str
    in_entries: bool
    as_default: bool


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    kinds: list[str]
    """The kind of each key field: EXACT, LPM, TERNARY, RANGE or OPTIONAL."""
    refs: list[Ref]
    profile: str | None
    size: int
    has_const_default: bool
    is_const: bool
    """Whether the table is constant, or has entries of the program, beside which none are added."""


@dataclass(frozen=True, slots=True)
class Profile:
    name: str
    tables: list[str]
    with_selector: bool
    size: int


class P4Info:
    def __init__(self, text: str) -> None:
        self.message = parse(text)
        actions = {preamble(a)["id"][0]: name(a) for a in self.message.get("actions", [])}
        profiles = self.message.get("action_profiles", [])
        names = {preamble(p)["id"][0]: name(p) for p in profiles}
        self.tables = [table(t, actions, names) for t in self.message.get("tables", [])]
        tables = {preamble(t)["id"][0]: name(t) for t in self.message.get("tables", [])}
        self.profiles = [
            Profile(
                name(p),
                [tables[i] for i in p.get("table_ids", [])],
                first(p, "with_selector", "false") == "true",
                first(p, "size", 0),
            )
            for p in profiles
        ]

    def keep(self, tables: set[str]) -> list[str]:
        """Forgets other tables, and profiles that only they have; the names of these tables."""
        forgotten = [t.name for t in self.tables if t.name not in tables]
        self.tables = [t for t in self.tables if t.name in tables]
        self.profiles = [p for p in self.profiles if tables.intersection(p.tables)]
        return forgotten


def table(message: Message, actions: dict[int, str], profiles: dict[int, str]) -> Table:
    refs = []
    for ref in message.get("action_refs", []):
        scope = first(ref, "scope", "TABLE_AND_DEFAULT")
        action = actions[ref["id"][0]]
        refs.append(Ref(action, scope != "DEFAULT_ONLY", scope != "TABLE_ONLY"))
    fields = message.get("match_fields", [])
    fixed = ("is_const_table", "has_initial_entries")
    return Table(
        name(message),
        [first(f, "match_type", "UNSPECIFIED") for f in fields],
        refs,
        profiles.get(first(message, "implementation_id", 0)),
        first(message, "size", 0),
        "const_default_action_id" in message,
        any(first(message, word, "false") == "true" for word in fixed),
    )


def preamble(message: Message) -> Message:
    found: Message = message["preamble"][0]
    return found


def name(message: Message) -> str:
    found: bytes = preamble(message)["name"][0]
    return found.decode()


def first(message: Message, field: str, default: Any) -> Any:
    return message.get(field, [default])[0]
