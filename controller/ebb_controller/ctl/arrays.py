"""Counters, meters and registers."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from ebb_topologies.errors import InputError
from finsy import (
    P4CounterEntry,
    P4DirectCounterEntry,
    P4DirectMeterEntry,
    P4MeterEntry,
    P4RegisterEntry,
)
from finsy.p4entity import P4CounterData, P4MeterConfig, P4TableEntry
from finsy.p4schema import P4Schema

from ebb_controller.ctl import words
from ebb_controller.ctl.client import Client
from ebb_controller.ctl.command import Answer, Command, first_of, names
from ebb_controller.ctl.output import Row
from ebb_controller.ctl.tables import matched, meter_row

COUNT = words.natural(words.COUNT_BITS)
"""The type of an argument that is an index, a count or a rate."""


def counters(client: Client, options: argparse.Namespace) -> Answer:
    """`counter list`: counters and direct counters with their units."""
    return _listed("counter", client.schema, client.schema.counters, client.schema.direct_counters)


def read_counter(client: Client, options: argparse.Namespace) -> Answer:
    """`counter read`: the cells that have counted, or all; of a direct counter its entries."""
    direct = client.schema.direct_counters.get(options.name)
    if direct:
        found = client.read(P4DirectCounterEntry(direct.alias))
        return [_direct_row(client.schema, e.table_entry) | _counted(e.data) for e in found]
    name = words.named(client.schema.counters, options.name).alias
    cells = client.read(P4CounterEntry(name, index=options.index))
    rows = [{"counter": name, "index": e.index} | _counted(e.data) for e in cells]
    if options.all or options.index is not None:
        return rows
    counted = [row for row in rows if row["packets"] or row["bytes"]]
    return counted if counted or options.json else f"all {len(rows)} cells are 0\n"


def reset_counter(client: Client, options: argparse.Namespace) -> Answer:
    """`counter reset`: sets one cell, or all, to zero."""
    direct = client.schema.direct_counters.get(options.name)
    zero = P4CounterData()
    if direct:
        found = list(client.read(P4DirectCounterEntry(direct.alias)))
        entries = [P4DirectCounterEntry(table_entry=e.table_entry, data=zero) for e in found]
        client.modify(*entries)
        return None
    name = words.named(client.schema.counters, options.name).alias
    client.modify(P4CounterEntry(name, index=options.index, data=zero))
    return None


def write_counter(client: Client, options: argparse.Namespace) -> Answer:
    """`counter write`: sets packets and bytes of a cell."""
    name = words.named(client.schema.counters, options.name).alias
    data = P4CounterData(packet_count=options.packets, byte_count=options.bytes)
    client.modify(P4CounterEntry(name, index=options.index, data=data))
    return None


def meters(client: Client, options: argparse.Namespace) -> Answer:
    """`meter list`: meters and direct meters with their units."""
    return _listed("meter", client.schema, client.schema.meters, client.schema.direct_meters)


def read_meter(client: Client, options: argparse.Namespace) -> Answer:
    """`meter read`: rates and bursts of the cells, or of a direct meter's entries."""
    direct = client.schema.direct_meters.get(options.name)
    if direct:
        table = client.schema.tables[direct.direct_table_id].alias
        found = client.read(P4DirectMeterEntry(table_entry=P4TableEntry(table)))
        return [_direct_row(client.schema, e.table_entry) | _rates(e.config) for e in found]
    name = words.named(client.schema.meters, options.name).alias
    cells = client.read(P4MeterEntry(name, index=options.index))
    return [{"meter": name, "index": e.index} | _rates(e.config) for e in cells]


def set_meter(client: Client, options: argparse.Namespace) -> Answer:
    """`meter set`: configures one cell, or all; peak values default to committed ones."""
    name = words.named(client.schema.meters, options.name).alias
    index = (
        None if options.index == "all" else words.number(options.index, "index", words.COUNT_BITS)
    )
    config = P4MeterConfig(
        cir=options.cir,
        cburst=options.cburst,
        pir=options.cir if options.pir is None else options.pir,
        pburst=options.cburst if options.pburst is None else options.pburst,
    )
    client.modify(P4MeterEntry(name, index=index, config=config))
    return None


def reset_meter(client: Client, options: argparse.Namespace) -> Answer:
    """`meter reset`: removes the rates, so that every packet is green."""
    name = words.named(client.schema.meters, options.name).alias
    client.modify(P4MeterEntry(name, index=options.index))
    return None


