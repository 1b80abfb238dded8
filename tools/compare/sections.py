"""Compares two programs section by section.

What is declared (header layouts, tables, arrays, ..) is compared by name; what runs (parser,
pipelines, deparser, checksums) on symbols, see `machine`. Not compared: source positions, numeric
ids and order of declarations, names of generated actions, tables, conditions, calculations and
locals, `force_arith`, padding. Field lists and calculations are compared where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from . import parsers, reasons
from .diagrams import Diagrams, TooLarge
from .machine import Machine, NotCompared
from .parsers import show_way
from .pipelines import Execution, differing, is_choice, is_code
from .program import Json, Program, mark_local_headers, plain_names


@dataclass(frozen=True)
class Difference:
    section: str
    path: str
    left: str
    right: str
    reason: str = ""
    """Why neither program is wrong; empty: no such reason is known."""


@dataclass
class Result:
    differences: list[Difference] = field(default_factory=list)
    not_compared: list[tuple[str, str]] = field(default_factory=list)
    """Sections that were not compared, each with the reason."""


Fields = dict[str, Any]
"""Declarations of a section: values by path."""


def header_layouts(p: Program) -> Fields:
    result: Fields = {}
    for name, header in p.headers.items():
        if name == "scalars":
            for kind in p.fields(name):
                if not p.is_local(name, kind.name) and not _padding(kind.name):
                    where = p.variable(name, kind.name)
                    result[where] = (kind.width, kind.signed)
            continue
        if name in p.local_headers:
            continue
        where = p.header(name)
        shown = plain_names([f.name for f in p.fields(name)])
        layout = [
            (shown[f.name], f.width, f.signed) for f in p.fields(name) if not _padding(f.name)
        ]
        result[where] = layout
        result[f"{where} metadata"] = header["metadata"]
        result[f"{where} max_length"] = p.types[header["header_type"]].get("max_length")
    return result


def _padding(name: str) -> bool:
    return name.startswith("_padding")


def stacks(p: Program) -> Fields:
    result: Fields = {}
    for name in p.stacks:
        if p.local_headers.issuperset(p.elements(name)):
            continue
        result[p.header(name)] = [p.header(e) for e in p.elements(name)]
    return result


def unions(p: Program) -> Fields:
    result: Fields = {
        p.header(u): [p.header(m) for m in p.members(u)]
        for u in p.unions
        if not p.local_headers.issuperset(p.members(u))
    }
    names = {u["id"]: u["name"] for u in p.unions.values()}
    for stack in p.json.get("header_union_stacks", []):
        members = [m for i in stack["header_union_ids"] for m in p.members(names[i])]
        if not p.local_headers.issuperset(members):
            result[p.header(stack["name"])] = len(stack["header_union_ids"])
    return result


def errors(p: Program) -> Fields:
    return {name: number for name, number, *_ in p.json.get("errors", [])}


def enums(p: Program) -> Fields:
    return {e["name"]: dict(e["entries"]) for e in p.json.get("enums", [])}


def _named(group: str, *keys: str) -> Callable[[Program], Fields]:
    def collect(p: Program) -> Fields:
        return {
            f"{item['name']}.{key}": item.get(key) for item in p.json.get(group, []) for key in keys
        }

    return collect


def meters(p: Program) -> Fields:
    result = _named("meter_arrays", "is_direct", "size", "rate_count", "type", "binding")(p)
    for meter in p.json.get("meter_arrays", []):
        target = meter.get("result_target")
        if target and not p.is_local(*target):
            result[f"{meter['name']}.result_target"] = p.variable(*target)
    return result


def counters(p: Program) -> Fields:
    result: Fields = {}
    for counter in p.json.get("counter_arrays", []):
        result[counter["name"]] = {
            "direct": bool(counter.get("is_direct")),
            "size": None if counter.get("is_direct") else counter.get("size"),
            "binding": counter.get("binding"),
        }
    return result


def reference(p: Program, json: Any) -> str:
    """A field or constant of a list."""
    if json["type"] == "field":
        header, name = json["value"]
        if p.is_local(header, name):
            return f"a local of {p.field(header, name).width} bits"
        return p.variable(header, name)
    if json["type"] == "hexstr":
        return f"{int(json['value'], 16)} ({json.get('bitwidth')} bits)"
    if json["type"] == "header":
        return p.header(json["value"])
    return f"{json['type']} {json['value']}"


def learn_lists(p: Program) -> Fields:
    """Learn lists with the widths of their fields; the values are compared in the pipeline that
    sends them."""
    return {
        learned["name"]: (learned["id"], [_width(p, e) for e in learned["elements"]])
        for learned in p.json.get("learn_lists", [])
    }


def _width(p: Program, json: Any) -> Any:
    if json["type"] == "field":
        return p.field(*json["value"]).width
    return json.get("bitwidth")


def deparsers(p: Program) -> Fields:
    return {d["name"]: [p.header(name) for name in d["order"]] for d in p.json["deparsers"]}


def tables_of(p: Program, pipeline: str) -> dict[str, Json]:
    """The tables of a pipeline, by name."""
    (found,) = (x for x in p.json["pipelines"] if x["name"] == pipeline)
    return {t["name"]: t for t in found["tables"]}


def table(p: Program, t: Json) -> Fields:
    actions = {i: p.actions[i] for i in t["action_ids"]}
    default = t.get("default_entry") or {}
    result: Fields = {
        "match_type": t["match_type"],
        "type": t["type"],
        "max_size": t.get("max_size") if t["key"] else None,
        "with_counters": bool(t.get("with_counters")),
        "support_timeout": bool(t.get("support_timeout")),
        "direct_meters": t.get("direct_meters"),
        "action_profile": t.get("action_profile"),
        "actions": sorted(a["name"] for a in actions.values()),
        "keys": [(k["match_type"], k.get("name")) for k in t["key"]],
    }
    for action in actions.values():
        result[f"action {action['name']}"] = [
            (d["name"], d["bitwidth"]) for d in action["runtime_data"]
        ]
    if default:
        chosen = p.actions[default["action_id"]]["name"]
        result["default action"] = chosen
        result["default const"] = bool(default.get("action_const"))
        result["default arguments"] = [int(v, 16) for v in default.get("action_data") or []]
        result["default arguments const"] = bool(default.get("action_entry_const"))
    for number, entry in enumerate(t.get("entries") or []):
        chosen = p.actions[entry["action_entry"]["action_id"]]["name"]
        result[f"entry {number}"] = (
            [_entry_key(k) for k in entry["match_key"]],
            chosen,
            [int(v, 16) for v in entry["action_entry"]["action_data"]],
        )
        result[f"entry {number} priority"] = entry.get("priority")
        result[f"entry {number} const"] = bool(entry.get("is_const", True))
    return result


def _entry_key(json: Json) -> tuple[Any, ...]:
    """A key of an entry as numbers; of a ternary one only the bits that count."""
    if json["match_type"] == "ternary":
        mask = int(json["mask"], 16)
        return ("ternary", int(json["key"], 16) & mask, mask)
    if json["match_type"] == "valid":
        return ("valid", json["key"])
    return (
        json["match_type"],
        *(
            int(v, 16) if isinstance(v, str) else v
            for k, v in sorted(json.items())
            if k not in ("match_type", "source_info")
        ),
    )


def action_profiles(p: Program) -> Fields:
    result: Fields = {}
    for pipeline in p.json["pipelines"]:
        for profile in pipeline.get("action_profiles", []):
            selector = profile.get("selector")
            result[f"{profile['name']}.max_size"] = profile["max_size"]
            result[f"{profile['name']}.selector"] = selector and (
                selector["algo"],
                [reference(p, i) for i in selector["input"]],
            )
    return result


DECLARED: dict[str, Callable[[Program], Fields]] = {
    "version": lambda p: {"version": p.json.get("__meta__", {}).get("version")},
    "headers": header_layouts,
    "header stacks": stacks,
    "header unions": unions,
    "errors": errors,
    "enums": enums,
    "value sets": _named("parse_vsets", "compressed_bitwidth", "max_size"),
    "registers": _named("register_arrays", "size", "bitwidth"),
    "counters": counters,
    "meters": meters,
    "learn lists": learn_lists,
    "deparsers": deparsers,
    "action profiles": action_profiles,
    "extern instances": _named("extern_instances", "type", "attribute_values"),
    "field aliases": lambda p: {
        alias: p.variable(*target) for alias, target in p.json.get("field_aliases", [])
    },
}
SECTIONS = [*DECLARED, "tables", "parsers", "ingress", "egress", "checksums", "deparser code"]


def compare_fields(
    section: str, left: Fields, right: Fields, prefix: str = ""
) -> Iterable[Difference]:
    for key in {**left, **right}:
        a, b = left.get(key, MISSING), right.get(key, MISSING)
        if a != b:
            yield Difference(section, prefix + key, str(a), str(b))


MISSING = "missing"
"""Value of a declaration that a program does not have."""


class Comparison:
    def __init__(self, left: Program, right: Program, limit: int = 400_000) -> None:
        self.left, self.right, self.limit = left, right, limit
        self.result = Result()
        self.idle: tuple[set[str], set[str]] = (set(), set())
        """Tables of both programs that no packet reaches."""
        mark_local_headers(left, right)
        for section, collect in DECLARED.items():
            self.add(compare_fields(section, collect(left), collect(right)))
        for pipeline in ("ingress", "egress"):
            visible = self.tables(pipeline)
            self.attempt(pipeline, partial(self.pipeline, pipeline, visible))
        self.attempt("parsers", self.parser)
        self.attempt("checksums", self.checksums)
        self.attempt("deparser code", self.deparser_code)
        self.result.differences = [self.explained(d) for d in self.result.differences]

    def explained(self, found: Difference) -> Difference:
        """A difference with the reason for it, if there is one."""
        if found.reason:
            return found
        if MISSING not in (found.left, found.right):
            why = reasons.of_values(found.section, found.path, found.left, found.right)
            return replace(found, reason=why)
        side = 1 if found.left == MISSING else 0
        program = (self.left, self.right)[side]
        why = reasons.reason(found.section, found.path, program, self.idle[side])
        return replace(found, reason=why)

    def add(self, differences: Iterable[Difference]) -> None:
        self.result.differences.extend(differences)

    def attempt(self, section: str, compare: Callable[[Diagrams], Iterable[Difference]]) -> None:
        try:
            for difference in compare(Diagrams(self.limit)):
                self.add([difference])
        except (NotCompared, TooLarge) as why:
            self.result.not_compared.append((section, str(why)))

    def tables(self, pipeline: str) -> set[str]:
        """Compares tables; returns the names of those that are more than code."""
        tables = [tables_of(p, pipeline) for p in (self.left, self.right)]
        common = tables[0].keys() & tables[1].keys()
        shown = {n for n in common if not all(is_code(t[n]) or is_choice(t[n]) for t in tables)}
        for side in (0, 1):
            for name, found in tables[side].items():
                if name not in common and not is_code(found) and not is_choice(found):
                    shown.add(name)
                    values = ("there", MISSING) if side == 0 else (MISSING, "there")
                    self.add([Difference("tables", f"{pipeline} {name}", *values)])
        for name in sorted(common & shown):
            fields = table(self.left, tables[0][name]), table(self.right, tables[1][name])
            self.add(compare_fields("tables", *fields, f"{pipeline} {name} "))
        return shown

    def pipeline(self, name: str, visible: set[str], d: Diagrams) -> Iterable[Difference]:
        sides = [
            Execution(p, next(x for x in p.json["pipelines"] if x["name"] == name), d, visible)
            for p in (self.left, self.right)
        ]
        for side, idle in zip(sides, self.idle, strict=True):
            idle |= side.idle()
        return self.machines(d, name, sides[0].machine, sides[1].machine)

    def machines(
        self, d: Diagrams, section: str, left: Machine, right: Machine
    ) -> Iterable[Difference]:
        """Differences between the values of two machines in variables that outlive them."""
        for variable in left.state | right.state:
            if variable.startswith("local.") or "._padding" in variable:
                continue
            if variable not in left.state and " " not in variable and "." in variable:
                continue  # only one program declares the field, which the section of headers says
            if variable not in right.state and " " not in variable and "." in variable:
                continue
            found = differing(d, left.outcome(variable), right.outcome(variable))
            if found:
                where = f"{variable} if {show_way(found.way)}"
                yield Difference(section, where, str(found.left), str(found.right), found.reason)

    def parser(self, d: Diagrams) -> Iterable[Difference]:
        pair = self.left.json["parsers"][0], self.right.json["parsers"][0]
        comparison = parsers.Comparison(self.left, self.right, pair, d)
        for found in comparison.differences:
            yield Difference("parsers", found.where, found.left, found.right, found.reason)
        if comparison.given_up:
            raise NotCompared(comparison.given_up)

    def checksums(self, d: Diagrams) -> Iterable[Difference]:
        left, right = (self.computed(Machine(p, d)) for p in (self.left, self.right))
        return compare_fields("checksums", left, right)

    def computed(self, machine: Machine) -> Fields:
        """Checksums in order: algorithm, inputs, target field and condition of each."""
        result: Fields = {}
        for number, json in enumerate(machine.program.json["checksums"]):
            algorithm, inputs = machine.inputs(json["calculation"])
            condition = json.get("if_cond")
            when = machine.true_if(machine.value(condition)) if condition else machine.d.true
            if when is machine.d.false:
                continue
            result[f"checksum {number}"] = Checksum(
                machine.program.variable(*json["target"]),
                algorithm,
                bool(json.get("verify", True)),
                bool(json.get("update", True)),
                tuple(str(i.term) for i in inputs),
                when,
            )
        return result

    def deparser_code(self, d: Diagrams) -> Iterable[Difference]:
        machines = []
        for program in (self.left, self.right):
            machine = Machine(program, d)
            machine.fill()
            for deparser in program.json["deparsers"]:
                machine.run(deparser.get("primitives") or [])
            machines.append(machine)
        return self.machines(d, "deparser code", *machines)


@dataclass(frozen=True)
class Checksum:
    target: str
    algorithm: str
    verified: bool
    updated: bool
    inputs: tuple[str, ...]
    when: object
    """The condition as a diagram; equal conditions are one object."""


def compare(left: Program, right: Program, limit: int = 400_000) -> Result:
    return Comparison(left, right, limit).result
