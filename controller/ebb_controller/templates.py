"""Table entries as P4Runtime messages, many of the same form: a template for each form.

finsy makes a new message of each entry, part by part. Of entries of one table with the same match
fields and the same action only the numbers differ, and where these take as many bytes, so do the
messages: the bytes between the numbers are kept, and the numbers of an entry are put between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

from finsy import P4TableAction, P4TableEntry, p4values
from finsy.p4schema import P4MatchType, P4Schema
from finsy.proto import p4r

from ebb_controller.canonical import in_order
from ebb_controller.mechanism import Entity
from ebb_controller.wire import varint

Form = tuple[Any, ...]
"""Table, whether there is a priority, and the names of match fields, action and its parameters in
the order of the entry."""
Lengths = tuple[int, ...]
"""Lengths of the encoded numbers of an entry."""

MAX_PRIORITY = (1 << 31) - 1
"""The highest that P4Runtime can express."""


class Templates:
    """The templates of one P4 program."""

    def __init__(self) -> None:
        self._templates: dict[Form, Template | None] = {}
        """By form; none: its entries have no template."""

    def encode(
        self, entities: Sequence[Entity], schema: P4Schema
    ) -> list[tuple[bytes, bytes] | None]:
        """For each entity its message, with fields in the order of their ids, and the same without
        its action. None: it has something that no template has. Raises `ValueError` for what the
        program cannot express."""
        places: dict[Form, list[int]] = {}
        for place, entity in enumerate(entities):
            if (form := _form(entity)) is not None:
                places.setdefault(form, []).append(place)
        encoded: list[tuple[bytes, bytes] | None] = [None] * len(entities)
        for form, group in places.items():
            entries: list[Any] = [entities[place] for place in group]
            if form not in self._templates:
                self._templates[form] = Template.of(entries[0], schema)
            template = self._templates[form]
            if template is not None:
                for place, messages in zip(group, template.fill(entries), strict=True):
                    encoded[place] = messages
        return encoded


def _form(entity: Entity) -> Form | None:
    """The form of a table entry that has only a match, an action and a priority."""
    if type(entity) is not P4TableEntry:
        return None
    match, action, priority = entity.match, entity.action, entity.priority
    if not match or type(action) is not P4TableAction or _others(entity) != _PLAIN:
        return None
    if not 0 <= priority <= MAX_PRIORITY:
        return None
    return (entity.table_id, priority > 0, *match, None, action.name, *action.args)


_others = attrgetter(
    "is_default_action",
    "meter_config",
    "idle_timeout_ns",
    "is_const",
    "metadata",
    "controller_metadata",
    "counter_data",
    "meter_counter_data",
    "time_since_last_hit",
)
"""All of an entry but its table, match, action and priority."""
_PLAIN = _others(P4TableEntry())
"""The same of an entry that has nothing else."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of a match field or a parameter are in its message."""

    parts: tuple[str, ...]
    """Names of its numbers, in the order of the message."""
    encode: Callable[[Sequence[Any], int], Sequence[Sequence[bytes]]]
    """For each of these the numbers of all values, which are as finsy takes them, and of a width;
    0: strings. An empty number is no part of its message: the value matches everything, or is an
    empty string. Raises `ValueError` for a value that does not fit."""


def _exact(values: Sequence[Any], bits: int) -> Sequence[Sequence[bytes]]:
    if bits and _are_below(1 << bits, values):
        return [_shortest(values, bits)]
    return [[p4values.encode_exact(value, bits) for value in values]]


def _optional(values: Sequence[Any], bits: int) -> Sequence[Sequence[bytes]]:
    if None not in values:
        return _exact(values, bits)
    return [[b"" if v is None else p4values.encode_exact(v, bits) for v in values]]


def _lpm(values: Sequence[Any], bits: int) -> Sequence[Sequence[bytes]]:
    if set(map(type, values)) == {tuple} and set(map(len, values)) == {2}:
        numbers, lengths = zip(*values, strict=True)
        if _are_below(1 << bits, numbers) and _are_below(bits + 1, lengths):
            masked = [number >> (bits - length) << (bits - length) for number, length in values]
            return _shortest(masked, bits), [
                varint(length) if length else b"" for length in lengths
            ]
    encoded = [p4values.encode_lpm(value, bits) for value in values]
    return [n for n, _ in encoded], [varint(length) if length else b"" for _, length in encoded]


def _ternary(values: Sequence[Any], bits: int) -> Sequence[Sequence[bytes]]:
    encoded = [p4values.encode_ternary(value, bits) for value in values]
    return [n for n, _ in encoded], [b"" if mask == b"\0" else mask for _, mask in encoded]


def _range(values: Sequence[Any], bits: int) -> Sequence[Sequence[bytes]]:
    return list(zip(*(p4values.encode_range(value, bits) for value in values), strict=True))


def _are_below(limit: int, values: Sequence[Any]) -> bool:
    """Whether all values are whole numbers of at least 0 and below a limit."""
    return set(map(type, values)) == {int} and min(values) >= 0 and max(values) < limit


def _shortest(numbers: Sequence[int], bits: int) -> list[bytes]:
    """Numbers in the shortest form, of at least a byte (P4Runtime section 8.3)."""
    size = (bits + 7) // 8
    return [number.to_bytes(size, "big").lstrip(b"\0") or b"\0" for number in numbers]


_KINDS: Mapping[P4MatchType | str, tuple[str, Kind]] = {
    P4MatchType.EXACT: ("exact", Kind(("value",), _exact)),
    P4MatchType.OPTIONAL: ("optional", Kind(("value",), _optional)),
    P4MatchType.LPM: ("lpm", Kind(("value", "prefix_len"), _lpm)),
    P4MatchType.TERNARY: ("ternary", Kind(("value", "mask"), _ternary)),
    P4MatchType.RANGE: ("range", Kind(("low", "high"), _range)),
}
"""Kinds of match fields, with their field of the message."""
_PARAMETER = Kind(("value",), _exact)


@dataclass(frozen=True, slots=True)
class Place:
    """A match field, or a parameter of an action."""

    name: str
    message: Any
    """Its part of the message."""
    bits: int
    """Width; 0: it is a string."""
    kind: Kind

    def encode(self, values: Sequence[Any]) -> Sequence[Sequence[bytes]]:
        """Numbers of values, see `Kind.encode`."""
        return self.kind.encode(values, self.bits)

    def fill(self, lengths: Iterator[int], byte: int) -> None:
        """Puts numbers of these lengths into the message, which have this in each byte."""
        for part in self.kind.parts:
            length = next(lengths)
            if part == "prefix_len":
                self.message.prefix_len = _repeated(byte, length)
            else:
                setattr(self.message, part, bytes([byte]) * length)


@dataclass(frozen=True, slots=True)
class Shape:
    """Encoding of messages that differ in the values of their numbers, not in the lengths."""

    whole: bytes
    """The message, with `%b` for each number."""
    key: bytes
    """The same without its action."""


@dataclass(frozen=True, slots=True)
class Template:
    """The messages of one form."""

    message: p4r.Entity
    match: Sequence[Place]
    """Match fields in the order of the message."""
    parameters: Sequence[Place]
    """Parameters of the action, likewise."""
    has_priority: bool
    schema: P4Schema
    shapes: dict[Lengths, Shape | None] = field(default_factory=dict)

    @classmethod
    def of(cls, entry: P4TableEntry, schema: P4Schema) -> Template | None:
        """The template of an entry's form. None: it has a match field that matches everything, or
        its table has a selector."""
        assert entry.match is not None
        assert isinstance(entry.action, P4TableAction)
        message = in_order(entry.encode(schema))
        table = message.table_entry
        if len(table.match) != len(entry.match) or table.action.WhichOneof("type") != "action":
            return None
        definition = schema.tables[entry.table_id]
        fields = {
            definition.match_fields[n].id: (n, definition.match_fields[n]) for n in entry.match
        }
        match = []
        for part in table.match:
            name, known = fields[part.field_id]
            which, kind = _KINDS[known.match_type]
            match.append(Place(name, getattr(part, which), known.bitwidth, kind))
        params = definition.actions[entry.action.name].params
        arguments = {params[n].id: (n, params[n].bitwidth) for n in entry.action.args}
        parameters = []
        for part in table.action.action.params:
            name, bits = arguments[part.param_id]
            parameters.append(Place(name, part, bits, _PARAMETER))
        return cls(message, match, parameters, entry.priority > 0, schema)

    def fill(self, entries: Sequence[P4TableEntry]) -> Iterator[tuple[bytes, bytes] | None]:
        """Messages of entries of this form as `Templates.encode` returns them. Raises `ValueError`
        if a value does not fit."""
        matches: list[Any] = [entry.match for entry in entries]
        actions: list[Any] = [entry.action for entry in entries]
        try:
            key = [
                numbers
                for place in self.match
                for numbers in place.encode([match[place.name] for match in matches])
            ]
            arguments = [
                numbers
                for place in self.parameters
                for numbers in place.encode([action.args[place.name] for action in actions])
            ]
        except (ValueError, AssertionError):
            for entry in entries:
                entry.encode(self.schema)  # raises the same, with names
            raise
        priorities = [[varint(entry.priority) for entry in entries]] if self.has_priority else []
        for whole, of_key in zip(
            zip(*key, *arguments, *priorities, strict=True),
            zip(*key, *priorities, strict=True),
            strict=True,
        ):
            lengths = tuple(map(len, whole))
            try:
                shape = self.shapes[lengths]
            except KeyError:
                shape = self.shapes[lengths] = self._shape(lengths)
            yield None if shape is None else (shape.whole % whole, shape.key % of_key)

    def _shape(self, lengths: Lengths) -> Shape | None:
        """Shape of the messages with numbers of these lengths. None: one of them is no part of the
        message, which has another form.

        Two messages whose numbers have no byte in common differ where the numbers are: before each
        number there is a tag or a length, which both have.
        """
        if 0 in lengths:
            return None
        first, second = (self._filled(lengths, byte) for byte in (1, 2))
        return Shape(*map(_common, first, second))

    def _filled(self, lengths: Lengths, byte: int) -> tuple[bytes, bytes]:
        """Messages as of `Templates.encode` with numbers of these lengths that repeat a byte."""
        left = iter(lengths)
        for place in (*self.match, *self.parameters):
            place.fill(left, byte)
        self.message.table_entry.priority = _repeated(byte, next(left)) if self.has_priority else 0
        key = p4r.Entity()
        key.CopyFrom(self.message)
        key.table_entry.ClearField("action")
        return (
            self.message.SerializeToString(deterministic=True),
            key.SerializeToString(deterministic=True),
        )


def _repeated(byte: int, length: int) -> int:
    """The number whose varint is that many bytes, with this in the low bits of each."""
    return sum(byte << 7 * place for place in range(length))


def _common(first: bytes, second: bytes) -> bytes:
    """Bytes that two messages of the same length share, with `%b` where they differ."""
    runs = groupby(zip(first, second, strict=True), key=lambda pair: pair[0] != pair[1])
    return b"".join(
        b"%b" if differ else bytes(one for one, _ in run).replace(b"%", b"%%")
        for differ, run in runs
    )
