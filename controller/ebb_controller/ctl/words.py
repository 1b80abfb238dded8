"""Entries, actions and replicas as people write them, to finsy's entities.

A match is FIELD=VALUE, or the values in the order of the key, with priority=N and timeout_ms=N. A
value is a number, an address or a string; VALUE/LENGTH, VALUE&&&MASK, LOW..HIGH where the key
matches so; `_` is any value. Behind the word `do` stand an action and its parameters (NAME=VALUE,
or values in their order), `member=ID` or `group=ID`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ebb_topologies.errors import InputError
from ebb_topologies.nearest import hint
from finsy import P4IndirectAction, P4TableAction, P4TableMatch
from finsy.p4entity import P4Member, P4Replica
from finsy.p4schema import P4ActionRef, P4Schema, P4Table

DO = "do"
"""The word between a match and its action."""
ANY = "_"
"""Any value."""
PRIORITY, TIMEOUT_MS = "priority", "timeout_ms"
"""Words for parts of an entry that stand among the fields of its match."""
TIMEOUT_BITS = 43
"""Bits of a number of milliseconds, whose nanoseconds are an int64."""
COUNT_BITS = 63
"""Bits of indices, counts and rates, which are int64 in P4Runtime and not negative."""


def number(text: str, what: str, bits: int = 32) -> int:
    """A number from 0 of so many bits, also in hexadecimal."""
    try:
        return _number(text, bits)
    except ValueError as error:
        raise InputError(f"{what}: {error}") from None


def natural(bits: int = 32) -> Callable[[str], int]:
    """The type of an argument of a command line that is a number from 0 of so many bits."""

    def found(text: str) -> int:
        try:
            return _number(text, bits)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return found


def _number(text: str, bits: int) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        value = -1
    if not 0 <= value < 2**bits:
        raise ValueError(f"expected a number from 0 to 2^{bits}-1, not '{text}'")
    return value


def named(items: Any, name: str) -> Any:
    """The item of a map of finsy; it suggests another one where there is none."""
    try:
        return items[name]
    except ValueError as error:
        # finsy names its classes: P4Table is a table.
        text = re.sub(r"\bP4([A-Z])", lambda found: found[1].lower(), str(error))
        raise InputError(text) from error


def until_do(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before `do` and those behind it."""
    at = words.index(DO) if DO in words else len(words)
    return list(words[:at]), list(words[at + 1 :])


@dataclass(frozen=True, slots=True)
class Key:
    """Identity of an entry: table, match and priority."""

    match: P4TableMatch | None
    """None: every field may be anything."""
    priority: int
    """The highest wins; 0 where the key matches exactly."""
    timeout_ms: int
    """Time without packets after which controllers are notified; 0: never."""


def key(table: P4Table, words: Sequence[str]) -> Key:
    """The match of an entry, its priority and its timeout."""
    names = [field.alias for field in table.match_fields]
    values = assigned(words, names, f"table {table.alias}: field")
    # A field of this name wins.
    others = {
        name: number(values.pop(name), name, bits) if name in values and name not in names else 0
        for name, bits in ((PRIORITY, 31), (TIMEOUT_MS, TIMEOUT_BITS))
    }
    fields = {named(table.match_fields, n).alias: v for n, v in values.items() if v != ANY}
    match = P4TableMatch({name: _for_finsy(value) for name, value in fields.items()})
    return Key(match or None, **others)


def action(table: P4Table, words: Sequence[str]) -> P4TableAction | P4IndirectAction:
    """The action behind `do`."""
    if not words:
        actions = ", ".join(a.alias for a in table.actions)
        raise InputError(f"table {table.alias}: `{DO} ACTION` is missing; actions: {actions}")
    first, *rest = words
    kind, _, identity = first.partition("=")
    if kind == "member" and not rest:
        return P4IndirectAction(member_id=number(identity, kind))
    if kind == "group" and not rest:
        return P4IndirectAction(group_id=number(identity, kind))
    return with_parameters(named(table.actions, first), rest)


def action_of(schema: P4Schema, words: Sequence[str]) -> P4TableAction:
    """An action of an action profile."""
    if not words:
        raise InputError(f"`{DO} ACTION` is missing")
    return with_parameters(named(schema.actions, words[0]), words[1:])


def with_parameters(chosen: P4ActionRef | Any, words: Sequence[str]) -> P4TableAction:
    """An action with the parameters that words assign. Raises `InputError`."""
    names = [parameter.name for parameter in chosen.params]
    values = assigned(words, names, f"action {chosen.alias}: parameter")
    for name in values:
        if name not in names:
            known = hint(name, names)
            raise InputError(f"action {chosen.alias}: there is no parameter '{name}'; {known}")
    missing = [name for name in names if name not in values]
    if missing:
        raise InputError(f"action {chosen.alias}: parameters are missing: {', '.join(missing)}")
    return P4TableAction(chosen.alias, **values)


def replicas(words: Sequence[str]) -> list[P4Replica]:
    """PORT or PORT:INSTANCE."""
    found = []
    for word in words:
        port, _, instance = word.partition(":")
        found.append(P4Replica(number(port, "port"), instance=number(instance or "0", "instance")))
    return found


def members(words: Sequence[str]) -> list[P4Member]:
    """MEMBER or MEMBER:WEIGHT."""
    found = []
    for word in words:
        member, _, weight = word.partition(":")
        found.append(P4Member(number(member, "member"), weight=number(weight or "1", "weight", 31)))
    return found


def value_set_member(names: Sequence[str], word: str) -> dict[str, Any]:
    """FIELD=VALUE,FIELD=VALUE or VALUE,VALUE of a value set."""
    values = assigned(word.split(","), list(names), "value set: field")
    return {name: _for_finsy(value) for name, value in values.items()}


def assigned(words: Sequence[str], names: list[str], what: str) -> dict[str, str]:
    """Values by name: NAME=VALUE, or values in the order of the names."""
    values: dict[str, str] = {}
    for place, word in enumerate(words):
        name, is_named, value = word.partition("=")
        if not is_named:
            if place >= len(names):
                known = ", ".join(names) or "none"
                raise InputError(
                    f"{what} {place + 1}: '{word}' is one too many; there are: {known}"
                )
            name, value = names[place], word
        if name in values:
            raise InputError(f"{what} {name} is given twice")
        values[name] = value
    return values


def _for_finsy(value: str) -> str:
    """P4's words for masks and ranges in finsy's."""
    return value.replace("&&&", "/&").replace("..", "...") if "..." not in value else value
