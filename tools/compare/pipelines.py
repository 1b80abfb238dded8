"""Comparison of pipelines: tables, conditions and actions run on symbols.

Tables without a key whose one action is constant are code that the compiler put somewhere; their
number, names and order do not count. What counts is, for every other table, when it is applied and
with which key, and for every variable and object what is in it at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from . import witness
from .diagrams import Diagrams, Node, Term
from .machine import Machine, NotCompared
from .program import Json, Program


def is_code(table: Json) -> bool:
    """Whether a table is statements that the compiler put into one."""
    default = table.get("default_entry") or {}
    return (
        not table["key"]
        and len(table["actions"]) == 1
        and bool(default.get("action_const"))
        and bool(default.get("action_entry_const"))
        and not table.get("with_counters")
        and not table.get("direct_meters")
    )


def is_choice(table: Json) -> bool:
    """Whether a table is a `switch` over a value: constant entries, actions that do nothing."""
    default = table.get("default_entry") or {}
    return (
        table["name"].startswith("switch_")
        and bool(table["key"])
        and bool(table.get("entries"))
        and bool(default.get("action_const"))
    )


def successors(node: Json) -> list[str | None]:
    if "expression" in node:
        return [node["true_next"], node["false_next"]]
    if "next_node" in node:
        return [node["next_node"]]
    return [*node["next_tables"].values(), node.get("base_default_next")]


class Execution:
    """One pipeline, run from its first node to all its ends."""

    def __init__(
        self, program: Program, pipeline: Json, diagrams: Diagrams, visible: set[str]
    ) -> None:
        self.machine = Machine(program, diagrams)
        self.d = diagrams
        self.program = program
        self.visible = visible
        self.nodes: Json = {
            n["name"]: n
            for group in ("tables", "conditionals", "action_calls")
            for n in pipeline.get(group, [])
        }
        self.reached: dict[str, Node] = {}
        self.machine.fill()
        first = pipeline["init_table"]
        if first is not None:
            self.reached[first] = diagrams.true
            for name in self.order(first):
                self.visit(self.nodes[name], self.reached.get(name, diagrams.false))

    def order(self, first: str) -> list[str]:
        """Every node behind those that lead to it."""
        done: list[str] = []
        state: dict[str, int] = {}
        stack = [(first, False)]
        while stack:
            name, left = stack.pop()
            if left:
                state[name] = 2
                done.append(name)
                continue
            if state.get(name) == 2:
                continue
            if state.get(name) == 1:
                raise NotCompared(f"a circle of tables at {name}")
            state[name] = 1
            stack.append((name, True))
            for follower in successors(self.nodes[name]):
                if follower is not None and state.get(follower) != 2:
                    if state.get(follower) == 1:
                        raise NotCompared(f"a circle of tables at {follower}")
                    stack.append((follower, False))
        return done[::-1]

    def go(self, follower: str | None, way: Node) -> None:
        if follower is not None:
            way = self.d.both(way, self.d.negated(self.machine.stopped))
            before = self.reached.get(follower, self.d.false)
            self.reached[follower] = self.d.either(before, way)

    def idle(self) -> set[str]:
        """The tables that are more than code and that no packet reaches."""
        ways = {name: self.reached.get(name, self.d.false) for name in self.visible}
        return {
            name
            for name, way in ways.items()
            if name in self.nodes and not is_shown(differing(self.d, way, self.d.false))
        }

    def visit(self, node: Json, way: Node) -> None:
        if way is self.d.false:
            return
        self.machine.way = way
        if "expression" in node:
            holds = self.machine.true_if(self.machine.value(node["expression"]))
            self.go(node["true_next"], self.d.both(way, holds))
            self.go(node["false_next"], self.d.both(way, self.d.negated(holds)))
        elif "next_node" in node:
            self.machine.run(self.program.actions[node["action_id"]]["primitives"])
            self.go(node["next_node"], way)
        elif node["name"] not in self.visible and node["key"]:
            self.choice(node, way)
        elif node["name"] not in self.visible:
            self.code(node, way)
        else:
            self.table(node, way)

    def code(self, table: Json, way: Node) -> None:
        default = table["default_entry"]
        action = self.program.actions[default["action_id"]]
        self.machine.arguments = [
            self.d.number(int(v, 16)) for v in default.get("action_data") or []
        ]
        self.machine.run(action["primitives"])
        self.go(table["next_tables"].get(action["name"], missed(table)), way)

    def choice(self, table: Json, way: Node) -> None:
        """A `switch`: the first entry that matches names the next node."""
        keys = [self.machine.get(*k["target"]) for k in table["key"]]
        default = table["default_entry"]
        entries = sorted(table["entries"], key=lambda e: e.get("priority") or 0)
        rest = way
        for entry in entries:
            matches = self.d.true
            for key, expected in zip(keys, entry["match_key"], strict=True):
                matches = self.d.both(matches, self.matches(key, expected))
            self.run_entry(table, entry["action_entry"], self.d.both(rest, matches))
            rest = self.d.both(rest, self.d.negated(matches))
        self.run_entry(table, default, rest)

    def matches(self, key: Node, expected: Json) -> Node:
        kind = expected["match_type"]
        if kind == "exact":
            return self.d.lift(
                self.machine.math.equal, key, self.d.number(int(expected["key"], 16))
            )
        if kind == "ternary":
            mask = int(expected["mask"], 16)
            masked = self.machine.arithmetic("&", key, self.d.number(mask))
            return self.d.lift(
                self.machine.math.equal, masked, self.d.number(int(expected["key"], 16) & mask)
            )
        raise NotCompared(f"a switch with a {kind} key")

    def run_entry(self, table: Json, entry: Json, way: Node) -> None:
        action = self.program.actions[entry["action_id"]]
        self.machine.way = way
        self.machine.arguments = [self.d.number(int(v, 16)) for v in entry["action_data"] or []]
        self.machine.run(action["primitives"])
        follower = table["next_tables"].get(action["name"], table.get("base_default_next"))
        self.go(follower, way)

    def table(self, table: Json, way: Node) -> None:
        name = table["name"]
        keys = []
        for key in table["key"]:
            target = key["target"]
            if isinstance(target, dict):
                value = self.machine.value(target)
            else:
                header, field = (target, "$valid$") if isinstance(target, str) else target
                value = self.machine.get(header, field)
            if key.get("mask"):
                mask = self.d.number(int(key["mask"], 16))
                value = self.machine.arithmetic("&", value, mask)
            keys.append(value)
        self.machine.note(f"table {name}", "applied", *keys)
        hit = self.d.condition(self.d.term("hit", name)) if table["key"] else self.d.false
        direct = table.get("direct_meters")
        if direct:
            self.direct_meter(direct)
        if table["key"] and not table.get("default_entry"):
            self.go(missed(table), self.d.both(way, self.d.negated(hit)))
            way = self.d.both(way, hit)
        for action, chosen in self.outcomes(table):
            here = self.d.both(way, chosen)
            self.machine.way = here
            self.machine.arguments = [
                self.d.leaf(self.d.term("argument", f"{name} {action['name']} {i}", p["bitwidth"]))
                for i, p in enumerate(action["runtime_data"])
            ]
            self.machine.run(action["primitives"])
            followers = table["next_tables"]
            if "__HIT__" in followers:
                self.go(followers["__HIT__"], self.d.both(here, hit))
                self.go(followers["__MISS__"], self.d.both(here, self.d.negated(hit)))
            else:
                self.go(followers.get(action["name"], table.get("base_default_next")), here)

    def direct_meter(self, name: str) -> None:
        """A direct meter writes its colour when its table is applied."""
        meter = next(m for m in self.program.json["meter_arrays"] if m["name"] == name)
        target = meter.get("result_target")
        if target:
            colour = self.d.leaf(self.d.term("colour", name))
            self.machine.set(target[0], target[1], colour)

    def outcomes(self, table: Json) -> Iterator[tuple[Json, Node]]:
        """The actions of a table, and when each is what the table chose."""
        actions = {i: self.program.actions[i] for i in table["action_ids"]}
        default = table.get("default_entry") or {}
        if not table["key"] and default.get("action_const") and not table.get("entries"):
            yield actions[default["action_id"]], self.d.true
            return
        ordered = sorted(actions.values(), key=lambda a: a["name"])
        rest = self.d.true
        for action in ordered[:-1]:
            chosen = self.d.condition(self.d.term("chosen", table["name"], action["name"]))
            yield action, self.d.both(rest, chosen)
            rest = self.d.both(rest, self.d.negated(chosen))
        if ordered:
            yield ordered[-1], rest


def missed(table: Json) -> str | None:
    """Next node of a table without a default entry after a miss, on which it runs no action."""
    follower: str | None = table["next_tables"].get("__MISS__", table.get("base_default_next"))
    return follower


def compatible(a: Term, b: Term) -> bool:
    """Whether two values are one; what nobody defined may be anything."""
    if a is b or "undefined" in (a.op, b.op):
        return True
    if a.op != b.op or len(a.args) != len(b.args):
        return False
    return all(
        compatible(x, y) if isinstance(x, Term) and isinstance(y, Term) else x == y
        for x, y in zip(a.args, b.args, strict=True)
    )


MOST_PAIRS = 30
"""How many pairs of values are tried before a difference counts as one that was not shown."""


@dataclass(frozen=True)
class Found:
    """Two different values that diagrams have together, and how one gets there."""

    left: Term
    right: Term
    way: witness.Way
    reason: str = ""
    """Why it need not be a difference: no numbers were found that show it."""


def is_shown(found: Found | None) -> bool:
    return found is not None and not found.reason


def differing(
    diagrams: Diagrams, left: Node, right: Node, before: witness.Way | None = None
) -> Found | None:
    """A difference that was shown rather than one that was not; `before` is what led here."""
    if left is right:
        return None
    unshown: Found | None = None
    tried = 0
    for a, b, way in diagrams.pairs(left, right):
        whole = [*(before or []), *way]
        if compatible(a, b) or witness.contradictory(whole):
            continue
        if witness.shown(a, b, whole) is not None:
            return Found(a, b, way)
        unshown = unshown or Found(a, b, way, witness.unshown(way))
        tried += 1
        if tried >= MOST_PAIRS:
            break
    return unshown
