"""Tables, their entries, and actions."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from ebb_topologies.errors import InputError
from finsy import P4DirectMeterEntry, P4TableEntry
from finsy.p4entity import P4CounterData, P4MeterConfig
from finsy.p4schema import P4Schema, P4Table

from ebb_controller.ctl import values, words
from ebb_controller.ctl.client import Client
from ebb_controller.ctl.command import Answer, Command, first_of, names
from ebb_controller.ctl.output import Row

MS = 1_000_000
"""Nanoseconds of a millisecond."""


def actions(client: Client, options: argparse.Namespace) -> Answer:
    """`action list`: actions with the widths of their parameters."""
    return [
        {"action": action.alias, "parameters": {p.name: _bits(p.bitwidth) for p in action.params}}
        for action in client.schema.actions
    ]


def tables(client: Client, options: argparse.Namespace) -> Answer:
    """`table list`: all tables."""
    return [_about(table) for table in client.schema.tables]


def show(client: Client, options: argparse.Namespace) -> Answer:
    """`table show`: keys, actions and number of entries of a table."""
    table = _table(client, options)
    found = list(client.read(P4TableEntry(table.alias)))
    return {**_about(table), "entries": len(found)}


def _about(table: P4Table) -> Row:
    about: dict[str, Any] = {
        "table": table.alias,
        "key": {f.alias: f"{_bits(f.bitwidth)} {_kind(f.match_type)}" for f in table.match_fields},
        "actions": names(table.actions),
        "size": table.size,
    }
    if table.action_profile:
        about["profile"] = table.action_profile.alias
    if table.is_const:
        about["const"] = True
    return about


def dump(client: Client, options: argparse.Namespace) -> Answer:
    """`table dump`: entries of one table, or of all, default entries last."""
    chosen = [_table(client, options)] if options.table else list(client.schema.tables)
    rows: list[Row] = []
    for table in chosen:
        for default in (False, True):
            found = client.read(_wanted(table, default))
            rows += [entry_row(client.schema, entry) for entry in found]
    return rows


def _wanted(table: P4Table, default: bool) -> P4TableEntry:
    """All entries of a table with their counters and meters, or its default entry."""
    entry = P4TableEntry(table.alias, is_default_action=default)
    if table.direct_counter:
        entry.counter_data = P4CounterData()
    if table.direct_meter:
        entry.meter_config = P4MeterConfig(cir=0, cburst=0, pir=0, pburst=0)
    return entry


def entry_row(schema: P4Schema, entry: P4TableEntry) -> Row:
    """An entry by names: match, priority, action, counter and meter."""
    row: dict[str, Any] = {"table": entry.table_id}
    row["match"] = matched(schema, entry)
    if entry.priority:
        row["priority"] = entry.priority
    row["action"] = values.table_action(schema, entry.action)
    if entry.counter_data:
        counted = entry.counter_data
        row |= {"packets": counted.packet_count, "bytes": counted.byte_count}
    if entry.meter_config:
        row["meter"] = meter_row(entry.meter_config)
    if entry.idle_timeout_ns:
        row["timeout_ms"] = entry.idle_timeout_ns // MS
    if entry.is_const:
        row["const"] = True
    return row


def meter_row(config: P4MeterConfig) -> Row:
    """Rates, bytes or packets per second, and bursts of a meter."""
    rates = {"cir": config.cir, "cburst": config.cburst, "pir": config.pir, "pburst": config.pburst}
    return rates | ({"eburst": config.eburst} if config.eburst else {})


def matched(schema: P4Schema, entry: P4TableEntry) -> Any:
    """The match by the names of the fields, or that it is the default entry."""
    if entry.is_default_action:
        return "default"
    return values.match(schema.tables[entry.table_id], entry.match)


def add(client: Client, options: argparse.Namespace) -> Answer:
    """`table add`: inserts an entry."""
    client.insert(_entry(client, options))
    return None


def modify(client: Client, options: argparse.Namespace) -> Answer:
    """`table modify`: changes the action of an entry."""
    client.modify(_entry(client, options))
    return None


def delete(client: Client, options: argparse.Namespace) -> Answer:
    """`table delete`: deletes an entry."""
    table = _table(client, options)
    key = words.key(table, options.words)
    client.delete(P4TableEntry(table.alias, match=key.match, priority=key.priority))
    return None


def clear(client: Client, options: argparse.Namespace) -> Answer:
    """`table clear`: deletes all entries but constant ones."""
    table = _table(client, options)
    found = [e for e in client.read(P4TableEntry(table.alias)) if not e.is_const]
    return {"deleted": client.delete(*found)}


def set_default(client: Client, options: argparse.Namespace) -> Answer:
    """`table set-default`: sets the default action."""
    table = _table(client, options)
    before, behind = words.until_do(options.words)
    if before:
        raise InputError(f"a default action has no match: '{' '.join(before)}'")
    action = words.action(table, behind)
    client.modify(P4TableEntry(table.alias, action=action, is_default_action=True))
    return None


def reset_default(client: Client, options: argparse.Namespace) -> Answer:
    """`table reset-default`: restores the default action of the program."""
    table = _table(client, options)
    client.modify(P4TableEntry(table.alias, is_default_action=True))
    return None


def set_meter(client: Client, options: argparse.Namespace) -> Answer:
    """`table set-meter`: configures the direct meter of an entry."""
    table = _table(client, options)
    before, rates = words.until_do(options.words)
    if len(rates) not in (2, 4):
        raise InputError(f"table {table.alias}: expected `do CIR CBURST [PIR PBURST]`")
    cir, cburst, pir, pburst = [
        words.number(rate, "rate", words.COUNT_BITS) for rate in (rates * 2)[:4]
    ]
    key = words.key(table, before)
    entry = P4TableEntry(table.alias, match=key.match, priority=key.priority)
    config = P4MeterConfig(cir=cir, cburst=cburst, pir=pir, pburst=pburst)
    client.modify(P4DirectMeterEntry(table_entry=entry, config=config))
    return None


def _entry(client: Client, options: argparse.Namespace) -> P4TableEntry:
    table = _table(client, options)
    before, behind = words.until_do(options.words)
    # Without `do` an action would be one value of the match too many.
    action = words.action(table, behind)
    key = words.key(table, before)
    return P4TableEntry(
        table.alias,
        match=key.match,
        action=action,
        priority=key.priority,
        idle_timeout_ns=key.timeout_ms * MS,
    )


def _table(client: Client, options: argparse.Namespace) -> P4Table:
    table: P4Table = words.named(client.schema.tables, options.table)
    return table


def _bits(width: int) -> str:
    return f"bit<{width}>" if width else "string"


def _kind(kind: Any) -> str:
    return str(getattr(kind, "name", kind)).lower()


def _one_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE")


def _any_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("table", metavar="TABLE", nargs="?", help="all tables without it")


def _matched(parser: argparse.ArgumentParser) -> None:
    _one_table(parser)
    parser.add_argument(
        "words", metavar="FIELD=VALUE", nargs="*", help="or values in key order; priority=N"
    )


def _written(parser: argparse.ArgumentParser) -> None:
    _one_table(parser)
    usage = "FIELD=VALUE.. [priority=N] [timeout_ms=N] do ACTION PARAMETER=VALUE.."
    parser.usage = f"%(prog)s TABLE {usage}"
    parser.add_argument("words", metavar="WORD", nargs="*", help=usage)


def _metered(parser: argparse.ArgumentParser) -> None:
    _one_table(parser)
    usage = "FIELD=VALUE.. [priority=N] do CIR CBURST [PIR PBURST]"
    parser.usage = f"%(prog)s TABLE {usage}"
    parser.add_argument("words", metavar="WORD", nargs="*", help=usage)


def _default(parser: argparse.ArgumentParser) -> None:
    _one_table(parser)
    parser.add_argument("words", metavar="do ACTION PARAMETER=VALUE", nargs="*")


def complete_entry(schema: P4Schema, given: Sequence[str]) -> Iterable[str]:
    """A table, fields of its key, `do`, an action, its parameters."""
    if not given:
        return names(schema.tables)
    table = schema.tables.get(given[0])
    if table is None:
        return ()
    before, behind = words.until_do(given[1:])
    if words.DO not in given:
        taken = {word.partition("=")[0] for word in before}
        fields = [*names(table.match_fields), words.PRIORITY]
        return [*(f"{name}=" for name in fields if name not in taken), words.DO]
    if not behind:
        profile = ["member=", "group="] if table.action_profile else []
        return [*names(table.actions), *profile]
    action = table.actions.get(behind[0])
    taken = {word.partition("=")[0] for word in behind[1:]}
    return [f"{p.name}=" for p in action.params if p.name not in taken] if action else ()


COMMANDS = {
    "table": {
        "list": Command("tables with key, actions and size", tables),
        "show": Command("one table", show, _one_table, first_of("tables")),
        "dump": Command("entries, with their counters", dump, _any_table, first_of("tables")),
        "add": Command("inserts an entry", add, _written, complete_entry),
        "modify": Command("changes the action of an entry", modify, _written, complete_entry),
        "delete": Command("deletes an entry", delete, _matched, complete_entry),
        "clear": Command("deletes all entries", clear, _one_table, first_of("tables")),
        "set-meter": Command("rates of the meter of an entry", set_meter, _metered, complete_entry),
        "set-default": Command("sets the default action", set_default, _default, complete_entry),
        "reset-default": Command(
            "the program's default action", reset_default, _one_table, first_of("tables")
        ),
    },
    "action": {"list": Command("actions and their parameters", actions)},
}
