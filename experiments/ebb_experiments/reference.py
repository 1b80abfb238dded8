"""The page of all scenario and scheme keys, made from the models that check them.

`python -m ebb_experiments.reference > docs/scenarios.md`
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from ebb_controller.scheme import Scheme
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from ebb_experiments.scenario.faults import (
    CaptureEvent,
    FaultKeys,
    LinkEvent,
    RerouteEvent,
    RestartEvent,
)
from ebb_experiments.scenario.spec import ScenarioFile

LAST = frozenset(FaultKeys.model_fields)
"""Keys that come after the others."""
EVENTS = (LinkEvent, RestartEvent, RerouteEvent, CaptureEvent)

HEAD = ("| key | value | default | meaning |", "|---|---|---|---|")
INTRODUCTION = """\
# Scenarios and schemes

A *scenario* (`experiments/scenarios/*.toml`) is a topology with traffic and faults; a *scheme*
(`experiments/schemes/*.toml`) is a transport with the parameters of hosts and switches. Both are in
nominal units; the unit is in the name of each key. An unknown key or a value outside its range is
an error that names the key and the valid values. This page is generated:
`.venv/bin/python -m ebb_experiments.reference > docs/scenarios.md`.

The same file runs under both clocks: `make sim SCENARIO=FILE` in virtual time
([simulation.md](simulation.md)), `make run SCENARIO=FILE` on Mininet, with real switches and
agents; `make experiment` varies one ([experiments.md](experiments.md)).

## Phases

Traffic is a workload ([workloads.md](workloads.md)), or a list of `[[phase]]` that run one after
the other, each with its own workload. `repeat` runs a phase several times (rounds) with different
seeds. In the results every row names its phase and round. A phase runs only under schemes whose
transport is in its `transports` (default: all). Under the wall clock one fabric serves all phases;
in virtual time each phase has its own simulator.

```toml
[[phase]]
name = "incast"
objects = "files"   # wall clock: the commands `ebb-agent send` and `fetch`, our own SHA-256
repeat = 3
[[phase.workload.traffic]]
name = "incast"
pattern = { type = "incast", senders = 8 }
arrivals = { type = "once" }
size = { type = "fixed", bytes = 100_000 }
```

`make run` prints, for any such file, the goodput of every phase that all schemes run, and the
completion times and the queue at the receiver's port of the phase `incast`, or else of the last
one. Completion times are those of the part of the workload with the name of its phase, if there is
one; cross traffic has another name. The checks apply to phases called `incast`, `degraded`
(`detail` and `lps`: how a slowed link is used), `foreground` (`tcp-trevi` and `dctcp-trevi`: what
the part `storage` does to it), `replicated` (the same, where `storage` is written to several
replicas), `write` and `read`; `write` and `read` have a table of their own, where goodput counts
the object once, until the last host has it. For a run of your own, copy
`experiments/scenarios/tour.toml`.

A scheme has one transport for all traffic, and may have another for parts of it, by their names:
`transport_of = { storage = "ndp" }`. Both run on every host, behind one interface, over the queues
of the one scheme. A part that no phase has is refused; phases without it have the first transport
alone. Packets of the class that the agents call `dscp.scavenger` leave a host when no other packet
waits.

`[[event]]` entries are faults during the traffic: every phase has these events, at the same times
after its traffic starts, and its own (`[[phase.event]]`), and begins and ends with an intact
fabric. A phase with events of its own that the switches do not support is left out. The events with
their times are recorded in `results/run/faults.jsonl`, or in `run.json` in virtual time. With a
process per switch links can go down and up (`FUSED=0`) and switches restart (also `SWITCH=bmv2`);
loss, corruption, rates and captures need the fabric in one process.

| key | under the wall clock |
|---|---|
| `sample`, `arrivals_every_ns`, `coding_bps`, `packet_ns`, `packets_at_once`, `content` | without \
effect |
| `forgery`, `skip` | refused |
| `seed` | one |
| `objects` | without effect in virtual time |

## How slow, and whether the machine kept up

Without `dilation` in the file and `DILATION=` on the command line, a calibration
phase (the incast if there is one), 50 times slower than nominal, measures whether the machine keeps
up. If not, the fabric is brought up again with a larger factor (up to three times), and a line
gives the measurement and the choice. The factor is never below 50, so that runs are comparable.

