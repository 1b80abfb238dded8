"""The page of all scenario and scheme keys, made from the models that check them.

`python -m ebb_experiments.reference > docs/scenarios.md`
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ebb_experiments.faults import CaptureEvent, FaultKeys, LinkEvent, RerouteEvent, RestartEvent
from ebb_experiments.scenario import ScenarioFile, Scheme

LAST = frozenset(FaultKeys.model_fields)
"""Keys that come after the others."""
EVENTS = (LinkEvent, RestartEvent, RerouteEvent, CaptureEvent)

HEAD = ("| key | value | default | meaning |", "|---|---|---|---|")
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

`[[event]]` lists break things while traffic runs: every phase (file, each incast, write, read) has
the same events, at the same times after its traffic starts, and begins and ends with a fabric that
is whole. What was done when is in `results/run/faults.jsonl`. With a process per switch links can
go down and up (`FUSED=0`) and switches restart (also `SWITCH=bmv2`); loss, corruption, rates and
captures need the fabric in one process.

## How slow, and whether the machine kept up

Without `dilation` in the file and `DILATION=` on the command line, a short incast before the
schemes, 50 times slower than nominal, tells whether this machine keeps up. If not, the fabric is
brought up again as slow as it needs (up to three times), and a line says what was measured and
what was chosen. It is never less than 50, so that runs can be compared.

| measured in every phase | enough if | why |
|---|---|---|
| 99th percentile of how late agents and switches acted (mean of the processes by events) \
| a full-size packet takes longer on the slowest link: 12 us nominal at 1 Gbit/s, 0.6 ms of the \
wall clock at 50 | a frame that leaves late by that stands in a queue as one packet more |
| busy share of all processors (`/proc/stat`), where switches do not tell how late they are (BMv2) \
| 80 %; in the calibration 50 % | waiting times grow without bound towards 100 %; storage has up \
to twice the packets of the incast of the calibration |

Where it was not enough the checks of these schemes say `busy` instead of `ok` or `FAIL`, and a line
names the rows that are not valid and the dilation that would have been enough. What arrived is
judged all the same. Experiments on Mininet keep the measurement in `meta.json`; the report leaves
such trials out and names them. `make bench` says so of a subject if other processes took more than
5 % of the processors' time.

| file in `experiments/scenarios` | what for |
|---|---|
| `tour.toml` | `make run` |
| `smoke.toml` | `make test-e2e`: small and quick |
| `return-to-sender.toml` | NDP with a control queue that overflows: headers are returned |
| `link-failure.toml` | a link dies under every transfer, and the controller routes around it |

`python -m ebb_experiments.cli --scenario FILE` runs one.
"""


def page() -> str:
    """The whole page as Markdown."""
    parts = [INTRODUCTION]
    for title, model in (("Scenario", ScenarioFile), ("Scheme", Scheme)):
        schema = model.model_json_schema()
        parts += [f"## {title}\n", *HEAD, *_rows(schema, schema.get("$defs", {}), ""), ""]
    parts += ["## Event\n", "`do` says what happens; the other keys depend on it.\n", *HEAD]
    for event in EVENTS:
        schema = event.model_json_schema()
        action = schema["properties"].pop("do")["const"]
        summary = _line(schema["description"]) if "description" in schema else ""
        parts += [f'| **`do = "{action}"`** | | | {summary} |', *_rows(schema, {}, "")]
    return "\n".join([*parts, ""])


def _rows(schema: dict[str, Any], models: dict[str, Any], prefix: str) -> Iterator[str]:
    required = schema.get("required", [])
    for name, field in sorted(schema["properties"].items(), key=lambda item: item[0] in LAST):
        key = f"{prefix}{name}"
        inner, is_list = _inner(field, models)
        default = "required" if name in required else _default(field)
        kind = ("list of tables" if is_list else "table") if inner else _kind(field)
        yield f"| `{key}` | {kind} | {default} | {_line(field.get('description', ''))} |"
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
    return " or ".join(_one_kind(option) for option in options)


def _one_kind(option: dict[str, Any]) -> str:
    if "enum" in option or "const" in option:
        return ", ".join(f"`{value}`" for value in option.get("enum", [option.get("const")]))
    if option.get("type") == "array":
        if "oneOf" in option.get("items", {}):
            return "list of tables"
        if "prefixItems" in option:
            return f"{len(option['prefixItems'])} of {_one_kind(option['prefixItems'][0])}"
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


def _line(text: str) -> str:
    return " ".join(text.split())


def _default(field: dict[str, Any]) -> str:
    default = field.get("default")
    if default is None or isinstance(default, dict):
        return ""
    if isinstance(default, list) and default and isinstance(default[0], dict):
        return f"{len(default)} table{'s' if len(default) > 1 else ''}"
    return f"`{json.dumps(default)}`"


if __name__ == "__main__":
    print(page(), end="")
