"""Comparison of parsers: both run side by side, from state to state.

States with one possible successor are merged with it, so that splitting and merging of states does
not count, and neither do names. Extracted headers and variables are compared where both parsers
end. A pair of states that is reached again is compared again if the values of variables differ
there in more than the bits of the packet that they are; after `VISITS` times the comparison gives
up, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from . import witness
from .arithmetic import number_of
from .diagrams import Diagrams, Node, Term
from .machine import Machine, NotCompared
from .pipelines import differing
from .program import Json, Program, Unusable
from .witness import Way

VISITS = 1000
"""Most environments in which a pair of states is compared."""
NO_MATCH = "(error)"
"""State that follows a choice which no transition matches, or a check that fails."""
ENDS = (None, NO_MATCH)
ONE_WAY = "no match where all cases of a `select` lead to one state: p4c goes there without asking"

Snapshot = tuple[dict[str, Node], tuple[int, int], dict[str, int]]
"""`state`, `place` and `used` of a machine."""


class ParserMachine(Machine):
    """Runs a parser on symbols."""

    def __init__(self, program: Program, parser: Json, diagrams: Diagrams) -> None:
        super().__init__(program, diagrams)
        self.states: Json = {s["name"]: s for s in parser["parse_states"]}
        self.leave_out_no_match()
        self.place = (0, 0)
        """Place in the packet: bits after a number of pieces whose length is not constant."""
        self.used: dict[str, int] = {}
        """Number of extracted elements, by stack."""
        self.rejected = False
        """Whether a check fails on every packet: the parser stops."""
        self.no_way = False
        """Whether it stopped without a match where all cases lead to one state."""

    def leave_out_no_match(self) -> None:
        """Takes default transitions away that lead to an end with `error.NoMatch`.

        ebb-p4c writes them, p4c-bm2-ss leaves them to the target.
        """
        errors = {n: i for n, i, *_ in self.program.json.get("errors", [])}

        def fails(state: Json) -> bool:
            ops = state["parser_ops"]
            if len(ops) != 1 or ops[0]["op"] != "verify" or state["transition_key"]:
                return False
            check, error = ops[0]["parameters"]
            number = int(error["value"], 16) if error["type"] == "hexstr" else None
            return check == {"type": "bool", "value": False} and number == errors.get("NoMatch")

        ends = {name for name, state in self.states.items() if fails(state)}
        for name, state in self.states.items():
            kept = [
                t
                for t in state["transitions"]
                if t.get("type") != "default" or t["next_state"] not in ends
            ]
            self.states[name] = {**state, "transitions": kept}

    def arrive(self) -> None:
        """No header is valid before a parser runs, and the user's metadata is 0."""
        for name in self.state:
            if name.endswith(".$valid$") or name.startswith("meta."):
                self.state[name] = self.d.number(0)

    def next_index(self, stack: str) -> Node:
        self.used.setdefault(stack, 0)
        return self.d.number(self.used[stack])

    def snapshot(self) -> Snapshot:
        return dict(self.state), self.place, dict(self.used)

    def restore(self, saved: Snapshot) -> None:
        state, self.place, used = saved
        self.state, self.used = dict(state), dict(used)

    def locals(self) -> tuple[tuple[str, Node], ...]:
        local = [(n, v) for n, v in self.state.items() if n.startswith("local.")]
        return tuple(sorted(local, key=lambda item: item[0]))

    def block(self, name: str | None) -> str | None:
        """Runs states from `name` to one with several possible successors, or to the end; returns
        its name, or one of `ENDS`."""
        if name == NO_MATCH:
            return name
        passed = 0
        self.rejected = self.no_way = False
        while name is not None:  # `None`: the packet is accepted
            state = self.states[name]
            for op in state["parser_ops"]:
                self.parse(op)
                if self.rejected:
                    return NO_MATCH
            chosen, followers = self.choice(name)
            ways = {followers[number] for number in self.d.numbers(chosen)}
            if len(ways) > 1:
                return name
            passed += 1
            if passed > 100 * len(self.states):
                raise NotCompared(f"the parser state {name} leads to itself")
            (follower,) = ways
            if follower == NO_MATCH:
                self.no_way = self.is_one_way(name)
                return follower
            name = follower
        return None

    def parse(self, op: Json) -> None:
        kind, parameters = op["op"], op["parameters"]
        if kind in ("extract", "extract_VL"):
            length = self.value(parameters[1]) if kind == "extract_VL" else self.d.number(0)
            self.extract(parameters[0], length)
        elif kind == "set":
            self.assign(parameters[0], self.value(parameters[1]))
        elif kind == "verify":
            holds = self.true_if(self.value(parameters[0]))
            checked = self.d.choose(holds, self.d.number(1), self.d.number(0))
            if checked is not self.d.true:
                self.note("packet", "verify", checked, self.value(parameters[1]))
            self.rejected = checked is self.d.false
        elif kind in ("advance", "shift"):
            distance = self.value(parameters[0]) if isinstance(parameters[0], dict) else None
            if distance is None:
                distance = self.d.number(8 * parameters[0])
            self.take(distance)
        elif kind == "primitive":
            self.run([parameters[0]])
        else:
            raise NotCompared(f"the parser operation {kind}")

    def extract(self, target: Any, length: Node) -> None:
        kind, name = target["type"], target["value"]
        if kind in ("stack", "union_stack"):
            stack, elements = self.program.next_in(target)
            number = self.used.setdefault(stack, 0)
            self.used[stack] = number + 1
            if number >= len(elements):
                self.overflow()
                return
            name = elements[number]
        elif kind != "regular":
            raise NotCompared(f"extraction to a {kind}")
        pieces, bits = self.place
        fields = self.program.fields(name)
        for field in fields:
            variable = self.program.variable(name, field.name)
            label = f"packet {pieces}.{bits}"
            self.state[variable] = self.initial(label, field.width, field.signed)
            bits += field.width or 0
        fixed = self.d.number(sum(field.width or 0 for field in fields))
        self.take(self.arithmetic("+", fixed, length))
        self.make_valid(name, self.d.true, self.d.true)

    def take(self, bits: Node) -> None:
        """Advances in the packet."""
        self.note("packet", "take", bits)
        pieces, before = self.place
        number = number_of(bits.term) if bits.term else None
        self.place = (pieces + 1, 0) if number is None else (pieces, before + number)

    def overflow(self) -> None:
        """Effect of extraction to a full stack: that of `verify(false, error.StackOutOfBounds)`."""
        errors = {n: i for n, i, *_ in self.program.json.get("errors", [])}
        number = self.d.number(errors.get("StackOutOfBounds", 3))
        self.note("packet", "verify", self.d.false, number)
        self.rejected = True

    def key_width(self, key: Json) -> int:
        value = key["value"]
        if key["type"] == "lookahead":
            return int(value[1])
        if key["type"] == "field":
            width = self.program.field(value[0], value[1]).width
        elif key["type"] == "stack_field":
            width = self.program.field(self.program.elements(value[0])[0], value[1]).width
        elif key["type"] == "hexstr":
            raise Unusable("a key of its parser is a constant, which BMv2 does not take")
        else:
            raise NotCompared(f"a key that is a {key['type']}")
        if width is None:
            raise NotCompared("a varbit as key")
        return width

    def choice(self, name: str | None) -> tuple[Node, list[str | None]]:
        """Which of the successors listed comes next: a diagram of their numbers."""
        if name in ENDS:
            return self.d.leaf(self.d.term("go", 0)), [name]
        assert name is not None
        state = self.states[name]
        keys = [(self.value(k), self.key_width(k)) for k in state["transition_key"]]
        followers: list[str | None] = [t["next_state"] for t in state["transitions"]]
        result = self.d.leaf(self.d.term("go", len(followers)))
        for number, transition in reversed(list(enumerate(state["transitions"]))):
            here = self.d.leaf(self.d.term("go", number))
            result = self.d.choose(self.taken(transition, keys), here, result)
        return result, [*followers, NO_MATCH]

    def is_one_way(self, name: str | None) -> bool:
        """Whether all cases of a state lead to one state; cases after an equal one do not count."""
        if name in ENDS:
            return False
        assert name is not None
        firsts: dict[object, str | None] = {}
        for transition in self.states[name]["transitions"]:
            firsts.setdefault(
                (transition["value"], transition.get("mask")), transition["next_state"]
            )
        return len(set(firsts.values())) == 1

    def taken(self, transition: Json, keys: list[tuple[Node, int]]) -> Node:
        kind = transition.get("type") or (
            "default" if transition["value"] == "default" else "hexstr"
        )
        if kind == "default":
            return self.d.true
        if kind == "parse_vset":
            under = self.text(str(transition.get("mask")))
            member = self.d.make(
                "member", self.text(transition["value"]), under, *(k for k, _ in keys)
            )
            return self.true_if(member)
        value = int(transition["value"], 16)
        given = transition.get("mask")
        mask = None if given is None else int(given, 16)
        result = self.d.true
        for key, width in reversed(keys):
            room = 8 * ((width + 7) // 8)
            expected, value = value & ((1 << room) - 1), value >> room
            if mask is not None:
                wanted, mask = mask & ((1 << width) - 1), mask >> room
                key = self.masked(key, wanted)
                expected &= wanted
            equal = self.d.lift(self.math.equal, key, self.d.number(expected))
            result = self.d.both(result, equal)
        return result

    def masked(self, key: Node, mask: int) -> Node:
        return self.d.lift(lambda t: self.d.leaf(self.math.apply("&", t, self.d.const(mask))), key)


def shape(d: Diagrams, values: list[Node]) -> tuple[object, ...]:
    """Key that is the same for values that differ only in which bits of the packet they have."""
    numbers: dict[object, int] = {}
    found: list[object] = []

    def number(of: object) -> object:
        if not isinstance(of, (Term, Node)):
            return of
        if of not in numbers:
            entry = entry_of(of)
            numbers[of] = len(numbers)
            found.append(entry)
        return numbers[of]

    def entry_of(of: Term | Node) -> object:
        if isinstance(of, Node):
            atom = None if of.term else number(d.atom_terms[of.atom])
            return atom, number(of.term), number(of.high), number(of.low)
        if of.op in ("take", "verify"):
            return "the packet"
        if of.op == "field" and str(of.args[0]).startswith("packet "):
            return "bits of the packet", of.args[1:]
        return of.op, tuple(number(a) for a in of.args)

    roots = tuple(number(value) for value in values)
    return (*found, roots)


@dataclass
class Difference:
    where: str
    left: str
    right: str
    reason: str = ""
    """Why it may not be one, as in `pipelines.Found`; empty if a packet is known to show it."""


def show_way(way: Way) -> str:
    return ", ".join(f"{'' if holds else 'not '}{term}" for term, holds in way) or "always"


@dataclass(frozen=True)
class Step:
    """A pair of states to compare: their names, the snapshots before them, and the way there."""

    left: str | None
    right: str | None
    before_left: Snapshot
    before_right: Snapshot
    how: str
    """Description of the last step on the way."""
    way: Way
    """All conditions on the way from the start to this pair."""
    reason: str = ""
    """Why the parsers may differ from here on."""


class Comparison:
    """Compares two parsers, and collects `differences`."""

    def __init__(
        self, left: Program, right: Program, parsers: tuple[Json, Json], diagrams: Diagrams
    ) -> None:
        self.d = diagrams
        self.left = ParserMachine(left, parsers[0], diagrams)
        self.right = ParserMachine(right, parsers[1], diagrams)
        self.differences: list[Difference] = []
        self.visits: dict[tuple[str | None, str | None], set[object]] = {}
        for machine in (self.left, self.right):
            machine.fill()
            machine.arrive()
        starts = parsers[0]["init_state"], parsers[1]["init_state"]
        self.work: list[Step] = [Step(*starts, *self.saved(), "start", [])]
        self.given_up = ""
        """Message about a pair of states that was compared too often; empty if none was."""
        while self.work and len(self.differences) < 20:
            self.step(self.work.pop())

    def saved(self) -> tuple[Snapshot, Snapshot]:
        return self.left.snapshot(), self.right.snapshot()

    def step(self, step: Step) -> None:
        a, b, how = step.left, step.right, step.how
        self.left.restore(step.before_left)
        self.right.restore(step.before_right)
        named = [*self.left.locals(), *self.right.locals()]
        for name, x, y in self.unequal():
            named += [(name, x), (name, y)]
        environment = (
            tuple(name for name, _ in named),
            shape(self.d, [value for _, value in named]),
            tuple(sorted(self.left.used.items())),
            tuple(sorted(self.right.used.items())),
        )
        seen = self.visits.setdefault((a, b), set())
        if environment in seen:
            return
        if len(seen) >= VISITS:
            self.given_up = f"the states {a} and {b} were met in more than {VISITS} ways"
            return
        seen.add(environment)
        a, b = self.left.block(a), self.right.block(b)
        if self.left.no_way or self.right.no_way:
            step = replace(step, reason=ONE_WAY)
        if a in ENDS and b in ENDS:
            if a != b:
                reason = step.reason
                if not reason and not witness.possible(step.way):
                    reason = witness.unshown(step.way)
                self.differences.append(Difference(f"after {how}", str(a), str(b), reason))
            self.same_state(self.variables(), step)
            return
        if self.left.history("packet") is self.right.history("packet"):
            for machine in (self.left, self.right):
                machine.state.pop("packet", None)
        choice_a, followers_a = self.left.choice(a)
        choice_b, followers_b = self.right.choice(b)
        after = self.saved()
        for left, right, way in self.d.pairs(choice_a, choice_b):
            next_a, next_b = (
                followers[number]
                for followers, number in ((followers_a, left.args[0]), (followers_b, right.args[0]))
                if isinstance(number, int)
            )
            whole = [*step.way, *way]
            if not witness.contradictory(whole):
                description = f"{a}: {show_way(way)}"
                one_way = next_a == NO_MATCH and self.left.is_one_way(a)
                one_way |= next_b == NO_MATCH and self.right.is_one_way(b)
                reason = step.reason or (ONE_WAY if one_way else "")
                self.work.append(Step(next_a, next_b, *after, description, whole, reason))

    def variables(self) -> list[str]:
        names = self.left.state | self.right.state
        return [n for n in names if not n.startswith("local.") and "._padding" not in n]

    def unequal(self) -> list[tuple[str, Node, Node]]:
        """Names and both values of the variables that differ now."""
        found = [(n, self.left.history(n), self.right.history(n)) for n in self.variables()]
        return [(n, a, b) for n, a, b in found if a is not b]

    def same_state(self, names: list[str], step: Step) -> None:
        for name in names:
            if not self.declared(name):
                continue  # only one program has it, which the section of headers says
            sides = self.left.outcome(name), self.right.outcome(name)
            different = differing(self.d, *sides, step.way)
            if different:
                where = f"{name} after {step.how} if {show_way(different.way)}"
                values = str(different.left), str(different.right)
                self.differences.append(Difference(where, *values, step.reason or different.reason))

    def declared(self, name: str) -> bool:
        known = name in self.left.state, name in self.right.state
        return all(known) or "." not in name