def registers(client: Client, options: argparse.Namespace) -> Answer:
    """`register list`: registers with size and type."""
    return [
        {"register": r.alias, "size": r.size, "type": r.type_spec.type_name}
        for r in client.schema.registers
    ]


def read_register(client: Client, options: argparse.Namespace) -> Answer:
    """`register read`: the value of one cell, or of all."""
    name = words.named(client.schema.registers, options.name).alias
    cells = client.read(P4RegisterEntry(name, index=options.index))
    return [{"register": name, "index": e.index, "value": e.data} for e in cells]


def write_register(client: Client, options: argparse.Namespace) -> Answer:
    """`register write`: sets one cell, or all."""
    name = words.named(client.schema.registers, options.name).alias
    index = (
        None if options.index == "all" else words.number(options.index, "index", words.COUNT_BITS)
    )
    try:
        value = int(options.value, 0)
    except ValueError:
        raise InputError(f"value: expected a number, not '{options.value}'") from None
    client.modify(P4RegisterEntry(name, index=index, data=value))
    return None


def _counted(data: P4CounterData | None) -> Row:
    data = data or P4CounterData()
    return {"packets": data.packet_count, "bytes": data.byte_count}


def _rates(config: P4MeterConfig | None) -> Row:
    return {"rates": meter_row(config) if config else None}


def _direct_row(schema: P4Schema, entry: P4TableEntry | None) -> dict[str, Any]:
    assert entry is not None
    row: dict[str, Any] = {"table": entry.table_id, "match": matched(schema, entry)}
    return row | ({"priority": entry.priority} if entry.priority else {})


def _listed(noun: str, schema: P4Schema, arrays: Iterable[Any], direct: Iterable[Any]) -> list[Row]:
    tables = schema.tables
    rows = [{noun: a.alias, "size": a.size, "unit": _unit(a)} for a in arrays]
    of_tables = [
        {noun: d.alias, "table": tables[d.direct_table_id].alias, "unit": _unit(d)} for d in direct
    ]
    return [*rows, *of_tables]


def _unit(item: Any) -> str:
    return str(item.unit.name).lower()


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def _cell(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("index", metavar="INDEX", nargs="?", type=COUNT, help="without it: all")


def _counter_cells(parser: argparse.ArgumentParser) -> None:
    _cell(parser)
    parser.add_argument("--all", action="store_true", help="cells that are 0, too")


def _counter_value(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("index", metavar="INDEX", type=COUNT)
    parser.add_argument("packets", metavar="PACKETS", type=COUNT)
    parser.add_argument("bytes", metavar="BYTES", type=COUNT)


def _meter_rates(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("index", metavar="INDEX|all")
    rates = "packets or bytes per second"
    parser.add_argument("cir", metavar="CIR", type=COUNT, help=f"committed rate, {rates}")
    parser.add_argument("cburst", metavar="CBURST", type=COUNT, help="committed burst")
    parser.add_argument("pir", metavar="PIR", type=COUNT, nargs="?", help="peak rate (CIR)")
    parser.add_argument(
        "pburst", metavar="PBURST", type=COUNT, nargs="?", help="peak burst (CBURST)"
    )


def _register_value(parser: argparse.ArgumentParser) -> None:
    _name(parser)
    parser.add_argument("index", metavar="INDEX|all")
    parser.add_argument("value", metavar="VALUE")


def _counter_names(schema: P4Schema, given: Any) -> list[str]:
    return [*names(schema.counters), *names(schema.direct_counters)] if not given else []


def _meter_names(schema: P4Schema, given: Any) -> list[str]:
    return [*names(schema.meters), *names(schema.direct_meters)] if not given else []


COMMANDS = {
    "counter": {
        "list": Command("counters", counters),
        "read": Command(
            "packets and bytes of a counter", read_counter, _counter_cells, _counter_names
        ),
        "write": Command(
            "sets a cell of a counter", write_counter, _counter_value, first_of("counters")
        ),
        "reset": Command("sets a counter to 0", reset_counter, _cell, _counter_names),
    },
    "meter": {
        "list": Command("meters", meters),
        "read": Command("rates of a meter", read_meter, _cell, _meter_names),
        "set": Command("sets rates of a meter", set_meter, _meter_rates, first_of("meters")),
        "reset": Command("a meter without rates", reset_meter, _cell, first_of("meters")),
    },
    "register": {
        "list": Command("registers", registers),
        "read": Command("values of a register", read_register, _cell, first_of("registers")),
        "write": Command(
            "sets a cell of a register, or all", write_register, _register_value,
            first_of("registers"),
        ),
    },
}  # fmt: skip
