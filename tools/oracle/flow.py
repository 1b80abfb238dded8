"""Which fields have their values from each other.

A table that sets a metadata field and one that matches it agree rarely if both draw their own
values, and a packet gets through a pipeline of many tables only where most agree. So fields that
are assigned to each other, anywhere in the program, are one class, and a parameter of an action
belongs to the class of the field that it is written to.
"""

from __future__ import annotations

from typing import Any

from .model import Field, Program


class Flow:
    def __init__(self, program: Program) -> None:
        self._parents: dict[Field, Field] = {}
        self.parameters: dict[tuple[str, str], Field] = {}
        """Class of the field that an action's parameter is written to, by names of action and
        parameter."""
        writes = []
        for action in program.json["actions"]:
            names = [p["name"] for p in action["runtime_data"]]
            for primitive in action["primitives"]:
                match [unwrapped(p) for p in primitive["parameters"]]:
                    case [{"type": "field"} as to, {"type": "runtime_data"} as data]:
                        writes.append(((action["name"], names[data["value"]]), to))
                    case [to, value] if primitive["op"].startswith("assign"):
                        self._assign(program, to, value)
        for parser in program.json["parsers"]:
            for state in parser["parse_states"]:
                for operation in state["parser_ops"]:
                    if operation["op"] == "set":
                        self._assign(program, *map(unwrapped, operation["parameters"]))
        for parameter, to in writes:
            self.parameters[parameter] = self.class_of((to["value"][0], to["value"][1]))

    def class_of(self, field: Field) -> Field:
        """One field that stands for all of its class."""
        while (parent := self._parents.get(field, field)) != field:
            self._parents[field] = self._parents.get(parent, parent)
            field = parent
        return field

    def _assign(self, program: Program, to: dict[str, Any], value: dict[str, Any]) -> None:
        match to.get("type"), value.get("type"):
            case "field", "field":
                pairs = [((to["value"][0], to["value"][1]), (value["value"][0], value["value"][1]))]
            case "header", "header":
                names = [name for name, _ in program.fields(to["value"])]
                pairs = [((to["value"], name), (value["value"], name)) for name in names]
            case _:
                return
        for one, other in pairs:
            if program.field_bits(one) == program.field_bits(other):
                self._parents[self.class_of(one)] = self.class_of(other)


def unwrapped(node: Any) -> dict[str, Any]:
    """An operand without the `expression` around it."""
    while isinstance(node, dict) and node.get("type") == "expression":
        node = node.get("value")
    found: dict[str, Any] = node if isinstance(node, dict) else {}
    return found
