"""Small BMv2 JSON files for the tests."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def number(value: int) -> Json:
    return {"type": "hexstr", "value": hex(value)}


def field(header: str, name: str) -> Json:
    return {"type": "field", "value": [header, name]}


def op(operator: str, left: Json | None, right: Json) -> Json:
    return {"type": "expression", "value": {"op": operator, "left": left, "right": right}}


def assign(header: str, name: str, value: Json) -> Json:
    return {"op": "assign", "parameters": [field(header, name), value]}


def action(
    identity: int, name: str, *primitives: Json, data: tuple[tuple[str, int], ...] = ()
) -> Json:
    return {
        "name": name,
        "id": identity,
        "runtime_data": [{"name": n, "bitwidth": w} for n, w in data],
        "primitives": list(primitives),
    }


def code(name: str, of: Json, then: str | None) -> Json:
    """A table that runs one action."""
    return table(name, [], [of], {of["name"]: then}, then, const=True)


def table(
    name: str,
    keys: list[tuple[str, str, str]],
    actions: list[Json],
    following: dict[str, str | None],
    otherwise: str | None,
    const: bool = False,
) -> Json:
    return {
        "name": name,
        "id": 0,
        "key": [
            {"match_type": kind, "name": f, "target": [h, f], "mask": None} for h, f, kind in keys
        ],
        "match_type": keys[0][2] if keys else "exact",
        "type": "simple",
        "max_size": 1024,
        "with_counters": False,
        "support_timeout": False,
        "direct_meters": None,
        "action_ids": [a["id"] for a in actions],
        "actions": [a["name"] for a in actions],
        "base_default_next": otherwise,
        "next_tables": following,
        "default_entry": {
            "action_id": actions[-1]["id"],
            "action_const": const,
            "action_data": [],
            "action_entry_const": const,
        },
    }


def condition(name: str, expression: Json, then: str | None, otherwise: str | None) -> Json:
    return {
        "name": name,
        "id": 0,
        "expression": expression,
        "true_next": then,
        "false_next": otherwise,
    }


def state(name: str, ops: list[Json], keys: list[Json], *transitions: Json) -> Json:
    return {
        "name": name,
        "id": 0,
        "parser_ops": ops,
        "transition_key": keys,
        "transitions": list(transitions),
    }


def transition(value: int | None, to: str | None, mask: int | None = None) -> Json:
    return {
        "type": "default" if value is None else "hexstr",
        "value": None if value is None else hex(value),
        "mask": None if mask is None else hex(mask),
        "next_state": to,
    }


def extract(header: str) -> Json:
    return {"op": "extract", "parameters": [{"type": "regular", "value": header}]}


def program(
    actions: list[Json] | None = None,
    tables: list[Json] | None = None,
    conditionals: list[Json] | None = None,
    first: str | None = None,
    states: list[Json] | None = None,
    scalars: list[tuple[str, int]] | None = None,
) -> Json:
    """Header `h` with fields a, b (8 bits) and c (16 bits), the locals given, an ingress."""
    states = states or [state("start", [extract("h")], [], transition(None, None))]
    return {
        "header_types": [
            {"name": "scalars_0", "fields": [[n, w, False] for n, w in scalars or []]},
            {"name": "h_t", "fields": [["a", 8, False], ["b", 8, False], ["c", 16, False]]},
        ],
        "headers": [
            {"name": "scalars", "id": 0, "header_type": "scalars_0", "metadata": True},
            {"name": "h", "id": 1, "header_type": "h_t", "metadata": False},
        ],
        "parsers": [
            {"name": "parser", "id": 0, "init_state": states[0]["name"], "parse_states": states}
        ],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["h"]}],
        "actions": actions or [],
        "pipelines": [
            {
                "name": "ingress",
                "id": 0,
                "init_table": first,
                "tables": tables or [],
                "conditionals": conditionals or [],
            },
            {"name": "egress", "id": 1, "init_table": None, "tables": [], "conditionals": []},
        ],
        "checksums": [],
        "register_arrays": [{"name": "r", "id": 0, "size": 4, "bitwidth": 8}],
    }
