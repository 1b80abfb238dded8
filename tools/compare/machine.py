"""Runs primitives and expressions on symbols: the state is a diagram for each variable.

Besides fields there are variables for what a packet does to the world: a register's, a counter's or
a table's history is the list of what was done to it, so the order of effects on one object counts
and that of effects on different ones does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .arithmetic import Arithmetic, number_of
from .diagrams import Diagrams, Node, Term
from .program import Json, Program, Unusable


class NotCompared(Exception):
    """The comparer has no model of something; the message says of what."""


SWEEPS = 40
"""How many rounds of a loop are run before it is given up."""
_COMPARISONS = {"==", "!=", "<", ">", "<=", ">="}
_METADATA_HEADERS = ("standard_metadata", "meta")
_WITH_LIST = {
    "clone_ingress_pkt_to_egress",
    "clone_egress_pkt_to_egress",
    "resubmit",
    "recirculate",
}
"""Externs whose last argument is the number of a field list."""
_RESULTS = {
    "execute_meter": 2,
    "modify_field_rng_uniform": 0,
    "register_read": 0,
}
"""The argument that takes the result of an extern."""


class Machine:
    def __init__(self, program: Program, diagrams: Diagrams) -> None:
        self.program = program
        self.d = diagrams
        self.math = Arithmetic(diagrams)
        self.state: dict[str, Node] = {}
        self.arguments: list[Node] = []
        """Arguments of the action that runs."""
        self.way = diagrams.true
        """Condition under which what runs now is reached."""
        self.stopped = diagrams.false
        """Condition under which `exit` was met."""

    # Variables

    def initial(self, name: str, width: int | None, signed: bool) -> Node:
        if name.startswith("local."):
            return self.d.number(0)  # as every metadata field of a packet that arrives
        if signed:
            return self.d.leaf(self.d.term("field", name, None, width))
        return self.d.leaf(self.d.term("field", name, width))

    def history(self, name: str) -> Node:
        return self.state.get(name) or self.d.leaf(self.d.term("untouched"))

    def get(self, header: str, field: str) -> Node:
        name = self.program.variable(header, field)
        value = self.state.get(name)
        if value is None:
            kind = self.program.field(header, field)
            value = self.state[name] = self.initial(name, kind.width, kind.signed)
        return self.d.choose(self.way, value, self.d.dead)

    def set(self, header: str, field: str, value: Node, when: Node | None = None) -> None:
        """Assigns a value, cut to the field's bits, where this is reached (and `when` holds)."""
        way = self.way if when is None else self.d.both(self.way, when)
        self.get(header, field)
        name = self.program.variable(header, field)
        kind = self.program.field(header, field)
        if kind.width is not None:
            cut = self.math.as_signed if kind.signed else self.math.truncated
            width = kind.width
            value = self.d.lift(lambda t: self.d.leaf(cut(width, t)), value)
        self.state[name] = self.d.choose(way, value, self.state[name])

    def note(self, name: str, what: str, *args: Node) -> Node:
        """Adds to the history of an object, and returns it."""
        before = self.history(name)
        after = self.d.make(what, self.d.choose(self.way, before, self.d.dead), *args)
        self.state[name] = self.d.choose(self.way, after, before)
        return after

    def text(self, text: str) -> Node:
        return self.d.leaf(self.d.term("text", text))

    def fill(self) -> None:
        """Gives every field that is not a local its initial value."""
        for header in self.program.headers:
            for field in ["$valid$", *(f.name for f in self.program.fields(header))]:
                if not self.program.is_local(header, field):
                    self.get(header, field)

    def outcome(self, name: str) -> Node:
        """Value of a variable for those who come later; fields of invalid headers hold nothing."""
        value = self.history(name)
        header, _, field = name.rpartition(".")
        valid = self.state.get(f"{header}.$valid$")
        if valid is None or field in ("$valid$", "next") or header in _METADATA_HEADERS:
            return value
        return self.d.choose(self.true_if(valid), value, self.text("invalid"))

    # Expressions

    def value(self, json: Any) -> Node:
        """The value of a `{"type": .., "value": ..}` object."""
        kind, value = json["type"], json["value"]
        if kind == "expression":
            return self.operation(value) if "op" in value else self.value(value)
        if kind == "field":
            if not isinstance(value[0], str):
                raise Unusable("it has a field whose header is an expression")
            return self.get(value[0], value[1])
        if kind == "hexstr":
            return self.d.number(int(value, 16))
        if kind == "bool":
            return self.d.number(int(value))
        if kind in ("local", "runtime_data"):
            return self.arguments[int(value)]
        if kind == "string":
            return self.text(value)
        if kind == "lookahead":
            return self.lookahead(value[0], value[1])
        if kind == "stack_field":
            return self.of_last(value[0], value[1])
        if kind == "register":
            index = self.value(value[1])
            return self.d.make(
                "register", self.text(value[0]), self.history(f"register {value[0]}"), index
            )
        if kind in ("parameters_vector", "field_list"):
            return self.d.make("list", *(self.value(v) for v in value or []))
        if kind == "payload":
            return self.text("payload")
        if kind in ("header", "header_stack", "header_union"):
            return self.whole(json)
        return self.text(f"{kind} {value}")

    def lookahead(self, offset: int, width: int) -> Node:
        packet = self.history("packet")
        return self.d.lift(
            lambda p: self.d.leaf(self.d.term("lookahead", offset, width, p)), packet
        )

    def next_index(self, stack: str) -> Node:
        """How many elements of a stack are in use."""
        name = f"{self.program.header(stack)}.next"
        initial = self.d.leaf(self.d.term("field", name, None))
        return self.state.setdefault(name, initial)

    def of_last(self, stack: str, field: str) -> Node:
        minus_one = self.math.apply("+", self.last_or_none(stack), self.d.const(-1))
        return self.of_element(stack, self.d.leaf(minus_one), field)

    def last_or_none(self, stack: str) -> Term:
        index = self.next_index(stack).term
        if index is None:
            raise NotCompared("a stack whose size depends on branches")
        return index

    def of_element(self, stack: str, index: Node, field: str) -> Node:
        result = self.d.leaf(self.d.term("undefined", None))
        for number, element in reversed(list(enumerate(self.program.elements(stack)))):
            here = self.d.lift(self.math.equal, index, self.d.number(number))
            result = self.d.choose(here, self.get(element, field), result)
        return result

    def header_of(self, json: Any) -> Iterator[tuple[Node, str]]:
        """The header that an expression names, or those that it may name and when it does."""
        kind, value = json["type"], json["value"]
        if kind == "header":
            yield self.d.true, value
        elif kind == "expression" and "op" not in value:
            yield from self.header_of(value)
        elif kind == "expression" and value["op"] == "dereference_header_stack":
            index = self.value(value["right"])
            for number, element in enumerate(self.program.elements(value["left"]["value"])):
                here = self.d.lift(self.math.equal, index, self.d.number(number))
                if here is not self.d.false:
                    yield here, element
        elif kind == "expression" and value["op"] == "access_union_header":
            union = value["left"]["value"]
            if isinstance(union, dict):
                raise NotCompared("an element of a stack of unions")
            yield self.d.true, self.program.members(union)[value["right"]]
        else:
            raise NotCompared(f"a header that is a {kind}")

    def whole(self, json: Any) -> Node:
        """All that a header, stack or union holds."""
        kind, value = json["type"], json["value"]
        if kind == "header":
            names = [value]
        elif kind == "header_stack":
            names = self.program.elements(value)
        else:
            names = self.program.members(value)
        return self.d.make(
            "header",
            *(
                self.get(name, field)
                for name in names
                for field in ["$valid$", *(f.name for f in self.program.fields(name))]
            ),
        )

    def operation(self, json: Json) -> Node:
        op: str = json["op"]
        left: Any = json.get("left")
        right: Any = json.get("right")
        if op == "access_field":
            result = self.d.leaf(self.d.term("undefined", None))
            for here, header in reversed(list(self.header_of(left))):
                field = self.program.fields(header)[right]
                result = self.d.choose(here, self.get(header, field.name), result)
            return result
        if op == "last_stack_index":
            return self.d.leaf(
                self.math.truncated(
                    32,
                    self.math.apply("+", self.last_or_none(right["value"]), self.d.const(-1)),
                )
            )
        if op == "size_stack":
            return self.d.number(len(self.program.elements(right["value"])))
        if op == "valid" or op == "valid_union":
            return self.valid(op, right)
        if op in ("==", "!=") and left["type"] in ("header", "header_stack", "header_union"):
            same = self.same(left, right)
            return same if op == "==" else self.d.negated(same)
        if op == "?":
            return self.d.choose(
                self.true_if(self.value(json["cond"])), self.value(left), self.value(right)
            )
        b = self.value(right)
        if op in ("d2b", "data_to_bool"):
            return self.true_if(b)
        if op == "b2d":
            return b
        if op == "not":
            return self.d.negated(self.true_if(b))
        if left is None:
            return self.arithmetic("negative" if op == "-" else op, b)
        a = self.value(left)
        if op == "and":
            return self.d.both(self.true_if(a), self.true_if(b))
        if op == "or":
            return self.d.either(self.true_if(a), self.true_if(b))
        if op in _COMPARISONS:
            return self.comparison(op, a, b)
        if op == "two_comp_mod":
            bits = number_of(b.term) if b.term else None
            if bits is None:
                raise NotCompared("a cast to a number of bits that is not constant")
            return self.d.lift(lambda t: self.d.leaf(self.math.as_signed(bits, t)), a)
        return self.arithmetic(op, a, b)

    def arithmetic(self, op: str, *args: Node) -> Node:
        return self.d.lift(lambda *terms: self.d.leaf(self.math.apply(op, *terms)), *args)

    def true_if(self, value: Node) -> Node:
        return self.d.lift(self.math.true_if, value)

    def comparison(self, op: str, a: Node, b: Node) -> Node:
        if op in ("==", "!="):
            result = self.d.lift(self.math.equal, a, b)
            return result if op == "==" else self.d.negated(result)
        if op in ("<", ">="):
            result = self.d.lift(self.math.less, a, b)
            return result if op == "<" else self.d.negated(result)
        result = self.d.lift(self.math.less, b, a)
        return result if op == ">" else self.d.negated(result)

    def valid(self, op: str, json: Any) -> Node:
        if op == "valid_union":
            result = self.d.false
            for member in self.program.members(json["value"]):
                result = self.d.either(result, self.true_if(self.get(member, "$valid$")))
            return result
        result = self.d.false
        for here, header in self.header_of(json):
            result = self.d.choose(here, self.true_if(self.get(header, "$valid$")), result)
        return result

    def same(self, left: Any, right: Any) -> Node:
        """Headers are equal if both are invalid, or both valid with the same fields."""
        if left["type"] != "header" or right["type"] != "header":
            names = [self._names(v) for v in (left, right)]
        else:
            names = [[left["value"]], [right["value"]]]
        result = self.d.true
        for a, b in zip(*names, strict=True):
            valid = [self.true_if(self.get(n, "$valid$")) for n in (a, b)]
            fields = self.math.all_equal(
                [(self.get(a, f.name), self.get(b, f.name)) for f in self.program.fields(a)]
            )
            equal = self.d.choose(valid[0], self.d.both(valid[1], fields), self.d.negated(valid[1]))
            result = self.d.both(result, equal)
        return result

    def _names(self, json: Any) -> list[str]:
        if json["type"] == "header_stack":
            return self.program.elements(json["value"])
        return self.program.members(json["value"])

    # Primitives

    def run(self, primitives: list[Json]) -> None:
        """Runs primitives one after the other; what jumps back runs again, in the next sweep."""
        start = self.way
        entered = {0: start}
        for _ in range(SWEEPS):
            entered = self.sweep(primitives, entered)
            if all(way is self.d.false for way in entered.values()):
                self.way = start
                return
        raise NotCompared(f"a loop in an action that goes on after {SWEEPS} rounds")

    def sweep(self, primitives: list[Json], entered: dict[int, Node]) -> dict[int, Node]:
        """Runs from the places entered to the end; returns where, and when, jumps lead back."""
        reached = [entered.get(i, self.d.false) for i in range(len(primitives) + 1)]
        back: dict[int, Node] = {}
        for here, primitive in enumerate(primitives):
            self.way = reached[here]
            if self.way is self.d.false:
                continue
            op, parameters = primitive["op"], primitive["parameters"]
            goes_on = self.way
            if op in ("_jump", "_jump_if_zero"):
                target, jumps = self.jump(op, parameters)
                taken = self.d.both(self.way, jumps)
                if target > here:
                    reached[target] = self.d.either(reached[target], taken)
                else:
                    back[target] = self.d.either(back.get(target, self.d.false), taken)
                goes_on = self.d.both(self.way, self.d.negated(jumps))
            elif op == "exit":
                self.stopped = self.d.either(self.stopped, self.way)
                goes_on = self.d.false
            else:
                self.primitive(op, parameters)
            reached[here + 1] = self.d.either(reached[here + 1], goes_on)
        return back

    def jump(self, op: str, parameters: list[Any]) -> tuple[int, Node]:
        target = self.value(parameters[-1]).term
        number = number_of(target) if target else None
        if number is None:
            raise NotCompared("a jump to a place that is not constant")
        if op == "_jump":
            return number, self.d.true
        return number, self.d.negated(self.true_if(self.value(parameters[0])))

    def assign(self, target: Any, value: Node) -> None:
        kind, name = target["type"], target["value"]
        if kind == "field":
            self.set(name[0], name[1], value)
        elif kind == "expression" and "op" not in name:
            self.assign(name, value)
        elif kind == "expression" and name["op"] == "access_field":
            for here, header in list(self.header_of(name["left"])):
                self.set(header, self.program.fields(header)[name["right"]].name, value, here)
        elif kind == "register":
            index = self.value(name[1])
            self.note(f"register {name[0]}", "write", index, value)
        else:
            raise NotCompared(f"an assignment to a {kind}")

    def primitive(self, op: str, parameters: list[Any]) -> None:
        if op in ("assign", "assign_VL", "modify_field", "set"):
            self.assign(parameters[0], self.value(parameters[1]))
        elif op in ("add_header", "remove_header"):
            value = self.d.number(int(op == "add_header"))
            for here, header in list(self.header_of(parameters[0])):
                self.make_valid(header, value, here)
        elif op == "assign_header":
            self.assign_header(*parameters)
        elif op in ("assign_header_stack", "assign_union"):
            for to, source in zip(*(self._names(p) for p in parameters), strict=True):
                self.copy(to, source)
            if op == "assign_header_stack":
                to, source = (p["value"] for p in parameters)
                self.state[f"{self.program.header(to)}.next"] = self.d.choose(
                    self.way, self.next_index(source), self.next_index(to)
                )
        elif op in ("push", "pop"):
            self.move(op, parameters[0]["value"], self.value(parameters[1]))
        elif op == "mark_to_drop":
            header = parameters[0]["value"] if parameters else "standard_metadata"
            self.set(header, "egress_spec", self.d.number(511))
            self.set(header, "mcast_grp", self.d.number(0))
        elif op == "register_read":
            name = parameters[1]["value"]
            result = self.d.make(
                "register",
                self.text(name),
                self.history(f"register {name}"),
                self.value(parameters[2]),
            )
            self.assign(parameters[0], result)
        elif op == "register_write":
            name = parameters[0]["value"]
            self.note(
                f"register {name}", "write", self.value(parameters[1]), self.value(parameters[2])
            )
        elif op == "modify_field_with_hash_based_offset":
            self.hash(*parameters)
        elif op == "generate_digest":
            self.digest(parameters)
        else:
            self.extern(op, parameters)

    def listed(self, number: Node) -> Node:
        """The fields of a field list, for its number, which is the compiler's own."""
        lists = self.program.json.get("field_lists", [])
        value = number_of(number.term) if number.term else None
        elements = [e for found in lists if found["id"] == value for e in found["elements"]]
        names = {
            self.program.variable(*e["value"]) if e["type"] == "field" else str(e["value"])
            for e in elements
        }
        return self.text(", ".join(sorted(names)))

    def make_valid(self, header: str, value: Node, when: Node) -> None:
        for union in self.program.unions:
            members = self.program.members(union)
            if header in members and value is self.d.true:
                for member in members:
                    self.set(member, "$valid$", self.d.false, when)
        self.set(header, "$valid$", value, when)

    def assign_header(self, to: Any, source: Any) -> None:
        sources = list(self.header_of(source))
        nowhere = self.d.true
        for there, _ in sources:
            nowhere = self.d.both(nowhere, self.d.negated(there))
        unknown = self.d.leaf(self.d.term("undefined", None))
        for here, target in list(self.header_of(to)):
            for there, copied in sources:
                self.copy(target, copied, self.d.both(here, there))
            for field in ["$valid$", *(f.name for f in self.program.fields(target))]:
                self.set(target, field, unknown, self.d.both(here, nowhere))

    def copy(self, to: str, source: str, when: Node | None = None) -> None:
        """Copies a header. What an invalid one holds is not defined, before and after."""
        when = self.d.true if when is None else when
        valid = self.true_if(self.get(source, "$valid$"))
        unknown = self.d.leaf(self.d.term("undefined", None))
        for field in self.program.fields(source):
            value = self.d.choose(valid, self.get(source, field.name), unknown)
            self.set(to, field.name, value, when)
        self.set(to, "$valid$", valid, when)

    def move(self, op: str, stack: str, count: Node) -> None:
        number = number_of(count.term) if count.term else None
        if number is None:
            raise NotCompared("a stack pushed or popped by a number that is not constant")
        elements = self.program.elements(stack)
        if op == "push":
            moves = [(i, i - number) for i in reversed(range(len(elements)))]
        else:
            moves = [(i, i + number) for i in range(len(elements))]
        for to, source in moves:
            if 0 <= source < len(elements):
                for field in ["$valid$", *(f.name for f in self.program.fields(elements[to]))]:
                    self.set(elements[to], field, self.get(elements[source], field))
            else:
                self.set(elements[to], "$valid$", self.d.false)
        name = f"{self.program.header(stack)}.next"
        moved = self.d.make(op, self.next_index(stack), self.d.number(number))
        self.state[name] = self.d.choose(self.way, moved, self.next_index(stack))

    def inputs(self, calculation: str) -> tuple[str, list[Node]]:
        """The algorithm and the inputs of a calculation, constants with their width."""
        json = self.program.calculations[calculation]
        values = []
        for item in json["input"]:
            value = self.value(item)
            if item.get("bitwidth") is not None:
                value = self.d.make("sized", value, self.d.number(item["bitwidth"]))
            elif item["type"] == "field":
                width = self.program.field(*item["value"]).width
                if width is not None:
                    value = self.d.make("sized", value, self.d.number(width))
            values.append(value)
        return json["algo"], values

    def hash(self, target: Any, base: Any, calculation: Any, size: Any) -> None:
        algorithm, values = self.inputs(calculation["value"])
        result = self.d.make(
            "hash", self.text(algorithm), self.value(base), self.value(size), *values
        )
        self.assign(target, result)

    def digest(self, parameters: list[Any]) -> None:
        identity = self.value(parameters[1]).term
        number = number_of(identity) if identity else None
        if number is None:
            raise NotCompared("a digest whose list is not constant")
        learned = self.program.learn_lists[number]
        values = [self.value(e) for e in learned["elements"]]
        self.note("digests", "digest", self.text(learned["name"]), *values)

    def extern(self, op: str, parameters: list[Any]) -> None:
        """Runs any other primitive: it becomes part of the history of what it works on."""
        place = _RESULTS.get(op)
        first = parameters[0] if parameters else {"type": "none", "value": None}
        name = f"{op} {first['value']}" if str(first["type"]).endswith("_array") else op
        arguments = [self.value(p) for i, p in enumerate(parameters) if i != place]
        if op in _WITH_LIST:
            arguments[-1] = self.listed(arguments[-1])
        after = self.note(name, op, *arguments)
        if place is not None:
            self.assign(parameters[place], self.d.make("result", after))
