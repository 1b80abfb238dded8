"""The page of all scenario and scheme keys, made from the models that check them.

`python -m ebb_experiments.reference > docs/scenarios.md`
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ebb_experiments.scenario import ScenarioFile, Scheme

INTRODUCTION = """\
# Scenarios and schemes

A *scenario* (`experiments/scenarios/*.toml`) says what is run; a *scheme*
(`experiments/schemes/*.toml`) says what hosts and switches do. Both are in nominal units;
the unit is in the name of each key. An unknown key or a value outside its range is an error
that names the key and what is valid. This page is made from the code:
`python -m ebb_experiments.reference > docs/scenarios.md`.

Every scheme runs the phases `file` and `incast`. `storage`, where the scenario has it, is run by
`ndp` and `scdp`: an object is written from the first host to replicas in different pods while
other hosts send to the first of them, then read back from all at once. SCDP uses one multicast
session for the write and one session with a sender per replica for the read. NDP has neither: it
writes with a flow to each replica (all in one process, so that they share the host's link) and
reads a part of the object from each (one process again: one pull queue). Goodput counts the object
once, until the last host has it. Files are compared with what was sent by SHA-256, apart from the
agents' own check.

| file in `experiments/scenarios` | what for |
|---|---|
| `tour.toml` | `make run` |
| `smoke.toml` | `make test-e2e`: small and quick |
| `return-to-sender.toml` | NDP with a control queue that overflows: headers are returned |

`python -m ebb_experiments.cli --scenario FILE` runs one.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [INTRODUCTION]
    for title, model in (("Scenario", ScenarioFile), ("Scheme", Scheme)):
        schema = model.model_json_schema()
        parts += [f"## {title}\n", "| key | value | default | meaning |", "|---|---|---|---|"]
        parts += [*_rows(schema, schema.get("$defs", {}), ""), ""]
    return "\n".join(parts)


def _rows(schema: dict[str, Any], models: dict[str, Any], prefix: str) -> Iterator[str]:
    required = schema.get("required", [])
    for name, field in schema["properties"].items():
        key = f"{prefix}{name}"
        inner, is_list = _inner(field, models)
        default = "required" if name in required else _default(field)
        kind = ("list of tables" if is_list else "table") if inner else _kind(field)
        yield f"| `{key}` | {kind} | {default} | {field.get('description', '')} |"
        if inner:
            yield from _rows(inner, models, f"{key}{'[]' if is_list else ''}.")


def _inner(field: dict[str, Any], models: dict[str, Any]) -> tuple[dict[str, Any] | None, bool]:
    """The model of a table or of the tables in a list."""
    for option in (field, *field.get("anyOf", [])):
        if "$ref" in option:
            return models[option["$ref"].rpartition("/")[2]], False
        if "$ref" in option.get("items", {}):
            return models[option["items"]["$ref"].rpartition("/")[2]], True
    return None, False


def _kind(field: dict[str, Any]) -> str:
    options = [option for option in field.get("anyOf", [field]) if option.get("type") != "null"]
    option = options[0]
    if "enum" in option:
        return ", ".join(f"`{value}`" for value in option["enum"])
    if option.get("type") == "array":
        return f"list of {_kind(option['items'])}"
    words = {"integer": "integer", "number": "number", "string": "text", "boolean": "true or false"}
    kind = words.get(option.get("type", ""), "table")
    bounds = {
        "exclusiveMinimum": "above {}",
        "minimum": "from {}",
        "exclusiveMaximum": "below {}",
        "maximum": "to {}",
    }
    limits = [text.format(option[name]) for name, text in bounds.items() if name in option]
    return " ".join([kind, *limits])


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    if default is None or isinstance(default, dict):
        return ""
    if isinstance(default, list) and default and isinstance(default[0], dict):
        return f"{len(default)} table{'s' if len(default) > 1 else ''}"
    return f"`{json.dumps(default)}`"


if __name__ == "__main__":
    print(page(), end="")
