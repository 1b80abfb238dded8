"""Tables and action profiles as in a P4Info."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from finsy.proto import p4i
from google.protobuf import text_format


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
        """Reads protobuf's text form. Raises `google.protobuf.text_format.ParseError`; fields that
        this version of P4Runtime does not know are passed over."""
        found = text_format.Parse(text, p4i.P4Info(), allow_unknown_field=True)
        actions = {each.preamble.id: each.preamble.name for each in found.actions}
        profiles = {each.preamble.id: each.preamble.name for each in found.action_profiles}
        tables = {each.preamble.id: each.preamble.name for each in found.tables}
        self.tables = [table(each, actions, profiles) for each in found.tables]
        self.profiles = [
            Profile(
                each.preamble.name,
                [tables[number] for number in each.table_ids],
                each.with_selector,
                each.size,
            )
            for each in found.action_profiles
        ]

    def keep(self, tables: set[str]) -> list[str]:
        """Forgets other tables, and profiles that only they have; the names of these tables."""
        forgotten = [t.name for t in self.tables if t.name not in tables]
        self.tables = [t for t in self.tables if t.name in tables]
        self.profiles = [p for p in self.profiles if tables.intersection(p.tables)]
        return forgotten


def table(message: p4i.Table, actions: Mapping[int, str], profiles: Mapping[int, str]) -> Table:
    only_default, only_entries = p4i.ActionRef.DEFAULT_ONLY, p4i.ActionRef.TABLE_ONLY
    return Table(
        message.preamble.name,
        [p4i.MatchField.MatchType.Name(each.match_type) for each in message.match_fields],
        [
            Ref(actions[each.id], each.scope != only_default, each.scope != only_entries)
            for each in message.action_refs
        ],
        profiles.get(message.implementation_id),
        message.size,
        message.const_default_action_id != 0,
        message.is_const_table or message.has_initial_entries,
    )
