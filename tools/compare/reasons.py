"""Differences for which neither compiler is wrong. Each is told, with its reason."""

from __future__ import annotations

from .program import Program

ENUM = "an enum that one compiler does not list; BMv2 takes it for messages only"
WHOLE_RANGE = "p4c writes `_` for a range key of 32 bits as 0 to 0"
IDLE = "belongs to a table that is never applied"


def of_values(section: str, path: str, left: str, right: str) -> str:
    """Why what both programs have differs; empty if there is no reason."""
    if section == "tables" and " entry " in path:
        whole, nothing = "('range', 4294967295, 0)", "('range', 0, 0)"
        if left.replace(whole, nothing) == right.replace(whole, nothing):
            return WHOLE_RANGE
    return ""


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