| measurement in every phase | valid if | reason |
|---|---|---|
| 99th percentile of the lateness of agents and switches (mean of the processes by events) \
| below the time of a full-size packet on the slowest link: 12 us nominal at 1 Gbit/s, 0.6 ms of \
the wall clock at 50 | a frame late by that adds one packet to a queue |
| busy share of all processors (`/proc/stat`), where switches do not report lateness (BMv2) \
| below 80 %; in the calibration 50 % | waiting times grow without bound towards 100 %; storage \
has up to twice the packets of the incast of the calibration |

An invalid phase is repeated, at most twice (not one with events), and the least disturbed
measurement counts; a line reports that. If none is valid, a line before the table names the invalid
rows and the dilation that they need, the checks of these schemes show `busy` instead of `ok` or
`FAIL`, and the live view marks the phase. Delivery of objects is checked all the same. Experiments
on Mininet store the measurement in `meta.json`; the report leaves such trials out and names them.
`make bench` reports a subject during which other processes took more than 5 % of the processors'
time.

## What `make run` leaves

Every run has a folder `results/runs/TIME`, named after its start; `results/runs/latest` links to
the last one. `make compare` shows the last two side by side, `make compare A=TIME B=TIME` any two,
with their other differences (scenario, topology, switch, dilation, commit, a busy machine).

| file in `results/runs/TIME` | content |
|---|---|
| `table.md` | the tables that were printed |
| `queues.svg` | the queue at the receiver's port over time, in the phase of the table; only \
of `ebb-switch` |
| `completion.svg` | completion times of that phase, as a distribution for each scheme |
| `SCHEME/*.csv`, `SCHEME/run.json` | flows, queues, ports, drops, delays, counters; `samples`: \
that port every 10 ms of the wall clock, its non-empty queues |
| `summary.json` | the table as JSON, with the parameters of the run; written last: a folder \
without it belongs to a run that did not end |

[notebook/run.ipynb](notebook/run.ipynb) loads such a folder and draws more of it
([how](simulation.md#results)).

`results/run` belongs to the current run: logs, output of agents (`work/`), their parameters
(`params/`); `results` and `table.md` there link to the folder of the run.

| file in `experiments/scenarios` | use |
|---|---|
| `tour.toml` | `make run` |
| `smoke.toml` | `make test-e2e`: small and quick |
| `return-to-sender.toml` | NDP with a control queue that overflows: headers are returned |
| `trevi.toml` | storage that gives way ([trevi-fabric](trevi-fabric.md)) |
| `silo.toml` | tenants with guarantees, and one that does not conform ([silo](silo.md)) |
| `kernel.toml` | the tour over the kernel's own TCP ([kernel-tcp](kernel-tcp.md)) |
| `link-failure.toml` | a link dies under every transfer, and the controller routes around it |
| `sim/*.toml` | `make sim`, and the golden data of `tests/golden` |
"""


class _Documented(GenerateJsonSchema):
    """JSON schema in which the strings below fields describe them. pydantic can do that itself
    (`use_attribute_docstrings`), but then every command parses the source of all models."""

    def model_schema(self, schema: Any) -> JsonSchemaValue:
        """Schema of a model."""
        return _described(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        """Schema of a dataclass."""
        return _described(super().dataclass_schema(schema), schema["cls"])


def _described(schema: JsonSchemaValue, of: type) -> JsonSchemaValue:
    for cls in of.__mro__:
        for name, text in _docstrings(cls).items():
            if name in schema.get("properties", {}):
                schema["properties"][name].setdefault("description", text)
    return schema


def _docstrings(cls: type) -> dict[str, str]:
    """The strings below the fields of a class of ours, by field."""
    if not cls.__module__.startswith("ebb_"):
        return {}
    (parsed,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(parsed, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(parsed.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema(schema_generator=_Documented)


def page() -> str:
    """The whole page as Markdown."""
    parts = [INTRODUCTION]
    for title, model in (("Scenario", ScenarioFile), ("Scheme", Scheme)):
        schema = _schema(model)
        parts += [f"## {title}\n", *HEAD, *_rows(schema, schema.get("$defs", {}), ""), ""]
    parts += ["## Event\n", "`do` selects the action; the other keys depend on it.\n", *HEAD]
    for event in EVENTS:
        schema = _schema(event)
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
