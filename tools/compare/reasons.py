"""Differences for which neither compiler is wrong. Each is printed, with its reason."""

from __future__ import annotations

import re

from .program import Program

ENUM = "an enum that one compiler does not list; BMv2 takes it for messages only"
WHOLE_RANGE = "p4c writes `_` for a range key as if it had as many bits as are left over from 32"
IDLE = "belongs to a table that is never applied"


def of_values(section: str, path: str, left: str, right: str) -> str:
    """Why what both programs have differs; empty if there is no reason."""
    entry = section == "tables" and " entry " in path
    if entry and _WHOLE.sub(_without_32_bits, left) == _WHOLE.sub(_without_32_bits, right):
        return WHOLE_RANGE
    return ""


_WHOLE = re.compile(r"\('range', (\d+), 0\)")


def _without_32_bits(found: re.Match[str]) -> str:
    """A range from 0 whose end has only ones, 32 or more, without 32 of them."""
    end = int(found.group(1))
    bits = end.bit_length()
    if bits >= 32 and end == (1 << bits) - 1:
        end = (1 << bits % 32) - 1
    return f"('range', {end}, 0)"


def reason(section: str, path: str, program: Program, idle: set[str]) -> str:
    """Why only `program` has what is at `path`; empty if there is no reason.

    `idle` are the tables of the program that no packet reaches.
    """
    if section == "enums":
        return ENUM
    if section == "tables":
        return IDLE if path.partition(" ")[2] in idle else ""
    users = bound(program).get(path.rpartition(".")[0] if section != "counters" else path)
    return IDLE if users and users <= idle else ""


def bound(program: Program) -> dict[str, set[str]]:
    """The tables that direct meters and counters, and action profiles, belong to."""
    found: dict[str, set[str]] = {}
    for group in ("meter_arrays", "counter_arrays"):
        for item in program.json.get(group, []):
            if item.get("binding"):
                found[item["name"]] = {item["binding"]}
    for pipeline in program.json["pipelines"]:
        for table in pipeline["tables"]:
            if table.get("action_profile"):
                found.setdefault(table["action_profile"], set()).add(table["name"])
    return found
