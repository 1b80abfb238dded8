"""A mechanism of the P4 program as the controller sees it: its tables, entries and counters.

Names are those of P4Info (aliases). Each is written in one place, the module of its mechanism in
`mechanisms`, and looked up in the P4Info of the program before anything is installed.

finsy is imported with the first entry, so that reading and checking parameters takes a tenth of a
second less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import (
        P4ActionProfileGroup,
        P4ActionProfileMember,
        P4CloneSessionEntry,
        P4IndirectAction,
        P4MulticastGroupEntry,
        P4TableAction,
        P4TableEntry,
    )
    from finsy.proto import p4i

Entity: TypeAlias = """(
    P4ActionProfileMember
    | P4ActionProfileGroup
    | P4MulticastGroupEntry
    | P4CloneSessionEntry
    | P4TableEntry
)"""
Action: TypeAlias = "P4TableAction | P4IndirectAction"
Named = tuple[tuple[str, Any], ...]
"""Pairs of a name and a value: hashable, as keys of caches have to be."""
SHARED_ENTRIES = 4096
"""Entities of a kind that are cached, a kilobyte each. Most entries of a fabric are the same on
every switch, so they are made, and encoded (`encoding`), once."""


@dataclass(frozen=True)
class Table:
    """A table that the controller writes."""

    name: str
    """Alias in P4Info."""
    actions: tuple[str, ...]
    """Actions that the controller writes into it; `entry` and `default` take the first."""
    selector: str | None = None
    """Its action selector; none: its entries have actions of their own."""
    depths: bool = False
    """Whether all arguments of its actions are queue depths. Programs for Tofino take them in cells
    of the packet buffer instead of bytes."""

    def action(self, **arguments: Any) -> P4TableAction:
        """The first of its actions."""
        import finsy

        return finsy.P4TableAction(self.actions[0], **arguments)

    def entry(
        self, match: Mapping[str, Any], *, priority: int = 0, **arguments: Any
    ) -> P4TableEntry:
        """An entry with the first of the actions; only tables with range or ternary keys have
        priorities, from 1, the highest first. Cached: equal entries are one object, which must not
        be changed."""
        return _entry(self, tuple(match.items()), priority, tuple(arguments.items()))

    def entry_for(
        self, match: Mapping[str, Any], action: Action, *, priority: int = 0
    ) -> P4TableEntry:
        """An entry with an action that is given."""
        import finsy

        keys = finsy.P4TableMatch(match)
        return finsy.P4TableEntry(self.name, match=keys, action=action, priority=priority)

    def default(self, **arguments: Any) -> P4TableEntry:
        """The entry for all packets that match no other, with the first of the actions. Cached, as
        those of `entry`."""
        return _default(self, tuple(arguments.items()))


@lru_cache(SHARED_ENTRIES)
def _entry(table: Table, match: Named, priority: int, arguments: Named) -> P4TableEntry:
    return table.entry_for(dict(match), table.action(**dict(arguments)), priority=priority)


@lru_cache(SHARED_ENTRIES)
def _default(table: Table, arguments: Named) -> P4TableEntry:
    import finsy

    action = table.action(**dict(arguments))
    return finsy.P4TableEntry(table.name, is_default_action=True, action=action)


@dataclass(frozen=True)
class Counter:
    """An indirect counter of packets and bytes, and its place in tables and reports."""

    name: str
    """Alias in P4Info."""
    heading: str = ""
    """Above its column in tables for people, a word or two to a line; empty: it has no column."""
    index: Literal["port", "drop reason", "multicast group"] = "port"
    """Meaning of the index into the counter."""
    sum: Literal["trims", "marks", "lost"] | None = None
    """Sum over a network that it counts towards (`of` of a metric in docs/experiments.md); none: no
    sum."""
    always: bool = False
    """Whether its column is there even if it has counted nothing."""


@dataclass(frozen=True)
class Register:
    """A register that the controller reads."""

    name: str
    """Alias in P4Info."""


def _nothing(_site: Site[Any]) -> Iterable[Entity]:
    """None: it only counts."""
    return ()


@dataclass(frozen=True)
class Mechanism:
    """A mechanism; the module of `mechanisms` and the file of p4src/include have its name."""

    name: str
    """Name of its module and of its P4 file."""
    entries: Callable[[Site[Any]], Iterable[Entity]] = _nothing
    """Its entries at one switch; the docstring is shown in docs/controller.md."""
    tables: tuple[Table, ...] = ()
    """Tables that `entries` writes."""
    counters: tuple[Counter, ...] = ()
    """Counters of its P4 file."""
    program: str | None = None
    """The first program of p4src that has it, by its name without `.p4`; none: every one."""
    ported: bool = True
    """Whether a program of p4src/tna, the port to Tofino, has it."""
    registers: tuple[Register, ...] = ()
    """Registers of its P4 file that are read."""


def counter_names(mechanisms: Iterable[Mechanism], program: p4i.P4Info) -> tuple[str, ...]:
    """Counters of a program: those of the mechanisms in their order, then all others."""
    there = [counter.preamble.alias for counter in program.counters]
    all_described = (counter.name for each in mechanisms for counter in each.counters)
    described = [name for name in all_described if name in there]
    return (*described, *(name for name in there if name not in described))


def missing(mechanisms: Iterable[Mechanism], program: p4i.P4Info) -> Iterator[str]:
    """In words, what mechanisms name and a program does not have."""
    tables = {table.preamble.alias: table for table in program.tables}
    actions = {action.preamble.id: action.preamble.alias for action in program.actions}
    selectors = {profile.preamble.id: profile.preamble.alias for profile in program.action_profiles}
    counters = {counter.preamble.alias for counter in program.counters}
    registers = {register.preamble.alias for register in program.registers}
    for mechanism in mechanisms:
        needs = f"mechanism {mechanism.name} needs"
        for wanted in mechanism.tables:
            table = tables.get(wanted.name)
            if table is None:
                yield f"{needs} the table {wanted.name}"
                continue
            there = {actions[reference.id] for reference in table.action_refs}
            for action in wanted.actions:
                if action not in there:
                    yield f"{needs} the action {action} of the table {wanted.name}"
            if wanted.selector != selectors.get(table.implementation_id):
                yield f"{needs} the table {wanted.name} with the selector {wanted.selector}"
        for counter in mechanism.counters:
            if counter.name not in counters:
                yield f"{needs} the counter {counter.name}"
        for register in mechanism.registers:
            if register.name not in registers:
                yield f"{needs} the register {register.name}"
