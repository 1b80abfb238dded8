"""Values of match fields, parameters and cells as people write them: `words` reads them again."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Any

from finsy import MACAddress, P4IndirectAction, P4TableAction
from finsy.p4schema import P4BitsType, P4MatchType, P4Schema, P4StructType, P4Table, P4Type

LEAST_ADDRESS = 1 << 24
"""From here on, 32 bits are shown as an IPv4 address: 1.0.0.0."""


def shown(value: Any, width: int) -> str:
    """A number in the form that its width suggests; what finsy has decoded by an annotation, or a
    string, is shown as it is."""
    if not isinstance(value, int):
        return str(value)
    match width:
        case 32 if value >= LEAST_ADDRESS:
            return str(IPv4Address(value))
        case 48:
            return str(MACAddress(value))
        case 128:
            return str(IPv6Address(value))
    return str(value)


def match(table: P4Table, values: Mapping[str, Any] | None) -> dict[str, str]:
    """A match by the names of its fields; those that may be anything are left out."""
    fields = [field for field in table.match_fields if values and field.alias in values]
    return {
        field.alias: _field(values[field.alias], field.match_type, field.bitwidth)
        for field in fields
        if values is not None
    }


def _field(value: Any, kind: P4MatchType | str, width: int) -> str:
    match kind, value:
        case P4MatchType.LPM, (first, length):
            return f"{shown(first, width)}/{length}"
        case P4MatchType.TERNARY, (first, mask):
            if mask == (1 << width) - 1:
                return shown(first, width)
            number = shown(first, width)
            return f"{hex(first) if number.isdecimal() else number}&&&{hex(mask)}"
        case P4MatchType.RANGE, (low, high):
            return f"{shown(low, width)}..{shown(high, width)}"
    return shown(value, width)


def table_action(schema: P4Schema, action: P4TableAction | P4IndirectAction | None) -> Any:
    """Action of an entry: an action, a member or a group of a profile, or actions by weight."""
    match action:
        case P4TableAction():
            return one_action(schema, action)
        case P4IndirectAction(member_id=int(member)):
            return {"member": member}
        case P4IndirectAction(group_id=int(group)):
            return {"group": group}
        case P4IndirectAction():
            weighted = action.action_set or ()
            return [{**one_action(schema, chosen), "weight": weight} for weight, chosen in weighted]
    return None


def one_action(schema: P4Schema, action: P4TableAction) -> dict[str, Any]:
    """An action with its parameters by name."""
    known = schema.actions[action.name].params
    values = {name: shown(value, known[name].bitwidth) for name, value in action.args.items()}
    return {"name": action.name, "parameters": values}


def of_type(kind: P4Type) -> Any:
    """A type as P4 has it; of a struct, the types of its fields by name."""
    match kind:
        case P4StructType():
            return {name: of_type(member) for name, member in kind.members.items()}
        case P4BitsType():
            return f"{_bits_kind(kind)}<{kind.bitwidth}>"
    return kind.type_name


def _bits_kind(kind: P4BitsType) -> str:
    return "varbit" if kind.varbit else "int" if kind.signed else "bit"


def of_data(kind: P4Type, data: Any) -> Any:
    """A value of such a type, as finsy has decoded it."""
    match kind, data:
        case P4StructType(), Mapping():
            return {name: of_data(kind.members[name], value) for name, value in data.items()}
        case P4BitsType(), int():
            return shown(data, kind.bitwidth)
    return str(data)
