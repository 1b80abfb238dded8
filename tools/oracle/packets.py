"""Random packets that a program's parser accepts, and some that are damaged.

A walk through the parser: at each state the headers that it extracts are appended, and of its
transitions one is taken by writing its value into the fields of the key, as far as these come from
the packet.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from .model import Field, Program
from .states import PORTS, Values

MOST_STATES = 40
MOST_BITS = 8 * 1400
LONGEST_PAYLOAD = 64
DAMAGED = 0.15
"""Share of packets that are cut or have bits changed."""
RIGHT_CHECKSUMS = 0.8
"""Share of packets whose checksums are right where the program verifies them."""


class Bits:
    """A packet as far as it is decided: None is a bit that anything may be."""

    def __init__(self) -> None:
        self.bits: list[int | None] = []
        self.length = 0
        """How many bits have been extracted; what is behind them was written by a lookahead."""

    def write(self, at: int, width: int, value: int) -> None:
        self.bits += [None] * (at + width - len(self.bits))
        for place in range(width):
            self.bits[at + place] = value >> (width - 1 - place) & 1

    def is_free(self, at: int, width: int) -> bool:
        return all(bit is None for bit in self.bits[at : at + width])

    def read(self, at: int, width: int) -> int:
        value = 0
        for bit in self.bits[at : at + width]:
            value = value << 1 | (bit or 0)
        return value << max(0, at + width - len(self.bits))

    def fill(self, rng: random.Random) -> None:
        self.bits = [rng.getrandbits(1) if bit is None else bit for bit in self.bits]

    def to_bytes(self) -> bytes:
        digits = "".join("1" if bit else "0" for bit in self.bits)
        count = (len(digits) + 7) // 8
        return int(digits.ljust(count * 8, "0") or "0", 2).to_bytes(count, "big")


@dataclass
class Walk:
    """Headers that a walk through the parser has extracted so far."""

    bits: Bits
    places: dict[Field, tuple[int, int]]
    """Offset and width of each field, in bits."""
    stacks: dict[str, int]
    """How many elements of each stack have been extracted."""


class Packets:
    def __init__(self, program: Program, values: Values, rng: random.Random) -> None:
        self.program, self.values, self.rng = program, values, rng
        parser = program.json["parsers"][0]
        self.states = {state["name"]: state for state in parser["parse_states"]}
        self.start = parser["init_state"]
        calculations = {c["name"]: c for c in program.json["calculations"]}
        self.checksums = [
            (tuple(c["target"]), calculations[c["calculation"]])
            for c in program.json["checksums"]
            if c.get("verify") and calculations[c["calculation"]]["algo"] == "csum16"
        ]

    def next(self) -> tuple[int, bytes]:
        """A port and a frame."""
        walk = self.walk()
        walk.bits.fill(self.rng)
        if self.rng.random() < RIGHT_CHECKSUMS:
            for target, calculation in self.checksums:
                correct(walk, target, calculation["input"])
        data = bytearray(walk.bits.to_bytes())
        if self.rng.random() < DAMAGED:
            self.damage(data)
        # An empty frame is none.
        return self.rng.randrange(PORTS), bytes(data) or b"\0"

    def walk(self) -> Walk:
        walk = Walk(Bits(), {}, {})
        name = self.start
        for _ in range(MOST_STATES):
            state = self.states[name]
            for operation in state["parser_ops"]:
                self.operate(walk, operation)
            name = self.leave(walk, state)
            if name is None or walk.bits.length > MOST_BITS:
                break
        walk.bits.bits = walk.bits.bits[:MOST_BITS]
        payload = self.rng.choice((0, 0, 1, self.rng.randrange(LONGEST_PAYLOAD)))
        walk.bits.bits += [None] * (-len(walk.bits.bits) % 8 + payload * 8)
        return walk

    def operate(self, walk: Walk, operation: dict[str, Any]) -> None:
        parameters = operation["parameters"]
        match operation["op"]:
            case "extract" | "extract_VL":
                header = self.instance(walk, parameters[0])
                length = None
                if operation["op"] == "extract_VL":
                    length = self.evaluate(walk, parameters[1])
                if header:
                    self.extract(walk, header, length)
            case "shift" | "advance":
                count = parameters[0]
                amount = count if isinstance(count, int) else self.evaluate(walk, count)
                scale = 8 if operation["op"] == "shift" else 1
                walk.bits.length += min((amount or 0) * scale, MOST_BITS)

    def instance(self, walk: Walk, parameter: dict[str, Any]) -> str | None:
        """The header that an `extract` fills; None if there is no room in the stack."""
        kind, value = parameter["type"], parameter["value"]
        if kind == "regular":
            return str(value)
        if kind == "stack":
            at = walk.stacks.get(value, 0)
            walk.stacks[value] = at + 1
            elements = self.program.stacks.get(value, [])
            return elements[at] if at < len(elements) else None
        return None

    def extract(self, walk: Walk, header: str, length: int | None) -> None:
        bits = walk.bits
        for name, width in self.program.fields(header):
            if name == "$valid$":
                continue
            if width is None:
                width = min(max(length or 0, 0), MOST_BITS)
                width -= width % 8
            field = (header, name)
            walk.places[field] = (bits.length, width)
            if len(bits.bits) <= bits.length or bits.is_free(bits.length, width):
                bits.write(bits.length, width, self.values.draw(field, width) if width else 0)
            bits.length += width
            bits.bits += [None] * (bits.length - len(bits.bits))

    def leave(self, walk: Walk, state: dict[str, Any]) -> str | None:
        """The next state; None at the end."""
        transition = self.rng.choice(state["transitions"])
        if transition["type"] == "hexstr":
            self.satisfy(walk, state["transition_key"], transition)
        following = transition["next_state"]
        return None if following is None else str(following)

    def satisfy(self, walk: Walk, keys: list[dict[str, Any]], transition: dict[str, Any]) -> None:
        """Writes the value into the packet, where the key's fields come from it."""
        value = int(transition["value"], 16)
        mask = -1 if transition["mask"] is None else int(transition["mask"], 16)
        for key in reversed(keys):
            place = self.place(walk, key)
            width = self.key_bits(walk, key)
            # Each field takes whole bytes of the value.
            room = (width + 7) // 8 * 8
            part, part_mask = value & (1 << width) - 1, mask & (1 << width) - 1
            value, mask = value >> room, mask >> room
            if place is not None:
                old = walk.bits.read(place, width)
                walk.bits.write(place, width, old & ~part_mask | part & part_mask)

    def key_bits(self, walk: Walk, key: dict[str, Any]) -> int:
        if key["type"] == "lookahead":
            return int(key["value"][1])
        field = self.field(walk, key)
        return self.program.field_bits(field) or 8 if field else 8

    def place(self, walk: Walk, key: dict[str, Any]) -> int | None:
        if key["type"] == "lookahead":
            return walk.bits.length + int(key["value"][0])
        field = self.field(walk, key)
        return walk.places[field][0] if field in walk.places else None

    def field(self, walk: Walk, key: dict[str, Any]) -> Field | None:
        header, name = key["value"]
        if key["type"] == "stack_field":
            elements = self.program.stacks.get(header, [])
            at = walk.stacks.get(header, 0) - 1
            header = elements[at] if 0 <= at < len(elements) else header
        return header, name

    def evaluate(self, walk: Walk, node: Any) -> int | None:
        """An expression over fields of the packet; None if it has anything else."""
        if not isinstance(node, dict):
            return None
        match node.get("type"):
            case "expression":
                return self.evaluate(walk, node["value"])
            case "hexstr":
                return int(node["value"], 16)
            case "field":
                place = walk.places.get(tuple(node["value"]))
                return walk.bits.read(*place) if place else None
        left, right = self.evaluate(walk, node.get("left")), self.evaluate(walk, node.get("right"))
        if right is None or (left is None and node.get("left") is not None):
            return None
        return operate(node.get("op", ""), left or 0, right)

    def damage(self, data: bytearray) -> None:
        if data and self.rng.random() < 0.5:
            del data[self.rng.randrange(len(data)) :]
        for _ in range(self.rng.randint(1, 3)):
            if data:
                data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)


def operate(op: str, left: int, right: int) -> int | None:
    match op:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "<<":
            return left << min(right, 64)
        case ">>":
            return left >> right
        case "&":
            return left & right
        case "|":
            return left | right
        case "^":
            return left ^ right
    return None


def correct(walk: Walk, target: Field, inputs: list[dict[str, Any]]) -> None:
    """Writes the Internet checksum (RFC 1071), if all of its input is in the packet's headers."""
    if target not in walk.places:
        return
    value = width = 0
    for part in inputs:
        if part["type"] == "field" and tuple(part["value"]) in walk.places:
            at, bits = walk.places[tuple(part["value"])]
            value, width = value << bits | walk.bits.read(at, bits), width + bits
        elif part["type"] == "hexstr":
            bits = part["bitwidth"]
            value, width = value << bits | int(part["value"], 16), width + bits
        else:
            return
    value <<= -width % 16
    walk.bits.write(*walk.places[target], checksum(value))


def checksum(value: int) -> int:
    """The complement of the sum of 16-bit words (RFC 1071)."""
    total = 0
    while value:
        total += value & 0xFFFF
        value >>= 16
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF
