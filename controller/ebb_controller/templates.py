"""Table entries as P4Runtime messages, many of the same form: a template for each form.

finsy makes a new message of each entry, part by part. Of entries of one table with the same match
fields and the same action only the numbers differ, so the message of the first one is kept, and the
numbers of the others are put into it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from finsy import P4TableAction, P4TableEntry, p4values
from finsy.p4schema import P4MatchType, P4Schema
from finsy.proto import p4r

from ebb_controller.canonical import in_order

Put = Callable[[Any], bool]
"""Puts a value, as finsy takes it, into messages. False: it matches everything, so an entry with it
has another form. Raises `ValueError` for a value that does not fit."""
Form = tuple[str, tuple[str, ...], str, tuple[str, ...]]
"""Table, match fields, action and its parameters, by name, in the order of the entry."""


class Templates:
    """The templates of one P4 program."""

    def __init__(self) -> None:
        self._templates: dict[Form, Template | None] = {}
        """By form; none: its entries have no template."""

    def encode(self, entry: P4TableEntry, schema: P4Schema) -> tuple[bytes, bytes] | None:
        """Message of an entry with fields in the order of their ids, and the same without its
        action. None: the entry has something that no template has. Raises `ValueError` for what the
        program cannot express."""
        match, action = entry.match, entry.action
        if not match or type(action) is not P4TableAction or not _is_plain(entry):
            return None
        form = entry.table_id, tuple(match), action.name, tuple(action.args)
        try:
            if form not in self._templates:
                self._templates[form] = Template.of(entry, schema)
            template = self._templates[form]
            return (
                None
                if template is None
                else template.fill(match.values(), action.args.values(), entry.priority)
            )
        except (ValueError, AssertionError):
            entry.encode(schema)  # raises the same, with names
            raise


def _is_plain(entry: P4TableEntry) -> bool:
    """Whether an entry has only a match, an action and a priority."""
    return not (
        entry.is_default_action
        or entry.meter_config
        or entry.idle_timeout_ns
        or entry.is_const
        or entry.metadata
        or entry.controller_metadata
        or entry.counter_data
        or entry.meter_counter_data
        or entry.time_since_last_hit
    )


@dataclass(frozen=True, slots=True)
class Template:
    """The message of one form, and where its numbers go."""

    whole: p4r.Entity
    """The message, with the numbers of the last entry."""
    key: p4r.Entity
    """The same without its action."""
    match: tuple[Put, ...]
    """For each match field."""
    arguments: tuple[Put, ...]
    """For each parameter of the action."""

    @classmethod
    def of(cls, entry: P4TableEntry, schema: P4Schema) -> Template | None:
        """The template of an entry's form. None: it has a match field that matches everything, or
        its table has a selector."""
        assert entry.match is not None
        assert isinstance(entry.action, P4TableAction)
        whole = in_order(entry.encode(schema))
        table = whole.table_entry
        if len(table.match) != len(entry.match) or table.action.WhichOneof("type") != "action":
            return None
        key = p4r.Entity()
        key.CopyFrom(whole)
        key.table_entry.ClearField("action")
        definition = schema.tables[entry.table_id]
        match = (
            _KINDS[field.match_type](
                [_by_id(each.table_entry.match, field.id, "field_id") for each in (whole, key)],
                field.bitwidth,
            )
            for field in (definition.match_fields[name] for name in entry.match)
        )
        parameters = definition.actions[entry.action.name].params
        arguments = (
            _number([_by_id(table.action.action.params, each.id, "param_id")], each.bitwidth)
            for each in (parameters[name] for name in entry.action.args)
        )
        return cls(whole, key, tuple(match), tuple(arguments))

    def fill(
        self, match: Iterable[Any], arguments: Iterable[Any], priority: int
    ) -> tuple[bytes, bytes] | None:
        """Messages as of `Templates.encode`."""
        for value, put in zip(match, self.match, strict=True):
            if not put(value):
                return None
        for value, put in zip(arguments, self.arguments, strict=True):
            put(value)
        self.whole.table_entry.priority = self.key.table_entry.priority = priority
        return (
            self.whole.SerializeToString(deterministic=True),
            self.key.SerializeToString(deterministic=True),
        )


def _by_id(field: Iterable[Any], wanted: int, identifier: str) -> Any:
    """The message of a repeated field with this id."""
    return next(each for each in field if getattr(each, identifier) == wanted)


def _number(places: Sequence[Any], bits: int) -> Put:
    """Puts a number into messages with a `value`."""
    limit = 1 << bits if bits else 0  # a string if it has no width

    def put(value: Any) -> bool:
        if type(value) is int and 0 <= value < limit:
            # The shortest form, of at least a byte (P4Runtime section 8.3).
            encoded = value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")
        else:
            encoded = p4values.encode_exact(value, bits)
        for place in places:
            place.value = encoded
        return True

    return put


def _exact(fields: Sequence[p4r.FieldMatch], bits: int) -> Put:
    return _number([field.exact for field in fields], bits)


def _optional(fields: Sequence[p4r.FieldMatch], bits: int) -> Put:
    number = _number([field.optional for field in fields], bits)
    return lambda value: value is not None and number(value)


def _lpm(fields: Sequence[p4r.FieldMatch], bits: int) -> Put:
    places = [field.lpm for field in fields]

    def put(value: Any) -> bool:
        encoded, length = p4values.encode_lpm(value, bits)
        for place in places:
            place.value, place.prefix_len = encoded, length
        return length > 0

    return put


def _ternary(fields: Sequence[p4r.FieldMatch], bits: int) -> Put:
    places = [field.ternary for field in fields]

    def put(value: Any) -> bool:
        encoded, mask = p4values.encode_ternary(value, bits)
        for place in places:
            place.value, place.mask = encoded, mask
        return mask != b"\0"

    return put


def _range(fields: Sequence[p4r.FieldMatch], bits: int) -> Put:
    places = [field.range for field in fields]

    def put(value: Any) -> bool:
        low, high = p4values.encode_range(value, bits)
        for place in places:
            place.low, place.high = low, high
        return True

    return put


_KINDS: Mapping[P4MatchType | str, Callable[[Sequence[p4r.FieldMatch], int], Put]] = {
    P4MatchType.EXACT: _exact,
    P4MatchType.OPTIONAL: _optional,
    P4MatchType.LPM: _lpm,
    P4MatchType.TERNARY: _ternary,
    P4MatchType.RANGE: _range,
}
